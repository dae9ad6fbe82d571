//! An independent reader agrees (I21): what the builder writes goes through tshark, which must find nothing malformed
//! and read the same values.

use crate::codec::said;
use crate::codec::seeds;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use wire::describe::{FieldValue, Visitor};
use wire::{Message, MessageType, describe, ip};

/// Fields asked of tshark, one column each.
const FIELDS: [&str; 33] = [
    "frame.number",
    "rsvp.msg",
    "rsvp.session.ip",
    "rsvp.session.destination_address",
    "rsvp.session.proto",
    "rsvp.session.protocol",
    "rsvp.session.port",
    "rsvp.session.destination_port",
    "rsvp.hop.neighbor_address_ipv4",
    "rsvp.hop.logical_interface",
    "rsvp.sender.ip",
    "rsvp.sender.port",
    "rsvp.error.error_code",
    "rsvp.error_value",
    "rsvp.style.style",
    "rsvp.tspec.token_bucket_rate",
    "rsvp.tspec.token_bucket_size",
    "rsvp.tspec.peak_data_rate",
    "rsvp.flowspec.token_bucket_rate",
    "rsvp.flowspec.rate",
    "rsvp.flowspec.slack_term",
    "rsvp.message_id.epoch",
    "rsvp.message_id.message_id",
    "rsvp.message_id_ack.epoch",
    "rsvp.message_id_ack.message_id",
    "rsvp.message_id_list.epoch",
    "rsvp.message_id_list.message_id",
    "rsvp.hello.source_instance",
    "rsvp.hello.destination_instance",
    "rsvp.integrity.sequence_number",
    "_ws.malformed",
    "_ws.expert.severity",
    "_ws.expert.message",
];

/// Messages as a capture of raw IP packets; the file is gone when this is.
struct CaptureFile(PathBuf);

impl CaptureFile {
    fn write(name: &str, messages: &[Vec<u8>]) -> CaptureFile {
        let word = |w: u32| w.to_le_bytes();
        let mut file = [word(0xa1b2_c3d4), word(0x0004_0002), word(0), word(0), word(65_535), word(101)].concat();
        for (i, bytes) in messages.iter().enumerate() {
            let message = Message::parse(bytes).unwrap();
            let v4 = message.session().is_none_or(|s| s.dst.is_ipv4());
            let (src, dst) = if v4 { ("10.0.1.1", "10.0.2.2") } else { ("2001:db8:1::1", "2001:db8:2::2") };
            let (src, dst): (IpAddr, IpAddr) = (src.parse().unwrap(), dst.parse().unwrap());
            let alert = matches!(message.kind(), MessageType::Path | MessageType::PathTear | MessageType::ResvConf);
            // Not Send_TTL: tshark warns of low ones.
            let packet = ip::packet(src, dst, 46, 64, alert, bytes).unwrap();
            let length = packet.len() as u32;
            file.extend([word(i as u32), word(0), word(length), word(length)].concat());
            file.extend(packet);
        }
        let path = std::env::temp_dir().join(format!("sluice-wire-{name}-{}.pcap", std::process::id()));
        std::fs::write(&path, file).unwrap();
        CaptureFile(path)
    }
}

