//! A broker that dies in the middle of a reservation over several agents: real agents, and policies that have no rule for a broker.
//!
//! The middle is made as a broker makes it: each agent is asked for a member of the group, and so many of them to book; then the
//! broker starts. And a broker that is killed at any time while it reserves.

use super::Running;
use super::path::Site;
use crate::bed::{Bed, SLUICE, wait_at_most, wait_for};
use broker_service::id::{GroupId, MemberRole};
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{AskDoc, BookFilter, PartDoc, ReservationDoc, WhenDoc};
use documents::links::CallerDoc;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const HOPS: [(&str, &str); 3] = [("yosemite", "net/to-maui"), ("maui", "net/to-glenwood"), ("glenwood", "net/to-maui")];

/// A group of which the first so many members are booked and the others held, for so long.
fn middle(bed: &Bed, owner: &str, booked: usize, holds_s: [f64; 3]) -> GroupId {
    let group = GroupId::draw(None).unwrap();
    let members: Vec<String> = HOPS.iter().map(|(node, _)| GroupId::member_name(node, MemberRole::Alone)).collect();
    let handles: Vec<String> = HOPS
        .iter()
        .zip(holds_s)
        .map(|((node, resource), hold)| {
            let part = PartDoc { resource: (*resource).into(), rate: Some(1_000_000), ..PartDoc::default() };
            let ask = AskDoc {
                parts: vec![part],
                when: WhenDoc::lasting(600.0),
                hold_s: Some(hold),
                group: group.member(MemberRole::Alone),
                members: members.clone(),
                ..AskDoc::default()
            };
            asked(bed, node, owner, Request::BookCreate(ask)).handle
        })
        .collect();
    for ((node, _), handle) in HOPS.iter().zip(&handles).take(booked) {
        asked(bed, node, owner, Request::BookCommit { handle: handle.clone(), decided: true });
    }
    group
}

/// One question to an agent, as somebody.
fn asked(bed: &Bed, node: &str, owner: &str, request: Request) -> ReservationDoc {
    let mut client = bed.client(node);
    let role = if owner.starts_with("uid:") { "operator" } else { "owner" };
    let who = CallerDoc { name: owner.into(), groups: Vec::new(), role: role.into() };
    client.call(Request::SpeakFor { who: Some(who) }).unwrap();
    match client.call(request).unwrap() {
        Answer::Book(BookAnswer::Reservation(doc)) => doc,
        other => panic!("{other:?}"),
    }
}

/// What lives at the agents, as `NODE STATE`, in order.
fn states(bed: &Bed) -> Vec<String> {
    let mut all = Vec::new();
    for (node, _) in HOPS {
        let show = Request::BookShow { handle: None, filter: BookFilter::default() };
        let Answer::Book(BookAnswer::Reservations { rows, .. }) = bed.client(node).call(show).unwrap() else {
            panic!("no list")
        };
        all.extend(rows.iter().map(|row| format!("{node} {}", row.state)));
    }
    all
}

const WHOLE: [&str; 3] = ["yosemite active", "maui active", "glenwood active"];

fn give_back(bed: &Bed) {
    for (node, _) in HOPS {
        let show = Request::BookShow { handle: None, filter: BookFilter::default() };
        let mut client = bed.client(node);
        let Answer::Book(BookAnswer::Reservations { rows, .. }) = client.call(show).unwrap() else { panic!("no list") };
        for row in rows {
            client.call(Request::BookCancel { handle: row.handle }).unwrap();
        }
    }
}

/// Over mutual TLS, with a policy that knows alice alone.
#[test]
fn a_broker_that_died_between_bookings_under_a_policy_without_a_rule_for_it() {
    let Some(mut site) = Site::up() else { return };
    site.stop_broker();
    for booked in 1..HOPS.len() {
        middle(&site.far.bed, "alice", booked, [30.0; 3]);
        site.start_broker();
        assert_eq!(states(&site.far.bed), WHOLE, "{booked} of 3 were booked");
        site.stop_broker();
        give_back(&site.far.bed);
    }
    // Nobody else decides for what is held: not its owner, not an operator who is no broker.
    middle(&site.far.bed, "alice", 0, [30.0; 3]);
    let row = asked_rows(&site.far.bed, "maui");
    let mut alice = site.far.reach("yosemite", "10.0.1.2", "requester-alice").unwrap();
    let no = alice.call(Request::BookCommit { handle: row[0].handle.clone(), decided: true }).unwrap_err().to_string();
    assert!(no.contains("decides over several agents"), "{no}");
    give_back(&site.far.bed);
    // A hold ended at one of them meanwhile.
    middle(&site.far.bed, "alice", 2, [30.0, 30.0, 0.5]);
    wait_for("the hold ends", || (states(&site.far.bed) == WHOLE[..2]).then_some(()));
    site.start_broker();
    assert_eq!(states(&site.far.bed), Vec::<String>::new());
    site.stop_broker();
    // One of them was away when the broker came, and holds still when it is back.
    middle(&site.far.bed, "alice", 2, [60.0; 3]);
    site.far.bed.kill("glenwood");
    site.start_broker();
    site.far.bed.start("glenwood");
    wait_for("it is booked there as well", || (states(&site.far.bed) == WHOLE).then_some(()));
    let (status, rows) = site.ask("requester-alice", "GET", "/v1/reservations", &Value::Null);
    assert_eq!((status, &rows["reservations"][0]["state"]), (200, &json!("active")), "{rows}");
    // What was whole once and is not is called broken, also by a broker that comes later, and nothing is taken away.
    let row = asked_rows(&site.far.bed, "maui");
    asked(&site.far.bed, "maui", "uid:0", Request::BookCancel { handle: row[0].handle.clone() });
    site.stop_broker();
    site.start_broker();
    let (_, rows) = site.ask("requester-alice", "GET", "/v1/reservations", &Value::Null);
    assert_eq!(rows["reservations"][0]["state"], "broken", "{rows}");
    assert_eq!(states(&site.far.bed), ["yosemite active", "glenwood active"]);
}

