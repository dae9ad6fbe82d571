//! Whatever ends in the middle of a reservation over several agents: it becomes whole, or goes, or is called broken.
//!
//! Agents here have a policy that no broker's own name passes, as real ones have.

use crate::bed::{Bed, Said};
use documents::book::{Instant, ReservationDoc, StepDoc};
use serde_json::{Value, json};
use std::time::Duration;
use terms::Time;

/// Which agents are on the way.
const ON_THE_WAY: [usize; 3] = [0, 1, 4];

fn wish(forward: u64, reverse: u64) -> Value {
    json!({"path": {"from": "10.0.1.9", "to": "10.0.2.9", "forward": forward, "reverse": reverse}, "duration_s": 3600})
}

fn keyed(bed: &Bed, key: &str, wish: &Value) -> Said {
    bed.send("POST", "/v1/reservations", &[("Idempotency-Key", key)], wish)
}

/// All that the agents keep, as `AGENT RESOURCE RATE STATE`.
fn kept(bed: &Bed) -> Vec<String> {
    let mut all = Vec::new();
    for agent in &bed.agents {
        let book = agent.book.lock().unwrap();
        let row = |row: &ReservationDoc| {
            let part = &row.parts[0];
            format!("{} {} {} {}", book.node, part.resource, part.steps[0].amount, row.state)
        };
        all.extend(book.rows.iter().map(row));
    }
    all
}

fn all_are(bed: &Bed, state: &str) -> bool {
    let all = kept(bed);
    all.len() == 6 && all.iter().all(|row| row.ends_with(state))
}

fn listed(bed: &Bed) -> Vec<(String, Value)> {
    let rows = bed.alice("GET", "/v1/reservations", Value::Null).ok(200);
    let row = |row: &Value| (row["state"].as_str().unwrap().to_owned(), row["missing"].clone());
    rows["reservations"].as_array().unwrap().iter().map(row).collect()
}

fn edit(bed: &Bed, agent: usize, row: usize, change: impl FnOnce(&mut ReservationDoc)) {
    change(&mut bed.agents[agent].book.lock().unwrap().rows[row]);
}

fn wait(what: &str, mut there: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not within 10 s");
}

#[test]
fn a_broker_that_ends_between_any_two_bookings_is_finished_by_the_next() {
    let mut bed = Bed::five("between");
    let made = bed.alice("POST", "/v1/reservations", wish(6_000_000, 1_000_000)).ok(201);
    let members: Vec<(usize, usize)> = ON_THE_WAY.iter().flat_map(|&agent| [(agent, 0), (agent, 1)]).collect();
    for booked in 1..members.len() {
        bed.stop();
        for (number, (agent, row)) in members.iter().enumerate() {
            edit(&bed, *agent, *row, |doc| doc.state = if number < booked { "active" } else { "held" }.into());
        }
        bed.start();
        assert_eq!(bed.running.as_ref().unwrap().finished, 1, "{booked} of 6 were booked");
        assert!(all_are(&bed, "active"), "{booked}: {:?}", kept(&bed));
    }
    assert_eq!(listed(&bed), [("active".to_owned(), Value::Null)]);
    // What nobody decided is left alone, however often a broker starts.
    bed.stop();
    members.iter().for_each(|(agent, row)| edit(&bed, *agent, *row, |doc| doc.state = "held".into()));
    bed.start();
    assert!(all_are(&bed, "held"), "{:?}", kept(&bed));
    let _ = made;
}

#[test]
fn a_hold_that_ended_at_one_while_the_broker_was_dead() {
    let mut bed = Bed::five("expired");
    bed.alice("POST", "/v1/reservations", wish(6_000_000, 1_000_000)).ok(201);
    edit(&bed, 4, 1, |doc| doc.state = "expired".into());
    // A broker that runs says what it sees, in the list as well.
    assert_eq!(listed(&bed)[0].0, "broken");
    bed.stop();
    bed.start();
    assert!(kept(&bed).iter().all(|row| row.ends_with("cancelled") || row.ends_with("expired")), "{:?}", kept(&bed));
    assert_eq!(listed(&bed), []);
}