impl Drop for CaptureFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One row of fields per message; `None` if there is no tshark.
fn dissect(file: &CaptureFile) -> Option<Vec<HashMap<&'static str, String>>> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file.0).args([
        "-n",
        "-T",
        "fields",
        "-E",
        "separator=|",
        "-E",
        "occurrence=a",
        "-E",
        "aggregator=;",
    ]);
    for field in FIELDS {
        tshark.args(["-e", field]);
    }
    let output = match tshark.output() {
        Ok(output) => output,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        Err(e) => panic!("tshark: {e}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| FIELDS.into_iter().zip(line.split('|').map(str::to_owned)).collect();
    Some(text.lines().map(row).collect())
}

/// Our own reading: `CLASS.field` and its values in the order of the objects.
#[derive(Default)]
struct Ours {
    class: String,
    list: &'static str,
    said: HashMap<String, Vec<String>>,
}

impl Visitor for Ours {
    fn field(&mut self, name: &'static str, value: FieldValue<'_>) {
        let text = match value {
            FieldValue::Number(n) => n.to_string(),
            FieldValue::Float(f) => f.to_string(),
            FieldValue::Address(a) => a.to_string(),
            FieldValue::Text(t) => t.to_owned(),
            FieldValue::Bytes(_) | FieldValue::Flag(_) => return,
        };
        match name {
            "class" => self.class = text,
            // A sub-message of a Bundle begins.
            "type" => self.class = String::new(),
            _ => self.said.entry(format!("{}.{name}", self.class)).or_default().push(text),
        }
    }
    fn item(&mut self, value: FieldValue<'_>) {
        if let FieldValue::Number(n) = value {
            self.said.entry(format!("{}.{}", self.class, self.list)).or_default().push(n.to_string());
        }
    }
    fn list(&mut self, name: &'static str) {
        self.list = name;
    }
    fn record(&mut self, _: Option<&'static str>) {}
    fn end(&mut self) {}
}

/// Our fields beside tshark's columns, for IPv4 and for IPv6 (tshark 4.0 has no column for some of the latter).
const SAME: [(&[&str], &str, &str); 24] = [
    (&[".Msg_Type"], "rsvp.msg", "rsvp.msg"),
    (&["SESSION.DestAddress"], "rsvp.session.ip", "rsvp.session.destination_address"),
    (&["SESSION.Protocol_Id"], "rsvp.session.proto", "rsvp.session.protocol"),
    (&["SESSION.DstPort"], "rsvp.session.port", "rsvp.session.destination_port"),
    (&["RSVP_HOP.Hop_Address"], "rsvp.hop.neighbor_address_ipv4", ""),
    (&["RSVP_HOP.LIH"], "rsvp.hop.logical_interface", "rsvp.hop.logical_interface"),
    (&["SENDER_TEMPLATE.SrcAddress", "FILTER_SPEC.SrcAddress"], "rsvp.sender.ip", ""),
    (&["SENDER_TEMPLATE.SrcPort", "FILTER_SPEC.SrcPort"], "rsvp.sender.port", ""),
    (&["ERROR_SPEC.Error_Code"], "rsvp.error.error_code", "rsvp.error.error_code"),
    (&["ERROR_SPEC.Error_Value"], "rsvp.error_value", "rsvp.error_value"),
    (&["STYLE.Option_Vector"], "rsvp.style.style", "rsvp.style.style"),
    (&["SENDER_TSPEC.r"], "rsvp.tspec.token_bucket_rate", "rsvp.tspec.token_bucket_rate"),
    (&["SENDER_TSPEC.b"], "rsvp.tspec.token_bucket_size", "rsvp.tspec.token_bucket_size"),
    (&["FLOWSPEC.r"], "rsvp.flowspec.token_bucket_rate", "rsvp.flowspec.token_bucket_rate"),
    (&["FLOWSPEC.S"], "rsvp.flowspec.slack_term", "rsvp.flowspec.slack_term"),
    (&["MESSAGE_ID.Epoch"], "rsvp.message_id.epoch", "rsvp.message_id.epoch"),
    (&["MESSAGE_ID.Message_Identifier"], "rsvp.message_id.message_id", "rsvp.message_id.message_id"),
    (&["MESSAGE_ID_ACK.Epoch"], "rsvp.message_id_ack.epoch", "rsvp.message_id_ack.epoch"),
    (&["MESSAGE_ID_ACK.Message_Identifier"], "rsvp.message_id_ack.message_id", "rsvp.message_id_ack.message_id"),
    (&["MESSAGE_ID_LIST.Epoch"], "rsvp.message_id_list.epoch", "rsvp.message_id_list.epoch"),
    (&["MESSAGE_ID_LIST.Message_Identifiers"], "rsvp.message_id_list.message_id", "rsvp.message_id_list.message_id"),
    (&["HELLO.Src_Instance"], "rsvp.hello.source_instance", "rsvp.hello.source_instance"),
    (&["HELLO.Dst_Instance"], "rsvp.hello.destination_instance", "rsvp.hello.destination_instance"),
    (&["INTEGRITY.Sequence_Number"], "rsvp.integrity.sequence_number", "rsvp.integrity.sequence_number"),
];

/// Equal as text, as a number in hex, or as a float of the six digits that tshark prints.
fn same(ours: &str, theirs: &str) -> bool {
    let hex = theirs.strip_prefix("0x").and_then(|h| u64::from_str_radix(h, 16).ok());
    if ours == theirs || hex.is_some_and(|h| ours.parse() == Ok(h)) {
        return true;
    }
    let (Ok(a), Ok(b)) = (ours.parse::<f64>(), theirs.parse::<f64>()) else { return false };
    (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= a.abs() * 1e-5
}

fn agree(name: &str, bytes: &[u8], row: &HashMap<&'static str, String>) {
    assert_eq!(row["_ws.malformed"], "", "{name}: {}", row["_ws.expert.message"]);
    let message = Message::parse(bytes).unwrap();
    let v4 = message.session().is_none_or(|s| s.dst.is_ipv4());
    let mut ours = Ours::default();
    describe(&message, &mut ours);
    for (names, column4, column6) in SAME {
        let column = if v4 { column4 } else { column6 };
        if column.is_empty() {
            continue;
        }
        let said: Vec<&String> = names.iter().filter_map(|n| ours.said.get(*n)).flatten().collect();
        let theirs: Vec<&str> = row[column].split(';').filter(|t| !t.is_empty()).collect();
        // The value of a code whose values have names is in a column of that code's own.
        if column == "rsvp.error_value" && theirs.is_empty() {
            continue;
        }
        let equal = said.len() == theirs.len() && said.iter().zip(&theirs).all(|(a, b)| same(a, b));
        assert!(equal, "{name}: {names:?}: ours {said:?}, tshark's {theirs:?}");
    }
}

const NO_TSHARK: &str = "tshark is not installed, so no independent reader has seen what we write";

#[test]
fn tshark_agrees_on_every_seed() {
    let seeds = seeds::all();
    let messages: Vec<_> = seeds.iter().map(|s| s.bytes.clone()).collect();
    let Some(rows) = dissect(&CaptureFile::write("seeds", &messages)) else {
        bench::skipped(NO_TSHARK);
        return;
    };
    assert_eq!(rows.len(), seeds.len());
    for (seed, row) in seeds.iter().zip(&rows) {
        // tshark does not read RFC 2207: it must find nothing malformed, no more.
        if seed.name.ends_with("-gpi") {
            assert_eq!(row["_ws.malformed"], "", "{}", seed.name);
            continue;
        }
        agree(seed.name, &seed.bytes, row);
        // A fragment of a service that nobody knows is a warning there too; and tshark does not know CHALLENGE.
        let expected = match seed.name {
            "path-v4-adspec-unknown-service" => "Unknown type",
            "integritychallenge" | "integrityresponse" => "Unknown session type",
            _ => "",
        };
        assert_eq!(row["_ws.expert.message"], expected, "{}", seed.name);
    }
}

/// The same over 1,000 generated messages (I21), always the same ones.
#[test]
fn tshark_agrees_on_generated_messages() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Default::default(), rng);
    let messages: Vec<Vec<u8>> = (0..1_000)
        .map(|_| {
            let mut said = said::said().new_tree(&mut runner).unwrap().current();
            // Classes that we only forward may be ones that tshark knows, with bodies of their own.
            said.forward.clear();
            said.write()
        })
        .collect();
    let Some(rows) = dissect(&CaptureFile::write("generated", &messages)) else {
        bench::skipped(NO_TSHARK);
        return;
    };
    assert_eq!(rows.len(), messages.len());
    for (i, (bytes, row)) in messages.iter().zip(&rows).enumerate() {
        agree(&format!("message {i}"), bytes, row);
        assert_eq!(row["_ws.expert.message"], "", "message {i}");
    }
}
