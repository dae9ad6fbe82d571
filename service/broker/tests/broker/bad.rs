//! Bad input (Y2 to Y5, Y8): refused with the right status, in bounded time and memory, and nothing changes.

use crate::bed::{Bed, request, said, talk};
use crate::stub::Stub;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn raw(bed: &Bed, text: &[u8]) -> crate::bed::Said {
    talk(TcpStream::connect(bed.address()).unwrap(), text)
}

fn post(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /v1/reservations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn bodies_that_are_no_request() {
    let bed = Bed::one("bodies");
    let deep = "{\"parts\":".repeat(10_000);
    let with =
        |rate: &str| format!("{{\"end\":\"forever\",\"parts\":[{{\"resource\":\"net/eth0\",\"rate\":{rate}}}]}}");
    let malformed: [(String, &str); 14] = [
        (String::new(), "EOF"),
        ("[]".into(), "begins with {"),
        (deep, "deeper than 32"),
        ("{\"parts\":[],\"parts\":[]}".into(), "is there twice"),
        ("{\"parts\":[{\"resource\":\"cpu\",\"resource\":\"cpu\"}]}".into(), "is there twice"),
        ("{\"nonsense\":1}".into(), "unknown field"),
        (with("-1"), "invalid value"),
        (with("1.5"), "invalid type"),
        (with("NaN"), "expected"),
        (with("18446744073709551616"), "too large to be exact"),
        (with("1e30"), "too large to be exact"),
        ("{\"label\":\"\\ud800\"}".into(), "hex escape"),
        ("{\"start\":\"yesterday\"}".into(), "is no time"),
        ("{\"path\":{\"from\":\"10.0.0.256\",\"to\":\"x\"}}".into(), "IP address"),
    ];
    for (body, why) in malformed {
        let problem = raw(&bed, &post(body.as_bytes())).problem(400);
        assert!(problem["detail"].as_str().unwrap().contains(why), "{body:.60}: {problem}");
    }
    // 2^53 + 1 is not rounded on its way to the agent, and comes back in the refusal's words.
    raw(&bed, &post(with("9007199254740993").as_bytes())).problem(409);
    raw(&bed, &post(with("18446744073709551615").as_bytes())).problem(409);
    assert_eq!(bed.agents[0].states(), Vec::<String>::new());
    let text = "POST /v1/reservations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\n{}";
    raw(&bed, text.as_bytes()).problem(415);
}

#[test]
fn a_body_of_a_gigabyte_said_sent_or_chunked() {
    let bed = Bed::one("giga");
    let head = "POST /v1/enquiries HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let mut stream = TcpStream::connect(bed.address()).unwrap();
    stream.write_all(format!("{head}Content-Length: 1073741824\r\n\r\n").as_bytes()).unwrap();
    let mut sent = 0;
    let block = [b' '; 65_536];
    while sent < 1 << 30 && stream.write_all(&block).is_ok() {
        sent += block.len();
    }
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    let mut stream = TcpStream::connect(bed.address()).unwrap();
    stream.write_all(format!("{head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut all = Vec::new();
    for _ in 0..5 {
        let _ = stream
            .write_all(b"10000\r\n")
            .and_then(|()| stream.write_all(&block))
            .and_then(|()| stream.write_all(b"\r\n"));
    }
    let _ = stream.read_to_end(&mut all);
    assert_eq!(said(&all).problem(413)["type"], "/problems/too_large");
    bed.alice("GET", "/v1/resources", Value::Null).ok(200);
}

#[test]
fn methods_addresses_and_heads_that_are_none() {
    let bed = Bed::one("heads");
    bed.alice("PUT", "/v1/reservations", json!({})).problem(405);
    bed.alice("DELETE", "/v1/resources", Value::Null).problem(405);
    for path in ["/", "/v1", "/v2/reservations", "/v1/reservations/", "/etc/passwd"] {
        bed.alice("GET", path, Value::Null).problem(404);
    }
    let fields: String = (0..100).map(|n| format!("X-{n}: y\r\n")).collect();
    assert_eq!(
        raw(&bed, format!("GET /v1/resources HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes()).status,
        431
    );
    let long = "a".repeat(100_000);
    assert!(matches!(
        raw(&bed, format!("GET /v1/resources HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n").as_bytes()).status,
        400 | 431
    ));
    assert!(matches!(
        raw(&bed, format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).status,
        400 | 404 | 414 | 431
    ));
    // HTTP/2 is not spoken: its preface is no request.
    let mut h2 = TcpStream::connect(bed.address()).unwrap();
    h2.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    assert!(closed_within(&mut h2, Duration::from_secs(5)));
    for query in ["?label=a&label=b", "?nonsense=1", "?label=%zz", "?label=%ff", "?from=2026-01-01T00:00:00Z"] {
        bed.alice("GET", &format!("/v1/reservations{query}"), Value::Null).problem(400);
    }
}

#[test]
fn words_of_users_stay_words() {
    let bed = Bed::one("words");
    let label = "a\nb\u{1b}[31m\u{202e}<script>";
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 0.1}], "label": label});
    let said = bed.alice("POST", "/v1/reservations", wish);
    assert!(!String::from_utf8_lossy(&said.body).contains(['\n', '\u{1b}']), "escaped, in one line");
    assert_eq!(said.ok(201)["label"], label);
    let mut stream = crate::bed::Stream::open(&bed, "/v1/events?after=here:0", None);
    assert_eq!(stream.next_event().1, "created");
}

/// A broker with little patience.
fn hasty(name: &str) -> Bed {
    let agent = |dir: &std::path::Path| vec![Stub::start(&dir.join("here"), "here", &[("cpu", 2.0)], Vec::new())];
    Bed::with(name, agent, |config| {
        config.limits.head_time = Duration::from_millis(300);
        config.limits.connections = 40;
        config.limits.connections_of_one = 20;
        config.limits.unread_time = Duration::from_millis(500);
    })
}

fn closed_within(stream: &mut TcpStream, time: Duration) -> bool {
    let begun = Instant::now();
    stream.set_read_timeout(Some(time)).unwrap();
    let mut byte = [0; 4096];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                return false;
            }
            Err(_) => return true,
        }
        if begun.elapsed() > time {
            return false;
        }
    }
}

