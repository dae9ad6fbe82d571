//! The book's documents on the socket: what is read becomes what the book is told, mistakes are named, what the book says
//! is written and read again.

use agent_service::book::{convert, shown};
use booking::io::{BookingChange, CallResult};
use booking::refusal::{Refusal, RefusalReason};
use booking::{BookingState, BookingView, Event, When};
use commit::{Branch, Decision, Epoch, TransactionId};
use documents::agent::{Call, Request};
use documents::book::{BookAnswer, BookEvent, ReservationDoc};
use terms::book::{Binding, BoundFlow, Handle, PacketShape, RateStep, ResourceKind, Task};
use terms::{Span, Time, Window};

const HANDLE: Handle = Handle([7; 16]);
/// 2026-11-21T14:00:00Z.
const START: Time = Time::from_nanos(1_795_269_600_000_000_000);

fn read(line: &str) -> Result<booking::Call, String> {
    let call: Call = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match convert::call(&call.request) {
        Ok(Some(call)) => Ok(call),
        Ok(None) => Err("not a call of the book".to_owned()),
        Err(problem) => Err(problem.message),
    }
}

#[test]
fn a_request_with_parts_of_every_kind() {
    let line = r#"{"id":1,"call":"book_create","parts":[
        {"resource":"net/eth1","rate":3000000,"at_least":1000000,"binding":{"flow":{"dst":"10.0.0.2","protocol":6,"dst_port":80}}},
        {"resource":"cpu","cores":0.5,"binding":{"pid":77}},
        {"resource":"disk/sda","bytes_per_s":1000,"background":{"floor":10}},
        {"resource":"licence/x","count":2}],
        "start":"2026-11-21T14:00:00Z","duration_s":60,"hold_s":30,"key":"k","label":"l","group":"g"}"#;
    let booking::Call::Create { ask, hold, key } = read(line).unwrap() else { panic!("a creation") };
    assert_eq!(
        (hold, key.as_str(), ask.label.as_str(), ask.group.as_str()),
        (Some(Span::from_secs(30)), "k", "l", "g")
    );
    assert_eq!(ask.when, When::Window { start: Some(START), end: Some(START + Span::from_secs(60)) });
    let amounts: Vec<(u64, u64)> = ask.parts.iter().map(|part| (part.amount, part.least)).collect();
    assert_eq!(amounts, [(3_000_000, 1_000_000), (500_000, 500_000), (8_000, 8_000), (2, 2)]);
    assert_eq!(ask.parts[2].background.map(|b| (b.weight, b.floor)), Some((1, 80)));
    let flow =
        BoundFlow { dst: Some([10, 0, 0, 2].into()), protocol: Some(6), dst_port: Some(80), ..BoundFlow::default() };
    assert_eq!(ask.parts[0].binding, Some(Binding::Flow(flow)));
    assert_eq!(
        (ask.parts[1].binding.clone(), ask.parts[0].shape),
        (Some(Binding::Process(Task::numbered(77))), PacketShape::default())
    );
}

