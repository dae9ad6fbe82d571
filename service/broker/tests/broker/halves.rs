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

fn leave(bed: &Bed, agent: usize, call: &'static str, after: bool) {
    bed.agents[agent].book.lock().unwrap().leave_at = Some((call, after));
}

/// Before it promises, or after: in no case does anything stay, also not with the next broker.
#[test]
fn an_agent_that_is_cut_off_before_the_decision() {
    for (after, restart) in [(false, false), (true, false), (true, true)] {
        let mut bed = Bed::five("cut");
        leave(&bed, 4, "book_prepare", after);
        let no = keyed(&bed, "k", &wish(6_000_000, 1_000_000)).problem(503);
        assert!(no["detail"].as_str().unwrap().contains("agent e does not answer"), "{no}");
        assert!(kept(&bed).iter().all(|row| row.starts_with("e ") || row.ends_with("cancelled")), "{:?}", kept(&bed));
        if restart {
            bed.stop();
            bed.start();
        }
        bed.agents[4].listen();
        wait("nothing stays", || kept(&bed).iter().all(|row| row.ends_with("cancelled")));
        wait("the key can be used again", || keyed(&bed, "k", &wish(6_000_000, 1_000_000)).status == 201);
        let live = kept(&bed).iter().filter(|row| row.ends_with("active")).count();
        assert_eq!((live, listed(&bed).len()), (6, 1), "one reservation: {:?}", kept(&bed));
    }
}

/// What is decided is done, by this broker or by the next one, and shown as under way until then.
#[test]
fn an_agent_that_is_cut_off_after_the_decision() {
    for (after, restart) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut bed = Bed::five("decided");
        leave(&bed, 1, "book_decide", after);
        let made = keyed(&bed, "k", &wish(6_000_000, 1_000_000)).ok(201);
        assert_eq!(made["state"], "committing");
        assert_eq!(listed(&bed)[0].0, "committing");
        // Who asks again gets the same, and nobody changes it meanwhile.
        let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
        bed.alice("PATCH", &at, json!({"forward": 1_000_000})).problem(503);
        if restart {
            bed.stop();
            bed.start();
        }
        bed.agents[1].listen();
        wait("booked everywhere", || all_are(&bed, "active"));
        wait("and so it is shown", || listed(&bed) == [("active".to_owned(), Value::Null)]);
        assert_eq!(keyed(&bed, "k", &wish(6_000_000, 1_000_000)).ok(201)["id"], made["id"]);
        assert_eq!(kept(&bed).len(), 6);
    }
}

#[test]
fn changes_of_which_an_agent_does_not_hear_are_finished_when_it_does() {
    for (kind, restart) in [("modify", false), ("modify", true), ("bind", false), ("cancel", true)] {
        let mut bed = Bed::five("finish");
        let made = bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).ok(201);
        let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
        leave(&bed, 1, if kind == "cancel" { "book_cancel" } else { "book_decide" }, false);
        let flow = json!({"flow": {"protocol": 17, "from_port": 4000, "to_port": 5004}});
        let said = match kind {
            "modify" => bed.alice("PATCH", &at, json!({"forward": 6_000_000})).ok(200),
            "bind" => bed.alice("POST", &format!("{at}/bind"), flow).ok(200),
            _ => bed.alice("DELETE", &at, Value::Null).ok(200),
        };
        assert_eq!(said["state"], "committing", "{kind}");
        let shown = bed.alice("GET", &at, Value::Null).ok(200);
        assert_eq!((&shown["state"], &shown["away"]), (&json!("committing"), &json!(["b"])), "{kind}");
        if restart {
            bed.stop();
            bed.start();
        }
        bed.agents[1].listen();
        let done = |doc: &Value| match kind {
            "modify" => doc["state"] == "active" && doc["path"]["forward"] == 6_000_000,
            "bind" => {
                let parts = doc["parts"].as_array().unwrap();
                doc["state"] == "active" && parts.iter().all(|part| part["binding"]["flow"]["dst_port"] == 5004)
            }
            _ => doc["state"] == "cancelled",
        };
        wait(kind, || done(&bed.alice("GET", &at, Value::Null).ok(200)));
    }
}

