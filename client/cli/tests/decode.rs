//! `sluice rsvp decode` as a person or a script runs it, over the seed corpus of the codec.

use serde_json::Value;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn decode(args: &[&str], input: &[u8]) -> Output {
    decode_of("rsvp", args, input)
}

pub fn decode_of(protocol: &str, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args([protocol, "decode"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

/// The lines of a run that must succeed, as JSON.
fn lines(args: &[&str], input: &[u8]) -> Vec<Value> {
    let output = decode(args, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

/// Name and bytes of every seed.
fn seeds() -> Vec<(String, Vec<u8>)> {
    hex_files("engine/wire/seeds")
}

/// Name and bytes of every hex file of a folder; `#` begins a comment.
pub fn hex_files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut all: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let digits: String = text.lines().flat_map(|l| l.split('#').next().unwrap().split_whitespace()).collect();
        let bytes = (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), bytes)
    };
    all.into_iter().map(read).collect()
}

fn seed(name: &str) -> Vec<u8> {
    seeds().into_iter().find(|(n, _)| n == name).unwrap().1
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<String>() + "\n"
}

fn packet(payload: &[u8]) -> Vec<u8> {
    let (src, dst): (IpAddr, IpAddr) = ([10, 0, 1, 1].into(), [10, 0, 2, 2].into());
    wire::ip::packet(src, dst, 46, 63, true, payload).unwrap()
}

#[test]
fn every_seed_is_printed_with_its_objects() {
    let all = seeds();
    let input: String = all.iter().map(|(_, bytes)| hex(bytes)).collect();
    let said = lines(&["--hex"], input.as_bytes());
    assert_eq!(said.len(), all.len());
    for ((name, bytes), said) in all.iter().zip(&said) {
        let kind = said["type"].as_str().unwrap_or_else(|| panic!("{name}: {said}"));
        assert_eq!(kind.to_lowercase().replace(' ', ""), name.split('-').next().unwrap());
        if let Some(messages) = said["messages"].as_array() {
            assert!(kind == "Bundle" && messages.len() > 1, "{name}: {said}");
            assert!(messages.iter().all(|m| m["type"].is_string() && m["objects"].is_array()), "{name}: {said}");
            continue;
        }
        let objects = said["objects"].as_array().unwrap_or_else(|| panic!("{name}: {said}"));
        let length: u64 = 8 + objects.iter().map(|o| o["length"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(length, u64::from(u16::from_be_bytes([bytes[6], bytes[7]])), "{name}");
        assert!(objects.iter().all(|o| o["fields"].is_object() && o["class"].is_string()));
    }
}

#[test]
fn fields_by_their_rfc_names() {
    let said = &lines(&["--hex"], hex(&seed("resverr-v4-ff-words")).as_bytes())[0];
    let of = |class: &str| {
        let objects = said["objects"].as_array().unwrap();
        objects.iter().find(|o| o["class"] == class).unwrap()["fields"].clone()
    };
    assert_eq!((&said["Msg_Type"], &said["Send_TTL"]), (&4.into(), &63.into()));
    assert_eq!(of("SESSION")["DestAddress"], "10.0.2.2");
    assert_eq!(of("SESSION")["DstPort"], 5004);
    assert_eq!((&of("ERROR_SPEC")["Error_Code"], &of("ERROR_SPEC")["Error_Value"]), (&1.into(), &2.into()));
    assert_eq!(of("USER_ERROR_SPEC")["Error_Description"], "node maui interface eth1 asked 12mbit free 6.5mbit");
    assert_eq!((&of("STYLE")["style"], &of("FILTER_SPEC")["SrcPort"]), (&"FF".into(), &5004.into()));
    let flow = of("FLOWSPEC");
    assert_eq!(
        (&flow["service"], &flow["r"], &flow["M"]),
        (&"controlled-load".into(), &400_000.0.into(), &1500.into())
    );
}

#[test]
fn refusals_say_what_and_where_and_the_status_is_still_zero() {
    let mut unknown = seed("path-v4");
    unknown[2..4].fill(0);
    unknown[10] = 0x2a;
    let bad = format!("1001\n\nno hex\n123\n# a comment\n0x10:01 00 00\n{}", hex(&unknown));
    let said = lines(&["--hex"], bad.as_bytes());
    let what: Vec<_> = said.iter().map(|s| (s["error"].as_str().unwrap(), s["offset"].as_u64().unwrap())).collect();
    let short = ("shorter than the common header", 0);
    assert_eq!(what[..5], [short, short, ("not hexadecimal", 0), ("not hexadecimal", 3), short]);
    assert_eq!(what[5], ("unknown object class", 8));
    assert_eq!((&said[5]["answer"]["Error_Code"], &said[5]["answer"]["Error_Value"]), (&13.into(), &0x2a01.into()));
}

/// What nobody here serves is shown all the same, beside the refusal.
#[test]
fn the_null_service_and_aggregate_sessions_are_shown() {
    use wire::iana::class;
    use wire::{Builder, MessageType, RsvpHop};
    let hop = RsvpHop { addr: [10, 0, 1, 1].into(), lih: 1 };
    let null = [0, 0, 0, 3, 6, 0, 0, 2, 128, 0, 0, 1, 0, 0, 5, 220];
    let session = terms::Session { dst: [10, 0, 2, 2].into(), protocol: 17, dst_port: 5004 };
    let sender = terms::SenderTemplate { src: [10, 0, 0, 1].into(), src_port: 5004 };
    let head = |builder: Builder| builder.hop(&hop).time_values(terms::Span::from_secs(30));
    let path = head(Builder::new(MessageType::Path, 63).session(&session)).sender_template(&sender.into());
    let path = path.raw(class::SENDER_TSPEC, 2, &null).finish().unwrap();
    let aggregate = head(Builder::new(MessageType::Path, 63).raw(class::SESSION, 9, &[10, 0, 2, 2, 0, 0, 0, 46]));
    let aggregate = aggregate.raw(class::SENDER_TEMPLATE, 9, &[10, 0, 0, 1]).finish().unwrap();
    let said = lines(&["--hex"], (hex(&path) + &hex(&aggregate)).as_bytes());
    let of = |n: usize, class: &str| {
        let objects = said[n]["objects"].as_array().unwrap_or_else(|| panic!("{}", said[n]));
        objects.iter().find(|o| o["class"] == class).unwrap()["fields"].clone()
    };
    assert!(said[0]["error"].as_str().unwrap().contains("null service (RFC 2997)"), "{}", said[0]);
    assert_eq!((&said[0]["answer"]["Error_Code"], &said[0]["answer"]["Error_Value"]), (&21.into(), &2.into()));
    let tspec = of(0, "SENDER_TSPEC");
    assert_eq!((&tspec["service"], &tspec["M"]), (&"null".into(), &1500.into()), "{tspec}");
    assert!(said[1]["error"].as_str().unwrap().contains("aggregate sessions (RFC 3175)"), "{}", said[1]);
    let (session, sender) = (of(1, "SESSION"), of(1, "SENDER_TEMPLATE"));
    assert_eq!((&session["DestAddress"], &session["DSCP"]), (&"10.0.2.2".into(), &46.into()), "{session}");
    assert_eq!(sender["Aggregator_Address"], "10.0.0.1");
}

#[test]
fn whole_ip_packets() {
    let whole = packet(&seed("path-v4"));
    let said = &lines(&["--hex", "--ip"], hex(&whole).as_bytes())[0];
    assert_eq!(
        (&said["type"], &said["ip"]["src"], &said["ip"]["ttl"]),
        (&"Path".into(), &"10.0.1.1".into(), &63.into())
    );
    assert_eq!(said["ip"]["router_alert"], true);
    let mut udp = whole.clone();
    udp[9] = 17;
    let mut damaged = whole.clone();
    damaged[24] = 0x20;
    let mut fragment = whole;
    fragment[7] = 1;
    let input = hex(&udp) + &hex(&damaged) + &hex(&fragment) + "60\n";
    let said = lines(&["--hex", "--ip"], input.as_bytes());
    let what: Vec<_> = said.iter().map(|s| (s["error"].as_str().unwrap(), s["offset"].as_u64().unwrap())).collect();
    assert_eq!(what[0], ("not RSVP: IP protocol 17", 9));
    assert_eq!(what[1], ("RSVP version is not 1", 24), "offsets count from the start of the packet");
    assert_eq!(what[2], ("a fragment of an IP packet", 6));
    assert_eq!(what[3], ("shorter than an IPv6 header", 0));
}

/// A classic capture: magic, link type, records of (seconds, fraction, frame).
fn pcap(big: bool, magic: u32, link: u32, records: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let word = |w: u32| if big { w.to_be_bytes() } else { w.to_le_bytes() };
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let mut file = [word(magic), version, word(0), word(0), word(65_535), word(link)].concat();
    for (seconds, fraction, frame) in records {
        let length = frame.len() as u32;
        file.extend([word(*seconds), word(*fraction), word(length), word(length)].concat());
        file.extend(frame);
    }
    file
}

#[test]
fn captures_of_every_kind_of_file() {
    let whole = packet(&seed("resv-v4-ff"));
    let ethernet = [&[0; 12][..], &[0x08, 0x00], &whole].concat();
    let tagged = [&[0; 12][..], &[0x81, 0x00, 0, 7, 0x08, 0x00], &whole].concat();
    let arp = [&[0; 12][..], &[0x08, 0x06], &[0; 28]].concat();
    let frames = [(5, 250, arp), (6, 500, ethernet), (7, 0, tagged)];
    for (big, magic, time) in
        [(false, 0xa1b2_c3d4, 6.000_5), (true, 0xa1b2_c3d4, 6.000_5), (false, 0xa1b2_3c4d, 6.000_000_5)]
    {
        let said = lines(&["--pcap", "-"], &pcap(big, magic, 1, &frames));
        assert_eq!(said.len(), 2, "only RSVP is printed");
        assert_eq!((&said[0]["type"], &said[0]["packet"], &said[1]["packet"]), (&"Resv".into(), &2.into(), &3.into()));
        assert_eq!(said[0]["time"], time);
    }
    assert_eq!(lines(&["--pcap", "-"], &pcap(false, 0xa1b2_c3d4, 101, &[(1, 2, whole.clone())])).len(), 1);
    let mut damaged = whole.clone();
    damaged[24] = 0;
    let said = &lines(&["--pcap", "-"], &pcap(false, 0xa1b2_c3d4, 101, &[(1, 2, damaged)]))[0];
    assert_eq!((&said["offset"], &said["packet"], &said["ip"]["dst"]), (&24.into(), &1.into(), &"10.0.2.2".into()));
    let sll = [&[0; 14][..], &[0x08, 0x00], &whole].concat();
    assert_eq!(lines(&["--pcap", "-"], &pcap(false, 0xa1b2_c3d4, 113, &[(1, 2, sll)])).len(), 1);
}

#[test]
fn pcapng() {
    let whole = packet(&seed("resv-v4-ff"));
    let block = |kind: u32, body: &[u8]| {
        let body = [body, &vec![0; body.len().next_multiple_of(4) - body.len()]].concat();
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, &body, &length].concat()
    };
    let section = block(0x0a0d_0d0a, &[&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    // Link type 101, no snap length, time in nanoseconds.
    let interface = block(1, &[101, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    let length = (whole.len() as u32).to_le_bytes();
    let head = [[0; 4], [0; 4], 1_500_000_000u32.to_le_bytes(), length, length].concat();
    let enhanced = block(6, &[head, whole.clone()].concat());
    let simple = block(3, &[&length[..], &whole].concat());
    let strange = block(0x0bad, &[1, 2, 3, 4]);
    let file = [section, interface, strange, enhanced, simple].concat();
    let said = lines(&["--pcap", "-"], &file);
    assert_eq!(said.len(), 2);
    assert_eq!((&said[0]["type"], &said[0]["time"]), (&"Resv".into(), &1.5.into()));
    for cut in 1..file.len() {
        let output = decode(&["--pcap", "-"], &file[..cut]);
        assert_eq!(output.status.success(), cut >= 4, "cut to {cut}");
        if cut > 200 {
            break;
        }
    }
}

#[test]
fn a_capture_that_is_cut_off_says_so_and_keeps_what_is_whole() {
    let whole = packet(&seed("resv-v4-ff"));
    let file = pcap(false, 0xa1b2_c3d4, 101, &[(1, 0, whole.clone()), (2, 0, whole)]);
    let said = lines(&["--pcap", "-"], &file[..file.len() - 1]);
    assert_eq!(
        (&said[0]["type"], &said[1]["error"]),
        (&"Resv".into(), &"the capture is cut off or damaged here".into())
    );
    assert!(said[1]["offset"].as_u64().unwrap() > 24);
}

#[test]
fn what_cannot_be_read_is_a_failure() {
    for (args, words) in [
        (&["--pcap", "/nowhere/at.all"][..], "cannot read /nowhere/at.all"),
        (&["--pcap", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], "not a capture file"),
        (&["--hex", "/nowhere/at.all"], "cannot read /nowhere/at.all"),
        (&[], "--hex"),
        (&["--ip", "--pcap", "x"], "cannot be used with"),
    ] {
        let output = decode(args, b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

/// `sluice boomerang decode`: one ICMP message a line, or one packet.
#[test]
fn boomerang_messages_are_printed_and_what_is_none_says_why() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/wire/probes");
    let text = std::fs::read_to_string(folder.join("reply-v4-nack.hex")).unwrap();
    let digits: String = text.lines().flat_map(|l| l.split('#').next().unwrap().split_whitespace()).collect();
    let input = format!("{}\n{}\n# a comment\n0800\nxyz\n", &digits[40..], &digits[40..digits.len() - 2]);
    let output = decode_of("boomerang", &["--hex"], input.as_bytes());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let said: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(said.len(), 4);
    assert_eq!(said[0]["leg"], "reply");
    assert_eq!((&said[0]["container"]["nack"], &said[0]["reservation"]["key"]), (&true.into(), &0.into()));
    assert_eq!(said[0]["qos"]["forward_bps"], 500_000);
    assert_eq!(said[1]["error"], "Boomerang QoS body is cut off");
    assert_eq!(said[2]["error"], "shorter than a Boomerang header");
    assert_eq!((&said[3]["error"], &said[3]["offset"]), (&"not hexadecimal".into(), &0.into()));
    let output = decode_of("boomerang", &["--hex", "--ip"], digits.as_bytes());
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["ip"]["dst"], "10.0.1.1");
}
