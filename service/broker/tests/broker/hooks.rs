//! Webhooks: allowed targets only, signed, in order, tried again, and kept over a restart.

use crate::bed::Bed;
use crate::stub::Stub;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Deliveries: signature and body.
type Came = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A receiver that answers with each of these, then 204, and keeps what came: signature and body.
struct Receiver {
    port: u16,
    came: Came,
}

impl Receiver {
    fn start(answers: &[u16]) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let came = Came::default();
        let (kept, answers) = (came.clone(), answers.to_vec());
        std::thread::spawn(move || {
            let mut answers = answers.into_iter();
            for mut stream in listener.incoming().flatten() {
                let mut all = Vec::new();
                let mut part = [0; 65_536];
                let (head, body) = loop {
                    let read = stream.read(&mut part).unwrap_or(0);
                    all.extend_from_slice(&part[..read]);
                    let Some(end) = all.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
                    let head = String::from_utf8_lossy(&all[..end]).to_lowercase();
                    let field = |name: &str| {
                        head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or("").to_owned()
                    };
                    let length: usize = field("content-length:").parse().unwrap();
                    if all.len() >= end + 4 + length {
                        break (field("sluice-signature:"), all[end + 4..].to_vec());
                    }
                };
                let status = answers.next().unwrap_or(204);
                kept.lock().unwrap().push((head, body));
                let _ = stream.write_all(
                    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nLocation: http://127.0.0.1:1/\r\n\r\n")
                        .as_bytes(),
                );
            }
        });
        Receiver { port, came }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks/a", self.port)
    }

    /// The deliveries, once there are so many.
    fn wait(&self, count: usize) -> Vec<(String, Vec<u8>)> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            let came = self.came.lock().unwrap().clone();
            if came.len() >= count {
                return came;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} deliveries of {count}", self.came.lock().unwrap().len());
    }
}

fn bed(name: &str, receiver: &Receiver) -> Bed {
    let allowed = format!("http://127.0.0.1:{}/hooks/", receiver.port);
    let agent = |dir: &std::path::Path| vec![Stub::start(&dir.join("here"), "here", &[("cpu", 8.0)], Vec::new())];
    Bed::with(name, agent, |config| config.hooks = vec![allowed.clone()])
}

fn reserve(bed: &Bed) -> String {
    let wish = json!({"end": "forever", "parts": [{"resource": "cpu", "cores": 0.1}]});
    bed.alice("POST", "/v1/reservations", wish).ok(201)["id"].as_str().unwrap().to_owned()
}

