//! A transaction over two real agents by a real broker, stopped at each of its steps: the broker is killed (kill -9), an agent is killed
//! after its promise, the net between them is cut. What was decided is done, the rest leaves nothing, and a request that is made again with
//! the same key ends with one reservation.
//!
//! A relay before each agent's socket reads what the broker says and holds it at a step, so that no test depends on speed.

use super::Running;
use super::path::Site;
use crate::bed::{Bed, SLUICE, wait_at_most, wait_for};
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::BookFilter;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The agents on the way from 10.0.0.1 to 10.0.2.2: forward packets leave by their interfaces.
pub(super) const WAY: [&str; 2] = ["yosemite", "maui"];
pub(super) const WHOLE: [&str; 2] = ["yosemite active", "maui active"];

/// A step at which a relay holds what is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The broker's question for a promise.
    Prepare,
    /// The agent's answer to it.
    Promise,
    /// The broker's decision.
    Decide,
    /// The agent's answer to it.
    Done,
}

#[derive(Default)]
struct Held {
    /// The step to hold at.
    at: Option<Step>,
    /// Something is held.
    waits: bool,
    /// Nothing comes through, and connections end.
    cut: bool,
    streams: Vec<UnixStream>,
}

/// A relay before the socket of one agent.
pub(super) struct Relay {
    held: Arc<(Mutex<Held>, Condvar)>,
}

impl Relay {
    pub(super) fn lay(bed: &Bed, node: &str) -> Relay {
        let (near, far) = (socket(bed, node), bed.home(node).join("agent.sock"));
        let listener = UnixListener::bind(&near).unwrap();
        let held: Arc<(Mutex<Held>, Condvar)> = Arc::default();
        let all = held.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = UnixStream::connect(&far) else { continue };
                {
                    let mut now = all.0.lock().unwrap();
                    if now.cut {
                        continue;
                    }
                    now.streams.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                }
                let asked = Arc::new(Mutex::new(String::new()));
                let (near_again, far_again) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let (held, said) = (all.clone(), asked.clone());
                std::thread::spawn(move || carry(near, far, &held, &said, true));
                let (held, said) = (all.clone(), asked);
                std::thread::spawn(move || carry(far_again, near_again, &held, &said, false));
            }
        });
        Relay { held }
    }

    pub(super) fn hold(&self, at: Step) {
        self.held.0.lock().unwrap().at = Some(at);
    }

    /// True if something is held.
    pub(super) fn waits(&self) -> bool {
        self.held.0.lock().unwrap().waits
    }

    /// Lets everything through again. What was held goes on.
    pub(super) fn open(&self) {
        let mut held = self.held.0.lock().unwrap();
        (held.at, held.waits, held.cut) = (None, false, false);
        self.held.1.notify_all();
    }

    /// Cuts all connections, and what was held is lost.
    pub(super) fn cut(&self) {
        let mut held = self.held.0.lock().unwrap();
        held.cut = true;
        for stream in held.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.held.1.notify_all();
    }
}