#[test]
fn slow_heads_and_bodies_end() {
    let bed = hasty("slow");
    for start in ["", "GET /v1/res", "GET /v1/resources HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        let mut stream = TcpStream::connect(bed.address()).unwrap();
        stream.write_all(start.as_bytes()).unwrap();
        assert!(closed_within(&mut stream, Duration::from_secs(5)), "{start:?}");
    }
    // One byte now and then is no progress either.
    let mut drip = TcpStream::connect(bed.address()).unwrap();
    let begun = Instant::now();
    while drip.write_all(b"G").is_ok() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "a head that drips is cut off");
    let head = "POST /v1/enquiries HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    assert_eq!(raw(&bed, head.as_bytes()).problem(408)["type"], "/problems/too_slow");
}

#[test]
fn too_many_connections_leave_those_who_are_there_alone() {
    let bed = hasty("many");
    let mut keep = TcpStream::connect(bed.address()).unwrap();
    keep.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut start = [0; 12];
    keep.read_exact(&mut start).unwrap();
    let mut crowd: Vec<TcpStream> = (0..400).filter_map(|_| TcpStream::connect(bed.address()).ok()).collect();
    // Of one address 20 may be here; root on the Unix socket is another matter.
    bed.root("GET", "/v1/resources", Value::Null).ok(200);
    let closed = crowd
        .iter_mut()
        .skip(100)
        .take(5)
        .filter_map(|stream| closed_within(stream, Duration::from_secs(2)).then_some(()))
        .count();
    assert_eq!(closed, 5);
    drop(crowd);
    let again = Instant::now();
    while again.elapsed() < Duration::from_secs(5) {
        let mut stream = TcpStream::connect(bed.address()).unwrap();
        let _ = stream.write_all(&request("GET", "/v1/resources", &[], &Value::Null));
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        if all.starts_with(b"HTTP/1.1 200") {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the seats are not given back");
}

#[test]
fn a_client_that_does_not_read_is_closed() {
    let bed = hasty("unread");
    {
        let mut book = bed.agents[0].book.lock().unwrap();
        for n in 0..3_000 {
            book.room.insert(format!("licence/{n}-{}", "x".repeat(100)), 1.0);
        }
    }
    let stream = TcpStream::connect(bed.address()).unwrap();
    let mut writer = stream.try_clone().unwrap();
    // Tens of megabytes of answers, none of them read.
    for _ in 0..80 {
        let _ = writer.write_all(b"GET /v1/resources HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(100));
        if writer.write_all(b"GET /v1/resources HTTP/1.1\r\nHost: localhost\r\n\r\n").is_err() {
            return;
        }
    }
    panic!("a client that reads nothing was kept for 30 s");
}

/// A page from elsewhere in a browser of this machine: by a name of its own (DNS rebinding), or across origins.
#[test]
fn the_loopback_is_not_for_pages_from_elsewhere() {
    let bed = Bed::one("rebinding");
    let port = bed.address().port();
    let post = |host: &str, fields: &str| {
        let body = r#"{"end": "forever", "parts": [{"resource": "cpu", "cores": 0.1}]}"#;
        let text = format!(
            "POST /v1/reservations HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n{fields}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        raw(&bed, text.as_bytes())
    };
    post(&format!("evil.example:{port}"), "").problem(421);
    post(&format!("localhost:{}", port ^ 1), "").problem(421);
    post(&format!("localhost:{port}"), "Origin: http://evil.example\r\n").problem(403);
    post(&format!("localhost:{port}"), "Origin: null\r\n").problem(403);
    assert!(bed.agents[0].states().is_empty(), "nothing was reserved");
    post(&format!("localhost:{port}"), &format!("Origin: http://localhost:{port}\r\n")).ok(201);
    post(&format!("127.0.0.1:{port}"), "").ok(201);
}