/// The place is known: from now on nothing is missed.
fn begun(bed: &Bed) {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(5) {
        if bed.alice("GET", "/v1/webhooks", Value::Null).ok(200)["webhooks"][0]["delivered"] != "" {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the webhook does not begin");
}

fn events(delivery: &[u8]) -> Vec<(String, String)> {
    let body: Value = serde_json::from_slice(delivery).unwrap();
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    body["events"].as_array().unwrap().iter().map(|event| (text(event, "reservation"), text(event, "event"))).collect()
}

#[test]
fn signed_in_order_and_tried_again() {
    let receiver = Receiver::start(&[500, 302]);
    let bed = bed("hook", &receiver);
    let secret = "0123456789abcdef0123";
    let made = bed.alice("POST", "/v1/webhooks", json!({"url": receiver.url(), "secret": secret})).ok(201);
    assert_eq!(made["secret"], secret);
    begun(&bed);
    let first = reserve(&bed);
    let came = receiver.wait(3);
    assert_eq!(
        events(&came[2].1),
        [(first.clone(), "created".into())],
        "refused twice, then taken; a redirection is not followed"
    );
    assert_eq!(events(&came[0].1), events(&came[2].1));
    let (stamp, hex) = came[2].0.split_once(",v1=").unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(stamp.strip_prefix("t=").unwrap().as_bytes());
    mac.update(b".");
    mac.update(&came[2].1);
    let expected: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);
    let shown = bed.alice("GET", "/v1/webhooks", Value::Null).ok(200)["webhooks"][0].clone();
    assert_eq!(
        (&shown["secret"], &shown["delivered"], &shown["failures"]),
        (&Value::Null, &json!("here:1"), &json!(0)),
        "the secret is shown once"
    );
}

#[test]
fn kept_over_a_restart_and_nothing_is_missed() {
    let receiver = Receiver::start(&[]);
    let mut bed = bed("kept", &receiver);
    bed.alice("POST", "/v1/webhooks", json!({"url": receiver.url()})).ok(201);
    begun(&bed);
    let first = reserve(&bed);
    receiver.wait(1);
    begun(&bed);
    std::thread::sleep(Duration::from_millis(50));
    bed.stop();
    // Something happens while no broker runs.
    bed.runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let handle = bed.agents[0].book.lock().unwrap().rows[0].handle.clone();
    cancel_at_the_agent(&bed.agents[0], &handle);
    bed.start();
    let came = receiver.wait(2);
    assert_eq!(events(&came.last().unwrap().1), [(first, "cancelled".to_owned())]);
}

fn cancel_at_the_agent(agent: &Stub, handle: &str) {
    let mut client = rpc::client::Client::connect(&agent.socket).unwrap();
    client.call(documents::agent::Request::BookCancel { handle: handle.to_owned() }).unwrap();
}

#[test]
fn who_may_have_which() {
    let receiver = Receiver::start(&[]);
    let bed = bed("may", &receiver);
    for (url, status) in [
        ("http://127.0.0.1:1/hooks/", 403),
        ("https://example.org/hooks/a", 403),
        (&format!("http://127.0.0.1:{}/other/", receiver.port), 403),
        (&format!("http://127.0.0.1:{}/hooks/../other", receiver.port), 422),
        (&format!("http://127.0.0.1:{}@example.org/hooks/", receiver.port), 422),
        ("http://169.254.169.254/latest/", 422),
        ("file:///etc/passwd", 422),
    ] {
        bed.alice("POST", "/v1/webhooks", json!({"url": url})).problem(status);
    }
    bed.alice("POST", "/v1/webhooks", json!({"url": receiver.url(), "secret": "short"})).problem(422);
    bed.alice("POST", "/v1/webhooks", json!({"url": receiver.url(), "reservation": "0".repeat(26)})).problem(404);
    let hers = bed.alice("POST", "/v1/webhooks", json!({"url": receiver.url()})).ok(201);
    let roots = bed.root("POST", "/v1/webhooks", json!({"url": receiver.url()})).ok(201);
    assert_eq!(bed.alice("GET", "/v1/webhooks", Value::Null).ok(200)["webhooks"].as_array().unwrap().len(), 1);
    assert_eq!(bed.root("GET", "/v1/webhooks", Value::Null).ok(200)["webhooks"].as_array().unwrap().len(), 2);
    let foreign = bed.alice("DELETE", &format!("/v1/webhooks/{}", roots["id"].as_str().unwrap()), Value::Null);
    let unknown = bed.alice("DELETE", "/v1/webhooks/nothing", Value::Null);
    assert_eq!((foreign.status, &foreign.body), (404, &unknown.body));
    let at = format!("/v1/webhooks/{}", hers["id"].as_str().unwrap());
    assert_eq!(bed.alice("DELETE", &at, Value::Null).status, 204);
    for _ in 0..32 {
        bed.alice("POST", "/v1/webhooks", json!({"url": receiver.url()})).ok(201);
    }
    bed.alice("POST", "/v1/webhooks", json!({"url": receiver.url()})).problem(429);
}

/// What a power loss may leave of the file, empty or half of it, keeps no broker from starting; it is kept for people.
#[test]
fn a_torn_file_of_webhooks_keeps_no_broker_from_starting() {
    let receiver = Receiver::start(&[]);
    let mut bed = bed("hooktorn", &receiver);
    let state = bed.config.state.clone();
    let hooks = |bed: &Bed| bed.alice("GET", "/v1/webhooks", Value::Null).ok(200)["webhooks"].as_array().unwrap().len();
    for (left, aside) in [(0, "webhooks.bad"), (40, "webhooks.bad-1")] {
        bed.alice("POST", "/v1/webhooks", json!({"url": receiver.url()})).ok(201);
        bed.stop();
        bed.start();
        assert_eq!(hooks(&bed), 1, "kept over a restart");
        bed.stop();
        let whole = std::fs::read(state.join("webhooks.json")).unwrap();
        std::fs::write(state.join("webhooks.json"), &whole[..left]).unwrap();
        bed.start();
        assert_eq!(hooks(&bed), 0);
        assert_eq!(std::fs::read(state.join(aside)).unwrap(), &whole[..left]);
    }
}

#[test]
fn only_the_events_that_were_asked_for() {
    let receiver = Receiver::start(&[]);
    let bed = bed("words", &receiver);
    let wish = json!({"url": receiver.url(), "events": ["cancelled"]});
    let made = bed.alice("POST", "/v1/webhooks", wish).ok(201);
    assert_eq!(made["events"], json!(["cancelled"]));
    begun(&bed);
    let first = reserve(&bed);
    bed.alice("DELETE", &format!("/v1/reservations/{first}"), Value::Null).ok(200);
    let came = receiver.wait(1);
    assert_eq!(events(&came[0].1), [(first, "cancelled".into())]);
    let wrong = json!({"url": receiver.url(), "events": ["ends_sometime"]});
    bed.alice("POST", "/v1/webhooks", wrong).problem(422);
    // Without [mail] in its file a broker writes to nobody.
    let mail = json!({"url": "mailto:alice@example.org", "events": ["ends_soon"]});
    bed.alice("POST", "/v1/webhooks", mail).problem(403);
    bed.alice("POST", "/v1/webhooks", json!({"url": "mailto:-f@example.org"})).problem(422);
}
