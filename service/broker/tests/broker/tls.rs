//! Mutual TLS at the broker's door (Y1, Y2, Y6): who comes in, who does not, and who is put out.

use crate::bed::{Bed, Said, request, said};
use crate::stub::Stub;
use broker_service::web::WebSettings;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use terms::Span;
use trust::{Authority, CertificateRequest, CertificateRole, Domain, Files, Now, Speaks};

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
        issue_all(dir);
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

/// An authority in `dir/trust`, and somebody of each role.
fn issue_all(dir: &Path) {
    let (authority, _) = Authority::open_or_make(&dir.join("trust"), "test", now()()).unwrap();
    for (role, name) in [
        (CertificateRole::Broker, "main"),
        (CertificateRole::Requester, "alice"),
        (CertificateRole::Requester, "bob"),
        (CertificateRole::Operator, "olga"),
        (CertificateRole::Auditor, "arno"),
        (CertificateRole::Agent, "maui"),
    ] {
        let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        authority
            .issue(
                &CertificateRequest { role, name: name.into(), hosts, groups: Vec::new(), life: Span::from_secs(3600) },
                now()(),
            )
            .unwrap();
    }
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
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 1.0}]});
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
            &CertificateRequest {
                role: CertificateRole::Operator,
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

    Authority::open(&bed.dir.join("trust")).unwrap().revoke(CertificateRole::Requester, "bob", now()()).unwrap();
    open.write_all(&request("GET", "/v1/resources", &[], &Value::Null)).unwrap();
    let mut all = Vec::new();
    let _ = open.read_to_end(&mut all);
    let problem = said(&all).problem(401);
    assert!(problem["detail"].as_str().unwrap().contains("revoked"), "{problem}");
    // The next thing that happens to something of his, he does not hear; the stream ends.
    ask(
        &bed,
        "operator-olga",
        "POST",
        "/v1/reservations",
        json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 1.0}]}),
    )
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

