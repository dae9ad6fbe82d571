//! Mutual TLS at the broker's door (Y1, Y2, Y6): who comes in, who does not, and who is put out.

use crate::bed::{Bed, Said, request, said};
use crate::stub::Stub;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use terms::Span;
use trust::{Authority, Files, Now, Request, Role, Speaks};

fn now() -> Now {
    let clock = linux::clock::Clock::start();
    Arc::new(move || clock.now())
}

fn files(dir: &Path, who: &str) -> Files {
    let dir = dir.join("trust");
    Files {
        ca: dir.join("ca.pem"),
        certificate: dir.join(format!("{who}.pem")),
        key: dir.join(format!("{who}.key")),
        revoked: Some(dir.join("revoked.pem")),
        partners: Vec::new(),
    }
}

fn bed(name: &str) -> Bed {
    let agent = |dir: &Path| {
        let (authority, _) = Authority::open_or_make(&dir.join("trust"), "test", now()()).unwrap();
        for (role, name) in [
            (Role::Broker, "main"),
            (Role::Requester, "alice"),
            (Role::Requester, "bob"),
            (Role::Operator, "olga"),
            (Role::Auditor, "arno"),
            (Role::Agent, "maui"),
        ] {
            let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            authority
                .issue(
                    &Request { role, name: name.into(), hosts, groups: Vec::new(), life: Span::from_secs(3600) },
                    now()(),
                )
                .unwrap();
        }
        vec![Stub::start(&dir.join("here"), "here", &[("cpu", 8.0)], Vec::new())]
    };
    Bed::with(name, agent, |config| {
        let dir = config.socket.parent().unwrap();
        config.tls = Some(files(dir, "broker-main"));
        config.listen = vec!["127.0.0.1:0".parse().unwrap()];
        config.plain = Vec::new();
        config.limits.head_time = Duration::from_secs(1);
    })
}

fn connect(bed: &Bed, who: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let config = trust::client(&files(&bed.dir, who), now(), Speaks::Http).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), TcpStream::connect(bed.address()).unwrap())
}

fn ask(bed: &Bed, who: &str, method: &str, path: &str, body: Value) -> Said {
    crate::bed::talk(connect(bed, who), &request(method, path, &[], &body))
}

#[test]
fn names_and_roles_come_from_certificates() {
    let bed = bed("roles");
    let wish = json!({"parts": [{"resource": "cpu", "cores": 1.0}]});
    let made = ask(&bed, "requester-alice", "POST", "/v1/reservations", wish.clone()).ok(201);
    assert_eq!(made["owner"], "alice");
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    ask(&bed, "requester-bob", "GET", &at, Value::Null).problem(404);
    assert_eq!(ask(&bed, "auditor-arno", "GET", &at, Value::Null).ok(200)["owner"], "alice");
    assert_eq!(ask(&bed, "operator-olga", "DELETE", &at, Value::Null).ok(200)["state"], "cancelled");
    // Those who serve do not ask.
    for who in ["agent-maui", "broker-main"] {
        ask(&bed, who, "GET", "/v1/resources", Value::Null).problem(403);
        ask(&bed, who, "POST", "/v1/reservations", wish.clone()).problem(403);
    }
    let told = bed.agents[0].told();
    assert!(
        told.iter().all(|line| ["alice ", "bob ", "olga ", "arno ", "peer ", "broker "]
            .iter()
            .any(|who| line.starts_with(who))),
        "{told:?}"
    );
}

#[test]
fn whoever_shows_nothing_or_the_wrong_thing_gets_nothing() {
    let bed = bed("wrong");
    let stranger = bed.dir.join("stranger");
    let (authority, _) = Authority::open_or_make(&stranger.join("trust"), "other", now()()).unwrap();
    authority
        .issue(
            &Request {
                role: Role::Operator,
                name: "olga".into(),
                hosts: Vec::new(),
                groups: Vec::new(),
                life: Span::from_secs(3600),
            },
            now()(),
        )
        .unwrap();
    std::fs::copy(bed.dir.join("trust/ca.pem"), stranger.join("trust/ca.pem")).unwrap();
    let config =
        trust::client(&Files { revoked: None, ..files(&stranger, "operator-olga") }, now(), Speaks::Http).unwrap();
    let mut none = (*config).clone();
    none.client_auth_cert_resolver = Arc::new(Nothing);
    for config in [config, Arc::new(none)] {
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream =
            StreamOwned::new(ClientConnection::new(config, name).unwrap(), TcpStream::connect(bed.address()).unwrap());
        let _ = stream.write_all(&request("GET", "/v1/resources", &[], &Value::Null));
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        assert!(all.is_empty(), "{}", String::from_utf8_lossy(&all));
    }
    // Plain HTTP at the TLS door.
    let mut plain = TcpStream::connect(bed.address()).unwrap();
    plain.write_all(&request("GET", "/v1/resources", &[], &Value::Null)).unwrap();
    let mut all = Vec::new();
    let _ = plain.read_to_end(&mut all);
    assert!(!all.starts_with(b"HTTP"));
    assert!(bed.agents[0].told().iter().all(|line| line.starts_with("broker ") || line.starts_with("peer ")));
}