/// Nothing is booked for ever unless that is said; an enquiry may ask about it without a word.
#[test]
fn a_booking_says_its_end() {
    let create = |rest: &str| {
        read(&format!(r#"{{"id":1,"call":"book_create","parts":[{{"resource":"net/a","rate":1}}]{rest}}}"#))
    };
    for without in ["", r#","start":"2026-11-21T14:00:00Z""#, r#","hold_s":30"#, r#","end":null"#] {
        assert!(create(without).unwrap_err().contains("\"end\": \"forever\" is until it is given back"), "{without}");
    }
    let booking::Call::Create { ask, .. } = create(r#","end":"forever""#).unwrap() else { panic!("a creation") };
    assert_eq!(ask.when, When::Window { start: None, end: Some(Time::FOREVER) });
    for with in [
        r#","duration_s":1"#,
        r#","end":"2026-11-21T14:00:00Z""#,
        r#","windows":[{"start":"2026-11-21T14:00:00Z","end":"2026-11-21T15:00:00Z"}]"#,
        r#","volume":{"bytes":1,"deadline":"2026-11-21T14:00:00Z"}"#,
    ] {
        assert!(create(with).is_ok(), "{with}");
    }
}

#[test]
fn every_way_to_say_when() {
    let when = |rest: &str| {
        let line = format!(r#"{{"id":1,"call":"book_enquire","parts":[{{"resource":"net/a","rate":1}}]{rest}}}"#);
        match read(&line)? {
            booking::Call::Enquire(ask) => Ok(ask.when),
            other => Err(format!("{other:?}")),
        }
    };
    assert_eq!(when(""), Ok(When::Window { start: None, end: None }));
    assert_eq!(when(r#","duration_s":1.5"#), Ok(When::Now { span: Span::from_millis(1_500) }));
    let earliest = When::Earliest { span: Span::from_secs(9), not_before: None, by: Some(START) };
    assert_eq!(when(r#","earliest":true,"duration_s":9,"end":"2026-11-21T15:00:00+01:00""#), Ok(earliest));
    let volume = When::Volume { bytes: 5, not_before: None, deadline: START };
    assert_eq!(when(r#","volume":{"bytes":5,"deadline":"2026-11-21T14:00:00Z"}"#), Ok(volume));
    let windows = r#","windows":[{"start":"2026-11-21T14:00:00Z","end":"2026-11-21T14:00:01Z"}],"may_fail":[0]"#;
    let window = Window::new(START, START + Span::from_secs(1)).unwrap();
    assert_eq!(when(windows), Ok(When::Series { windows: vec![window], may_fail: vec![0] }));
    for (rest, said) in [
        (r#","earliest":true"#, "duration_s"),
        (r#","earliest":true,"duration_s":-1"#, "length of time"),
        (r#","duration_s":1e300"#, "length of time"),
        (r#","end":"2026-11-21T14:00:00Z","duration_s":1"#, "exclude"),
        (r#","end":"tomorrow""#, "no time"),
        (r#","earliest":true,"duration_s":1,"volume":{"bytes":5,"deadline":"2026-11-21T14:00:00Z"}"#, "exclude"),
        (r#","windows":[{"start":"2026-11-21T14:00:01Z","end":"2026-11-21T14:00:01Z"}]"#, "empty"),
        (r#","may_fail":[0]"#, "windows"),
        (r#","rat":5"#, "unknown field"),
    ] {
        let error = when(rest).unwrap_err();
        assert!(error.contains(said), "{rest}: {error}");
    }
}

#[test]
fn how_much_is_there() {
    let Ok(booking::Call::Enquire(ask)) = read(r#"{"id":1,"call":"book_enquire","parts":[{"resource":"net/a"}]}"#)
    else {
        panic!("an enquiry")
    };
    assert_eq!((ask.parts[0].amount, ask.parts[0].least), (0, 0));
}

#[test]
fn amounts_in_the_wrong_unit_are_named() {
    for (part, said) in [
        (r#"{"resource":"net/a","cores":1}"#, "give rate"),
        (r#"{"resource":"cpu","rate":1}"#, "give cores"),
        (r#"{"resource":"net/a"}"#, "how much"),
        (r#"{"resource":"cpu","cores":-0.5}"#, "cores"),
        (r#"{"resource":"disk/a","bytes_per_s":18446744073709551615}"#, "too large"),
        (r#"{"resource":"net/a","rate":-1}"#, "invalid value"),
        (r#"{"resource":"net/a","rate":18446744073709551616}"#, ""),
        (r#"{"resource":"net/a","rate":1,"rtt_ms":-1}"#, "rtt_ms"),
    ] {
        let error = read(&format!(r#"{{"id":1,"call":"book_create","parts":[{part}]}}"#)).unwrap_err();
        assert!(error.contains(said), "{part}: {error}");
    }
}

#[test]
fn the_other_calls() {
    let handle = HANDLE.text();
    let said = |rest: &str| read(&format!(r#"{{"id":1,{}}}"#, rest.replace("HANDLE", &handle))).unwrap();
    assert_eq!(said(r#""call":"book_commit","handle":"HANDLE""#), booking::Call::Commit(HANDLE));
    assert_eq!(said(r#""call":"book_commit","handle":"HANDLE","decided":true"#), booking::Call::Decided(HANDLE));
    assert_eq!(said(r#""call":"book_cancel","handle":"HANDLE""#), booking::Call::Cancel(HANDLE));
    let nobody = booking::Call::Bind { handle: HANDLE, part: 0, binding: None };
    assert_eq!(said(r#""call":"book_bind","handle":"HANDLE","binding":null"#), nobody);
    let change = BookingChange {
        amounts: vec![(1, ResourceKind::Cpu, 250_000)],
        end: Some(Time::FOREVER),
        ..BookingChange::default()
    };
    let line =
        r#""call":"book_modify","handle":"HANDLE","change":{"amounts":[{"part":1,"cores":0.25}],"end":"forever"}"#;
    assert_eq!(said(line), booking::Call::Modify { handle: HANDLE, change });
    assert_eq!(said(r#""call":"book_follow","after":5"#), booking::Call::Since { seq: 5, most: 0 });
    assert!(
        matches!(said(r#""call":"book_show","filter":{"states":["active"]}"#), booking::Call::List(m) if m.states == [BookingState::Active])
    );
    let mistyped = read(r#"{"id":1,"call":"book_cancel","handle":"0000000-0000000-0000000-0000000"}"#).unwrap_err();
    assert!(mistyped.contains("checksum"), "{mistyped}");
    assert!(convert::call(&Request::Hello).unwrap().is_none());
}

#[test]
fn calls_of_coordinators() {
    let common = r#""transaction":"000102030405060708090a0b0c0d0e0f","member":2,"coordinator":"main","epoch":{"number":3,"decisions":4,"nonce":18446744073709551615}"#;
    let said = |call: &str, rest: &str| read(&format!(r#"{{"id":1,"call":"{call}",{common}{rest}}}"#));
    let id: [u8; 16] = std::array::from_fn(|n| n as u8);
    let branch = Branch { transaction: TransactionId(id), member: 2 };
    let epoch = Epoch { number: 3, decisions: 4, nonce: u64::MAX };
    let hold = format!(r#","serial":5,"floor":4,"change":{{"hold":{{"handle":"{}"}}}}"#, HANDLE.text());
    let Ok(booking::Call::Prepare(call)) = said("book_prepare", &hold) else { panic!("a call") };
    assert_eq!((call.branch, &*call.coordinator, call.epoch), (branch, "main", epoch));
    assert_eq!((call.serial.number, call.serial.floor, call.ask), (5, 4, booking::PrepareAsk::Hold(HANDLE)));
    for (commit, decision) in [("null", Decision::Abort), ("7", Decision::Commit { number: 7 })] {
        let Ok(booking::Call::Decide(call)) = said("book_decide", &format!(r#","commit":{commit}"#)) else {
            panic!("a call")
        };
        assert_eq!((call.branch, call.epoch, call.decision), (branch, epoch, decision));
    }
    let part = r#"{"parts":[{"resource":"cpu","cores":1}],"#;
    for (rest, said_no) in [
        (format!(r#","serial":1,"floor":1,"change":{{"create":{part}"duration_s":1,"hold_s":2}}}}"#), "hold_s"),
        (format!(r#","serial":1,"floor":1,"change":{{"create":{part}"label":""}}}}"#), "how long"),
        (r#","serial":1,"floor":1,"change":{"hold":{"handle":"x"}}"#.to_owned(), "handle"),
        (r#","serial":1,"floor":1,"change":{"cancel":{}}"#.to_owned(), "unknown variant"),
        (r#","serial":1,"floor":1"#.to_owned(), "change"),
    ] {
        let error = said("book_prepare", &rest).unwrap_err();
        assert!(error.contains(said_no), "{rest}: {error}");
    }
    let name = |transaction: &str, coordinator: &str| {
        let line = format!(
            r#"{{"id":1,"call":"book_decide","transaction":"{transaction}","member":0,"coordinator":"{coordinator}","epoch":{{"number":1,"decisions":0,"nonce":1}},"commit":1}}"#
        );
        read(&line)
    };
    assert!(name("00", "main").unwrap_err().contains("32 digits"));
    for wrong in [String::new(), "a b".to_owned(), "x".repeat(121)] {
        assert!(name(&"0".repeat(32), &wrong).unwrap_err().contains("coordinator's name"), "{wrong}");
    }
}

#[test]
fn what_the_book_says_is_read_again() {
    let view = BookingView {
        handle: HANDLE,
        owner: "uid:0".into(),
        label: "l".into(),
        group: "g.f".into(),
        members: vec!["maui.f".into(), "glenwood.f".into()],
        state: BookingState::Held,
        hold_until: Some(START),
        notice: None,
        created: START,
        version: 1,
        parts: vec![booking::PartView {
            resource: "cpu".into(),
            kind: ResourceKind::Cpu,
            guarantee: None,
            steps: vec![RateStep { window: Window::open(START).unwrap(), amount: 250_000 }],
            background: None,
            shape: PacketShape::default(),
            binding: Some(Binding::Cgroup("a/b".into())),
            asked: 250_000,
            now: 0,
            installed: 0,
            enforced: booking::view::Enforced::Failed("busy".into()),
        }],
        promise: None,
    };
    let doc = shown::answer(CallResult::Reservation(view));
    let text = serde_json::to_string(&doc).unwrap();
    assert_eq!(serde_json::from_str::<BookAnswer>(&text).unwrap(), doc);
    let BookAnswer::Reservation(ReservationDoc { state, parts, .. }) = doc else { panic!("a reservation") };
    assert_eq!((state.as_str(), parts[0].steps[0].amount, parts[0].steps[0].end), ("held", 0.25, None));
    assert_eq!((parts[0].enforced.as_str(), parts[0].fault.as_deref()), ("failed", Some("busy")));
    let window = Window::new(START, START + Span::from_secs(1)).unwrap();
    let why = RefusalReason::NoRoom { part: 0, resource: "disk/a".into(), asked: 80, free: 8, window };
    let problem = shown::problem(&Refusal::plain(why));
    assert_eq!(problem.kind, "refused");
    assert!(problem.message.contains("asked 10 bytes/s, free 1 from 2026-11-21T14:00:00Z"), "{}", problem.message);
    let what = booking::io::EventKind::Share { part: 0, kind: ResourceKind::Network, from: 9, to: 0 };
    let event = Event { seq: 3, at: START, handle: HANDLE, owner: "a".into(), group: String::new(), what };
    let doc = shown::event(event);
    assert_eq!((doc.event.as_str(), doc.from, doc.to), ("share", Some(9.0), Some(0.0)));
    assert_eq!(serde_json::from_str::<BookEvent>(&serde_json::to_string(&doc).unwrap()).unwrap(), doc);
}