/// Carries lines in one direction; `asks`: from the broker.
fn carry(from: UnixStream, mut to: UnixStream, held: &(Mutex<Held>, Condvar), asked: &Mutex<String>, asks: bool) {
    for line in BufReader::new(from).lines() {
        let Ok(line) = line else { break };
        let call = if asks {
            let call: Value = serde_json::from_str(&line).unwrap_or_default();
            let name = call["call"].as_str().unwrap_or_default().to_owned();
            asked.lock().unwrap().clone_from(&name);
            name
        } else {
            asked.lock().unwrap().clone()
        };
        let step = match (call.as_str(), asks) {
            ("book_prepare", true) => Some(Step::Prepare),
            ("book_prepare", false) => Some(Step::Promise),
            ("book_decide", true) => Some(Step::Decide),
            ("book_decide", false) => Some(Step::Done),
            _ => None,
        };
        let mut now = held.0.lock().unwrap();
        while step.is_some() && now.at == step && !now.cut {
            now.waits = true;
            now = held.1.wait(now).unwrap();
        }
        let cut = now.cut;
        drop(now);
        if cut || writeln!(to, "{line}").is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// The relay's socket before an agent.
fn socket(bed: &Bed, node: &str) -> std::path::PathBuf {
    bed.place.join(format!("{node}.sock"))
}

/// What lives at the agents, as `NODE STATE`, in order.
pub(super) fn states(bed: &Bed) -> Vec<String> {
    let mut all = Vec::new();
    for node in WAY {
        let show = Request::BookShow { handle: None, filter: BookFilter::default() };
        let Answer::Book(BookAnswer::Reservations { rows, .. }) = bed.client(node).call(show).unwrap() else {
            panic!("no list")
        };
        all.extend(rows.iter().map(|row| format!("{node} {}", row.state)));
    }
    all
}

/// A broker of this machine, over the relays.
pub(super) fn broker(bed: &Bed, log: &str) -> Running {
    broker_with(bed, "broker", log, &[])
}

/// A broker whose socket and state have this name, with more arguments.
pub(super) fn broker_with(bed: &Bed, name: &str, log: &str, more: &[&str]) -> Running {
    let mut command = Command::new(SLUICE);
    let at = bed.place.join(format!("{name}.sock"));
    command.arg("broker").arg("--socket").arg(&at).arg("--state").arg(bed.place.join(name)).args(more);
    for node in WAY {
        command.arg("--agent").arg(format!("{node}={}", socket(bed, node).display()));
    }
    let running = Running::start(&mut command, &bed.place.join(log));
    wait_for("the broker answers", || post(&at, "GET", "/v1/resources", "x", &Value::Null));
    running
}

/// The status and body of an answer; `None`: the broker died over it.
pub(super) fn post(socket: &Path, method: &str, path: &str, key: &str, body: &Value) -> Option<(u16, Value)> {
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

pub(super) fn wish() -> Value {
    json!({"path": {"from": "10.0.0.1", "to": "10.0.2.2", "forward": 1_000_000}, "duration_s": 600})
}

/// Asks again with the same key: one whole reservation, which is given back then.
pub(super) fn again(bed: &Bed, key: &str) {
    let at = bed.place.join("broker.sock");
    let whole = wait_at_most(Duration::from_secs(40), "whole", || {
        let (status, doc) = post(&at, "POST", "/v1/reservations", key, &wish())?;
        (status == 201 && doc["state"] == "active").then_some(doc)
    });
    assert_eq!(states(bed), WHOLE, "{key}: {whole}");
    let name = format!("/v1/reservations/{}", whole["id"].as_str().unwrap());
    assert_eq!(post(&at, "DELETE", &name, "x", &Value::Null).unwrap().0, 200, "{key}");
    assert_eq!(states(bed), Vec::<String>::new(), "{key}");
}

/// Reserves; at the steps where the relays hold it, does `then`. Returns what the caller heard.
fn stopped(
    bed: &Bed,
    relays: &[Relay; 2],
    at: [Option<Step>; 2],
    key: &str,
    then: impl FnOnce(),
) -> Option<(u16, Value)> {
    stopped_call(bed, relays, at, ("POST", "/v1/reservations", key, &wish()), then)
}

/// The same with any call of method, path, key and body.
pub(super) fn stopped_call(
    bed: &Bed,
    relays: &[Relay; 2],
    at: [Option<Step>; 2],
    (method, path, key, body): (&str, &str, &str, &Value),
    then: impl FnOnce(),
) -> Option<(u16, Value)> {
    let socket = bed.place.join("broker.sock");
    for (relay, at) in relays.iter().zip(at) {
        at.into_iter().for_each(|at| relay.hold(at));
    }
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| post(&socket, method, path, key, body));
        let reached = || relays.iter().zip(at).all(|(relay, at)| at.is_none() || relay.waits());
        wait_for(&format!("{key}: {at:?} is reached, or answered"), || {
            (reached() || asked.is_finished()).then_some(())
        });
        if !reached() {
            panic!("{key}: {at:?} is not reached: {:?}", asked.join());
        }
        then();
        asked.join().unwrap()
    })
}

pub(super) const NONE: [&str; 0] = [];

