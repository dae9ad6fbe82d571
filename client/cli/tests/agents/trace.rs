//! Messages as they come and go: shown decoded, filtered, and as a capture that an independent reader understands.

use crate::bed::{Bed, SLUICE, expect, reserve, unsigned, wait_for};
use documents::agent::{Direction, EventDoc, Request, TraceFilter};
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn each_message_is_seen_on_its_way_in_and_out() {
    let Some(bed) = Bed::of(|name| unsigned(name, "30s")) else { return };
    let trace = |filter| {
        let mut client = bed.client("maui");
        client.call(Request::Trace { filter }).unwrap();
        client
    };
    let mut all = trace(TraceFilter::default());
    let mut resv_out = trace(TraceFilter { direction: Some(Direction::Out), types: vec![2], ..TraceFilter::default() });
    let mut left = trace(TraceFilter { interface: Some("to-yosemite".to_owned()), ..TraceFilter::default() });
    let _sender = bed.sender(1_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 1_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let mut seen = Vec::new();
    while seen.len() < 6 {
        let (_, event) = all.event(Duration::from_secs(20)).unwrap().expect("six messages pass maui");
        let EventDoc::Message { direction, interface, bytes, lost, .. } = event else { panic!("{event:?}") };
        assert_eq!(lost, 0);
        seen.push((direction, interface.unwrap(), bytes[2..4].to_owned()));
    }
    let row = |direction, interface: &str, kind: &str| (direction, interface.to_owned(), kind.to_owned());
    let (left_of, right_of) = ("to-yosemite", "to-glenwood");
    let expected = [
        row(Direction::In, left_of, "01"),
        row(Direction::Out, right_of, "01"),
        row(Direction::In, right_of, "02"),
        row(Direction::Out, left_of, "02"),
        row(Direction::In, left_of, "07"),
        row(Direction::Out, right_of, "07"),
    ];
    assert_eq!(seen, expected, "Path, Resv and ResvConf, each in and out");
    let only = |client: &mut rpc::client::Client| {
        let mut events = Vec::new();
        while let Some((_, event)) = client.event(Duration::from_millis(100)).unwrap() {
            let EventDoc::Message { interface, bytes, .. } = event else { panic!("{event:?}") };
            events.push((interface.unwrap(), bytes[2..4].to_owned()));
        }
        events
    };
    assert_eq!(only(&mut resv_out), [(left_of.to_owned(), "02".to_owned())]);
    let kinds: Vec<String> = only(&mut left).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, ["01", "02", "07"]);
}

/// What an operator sees of signatures in a capture: with the link's keys, with another secret, with none of that id.
#[test]
fn a_capture_is_held_against_keys() {
    let Some(bed) = Bed::up("1s") else { return };
    let file = bed.place.join("signed.pcap");
    let socket = bed.home("maui").join("agent.sock");
    let _sender = bed.sender(1_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 1_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let mut trace = Command::new(SLUICE);
    trace.args(["rsvp", "trace", "--interface", "to-yosemite", "--count", "4", "--for", "60s", "--pcap"]);
    assert!(trace.arg(&file).arg("--socket").arg(&socket).output().unwrap().status.success());
    let decoded = |keys: &std::path::Path| {
        let mut command = Command::new(SLUICE);
        command.args(["rsvp", "decode", "--pcap"]).arg(&file).arg("--keys").arg(keys).output().unwrap()
    };
    let verdicts = |keys: &std::path::Path| {
        let output = decoded(keys);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let one = |line: &str| match &serde_json::from_str::<serde_json::Value>(line).unwrap()["integrity"] {
            serde_json::Value::Array(each) => each.iter().map(|one| one.as_str().unwrap().to_owned()).collect(),
            one => vec![one.as_str().unwrap().to_owned()],
        };
        let mut all: Vec<String> = text.lines().flat_map(one).collect();
        assert!(all.len() >= 4, "{text}");
        all.dedup();
        all
    };
    let right = bed.home("maui").join("to-yosemite.keys");
    assert_eq!(verdicts(&right), ["good"]);
    let text = std::fs::read_to_string(&right).unwrap();
    let (id, secret) = (text.find("id = ").unwrap(), text.find("secret = \"").unwrap() + 10);
    let other = |name: &str, text: String| {
        let file = bed.place.join(name);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        file
    };
    let wrong = other("wrong.keys", format!("{}00ff00ff{}", &text[..secret], &text[secret + 8..]));
    assert_eq!(verdicts(&wrong), ["bad"]);
    let unknown = other("unknown.keys", format!("{}id = 9{}", &text[..id], &text[id + 5..]));
    assert_eq!(verdicts(&unknown), ["unknown key"]);
    let output = decoded(&bed.place.join("none.keys"));
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("none.keys"), "{output:?}");
}

#[test]
fn a_capture_is_read_by_tshark_and_nothing_in_it_is_malformed() {
    let Some(bed) = Bed::of(|name| unsigned(name, "30s")) else { return };
    let file = bed.place.join("trace.pcap");
    let mut child = Command::new(SLUICE)
        .args(["rsvp", "trace", "--count", "6", "--for", "60s", "--pcap"])
        .arg(&file)
        .arg("--socket")
        .arg(bed.home("maui").join("agent.sock"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The head of the file is written when the agent has agreed to trace.
    wait_for("tracing", || std::fs::metadata(&file).ok().filter(|file| file.len() == 24));
    let _sender = bed.sender(1_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 1_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    assert!(child.wait().unwrap().success());
    let decoded = Command::new(SLUICE).args(["rsvp", "decode", "--pcap"]).arg(&file).output().unwrap();
    let decoded = String::from_utf8(decoded.stdout).unwrap();
    assert_eq!((decoded.lines().count(), decoded.matches("\"error\"").count()), (6, 0), "{decoded}");
    let fields = ["-T", "fields", "-e", "rsvp.msg", "-e", "_ws.malformed", "-e", "_ws.expert.message"];
    let tshark = match Command::new("tshark").arg("-n").arg("-r").arg(&file).args(fields).output() {
        Ok(output) => String::from_utf8(output.stdout).unwrap(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bench::skipped("tshark is not installed, so no independent reader has seen the capture");
            return;
        }
        Err(error) => panic!("tshark: {error}"),
    };
    let rows: Vec<&str> = tshark.lines().map(str::trim_end).collect();
    assert_eq!(rows, ["1", "1", "2", "2", "7", "7"], "types, nothing malformed, nothing remarkable");
}