#[derive(Debug)]
struct Nothing;

impl rustls::client::ResolvesClientCert for Nothing {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }
    fn has_certs(&self) -> bool {
        false
    }
}

#[test]
fn a_revocation_holds_on_open_connections_and_streams() {
    let bed = bed("revoked");
    let mut open = connect(&bed, "requester-bob");
    open.write_all(b"GET /v1/resources HTTP/1.1\r\nHost: b\r\n\r\n").unwrap();
    let mut part = [0; 4096];
    let read = open.read(&mut part).unwrap();
    assert!(part[..read].starts_with(b"HTTP/1.1 200"));
    let mut stream = connect(&bed, "requester-bob");
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: b\r\n\r\n").unwrap();
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("event: begins") {
        let read = stream.read(&mut part).unwrap();
        text.extend_from_slice(&part[..read]);
    }

    Authority::open(&bed.dir.join("trust")).unwrap().revoke(Role::Requester, "bob", now()()).unwrap();
    open.write_all(&request("GET", "/v1/resources", &[], &Value::Null)).unwrap();
    let mut all = Vec::new();
    let _ = open.read_to_end(&mut all);
    let problem = said(&all).problem(401);
    assert!(problem["detail"].as_str().unwrap().contains("revoked"), "{problem}");
    // The next thing that happens to something of his, he does not hear; the stream ends.
    ask(&bed, "operator-olga", "POST", "/v1/reservations", json!({"parts": [{"resource": "cpu", "cores": 1.0}]}))
        .ok(201);
    bed.agents[0].book.lock().unwrap().rows[0].owner = "bob".into();
    let listed = ask(&bed, "operator-olga", "GET", "/v1/reservations", Value::Null).ok(200);
    let id = listed["reservations"][0]["id"].as_str().unwrap();
    ask(&bed, "operator-olga", "DELETE", &format!("/v1/reservations/{id}"), Value::Null).ok(200);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("cancelled"), "{}", String::from_utf8_lossy(&rest));
    let mut again = connect(&bed, "requester-bob");
    let _ = again.write_all(&request("GET", "/v1/resources", &[], &Value::Null));
    let mut all = Vec::new();
    let _ = again.read_to_end(&mut all);
    assert!(all.is_empty(), "and nobody lets him in again");
}

#[test]
fn a_hello_in_pieces_cut_off_or_never_sent() {
    let bed = bed("hello");
    // Byte by byte: it is a hello all the same.
    let config = trust::client(&files(&bed.dir, "requester-alice"), now(), Speaks::Http).unwrap();
    let mut client = ClientConnection::new(config.clone(), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let mut stream = TcpStream::connect(bed.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in &hello {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut stream = StreamOwned::new(client, stream);
    stream.write_all(&request("GET", "/v1/resources", &[], &Value::Null)).unwrap();
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    said(&all).ok(200);
    // Cut off after the hello, or in the middle of it, or a close_notify at once.
    for piece in [&hello[..], &hello[..20], &[0x15, 3, 3, 0, 2, 1, 0]] {
        let mut stream = TcpStream::connect(bed.address()).unwrap();
        stream.write_all(piece).unwrap();
        drop(stream);
    }
    // Never finished: closed after its time.
    let mut slow = TcpStream::connect(bed.address()).unwrap();
    slow.write_all(&hello[..20]).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert!(matches!(slow.read(&mut [0; 100]), Ok(0)), "a handshake has a second here");
    ask(&bed, "requester-alice", "GET", "/v1/resources", Value::Null).ok(200);
}