/// For each step: where the relays hold, and what the next broker makes of it.
type Steps<const N: usize> = [(&'static str, [Option<Step>; 2], &'static [&'static str]); N];
const STEPS: Steps<6> = [
    ("begun", [Some(Step::Prepare), Some(Step::Prepare)], &NONE),
    ("one-has-promised", [None, Some(Step::Prepare)], &NONE),
    ("both-have-promised", [Some(Step::Promise), Some(Step::Promise)], &NONE),
    ("decided", [Some(Step::Decide), Some(Step::Decide)], &WHOLE),
    ("one-has-booked", [None, Some(Step::Decide)], &WHOLE),
    ("both-have-booked", [Some(Step::Done), Some(Step::Done)], &WHOLE),
];

#[test]
fn a_broker_that_is_killed_at_each_step() {
    let Some(bed) = Bed::up("30s") else { return };
    let relays = WAY.map(|node| Relay::lay(&bed, node));
    for (name, at, expected) in STEPS {
        let first = broker(&bed, &format!("first-{name}.log"));
        let before = states(&bed);
        assert_eq!(before, Vec::<String>::new(), "{name}");
        let said = stopped(&bed, &relays, at, name, || first.kill());
        assert!(said.is_none(), "{name}: {said:?}");
        relays.iter().for_each(Relay::open);
        let next = broker(&bed, &format!("next-{name}.log"));
        // What was on its way to an agent may come later than the next broker.
        wait_for("what was decided is done, the rest is gone", || (states(&bed) == expected).then_some(()));
        again(&bed, name);
        drop(next);
    }
    println!("{{\"steps\":{},\"half\":0}}", STEPS.len());
}

/// The agent that is killed has promised; or has booked and not said so.
#[test]
fn an_agent_that_is_killed_after_its_promise() {
    let Some(bed) = Bed::up("30s") else { return };
    let relays = WAY.map(|node| Relay::lay(&bed, node));
    let _broker = broker(&bed, "broker.log");
    let cases =
        [("before-the-decision", Step::Promise, false), ("decided", Step::Decide, true), ("booked", Step::Done, true)];
    for (name, at, decided) in cases {
        let said = stopped(&bed, &relays, [None, Some(at)], name, || {
            bed.kill("maui");
            relays[1].cut();
        });
        let (status, doc) = said.unwrap();
        match decided {
            true => assert_eq!((status, &doc["state"]), (201, &json!("committing")), "{name}: {doc}"),
            false => assert_eq!(status, 503, "{name}: {doc}"),
        }
        bed.start("maui");
        relays[1].open();
        let expected = if decided { &WHOLE[..] } else { &NONE };
        wait_for("the agent hears what was decided", || (states(&bed) == expected).then_some(()));
        again(&bed, name);
    }
}

/// The net between broker and agent is cut, and heals.
#[test]
fn a_partition() {
    let Some(bed) = Bed::up("30s") else { return };
    let relays = WAY.map(|node| Relay::lay(&bed, node));
    let _broker = broker(&bed, "broker.log");
    let at = bed.place.join("broker.sock");
    for (name, step) in
        [("asked", Step::Prepare), ("promised", Step::Promise), ("decided", Step::Decide), ("booked", Step::Done)]
    {
        let decided = matches!(step, Step::Decide | Step::Done);
        let said = stopped(&bed, &relays, [None, Some(step)], name, || relays[1].cut());
        let (status, doc) = said.unwrap();
        assert_eq!(status, if decided { 201 } else { 503 }, "{name}: {doc}");
        if decided {
            assert_eq!(doc["state"], "committing", "{name}");
            let (_, rows) = post(&at, "GET", "/v1/reservations", "x", &Value::Null).unwrap();
            assert_eq!(rows["reservations"][0]["state"], "committing", "{name}: {rows}");
        }
        relays[1].open();
        let expected = if decided { &WHOLE[..] } else { &NONE };
        wait_for("the net heals", || (states(&bed) == expected).then_some(()));
        again(&bed, name);
    }
}

/// Over mutual TLS the coordinator is whom its certificate names, and its agents may ask it what was decided.
#[test]
fn who_may_ask_for_the_outcome_of_a_transaction() {
    let Some(site) = Site::up() else { return };
    let (status, made) = site.ask("requester-alice", "POST", "/v1/reservations", &wish());
    assert_eq!((status, &made["state"]), (201, &json!("active")), "{made}");
    let nothing = "/v1/transactions/00112233445566778899aabbccddeeff?epoch=1";
    // A broker may ask, and hears of nothing that it has no part in.
    for (who, expected) in [("agent-maui", 200), ("requester-alice", 403), ("broker-main", 404)] {
        let (status, doc) = site.ask(who, "GET", nothing, &Value::Null);
        assert_eq!(status, expected, "{who}: {doc}");
        if status == 200 {
            assert_eq!((&doc["outcome"], &doc["coordinator"]), (&json!("aborted"), &json!("main")), "{doc}");
        }
    }
    assert_eq!(site.ask("agent-maui", "GET", "/v1/transactions/xyz?epoch=1", &Value::Null).0, 404);
    assert_eq!(site.ask("agent-maui", "GET", "/v1/transactions/00112233445566778899aabbccddeeff", &Value::Null).0, 400);
}