/// A connection that says nothing, and whether it is still open.
fn silent(bed: &Bed) -> TcpStream {
    let stream = TcpStream::connect(bed.address()).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

fn is_open(stream: &TcpStream) -> bool {
    matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// A bed whose TLS listener has few seats: 6, of which 4 for handshakes, 5 of one source.
fn narrow(name: &str) -> Bed {
    let agent = |dir: &Path| {
        issue_all(dir);
        vec![Stub::start(&dir.join("here"), "here", &[("cpu", 8.0)], Vec::new())]
    };
    Bed::with(name, agent, |config| {
        let dir = config.socket.parent().unwrap();
        config.tls = Some(files(dir, "broker-main"));
        config.listen = vec!["127.0.0.1:0".parse().unwrap()];
        config.plain = Vec::new();
        (config.limits.connections, config.limits.connections_of_one, config.limits.handshakes) = (6, 5, 4);
    })
}

#[test]
fn strangers_at_the_tls_door_keep_nobody_out() {
    let bed = narrow("seats");
    // Far more than there are seats, none of whom says a word.
    let strangers: Vec<TcpStream> = (0..40).map(|_| silent(&bed)).collect();
    let until = Instant::now() + Duration::from_secs(5);
    while strangers.iter().filter(|one| is_open(one)).count() > 4 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(strangers.iter().filter(|one| is_open(one)).count() <= 4, "the oldest made way");
    // The local operator has a door of their own, and whoever has a certificate comes in.
    bed.root("GET", "/v1/resources", Value::Null).ok(200);
    ask(&bed, "requester-alice", "GET", "/v1/resources", Value::Null).ok(200);
}

#[test]
fn one_user_of_the_socket_leaves_the_other_doors_open() {
    let bed = narrow("socket");
    let held: Vec<_> = (0..5).map(|_| std::os::unix::net::UnixStream::connect(&bed.config.socket).unwrap()).collect();
    let until = Instant::now() + Duration::from_secs(5);
    // A sixth of the same user is closed at once.
    loop {
        let mut sixth = std::os::unix::net::UnixStream::connect(&bed.config.socket).unwrap();
        sixth.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        if matches!(sixth.read(&mut [0]), Ok(0)) || Instant::now() > until {
            break;
        }
    }
    assert!(Instant::now() < until, "a sixth is served");
    ask(&bed, "requester-alice", "GET", "/v1/resources", Value::Null).ok(200);
    drop(held);
}

/// F11: one certificate opens all streams and webhooks that it can; the calls of others go on, and their streams too.
#[test]
fn one_requesters_streams_block_nobody() {
    let bed = Bed::with(
        "streams",
        |dir| {
            issue_all(dir);
            vec![Stub::start(&dir.join("here"), "here", &[("cpu", 8.0)], Vec::new())]
        },
        |config| {
            let dir = config.socket.parent().unwrap();
            config.tls = Some(files(dir, "broker-main"));
            config.listen = vec!["127.0.0.1:0".parse().unwrap()];
            config.plain = Vec::new();
            config.hooks = vec!["http://127.0.0.1:9/".to_owned()];
        },
    );
    let open = |who: &str| {
        let mut stream = connect(&bed, who);
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: b\r\n\r\n").unwrap();
        let mut part = [0; 4096];
        let read = stream.read(&mut part).unwrap_or(0);
        (part[..read].starts_with(b"HTTP/1.1 200"), stream)
    };
    let streams: Vec<_> = (0..40).map(|_| open("requester-bob")).filter(|(good, _)| *good).collect();
    assert_eq!(streams.len(), 16, "as many as one caller has");
    let hook = json!({"url": "http://127.0.0.1:9/x"});
    let hooks = (0..40).filter(|_| ask(&bed, "requester-bob", "POST", "/v1/webhooks", hook.clone()).status == 201);
    assert_eq!(hooks.count(), 32);
    let began = Instant::now();
    for _ in 0..20 {
        ask(&bed, "requester-alice", "GET", "/v1/resources", Value::Null).ok(200);
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let (good, mut alice) = open("requester-alice");
    assert!(good, "alice has a stream");
    // All of them hear by one conversation: the agent has no follower for each.
    let followers = || bed.agents[0].followers();
    let until = Instant::now() + Duration::from_secs(60);
    while followers() != ["broker"] && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(followers(), ["broker"]);
    // And each hears what is theirs.
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 0.5}]});
    ask(&bed, "requester-alice", "POST", "/v1/reservations", wish.clone()).ok(201);
    ask(&bed, "requester-bob", "POST", "/v1/reservations", wish).ok(201);
    let hears = |stream: &mut StreamOwned<ClientConnection, TcpStream>| {
        let (mut text, mut part) = (String::new(), [0; 4096]);
        while !text.contains("event: created") {
            let read = stream.read(&mut part).unwrap();
            text.push_str(&String::from_utf8_lossy(&part[..read]));
        }
        text
    };
    assert!(hears(&mut alice).contains("\"owner\":\"alice\""));
    for (_, mut stream) in streams {
        let text = hears(&mut stream);
        assert!(text.contains("\"owner\":\"bob\"") && !text.contains("alice"), "{text}");
    }
}

