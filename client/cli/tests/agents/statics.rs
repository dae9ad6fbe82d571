//! Senders and reservations on behalf of others: they outlive whoever set them up, and the agent too.

use crate::bed::{Bed, SENDER, SESSION, SLUICE, refused, tspec, wait_for};
use documents::agent::{Answer, FlowSpecDoc, Request, StaticDoc, StaticRow, StyleDoc};
use documents::show::Skip;
use std::process::{Command, Output};

fn statics(bed: &Bed, node: &str) -> Vec<StaticRow> {
    match bed.client(node).call(Request::Statics(Skip::default())).unwrap() {
        Answer::Statics(rows) => rows,
        other => panic!("{other:?}"),
    }
}

fn sender(rate: u64) -> StaticDoc {
    StaticDoc::Sender { session: SESSION, sender: SENDER, tspec: tspec(rate), ttl: 64 }
}

fn reservation(rate: u64) -> StaticDoc {
    let flowspecs = vec![FlowSpecDoc::ControlledLoad { tspec: tspec(rate) }];
    StaticDoc::Reservation { session: SESSION, style: StyleDoc::Ff, senders: vec![SENDER], flowspecs }
}

fn add(bed: &Bed, node: &str, what: StaticDoc) -> StaticRow {
    match bed.client(node).call(Request::AddStatic { what }).unwrap() {
        Answer::Statics(mut rows) if rows.len() == 1 => rows.remove(0),
        other => panic!("{other:?}"),
    }
}

fn held(bed: &Bed, node: &str) -> Option<()> {
    statics(bed, node).iter().all(|row| row.state == "held").then_some(())
}

#[test]
fn they_hold_without_anyone_connected_and_come_back_after_kill_9() {
    let Some(bed) = Bed::up("1s") else { return };
    let (first, second) = (add(&bed, "swissvale", sender(2_000_000)), add(&bed, "glenwood", reservation(2_000_000)));
    assert_eq!((first.number, second.number, first.from_file), (1, 1, false));
    wait_for("the reservation is confirmed", || held(&bed, "glenwood"));
    wait_for("the sender hears of it", || held(&bed, "swissvale"));
    assert_eq!(bed.reservations("yosemite").len(), 1);
    for node in ["swissvale", "glenwood"] {
        bed.kill(node);
    }
    for node in ["swissvale", "glenwood"] {
        bed.start(node);
        assert_eq!(statics(&bed, node).len(), 1, "{node}: kept");
        wait_for("reserved again", || held(&bed, node));
    }
    let changed = add(&bed, "glenwood", reservation(1_000_000));
    assert_eq!(changed.number, 1, "the same session: the same reservation");
    let bucket = || bed.reservations("yosemite")[0].installed.clone().map(|installed| installed.bucket_bps);
    wait_for("the change arrives", || (bucket()? == 1_000_000).then_some(()));
    let mut client = bed.client("glenwood");
    client.call(Request::RemoveStatic { number: 1 }).unwrap();
    for node in ["swissvale", "yosemite", "maui"] {
        wait_for("torn down", || bed.reservations(node).is_empty().then_some(()));
    }
    assert_eq!(refused(client.call(Request::RemoveStatic { number: 1 })).kind, "refused");
    bed.kill("glenwood");
    bed.start("glenwood");
    assert_eq!(statics(&bed, "glenwood"), [], "and it stays away");
}

#[test]
fn hosts_without_an_agent_have_a_sender_proxy_and_a_receiver_proxy() {
    let Some(bed) = Bed::up("1s") else { return };
    for host in ["swissvale", "glenwood"] {
        bed.kill(host);
    }
    add(&bed, "yosemite", sender(2_000_000));
    add(&bed, "maui", reservation(2_000_000));
    wait_for("the reservation is confirmed", || held(&bed, "maui"));
    wait_for("the sender hears of it", || held(&bed, "yosemite"));
    let rows = bed.reservations("yosemite");
    let told: Vec<_> = rows.iter().map(|row| (row.session, row.sender, row.oif.as_deref())).collect();
    assert_eq!(told, [(SESSION, SENDER, Some("to-maui"))], "between the proxies");
    let state = rows[0].installed.as_ref().map(|installed| installed.state.as_str());
    assert_eq!(state, Some("installed"));
}