fn asked_rows(bed: &Bed, node: &str) -> Vec<ReservationDoc> {
    let show = Request::BookShow { handle: None, filter: BookFilter::default() };
    match bed.client(node).call(show).unwrap() {
        Answer::Book(BookAnswer::Reservations { rows, .. }) => rows,
        other => panic!("{other:?}"),
    }
}

/// A broker of this machine.
fn broker(bed: &Bed, log: &str) -> Running {
    let mut command = Command::new(SLUICE);
    command.arg("broker").arg("--socket").arg(bed.place.join("broker.sock"));
    command.arg("--state").arg(bed.place.join("broker"));
    for (node, _) in HOPS {
        command.arg("--agent").arg(format!("{node}={}", bed.home(node).join("agent.sock").display()));
    }
    let running = Running::start(&mut command, &bed.place.join(log));
    // It answers when it has seen to what it found.
    let socket = bed.place.join("broker.sock");
    wait_for("the broker answers", || post(&socket, "GET", "/v1/resources", "x", &Value::Null));
    running
}

/// The status and body of an answer; `None`: the broker died over it.
fn post(socket: &Path, method: &str, path: &str, key: &str, body: &Value) -> Option<(u16, Value)> {
    let mut stream = UnixStream::connect(socket).ok()?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: b\r\nConnection: close\r\nContent-Type: application/json\r\nIdempotency-Key: {key}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut all = String::new();
    stream.read_to_string(&mut all).ok()?;
    let (head, body) = all.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
}

/// On one machine, with the policy that is there without a file: root alone. The broker is killed while it reserves, after 1 to 40 ms.
#[test]
fn a_broker_that_is_killed_while_it_reserves() {
    let Some(bed) = Bed::up("30s") else { return };
    for (booked, wanted) in [(1, &WHOLE[..]), (2, &WHOLE[..])] {
        middle(&bed, "uid:0", booked, [30.0; 3]);
        let _broker = broker(&bed, &format!("broker-{booked}.log"));
        assert_eq!(states(&bed), wanted, "{booked} of 3 were booked");
        give_back(&bed);
    }
    // One direction leaves by the first two; the third has no part in it.
    const WAY: [&str; 2] = ["yosemite active", "maui active"];
    let socket = bed.place.join("broker.sock");
    let wish = json!({"path": {"from": "10.0.0.1", "to": "10.0.2.2", "forward": 1_000_000}, "duration_s": 600});
    for cycle in 0..10_u64 {
        let key = format!("k{cycle}");
        let first = broker(&bed, &format!("killed-{cycle}.log"));
        let (at, body, name) = (socket.clone(), wish.clone(), key.clone());
        let caller = std::thread::spawn(move || post(&at, "POST", "/v1/reservations", &name, &body));
        std::thread::sleep(Duration::from_millis(1 + cycle * 13 % 40));
        first.kill();
        let said = caller.join().unwrap();
        let _again = broker(&bed, &format!("again-{cycle}.log"));
        // Nothing is there by half as soon as the next broker answers: held at some, or booked at all.
        let found = states(&bed);
        assert!(!found.iter().any(|row| row.ends_with("active")) || found == WAY, "{cycle}: {found:?}");
        if let Some((201, _)) = said {
            assert_eq!(found, WAY, "{cycle}: what was acknowledged is there");
        }
        // Whoever asks again gets all of it.
        let whole = wait_at_most(Duration::from_secs(40), "whole", || {
            let (status, doc) = post(&socket, "POST", "/v1/reservations", &key, &wish)?;
            (status == 201 && doc["state"] == "active").then_some(doc)
        });
        assert_eq!(states(&bed), WAY, "{cycle}: {whole}");
        let at = format!("/v1/reservations/{}", whole["id"].as_str().unwrap());
        assert_eq!(post(&socket, "DELETE", &at, "x", &Value::Null).unwrap().0, 200);
        assert_eq!(states(&bed), Vec::<String>::new(), "{cycle}");
    }
}