#[test]
fn an_agent_that_is_away_while_the_broker_recovers_is_asked_when_it_is_back() {
    for state in ["held", "expired"] {
        let mut bed = Bed::five("late");
        bed.alice("POST", "/v1/reservations", wish(6_000_000, 1_000_000)).ok(201);
        bed.stop();
        edit(&bed, 4, 0, |doc| doc.state = state.into());
        bed.agents[4].go();
        bed.start();
        assert_eq!(bed.running.as_ref().unwrap().finished, 0, "nobody knows yet");
        let rows = bed.alice("GET", "/v1/reservations", Value::Null).ok(200);
        assert_eq!(rows["reservations"][0]["away"], json!(["e"]), "{rows}");
        bed.agents[4].listen();
        match state {
            "held" => wait("booked everywhere", || all_are(&bed, "active")),
            _ => wait("given back everywhere", || !kept(&bed).iter().any(|row| row.ends_with("active"))),
        }
    }
}

#[test]
fn an_agent_that_is_cut_off_while_it_books() {
    // Before it books, after it booked; and the hold that ends while it is away.
    for (after, expires) in [(false, false), (true, false), (false, true)] {
        let bed = Bed::five("cut");
        bed.agents[1].book.lock().unwrap().leave_at = Some(("book_commit", after));
        let said = bed.alice("POST", "/v1/reservations", wish(6_000_000, 1_000_000)).problem(503);
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.contains("agent b") && detail.contains("everywhere or nowhere"), "{detail}");
        // The others were told: nothing that may be booked there is taken back behind its back.
        if expires {
            edit(&bed, 1, 0, |doc| doc.state = "expired".into());
        }
        // A second broker of the same agents starts meanwhile.
        let mut second = bed.config.clone();
        second.socket = bed.dir.join("second.sock");
        second.state = bed.dir.join("second");
        let second = bed.runtime.block_on(broker_service::start(&second)).unwrap();
        bed.agents[1].listen();
        match expires {
            false => wait("booked everywhere", || all_are(&bed, "active")),
            true => wait("given back everywhere", || {
                !kept(&bed).iter().any(|row| row.ends_with("active") || row.ends_with("held"))
            }),
        }
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(all_are(&bed, "active"), !expires, "and so it stays: {:?}", kept(&bed));
        bed.runtime.block_on(second.stop());
    }
}

#[test]
fn what_was_whole_once_is_called_broken_and_left_alone() {
    let mut bed = Bed::five("whole");
    let first = wish(6_000_000, 1_000_000);
    keyed(&bed, "k1", &first).ok(201);
    // An operator gives one hop back, at its agent.
    edit(&bed, 1, 0, |doc| doc.state = "cancelled".into());
    let event = |event: &str, text: Option<&str>| {
        let book = bed.agents[1].book.lock().unwrap();
        let mut found = book.events.iter().filter(|found| found.handle == book.rows[0].handle);
        found.any(|found| found.event == event && found.text.as_deref() == text)
    };
    assert!(event("created", Some("held")) && event("committed", None));
    assert_eq!(listed(&bed)[0].0, "broken");
    let before = kept(&bed);
    bed.stop();
    bed.start();
    assert_eq!(kept(&bed), before, "a broker that starts takes nothing away");
    // Whoever asks again with the key gets a whole one or none, and hears of it.
    let over = keyed(&bed, "k1", &first).problem(409);
    assert_eq!(over["type"], "/problems/key_over", "{over}");
    assert!(all_are(&bed, "cancelled"), "{:?}", kept(&bed));
    assert_eq!(keyed(&bed, "k1", &first).problem(409)["type"], "/problems/key_over");
    assert_eq!(keyed(&bed, "k2", &first).ok(201)["state"], "active");
}

#[test]
fn a_part_that_its_agent_does_not_know_any_more() {
    let mut bed = Bed::five("missing");
    let made = bed.alice("POST", "/v1/reservations", wish(6_000_000, 0)).ok(201);
    bed.agents[4].book.lock().unwrap().rows.clear();
    assert_eq!(listed(&bed), [("broken".to_owned(), json!(["e"]))]);
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    assert_eq!(bed.alice("GET", &at, Value::Null).ok(200)["missing"], json!(["e"]));
    bed.stop();
    bed.start();
    assert_eq!(listed(&bed)[0].0, "broken", "nothing is taken away");
    bed.alice("PATCH", &at, json!({"label": "x"})).ok(200);
    bed.alice("POST", &format!("{at}/commit"), Value::Null).problem(409);
    bed.alice("DELETE", &at, Value::Null).ok(200);
    assert_eq!(listed(&bed), []);
}

