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
