//! An agent that hears no decision asks the broker that its file names, over mutual TLS, by a process of its own. The
//! broker here is a listener of the test, which says what it was asked.

use super::{Far, now};
use crate::bed::{Bed, skipped, wait_for};
use crate::lone::booked;
use ::bed::file::TestbedFile;
use documents::agent::{PrepareDoc, Request};
use documents::book::{AskDoc, EpochDoc, PartDoc, PrepareAskDoc, WhenDoc};
use rustls::{ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use trust::{CertificateRole, Files, Speaks};

const BROKER: &str = "10.0.0.1";
const AGENT: &str = "10.0.0.2";
const EPOCH: EpochDoc = EpochDoc { number: 2, decisions: 0, nonce: 77 };

fn bed() -> Option<Far> {
    bed_with(&format!("address = \"tls://{BROKER}:8443\""))
}

/// The broker is asked where this line says.
fn bed_with(places: &str) -> Option<Far> {
    if skipped() {
        return None;
    }
    let file = |name: &str| {
        let text = format!(
            "name = \"{name}\"\nauth = \"none\"\n[[node]]\nname = \"a\"\nkind = \"host\"\n\
             [[node]]\nname = \"b\"\nkind = \"host\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10mbit\"\n"
        );
        TestbedFile::parse(Path::new("two.toml"), &text).unwrap()
    };
    let far = Far::up(Bed::of(file), &[("b", AGENT)], &[], "[[rule]]\nname = \"all\"\nwho = [\"uid:0\"]\n")?;
    let path = far.bed.home("b").join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let broker = format!("\n[[broker]]\nname = \"main\"\n{places}\n");
    std::fs::write(&path, format!("{text}{broker}")).unwrap();
    far.bed.kill("b");
    far.bed.start("b");
    Some(far)
}

/// Answers each request with the next of these bodies, under the certificate of the broker; says each request, and
/// who asked.
fn broker(far: &Far, answers: Vec<String>) -> Receiver<String> {
    broker_at(far, 8443, "200 OK", answers)
}

/// The same at another port, with this status.
fn broker_at(far: &Far, port: u16, status: &'static str, answers: Vec<String>) -> Receiver<String> {
    let at = |name: &str| far.trust.join(name);
    let (ca, certificate, key) = (at("ca.pem"), at("broker-main.pem"), at("broker-main.key"));
    let files = Files { ca, certificate, key, revoked: None, partners: Vec::new() };
    let (config, _) = trust::server(&files, now(), Speaks::Http).unwrap();
    let listener = far.bed.netns("a").run(|| TcpListener::bind((BROKER, port)).unwrap()).unwrap();
    let (said, asked) = channel();
    std::thread::spawn(move || {
        for body in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let who = trust::is_a(CertificateRole::Agent, stream.conn.peer_certificates()).unwrap();
            let line = String::from_utf8(head).unwrap().lines().next().unwrap().to_owned();
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).unwrap();
            stream.conn.send_close_notify();
            let _ = stream.flush();
            if said.send(format!("{} {line}", who.name)).is_err() {
                return;
            }
        }
    });
    asked
}

fn promise(far: &Far, transaction: &str, serial: u64) -> String {
    let part = PartDoc { resource: "net/to-a".to_owned(), rate: Some(1_000), ..PartDoc::default() };
    let ask = AskDoc { parts: vec![part], when: WhenDoc::lasting(600.0), ..AskDoc::default() };
    let doc = PrepareDoc {
        transaction: transaction.to_owned(),
        member: 0,
        coordinator: "main".to_owned(),
        epoch: EPOCH,
        serial,
        floor: 1,
        ask: PrepareAskDoc::Create(ask),
    };
    let made = booked(&mut far.bed.client("b"), Request::BookPrepare(Box::new(doc))).unwrap();
    assert_eq!(made.state, "promised");
    made.handle
}

fn state(far: &Far, handle: &str) -> String {
    let request = Request::BookShow { handle: Some(handle.to_owned()), filter: Default::default() };
    booked(&mut far.bed.client("b"), request).unwrap().state
}

#[test]
fn an_agent_that_hears_no_decision_asks_for_it() {
    let Some(far) = bed() else { return };
    let (one, two) = ("1".repeat(32), "2".repeat(32));
    let body = |transaction: &str, outcome: &str| {
        format!(
            r#"{{"transaction":"{transaction}","coordinator":"main","epoch":{{"number":2,"decisions":0,"nonce":77}},{outcome}}}"#
        )
    };
    let asked = broker(
        &far,
        vec![
            body(&one, r#""outcome":"pending""#),
            // Another transaction's answer is none.
            body(&two, r#""outcome":"aborted""#),
            body(&one, r#""outcome":"committed","commit":1"#),
            body(&two, r#""outcome":"aborted""#),
        ],
    );
    let handle = promise(&far, &one, 1);
    for _ in 0..2 {
        let said = asked.recv_timeout(crate::bed::PATIENCE).unwrap();
        assert_eq!(said, format!("b GET /v1/transactions/{one}?epoch=2 HTTP/1.1"));
        assert_eq!(state(&far, &handle), "promised");
    }
    // An agent that comes back asks at once, and believes what is about its own transaction.
    far.bed.kill("b");
    far.bed.start("b");
    wait_for("it is committed", || (state(&far, &handle) == "active").then_some(()));
    assert!(asked.recv_timeout(crate::bed::PATIENCE).unwrap().contains(&one));
    let other = promise(&far, &two, 2);
    wait_for("it is aborted", || (state(&far, &other) == "cancelled").then_some(()));
    assert!(asked.recv_timeout(crate::bed::PATIENCE).unwrap().contains(&two));
}

#[test]
fn of_brokers_of_one_name_the_one_that_leads_is_asked() {
    let both = format!("addresses = [\"tls://{BROKER}:8444\", \"tls://{BROKER}:8443\"]");
    let Some(far) = bed_with(&both) else { return };
    let (one, two) = ("3".repeat(32), "4".repeat(32));
    let committed = |transaction: &str, number: u64| {
        format!(
            r#"{{"transaction":"{transaction}","coordinator":"main","epoch":{{"number":2,"decisions":0,"nonce":77}},"outcome":"committed","commit":{number}}}"#
        )
    };
    let refused = r#"{"type":"/problems/standby","title":"Standby","status":503,"detail":"b2 leads"}"#.to_owned();
    let standby = broker_at(&far, 8444, "503 Service Unavailable", vec![refused; 4]);
    let leader = broker(&far, vec![committed(&one, 1), committed(&two, 2)]);
    let handle = promise(&far, &one, 1);
    wait_for("it is committed", || (state(&far, &handle) == "active").then_some(()));
    assert!(standby.recv_timeout(crate::bed::PATIENCE).unwrap().contains(&one));
    assert!(leader.recv_timeout(crate::bed::PATIENCE).unwrap().contains(&one));
    // Who answered is asked first the next time.
    let other = promise(&far, &two, 2);
    wait_for("it is committed", || (state(&far, &other) == "active").then_some(()));
    assert!(leader.recv_timeout(crate::bed::PATIENCE).unwrap().contains(&two));
    assert!(standby.try_recv().is_err(), "the standby was not asked again");
}