#[test]
fn a_key_whose_request_came_to_nothing_can_be_used_again() {
    let bed = Bed::five("again");
    bed.agents[4].book.lock().unwrap().room.insert("net/out".into(), 3e6);
    let asked = wish(6_000_000, 0);
    keyed(&bed, "k1", &asked).problem(409);
    keyed(&bed, "k1", &asked).problem(409);
    bed.agents[4].book.lock().unwrap().room.insert("net/out".into(), 1e7);
    let made = keyed(&bed, "k1", &asked).ok(201);
    assert_eq!((&made["state"], made["parts"].as_array().unwrap().len()), (&json!("active"), 3));
    assert_eq!(keyed(&bed, "k1", &asked).ok(201), made);
    // A broker that ended when all held: the retry books.
    for agent in ON_THE_WAY {
        let last = bed.agents[agent].states().len() - 1;
        edit(&bed, agent, last, |doc| doc.state = "held".into());
    }
    assert_eq!(keyed(&bed, "k1", &asked).ok(201)["state"], "active");
    bed.alice("DELETE", &format!("/v1/reservations/{}", made["id"].as_str().unwrap()), Value::Null).ok(200);
    assert_eq!(keyed(&bed, "k1", &asked).problem(409)["type"], "/problems/key_over");
}

#[test]
fn changes_that_an_agent_does_not_answer_are_finished_when_it_does() {
    for (call, restart) in [("book_modify", false), ("book_modify", true), ("book_bind", false), ("book_cancel", true)]
    {
        let mut bed = Bed::five("finish");
        let made = bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).ok(201);
        let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
        bed.agents[1].book.lock().unwrap().leave_at = Some((call, false));
        let flow = json!({"flow": {"protocol": 17, "from_port": 4000, "to_port": 5004}});
        match call {
            "book_modify" => bed.alice("PATCH", &at, json!({"forward": 6_000_000})).problem(503),
            "book_bind" => bed.alice("POST", &format!("{at}/bind"), flow).problem(503),
            _ => bed.alice("DELETE", &at, Value::Null).problem(503),
        };
        let shown = bed.alice("GET", &at, Value::Null).ok(200);
        assert_eq!((&shown["state"], &shown["away"]), (&json!("broken"), &json!(["b"])), "{call}");
        if restart {
            bed.stop();
            bed.start();
        }
        bed.agents[1].listen();
        let done = |doc: &Value| match call {
            "book_modify" => doc["state"] == "active" && doc["path"]["forward"] == 6_000_000,
            "book_bind" => {
                let parts = doc["parts"].as_array().unwrap();
                doc["state"] == "active" && parts.iter().all(|part| part["binding"]["flow"]["dst_port"] == 5004)
            }
            _ => doc["state"] == "cancelled",
        };
        wait(call, || done(&bed.alice("GET", &at, Value::Null).ok(200)));
        // The intent goes after the last answer has come, and with it the state that a reader sees.
        wait(call, || std::fs::read_dir(bed.dir.join("state/intents")).unwrap().next().is_none());
    }
}

#[test]
fn a_change_that_is_refused_where_an_agent_was_away_is_undone_everywhere() {
    let bed = Bed::five("undo");
    let made = bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).ok(201);
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    bed.agents[4].book.lock().unwrap().leave_at = Some(("book_modify", false));
    bed.alice("PATCH", &at, json!({"forward": 6_000_000})).problem(503);
    bed.agents[4].book.lock().unwrap().room.insert("net/out".into(), 5e6);
    bed.agents[4].listen();
    wait("as it was", || kept(&bed).iter().all(|row| row.contains(" 4000000 active")));
    assert_eq!(listed(&bed)[0].0, "active");
}

#[test]
fn windows_of_different_amounts_are_not_changed_at_several_agents() {
    let bed = Bed::five("steps");
    let made = bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).ok(201);
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    for agent in ON_THE_WAY {
        let end = Some(Instant(Time::from_nanos(9_000_000_000)));
        let more = StepDoc { start: Instant(Time::from_nanos(8_000_000_000)), end, amount: 1e6 };
        edit(&bed, agent, 0, |doc| doc.parts[0].steps.push(more));
    }
    let before = kept(&bed);
    let no = bed.alice("PATCH", &at, json!({"forward": 2_000_000})).problem(422);
    assert!(no["detail"].as_str().unwrap().contains("different amounts"), "{no}");
    assert_eq!(kept(&bed), before);
    bed.alice("PATCH", &at, json!({"label": "film"})).ok(200);
}

#[test]
fn agents_whose_clocks_are_apart() {
    let bed = Bed::five("clocks");
    bed.agents[1].book.lock().unwrap().ahead = 5;
    let no = bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).problem(503);
    let detail = no["detail"].as_str().unwrap();
    assert!(detail.contains("the clocks of the agents a and b are") && detail.contains("s apart"), "{detail}");
    wait("nothing is held", || !kept(&bed).iter().any(|row| row.ends_with("active")));
}