#[test]
fn a_change_of_which_an_agent_did_not_hear_before_the_decision_is_made_nowhere() {
    for after in [false, true] {
        let bed = Bed::five("undo");
        let made = bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).ok(201);
        let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
        leave(&bed, 4, "book_prepare", after);
        bed.alice("PATCH", &at, json!({"forward": 6_000_000})).problem(503);
        bed.agents[4].listen();
        wait("as it was", || kept(&bed).iter().all(|row| row.contains(" 4000000 active")));
        wait("and so it is shown", || listed(&bed) == [("active".to_owned(), Value::Null)]);
    }
}

/// A window of several amounts can be changed at several agents: nothing has to be brought back.
#[test]
fn windows_of_different_amounts_are_changed_at_several_agents() {
    let bed = Bed::five("steps");
    let made = bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).ok(201);
    let at = format!("/v1/reservations/{}", made["id"].as_str().unwrap());
    for agent in ON_THE_WAY {
        let end = Some(Instant(Time::from_nanos(9_000_000_000)));
        let more = StepDoc { start: Instant(Time::from_nanos(8_000_000_000)), end, amount: 1e6 };
        edit(&bed, agent, 0, |doc| doc.parts[0].steps.push(more));
    }
    assert_eq!(bed.alice("PATCH", &at, json!({"forward": 2_000_000})).ok(200)["path"]["forward"], 2_000_000);
}