#[test]
fn one_that_is_refused_says_why_and_is_asked_for_again() {
    let Some(bed) = Bed::up("1s") else { return };
    add(&bed, "swissvale", sender(20_000_000));
    add(&bed, "glenwood", reservation(20_000_000));
    let row = wait_for("the refusal", || statics(&bed, "glenwood").pop().filter(|row| row.state == "refused"));
    let said = row.said.expect("who refused, and why");
    assert!(said.contains("yosemite") && said.contains("to-maui"), "{said}");
    let bad = StaticDoc::Sender { session: SESSION, sender: SENDER, tspec: tspec(0), ttl: 64 };
    assert_eq!(refused(bed.client("swissvale").call(Request::AddStatic { what: bad })).kind, "misuse");
    assert_eq!(statics(&bed, "swissvale").len(), 1, "what means nothing is not kept");
}

#[test]
fn the_commands_and_the_configuration_set_them_up() {
    let Some(bed) = Bed::up("1s") else { return };
    let sluice = |node: &str, arguments: &[&str]| -> Output {
        let socket = bed.home(node).join("agent.sock");
        Command::new(SLUICE).args(["rsvp", "static"]).args(arguments).arg("--socket").arg(socket).output().unwrap()
    };
    let printed = |output: Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let config = bed.home("swissvale").join("agent.toml");
    let text = std::fs::read_to_string(&config).unwrap()
        + "\n[[static_sender]]\nfrom = \"10.0.0.1:5004\"\nto = \"10.0.2.2:5004\"\nrate = \"2mbit\"\n";
    std::fs::write(&config, text).unwrap();
    bed.kill("swissvale");
    bed.start("swissvale");
    assert!(statics(&bed, "swissvale")[0].from_file);
    let told = sluice("swissvale", &["sender", "remove", "1"]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("the configuration file"), "{told:?}");
    let ask = ["reservation", "add", "--session", "10.0.2.2:5004", "--filter", "10.0.0.1:5004", "--reserve", "2mbit"];
    let added = printed(sluice("glenwood", &ask));
    assert!(added.contains("10.0.0.1:5004 -> 10.0.2.2:5004") && added.contains("2.00mbit"), "{added}");
    wait_for("it is held", || held(&bed, "glenwood"));
    let list = printed(sluice("glenwood", &["list"]));
    assert!(list.contains("held") && list.contains("confirmed by 10.0.0.1"), "{list}");
    assert_eq!(printed(sluice("glenwood", &["sender", "list"])), "none\n");
    let wrong = sluice("glenwood", &["sender", "remove", "1"]);
    assert_eq!(wrong.status.code(), Some(1), "number 1 is a reservation: {wrong:?}");
    printed(sluice("glenwood", &["reservation", "remove", "1"]));
    wait_for("released", || bed.reservations("yosemite").is_empty().then_some(()));
}

/// What is written is told when it is on the disk, and nobody else waits for that disk.
#[test]
fn a_disk_that_stands_still_stops_nobody_else_and_nothing_is_told_before_it_is_kept() {
    let Some(bed) = Bed::up("1s") else { return };
    // Who opens this file to write to it waits until somebody reads it.
    let stuck = bed.home("swissvale").join("state").join("statics.new");
    assert!(Command::new("mkfifo").arg(&stuck).status().unwrap().success());
    let (told, tells) = std::sync::mpsc::channel();
    let mut client = bed.client("swissvale");
    let asks = std::thread::spawn(move || {
        told.send(refused(client.call(Request::AddStatic { what: sender(2_000_000) }))).unwrap();
    });
    for _ in 0..20 {
        assert!(matches!(bed.client("swissvale").call(Request::Hello), Ok(Answer::Hello(_))), "others are answered");
        assert_eq!(statics(&bed, "swissvale"), [], "it is not there before it is kept");
    }
    assert!(tells.try_recv().is_err(), "nothing is said before it is on the disk");
    drop(std::fs::File::open(&stuck).unwrap());
    let problem = tells.recv_timeout(std::time::Duration::from_secs(30)).expect("an answer");
    asks.join().unwrap();
    assert_eq!(problem.kind, "fault", "what could not be kept is not promised: {problem:?}");
    std::fs::remove_file(&stuck).unwrap();
    // Said is kept: the agent dies as soon as it has said so.
    assert_eq!(add(&bed, "swissvale", sender(2_000_000)).state, "waiting");
    bed.kill("swissvale");
    bed.start("swissvale");
    assert_eq!(statics(&bed, "swissvale").len(), 1);
}
