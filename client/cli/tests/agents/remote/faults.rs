//! Faults of a transaction over two real agents beside those of `halves`: everybody dies, somebody stands still, two brokers want
//! the same, an agent comes back from a backup, a broker comes back never or too late, an agent says nothing.

use super::halves::{NONE, Relay, Step, WAY, WHOLE, again, broker, broker_with, post, states, stopped_call, wish};
use crate::bed::{Bed, SLUICE, wait_for};
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{BookFilter, ReservationDoc};
use serde_json::{Value, json};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const CREATE: &str = "/v1/reservations";
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// How long who stands still does so: `SLUICE_STOPPED_S`, or longer than every timer of these tests.
fn still() -> Duration {
    let said = std::env::var("SLUICE_STOPPED_S").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(said.unwrap_or(4))
}

fn rows(bed: &Bed, node: &str) -> Vec<ReservationDoc> {
    let show = Request::BookShow { handle: None, filter: BookFilter::default() };
    match bed.client(node).call(show).unwrap() {
        Answer::Book(BookAnswer::Reservations { rows, .. }) => rows,
        other => panic!("{other:?}"),
    }
}

/// `sluice` with the socket of an agent.
fn sluice(bed: &Bed, node: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(SLUICE);
    let output = command.args(arguments).arg("--socket").arg(bed.home(node).join("agent.sock")).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// A name, the step at which each way to an agent stops, and what both agents have in the end.
type Stop = (&'static str, [Option<Step>; 2], &'static [&'static str]);

/// C3: the broker and both agents are killed at once. What was decided is booked at both, the rest at none.
#[test]
fn c3_all_die() {
    let Some(bed) = Bed::up("30s") else { return };
    let relays = WAY.map(|node| Relay::lay(&bed, node));
    let steps: [Stop; 4] = [
        ("one-has-promised", [None, Some(Step::Prepare)], &NONE),
        ("both-have-promised", [Some(Step::Promise), Some(Step::Promise)], &NONE),
        ("decided", [Some(Step::Decide), Some(Step::Decide)], &WHOLE),
        ("one-has-booked", [None, Some(Step::Decide)], &WHOLE),
    ];
    for (name, at, expected) in steps {
        let first = broker(&bed, &format!("first-{name}.log"));
        let said = stopped_call(&bed, &relays, at, ("POST", CREATE, name, &wish()), || {
            first.kill();
            WAY.iter().for_each(|node| bed.kill(node));
            relays.iter().for_each(Relay::cut);
        });
        assert!(said.is_none(), "{name}: {said:?}");
        relays.iter().for_each(Relay::open);
        WAY.iter().for_each(|node| bed.start(node));
        let next = broker(&bed, &format!("next-{name}.log"));
        wait_for("what was decided is done, the rest is gone", || (states(&bed) == expected).then_some(()));
        again(&bed, name);
        drop(next);
    }
}

/// C5, C12: a hold of two seconds is to be booked, and the broker, or an agent, stands still for longer: after its promise nobody gives
/// it up alone.
#[test]
fn c5_c12_a_hold_runs_out_while_somebody_stands_still() {
    let Some(bed) = Bed::up("30s") else { return };
    let relays = WAY.map(|node| Relay::lay(&bed, node));
    let broker = broker(&bed, "broker.log");
    let at = bed.place.join("broker.sock");
    for (key, who, step) in [
        ("broker-promised", "broker", Step::Promise),
        ("broker-decided", "broker", Step::Decide),
        ("agent-promised", "maui", Step::Promise),
        ("agent-decided", "maui", Step::Decide),
    ] {
        let mut held = wish();
        held["hold_s"] = json!(2);
        let (status, made) = post(&at, "POST", CREATE, key, &held).unwrap();
        assert_eq!((status, &made["state"]), (201, &json!("held")), "{key}: {made}");
        let id = made["id"].as_str().unwrap();
        let commit = format!("{CREATE}/{id}/commit");
        let process = if who == "broker" { broker.0 } else { bed.agent(who) };
        let said = stopped_call(&bed, &relays, [Some(step); 2], ("POST", &commit, "x", &Value::Null), || {
            process.signal(SIGSTOP).unwrap();
            relays.iter().for_each(Relay::open);
            std::thread::sleep(still());
            process.signal(SIGCONT).unwrap();
        });
        // After a stop that is longer than the patience for votes it is none, at both.
        let (status, doc) = said.unwrap();
        match status {
            200 => wait_for("it is booked", || (states(&bed) == WHOLE).then_some(())),
            _ if step == Step::Promise && still() > Duration::from_secs(15) => {
                wait_for("it is gone", || (states(&bed) == NONE).then_some(()));
                continue;
            }
            _ => panic!("{key}: {status} {doc}"),
        }
        assert_eq!(post(&at, "DELETE", &format!("{CREATE}/{id}"), "x", &Value::Null).unwrap().0, 200, "{key}");
    }
}

/// C6: two brokers want the same at both agents, named in opposite order, and there is room for one. Nobody waits for the other for
/// ever, and nothing is booked by half.
#[test]
fn c6_two_brokers_in_opposite_order() {
    let Some(bed) = Bed::up("30s") else { return };
    let _relays = WAY.map(|node| Relay::lay(&bed, node));
    let file = bed.place.join("other.toml");
    std::fs::write(&file, "name = \"other\"\n").unwrap();
    let _one = broker(&bed, "one.log");
    let _other = broker_with(&bed, "other", "other.log", &["--config", file.to_str().unwrap()]);
    let parts =
        ["yosemite/net/to-maui", "maui/net/to-glenwood"].map(|name| json!({"resource": name, "rate": 6_000_000}));
    let wishes = [
        ("broker", json!({"parts": [parts[0], parts[1]], "duration_s": 600})),
        ("other", json!({"parts": [parts[1], parts[0]], "duration_s": 600})),
    ];
    let mut taken = 0;
    for round in 0..10 {
        let said: Vec<(&str, u16, Value)> = std::thread::scope(|scope| {
            let asked: Vec<_> = wishes
                .iter()
                .map(|(name, wish)| {
                    let at = bed.place.join(format!("{name}.sock"));
                    scope.spawn(move || {
                        let begun = Instant::now();
                        let (status, doc) = post(&at, "POST", CREATE, &format!("{name}-{round}"), wish).unwrap();
                        assert!(begun.elapsed() < Duration::from_secs(25), "{name} waited for {:?}", begun.elapsed());
                        (*name, status, doc)
                    })
                })
                .collect();
            asked.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let made: Vec<_> = said.iter().filter(|(_, status, _)| *status == 201).collect();
        assert!(made.len() <= 1, "there is room for one: {said:?}");
        let expected = if made.is_empty() { &NONE[..] } else { &WHOLE };
        wait_for("whole or nothing", || (states(&bed) == expected).then_some(()));
        for (name, _, doc) in made {
            let at = bed.place.join(format!("{name}.sock"));
            let path = format!("{CREATE}/{}", doc["id"].as_str().unwrap());
            assert_eq!(post(&at, "DELETE", &path, "x", &Value::Null).unwrap().0, 200);
            taken += 1;
        }
    }
    println!("{{\"rounds\":10,\"taken\":{taken},\"half\":0}}");
}

/// C7: an agent comes back from a backup that is older than what it acknowledged. What it has lost is said by name, and nothing is
/// taken from the other agent; a promise that the backup has ends.
#[test]
fn c7_an_agent_from_an_older_backup() {
    let Some(bed) = Bed::up("30s") else { return };
    let relays = WAY.map(|node| Relay::lay(&bed, node));
    let _broker = broker(&bed, "broker.log");
    let at = bed.place.join("broker.sock");
    let (state, kept) = (bed.home("maui").join("state"), bed.place.join("backup"));
    let restored = || {
        bed.kill("maui");
        let (book, copied) = (state.join("book"), kept.join("book"));
        copy(&copied, &book);
        bed.start("maui");
    };
    // The backup is from before the reservation.
    std::fs::create_dir_all(&kept).unwrap();
    bed.kill("maui");
    copy(&state.join("book"), &kept.join("book"));
    bed.start("maui");
    let (status, made) = post(&at, "POST", CREATE, "before", &wish()).unwrap();
    assert_eq!((status, &made["state"]), (201, &json!("active")), "{made}");
    restored();
    let id = format!("{CREATE}/{}", made["id"].as_str().unwrap());
    let broken = || {
        let (status, doc) = post(&at, "GET", &id, "x", &Value::Null)?;
        (status == 200 && doc["state"] == "broken").then_some(doc)
    };
    let doc = wait_for("it is called broken", broken);
    assert_eq!(doc["missing"], json!(["maui"]), "{doc}");
    assert_eq!(states(&bed), ["yosemite active"], "nothing else is taken");
    assert_eq!(post(&at, "POST", CREATE, "before", &wish()).unwrap().0, 409, "the key makes no second one");
    assert_eq!(post(&at, "DELETE", &id, "x", &Value::Null).unwrap().0, 200);
    assert_eq!(states(&bed), NONE);
    // The backup has a promise, which was decided and done since.
    let call = wish();
    let said = stopped_call(&bed, &relays, [None, Some(Step::Decide)], ("POST", CREATE, "promised", &call), || {
        bed.kill("maui");
        relays[1].cut();
        copy(&state.join("book"), &kept.join("book"));
        bed.start("maui");
        relays[1].open();
    });
    assert_eq!(said.unwrap().0, 201);
    wait_for("it is whole", || (states(&bed) == WHOLE).then_some(()));
    restored();
    wait_for("the promise ends", || rows(&bed, "maui").iter().all(|row| row.promise.is_none()).then_some(()));
    let (_, list) = post(&at, "GET", CREATE, "x", &Value::Null).unwrap();
    let state = list["reservations"][0]["state"].as_str().unwrap();
    assert!(["active", "broken"].contains(&state), "whole, or said to be not: {list}");
    assert_eq!(state == "active", states(&bed) == WHOLE, "{list}");
}

/// C10: the broker is gone for ever between promise and decision. Operators end both promises alike, it is in the audit, and a broker
/// that comes back after all finds nothing to do.
#[test]
fn c10_a_broker_that_is_gone_for_ever() {
    let Some(bed) = Bed::up("30s") else { return };
    let relays = WAY.map(|node| Relay::lay(&bed, node));
    for (name, at, how) in [
        ("both-have-promised", [Some(Step::Promise), Some(Step::Promise)], "--abort"),
        ("one-has-booked", [None, Some(Step::Decide)], "--commit"),
    ] {
        let first = broker(&bed, &format!("first-{name}.log"));
        stopped_call(&bed, &relays, at, ("POST", CREATE, name, &wish()), || {
            if how == "--commit" {
                wait_for("one has booked", || (rows(&bed, "yosemite")[0].promise.is_none()).then_some(()));
            }
            first.kill();
            relays.iter().for_each(Relay::cut);
        });
        let mut resolved = 0;
        for node in WAY {
            for row in rows(&bed, node).into_iter().filter(|row| row.promise.is_some()) {
                sluice(&bed, node, &["resolve", &row.handle, how]);
                assert!(sluice(&bed, node, &["audit", "--json"]).contains(r#""verb":"resolve""#), "{node}");
                resolved += 1;
            }
        }
        assert_eq!(resolved, if how == "--abort" { 2 } else { 1 }, "{name}");
        let expected = if how == "--abort" { &NONE[..] } else { &WHOLE };
        assert_eq!(states(&bed), expected, "{name}");
        relays.iter().for_each(Relay::open);
        let next = broker(&bed, &format!("next-{name}.log"));
        assert_eq!(states(&bed), expected, "{name}");
        WAY.iter().for_each(|node| assert!(!bed.log(node).contains("contradicted"), "{}", bed.log(node)));
        again(&bed, name);
        drop(next);
    }
}

/// C11: the decision comes when the window is over, and the agents have dropped their promises. The broker hears it, and the
/// transaction ends.
#[test]
fn c11_a_decision_after_the_window() {
    let Some(bed) = Bed::up("30s") else { return };
    let relays = WAY.map(|node| Relay::lay(&bed, node));
    let first = broker(&bed, "first.log");
    let mut short = wish();
    short["duration_s"] = json!(2);
    stopped_call(&bed, &relays, [Some(Step::Decide); 2], ("POST", CREATE, "short", &short), || {
        first.kill();
        wait_for("the promises are moot", || (states(&bed) == NONE).then_some(()));
    });
    relays.iter().for_each(Relay::open);
    let _next = broker(&bed, "next.log");
    let at = bed.place.join("broker.sock");
    let ended = || {
        let (_, list) = post(&at, "GET", CREATE, "x", &Value::Null)?;
        list["reservations"].as_array()?.iter().all(|row| row["state"] != "committing").then_some(())
    };
    wait_for("it ends", ended);
    again(&bed, "another");
}

/// C13: an agent takes calls and never answers. What needs it is refused in bounded time; what does not goes on meanwhile, and nothing
/// stays promised.
#[test]
fn c13_an_agent_that_says_nothing() {
    let Some(bed) = Bed::up("30s") else { return };
    let _relays = WAY.map(|node| Relay::lay(&bed, node));
    let mute = bed.place.join("mute.sock");
    let listener = UnixListener::bind(&mute).unwrap();
    // Takes connections, reads nothing, and keeps them open.
    std::thread::spawn(move || listener.incoming().flatten().collect::<Vec<_>>());
    let named = format!("mute={}", mute.display());
    let _broker = broker_with(&bed, "broker", "broker.log", &["--agent", &named]);
    let at = bed.place.join("broker.sock");
    let parts = ["yosemite/net/to-maui", "mute/net/eth0"].map(|name| json!({"resource": name, "rate": 1_000_000}));
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let begun = Instant::now();
            let said = post(&at, "POST", CREATE, "mute", &json!({"parts": parts, "duration_s": 600})).unwrap();
            (said, begun.elapsed())
        });
        let real =
            ["yosemite/net/to-maui", "maui/net/to-glenwood"].map(|name| json!({"resource": name, "rate": 1_000_000}));
        let (status, made) = post(&at, "POST", CREATE, "real", &json!({"parts": real, "duration_s": 600})).unwrap();
        assert_eq!((status, &made["state"]), (201, &json!("active")), "{made}");
        assert!(!asked.is_finished(), "the others do not wait for the one that says nothing");
        let ((status, no), took) = asked.join().unwrap();
        assert!(status == 503 && no["detail"].as_str().is_some_and(|text| text.contains("mute")), "{status} {no}");
        assert!(took < Duration::from_secs(45), "{took:?}");
    });
    wait_for("only the other is there", || (states(&bed) == WHOLE).then_some(()));
}