/// Files of a broker before transactions: a cancellation is finished, everything else is undone, each once.
#[test]
fn what_a_broker_before_transactions_left_open_is_taken_over() {
    let mut bed = Bed::five("earlier");
    let names = ["a", "b", "e"];
    let made: Vec<Value> = (0..2).map(|_| bed.alice("POST", "/v1/reservations", wish(2_000_000, 0)).ok(201)).collect();
    bed.stop();
    let folder = bed.dir.join("state/intents");
    std::fs::create_dir_all(&folder).unwrap();
    let group = |agent: usize, row: usize| bed.agents[agent].book.lock().unwrap().rows[row].group.clone();
    let handle = |agent: usize, row: usize| bed.agents[agent].book.lock().unwrap().rows[row].handle.clone();
    let alice = json!({"name": "alice", "groups": [], "role": "owner"});
    let steps = |step: &dyn Fn(usize) -> Value| -> Vec<Value> { ON_THE_WAY.iter().map(|agent| step(*agent)).collect() };
    let name = |agent: usize| names[ON_THE_WAY.iter().position(|on| *on == agent).unwrap()];
    let cancel = steps(&|agent| json!({"agent": name(agent), "forward": {"give_back": group(agent, 0)}}));
    let modify = steps(&|agent| {
        let ask = |rate: u64| json!({"ask": {"call": "book_modify", "handle": handle(agent, 1), "change": {"amounts": [{"part": 0, "rate": rate}]}}});
        json!({"agent": name(agent), "forward": ask(3_000_000), "back": ask(2_000_000)})
    });
    for (what, id, steps) in [("cancel", &made[0]["id"], cancel), ("modify", &made[1]["id"], modify)] {
        let text = json!({"id": id, "what": what, "caller": alice, "steps": steps}).to_string();
        std::fs::write(folder.join(format!("{}.json", id.as_str().unwrap())), text).unwrap();
    }
    // The first agent had been given back already, and had made the change.
    edit(&bed, 0, 0, |doc| doc.state = "cancelled".into());
    edit(&bed, 0, 1, |doc| doc.parts[0].steps[0].amount = 3e6);
    bed.start();
    assert_eq!(bed.running.as_ref().unwrap().finished, 2);
    for agent in ON_THE_WAY {
        let book = bed.agents[agent].book.lock().unwrap();
        let rows: Vec<(&str, f64)> = book.rows.iter().map(|row| (&*row.state, row.parts[0].steps[0].amount)).collect();
        assert_eq!(rows, [("cancelled", 2e6), ("active", 2e6)]);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the files are gone");
    bed.stop();
    bed.start();
    assert_eq!(bed.running.as_ref().unwrap().finished, 0);
}

/// A journal that was restored from a copy, and a stranger by the same name: agents know, and nothing is reserved over several of
/// them until an operator says that the copy counts.
#[test]
fn a_journal_from_a_copy() {
    let mut bed = Bed::five("copy");
    bed.alice("POST", "/v1/reservations", wish(1_000_000, 0)).ok(201);
    bed.stop();
    let (journal, copy) = (bed.dir.join("state/transactions"), bed.dir.join("copy"));
    copy_folder(&journal, &copy);
    bed.start();
    bed.alice("POST", "/v1/reservations", wish(1_000_000, 0)).ok(201);
    bed.stop();
    std::fs::remove_dir_all(&journal).unwrap();
    copy_folder(&copy, &journal);
    bed.start();
    let no = bed.alice("POST", "/v1/reservations", wish(1_000_000, 0)).problem(503);
    assert!(no["detail"].as_str().unwrap().contains("newer start of this coordinator"), "{no}");
    assert_eq!(kept(&bed).len(), 6, "{:?}", kept(&bed));
    bed.stop();
    bed.config.accept_older_journal = true;
    bed.start();
    bed.alice("POST", "/v1/reservations", wish(1_000_000, 0)).ok(201);
    // Another broker of this name with a journal of its own.
    let mut second = bed.config.clone();
    (second.socket, second.state) = (bed.dir.join("second.sock"), bed.dir.join("second"));
    second.accept_older_journal = false;
    let running = bed.runtime.block_on(broker_service::start(&second)).unwrap();
    let address = *running.listens.last().unwrap();
    let request = crate::bed::request("POST", "/v1/reservations", &[], &wish(1_000_000, 0));
    crate::bed::talk(std::net::TcpStream::connect(address).unwrap(), &request).problem(503);
    bed.runtime.block_on(running.stop());
    second.name = "second".into();
    let running = bed.runtime.block_on(broker_service::start(&second)).unwrap();
    let address = *running.listens.last().unwrap();
    crate::bed::talk(std::net::TcpStream::connect(address).unwrap(), &request).ok(201);
    bed.runtime.block_on(running.stop());
    bed.alice("POST", "/v1/reservations", wish(1_000_000, 0)).ok(201);
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
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
    assert!(event("created", Some("promised")) && event("committed", None));
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
    // A broker before transactions ended when all held: the retry books.
    for agent in ON_THE_WAY {
        let last = bed.agents[agent].states().len() - 1;
        edit(&bed, agent, last, |doc| doc.state = "held".into());
    }
    assert_eq!(keyed(&bed, "k1", &asked).ok(201)["state"], "active");
    bed.alice("DELETE", &format!("/v1/reservations/{}", made["id"].as_str().unwrap()), Value::Null).ok(200);
    assert_eq!(keyed(&bed, "k1", &asked).problem(409)["type"], "/problems/key_over");
}

#[test]
fn agents_whose_clocks_are_apart() {
    let bed = Bed::five("clocks");
    bed.agents[1].book.lock().unwrap().ahead = 5;
    let no = bed.alice("POST", "/v1/reservations", wish(4_000_000, 0)).problem(503);
    let detail = no["detail"].as_str().unwrap();
    assert!(detail.contains("the clocks of the agents ") && detail.contains(" and b are 5.0 s apart"), "{detail}");
    wait("nothing is held", || !kept(&bed).iter().any(|row| row.ends_with("active")));
}

/// Once the end is written down no answer says that it was refused: the client would take the reservation for kept.
#[test]
fn an_agent_that_refuses_after_the_end_was_ordered_makes_it_no_refusal() {
    let bed = Bed::five("ordered");
    let wish = json!({"end": "forever", "parts": [{"resource": "a/net/b", "rate": 1000}, {"resource": "b/net/e", "rate": 1000}]});
    let id = bed.alice("POST", "/v1/reservations", wish).ok(201)["id"].as_str().unwrap().to_owned();
    // It is looked up, it is given back, and then this agent refuses to say how it is.
    bed.agents[0].book.lock().unwrap().refuse_after = Some(("book_show", 2));
    let said = bed.alice("DELETE", &format!("/v1/reservations/{id}"), Value::Null).problem(503);
    assert!(said["detail"].as_str().unwrap().contains("given back"), "{said}");
    bed.agents[0].book.lock().unwrap().refuse_after = None;
    for agent in &bed.agents[..2] {
        assert_eq!(agent.states(), ["cancelled"]);
    }
    assert_eq!(bed.alice("GET", &format!("/v1/reservations/{id}"), Value::Null).ok(200)["state"], "cancelled");
}