/// A partner's authority at the broker's door: its people have names of their own, and none of its other roles comes in.
#[test]
fn a_partners_people_are_behind_its_name() {
    let bed = Bed::with(
        "partner",
        |dir| {
            issue_all(dir);
            let (anl, _) = Authority::open_or_make(&dir.join("anl/trust"), "test", now()()).unwrap();
            for (role, name) in [
                (CertificateRole::Requester, "alice"),
                (CertificateRole::Operator, "olga"),
                (CertificateRole::Broker, "main"),
            ] {
                let hosts = vec!["localhost".to_owned()];
                let groups = vec!["physics".to_owned()];
                let life = Span::from_secs(3600);
                anl.issue(&CertificateRequest { role, name: name.into(), hosts, groups, life }, now()()).unwrap();
            }
            vec![Stub::start(&dir.join("here"), "here", &[("cpu", 8.0)], Vec::new())]
        },
        |config| {
            let dir = config.socket.parent().unwrap();
            let anl = dir.join("anl/trust");
            let partner = Domain {
                name: "anl".into(),
                ca: anl.join("ca.pem"),
                revoked: Some(anl.join("revoked.pem")),
                roles: vec![CertificateRole::Requester],
            };
            config.tls = Some(Files { partners: vec![partner], ..files(dir, "broker-main") });
            config.listen = vec!["127.0.0.1:0".parse().unwrap()];
            config.plain = Vec::new();
        },
    );
    let theirs = |who: &str| {
        let anl = bed.dir.join("anl");
        let shown = Files { ca: bed.dir.join("trust/ca.pem"), revoked: None, ..files(&anl, who) };
        let config = trust::client(&shown, now(), Speaks::Http).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(config, name).unwrap(), TcpStream::connect(bed.address()).unwrap())
    };
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 1.0}]});
    let made = crate::bed::talk(theirs("requester-alice"), &request("POST", "/v1/reservations", &[], &wish)).ok(201);
    assert_eq!(made["owner"], "anl/alice");
    assert!(bed.agents[0].book.lock().unwrap().groups.contains(&vec!["anl/physics".to_owned()]));
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    ask(&bed, "requester-alice", "GET", &at, Value::Null).problem(404);
    assert_eq!(ask(&bed, "operator-olga", "GET", &at, Value::Null).ok(200)["owner"], "anl/alice");
    for who in ["operator-olga", "broker-main"] {
        let mut stream = theirs(who);
        let _ = stream.write_all(&request("GET", "/v1/reservations", &[], &Value::Null));
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        assert!(all.is_empty(), "{who}: {}", String::from_utf8_lossy(&all));
    }
}

/// A browser shows no certificate: its session is that of the certificate that took the ticket, and ends with it.
#[test]
fn a_revoked_certificate_ends_its_browsers() {
    let mut bed = bed("browsers");
    bed.stop();
    bed.config.web = Some(WebSettings { tls: true, ..WebSettings::at("127.0.0.1:0".parse().unwrap()) });
    bed.start();
    let web = bed.running.as_ref().unwrap().web().unwrap();
    assert!(web.1, "with TLS");
    let browse = |method: &str, path: &str, cookie: &str, body: &Value| {
        // Nobody is asked for the certificate that this client has.
        let config = trust::client(&files(&bed.dir, "requester-bob"), now(), Speaks::Http).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = StreamOwned::new(ClientConnection::new(config, name).unwrap(), TcpStream::connect(web.0).unwrap());
        let (host, origin) =
            (format!("Host: localhost:{}", web.0.port()), format!("https://localhost:{}", web.0.port()));
        let text = request(method, path, &[("Cookie", cookie), ("Origin", &origin)], body);
        crate::bed::talk(stream, String::from_utf8(text).unwrap().replacen("Host: localhost", &host, 1).as_bytes())
    };
    let link = ask(&bed, "requester-alice", "POST", "/v1/tickets", Value::Null).ok(201);
    let link = link["address"].as_str().unwrap();
    assert!(link.starts_with("https://127.0.0.1:"), "{link}");
    ask(&bed, "agent-maui", "POST", "/v1/tickets", Value::Null).problem(403);
    let ticket = link.split_once("#ticket=").unwrap().1;
    let said = browse("POST", "/session", "", &json!({"ticket": ticket}));
    let cookie = said.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().to_owned();
    assert!(cookie.starts_with("__host-sluice=") && cookie.contains("secure"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().replace("__host-", "__Host-");
    let me = browse("GET", "/v1/me", &cookie, &Value::Null).ok(200);
    assert_eq!((&me["name"], &me["role"]), (&json!("alice"), &json!("owner")));
    let (authority, _) = Authority::open_or_make(&bed.dir.join("trust"), "test", now()()).unwrap();
    authority.revoke(CertificateRole::Requester, "alice", now()()).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while browse("GET", "/v1/me", &cookie, &Value::Null).status != 401 {
        assert!(Instant::now() < until, "the session outlives its certificate");
        std::thread::sleep(Duration::from_millis(50));
    }
}
