//! `dist/wireshark/boomerang.lua` under tshark, against our own decoder: what one shows the other shows, and what one refuses
//! the other refuses.

use crate::decode::{decode_of, hex_files};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Sets the checksum of the ICMP message in an IPv4 packet without options.
fn summed(mut packet: Vec<u8>) -> Vec<u8> {
    packet[22..24].fill(0);
    let sum = ones(&packet[20..]);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The fields that are compared, and where our decoder has them.
const FIELDS: [(&str, &[&str]); 10] = [
    ("boomerang.transaction", &["container", "transaction_id"]),
    ("boomerang.flags", &["container", "flags"]),
    ("boomerang.refresh", &["reservation", "refresh_s"]),
    ("boomerang.key", &["reservation", "key"]),
    ("boomerang.classifier.sport", &["reservation", "classifier", "sport"]),
    ("boomerang.classifier.dport", &["reservation", "classifier", "dport"]),
    ("boomerang.classifier.protocol", &["reservation", "classifier", "tproto"]),
    ("boomerang.mask.tos", &["reservation", "mask", "tos"]),
    ("boomerang.mask.flags", &["reservation", "mask", "flags"]),
    ("boomerang.classifier.tos", &["reservation", "classifier", "tos"]),
];
/// Those that may be there more than once, or as text.
const LISTS: [&str; 5] = [
    "boomerang.forward",
    "boomerang.reverse",
    "boomerang.hops.forward",
    "boomerang.classifier.src",
    "boomerang.classifier.src6",
];

/// What tshark shows of each packet: the fields, in the order of the two tables.
fn tshark(packets: &[Vec<u8>]) -> Vec<Vec<String>> {
    let file = std::env::temp_dir().join(format!("sluice-dissector-{}.pcap", std::process::id()));
    // libpcap's file format: microseconds, raw IP (link type 101).
    let mut capture: Vec<u8> =
        [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101].iter().flat_map(|n| n.to_le_bytes()).collect();
    for packet in packets {
        let length = packet.len() as u32;
        capture.extend([0, 0, length, length].iter().flat_map(|n| n.to_le_bytes()));
        capture.extend(packet);
    }
    std::fs::write(&file, capture).unwrap();
    let script = format!("lua_script:{}", folder("dist/wireshark/boomerang.lua").display());
    let mut command = Command::new("tshark");
    command.args(["-X", &script, "-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-r"]).arg(&file);
    for name in FIELDS.iter().map(|(name, _)| *name).chain(LISTS) {
        command.args(["-e", name]);
    }
    let output = command.output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !complaints.contains("Lua") && !complaints.contains("Error"), "{complaints}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
}

/// What our decoder says of each.
fn ours(packets: &[Vec<u8>]) -> Vec<Value> {
    let line = |packet: &Vec<u8>| packet.iter().map(|b| format!("{b:02x}")).collect::<String>() + "\n";
    let digits: String = packets.iter().map(line).collect();
    let output = decode_of("boomerang", &["--hex", "--ip"], digits.as_bytes());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn number(text: &str) -> Option<u64> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
}

/// Compares what both show of one packet.
fn compare(name: &str, shown: &[String], said: &Value) {
    if said["error"].is_string() {
        assert_eq!(shown[0], "", "{name}: the dissector shows what is no message: {said}");
        return;
    }
    for ((field, path), shown) in FIELDS.iter().zip(shown) {
        let value = path.iter().fold(said, |at, key| &at[*key]);
        assert_eq!(number(shown), value.as_u64(), "{name}: {field}: {said}");
    }
    let lists = &shown[FIELDS.len()..];
    let pairs = said["qos"]["vector"].as_array().cloned().unwrap_or_else(|| vec![said["qos"].clone()]);
    for (list, key) in lists.iter().zip(["forward_bps", "reverse_bps"]) {
        let all: Vec<_> = pairs.iter().map(|pair| pair[key].to_string()).collect();
        assert_eq!(*list, all.join(","), "{name}: {said}");
    }
    let src = &said["reservation"]["classifier"]["src"];
    assert_eq!(lists[3].clone() + &lists[4], src.as_str().unwrap(), "{name}");
}

#[test]
fn tshark_shows_what_our_decoder_shows() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return bench::skipped("tshark is not installed: dist/setup.sh test installs it");
    }
    let mut all = hex_files("engine/wire/probes");
    // Each octet of two messages changed, with a right checksum, and each cut off short.
    for (name, probe) in
        all.clone().into_iter().filter(|(name, _)| name == "request-v4-downgrade" || name == "request-v4")
    {
        for at in 28..probe.len() {
            let mut changed = probe.clone();
            changed[at] ^= 0x11;
            all.push((format!("{name}, octet {at} changed"), summed(changed)));
        }
        for length in (28..probe.len()).step_by(4) {
            let mut cut = probe[..length].to_vec();
            cut[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            cut[10..12].fill(0);
            let sum = ones(&cut[..20]);
            cut[10..12].copy_from_slice(&sum.to_be_bytes());
            all.push((format!("{name}, cut at {length}"), summed(cut)));
        }
    }
    let packets: Vec<_> = all.iter().map(|(_, packet)| packet.clone()).collect();
    let (shown, said) = (tshark(&packets), ours(&packets));
    assert_eq!((shown.len(), said.len()), (all.len(), all.len()));
    for ((name, _), (shown, said)) in all.iter().zip(shown.iter().zip(&said)) {
        compare(name, shown, said);
    }
    let refused = said.iter().filter(|one| one["error"].is_string()).count();
    assert!(refused > 20 && refused < all.len() - 60, "{refused} of {}", all.len());
    let with_hops = all.iter().position(|(name, _)| name == "request-v4-options").unwrap();
    assert_eq!(shown[with_hops][FIELDS.len() + 2], "2");
}

/// The Internet checksum (RFC 1071).
fn ones(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
