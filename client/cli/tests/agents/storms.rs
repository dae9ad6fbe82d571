//! What an operating system does to processes: limits that are hit, kills of one and of all, starts in rows that come to nothing
//! (FAULTS.md O4, O6, O7). What was acknowledged is there afterwards, and in the kernel all the while.

use crate::bed::{Bed, PATIENCE, SLUICE, wait_for};
use crate::lone::{Lone, booked, licences};
use documents::agent::{Answer, BookAnswer, BookFilter, Request};
use documents::book::{AskDoc, BindingDoc, FlowDoc, PartDoc, WhenDoc};
use linux::process::ProcessId;
use rpc::client::Client;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn states(client: &mut Client) -> Vec<String> {
    let show = Request::BookShow { handle: None, filter: BookFilter::default() };
    match client.call(show).unwrap() {
        Answer::Book(BookAnswer::Reservations { rows, .. }) => rows.into_iter().map(|row| row.state).collect(),
        other => panic!("{other:?}"),
    }
}

/// O4: no descriptor is left. Whoever is inside is answered, what is promised is written, and who had to wait comes in later.
#[test]
fn without_descriptors_those_who_are_inside_are_served() {
    let Some(mut lone) = Lone::new("") else { return };
    lone.start_with("ulimit -n 64; exec \"$@\"");
    let mut inside = lone.client();
    let mut others: Vec<Client> = (0..80).filter_map(|_| Client::connect(&lone.socket()).ok()).collect();
    assert!(others.len() >= 64, "the kernel takes connections that the agent cannot");
    for _ in 0..5 {
        booked(&mut inside, Request::BookCreate(licences(1))).unwrap();
    }
    // Half of them go: there is room for the last again.
    others.drain(..60);
    let last = others.last_mut().unwrap();
    booked(last, Request::BookCreate(licences(1))).unwrap();
    drop((inside, others));
    lone.stop();
    lone.start();
    assert_eq!(states(&mut lone.client()).len(), 6);
}

/// O4: the memory that a process may have is used up, at whatever place of its start. It serves, or it ends and says so by its
/// status; it is never in between, and nothing is lost by it.
#[test]
fn without_memory_it_serves_or_ends() {
    let Some(mut lone) = Lone::new("") else { return };
    lone.start();
    booked(&mut lone.client(), Request::BookCreate(licences(1))).unwrap();
    lone.stop();
    let mut ended = 0;
    for megabytes in [16, 32, 48, 64, 96, 128, 192, 256] {
        // One that ends at once is still to be known: a child, not a daemon.
        let mut agent = lone.child(&format!("ulimit -v {}; exec \"$@\"", megabytes << 10));
        let serves = wait_for("it serves or ends", || {
            let client = Client::connect(&lone.socket()).ok();
            let answered = client.is_some_and(|mut client| client.call(Request::Hello).is_ok());
            (answered || agent.try_wait().unwrap().is_some()).then_some(answered)
        });
        ended += u32::from(!serves);
        let _ = ProcessId::of(agent.id()).map(|agent| agent.signal(15));
        agent.wait().unwrap();
    }
    assert!(ended > 0, "no limit was too low: this shows nothing");
    lone.start();
    assert_eq!(states(&mut lone.client()).len(), 1);
}

/// Packets, from now on.
fn premium() -> AskDoc {
    let flow = FlowDoc { protocol: Some(17), dst_port: Some(5_004), ..FlowDoc::default() };
    let part = PartDoc {
        resource: "net/near".to_owned(),
        rate: Some(1_000_000),
        binding: Some(BindingDoc::Flow(flow)),
        ..PartDoc::default()
    };
    AskDoc { parts: vec![part], when: WhenDoc::lasting(3_600.0), ..AskDoc::default() }
}

/// O7: an agent that is started again and again and dies each time, at whatever place. The kernel has what was promised all the
/// while, and the one that is let live has it too.
#[test]
fn a_storm_of_starts_leaves_the_data_plane_alone() {
    let Some(mut lone) = Lone::new("") else { return };
    lone.link_up();
    let mut agent = lone.start();
    let made = booked(&mut lone.client(), Request::BookCreate(premium())).unwrap();
    let shows = |lone: &Lone| lone.tc(&["class", "show", "dev", "near"]);
    let promised = wait_for("it is in the kernel", || Some(shows(&lone)).filter(|text| text.contains("5c1c:5 ")));
    for storm in 0..12_u64 {
        agent.signal(9).unwrap();
        wait_for("it is gone", || (!agent.is_running()).then_some(()));
        assert_eq!(shows(&lone), promised, "after {storm} starts");
        agent = lone.spawn("exec \"$@\"");
        std::thread::sleep(Duration::from_millis(storm * 17));
    }
    agent.signal(9).unwrap();
    wait_for("it is gone", || (!agent.is_running()).then_some(()));
    assert_eq!(shows(&lone), promised);
    lone.start();
    assert_eq!(states(&mut lone.client()), ["active"]);
    assert_eq!(shows(&lone), promised);
    booked(&mut lone.client(), Request::BookCancel { handle: made.handle }).unwrap();
}

/// A broker over all agents of a testbed, started and answering.
fn broker(bed: &Bed) -> Child {
    let mut command = Command::new(SLUICE);
    command.arg("broker").arg("--no-agent").arg("--socket").arg(bed.place.join("broker.sock"));
    command.arg("--state").arg(bed.place.join("broker"));
    for node in &bed.nodes {
        command.arg("--agent").arg(format!("{node}={}", bed.home(node).join("agent.sock").display()));
    }
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the broker answers", || listed(&bed.place).map(drop));
    child
}

/// `sluice list` of the broker: how many reservations are active; `None`: no answer.
fn listed(place: &Path) -> Option<usize> {
    let at = format!("unix:{}", place.join("broker.sock").display());
    let output = Command::new(SLUICE).args(["list", "--json", "--broker", &at]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text.matches("\"state\":\"active\"").count())
}

/// O6: what the kernel does when memory is short: each program in turn, and all of them at once.
#[test]
fn each_program_is_killed_in_turn_and_then_all_at_once() {
    let Some(bed) = Bed::up("1s") else { return };
    let mut child = broker(&bed);
    let at = format!("unix:{}", bed.place.join("broker.sock").display());
    let words =
        ["reserve", "--from", "10.0.0.1", "--to", "10.0.2.2", "--forward", "1mbit", "--for", "1h", "--broker", &at];
    let made = Command::new(SLUICE).args(words).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let whole = |what: &str| {
        let until = Instant::now() + PATIENCE;
        while listed(&bed.place) != Some(1) {
            assert!(Instant::now() < until, "{what}: {:?}", listed(&bed.place));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    whole("as it was made");
    let classes: Vec<String> = ["yosemite", "maui"].map(|node| bed.tc(node, way(node))).to_vec();
    let kept = |what: &str| {
        assert_eq!(["yosemite", "maui"].map(|node| bed.tc(node, way(node))).to_vec(), classes, "{what}");
    };
    for node in &bed.nodes {
        bed.kill(node);
        kept(&format!("{node} is dead"));
        bed.start(node);
        whole(&format!("{node} was killed"));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    kept("the broker is dead");
    child = broker(&bed);
    whole("the broker was killed");
    let agents: Vec<ProcessId> = bed.nodes.iter().map(|node| bed.agent(node)).collect();
    child.kill().unwrap();
    agents.iter().for_each(|agent| agent.signal(9).unwrap());
    child.wait().unwrap();
    wait_for("all are gone", || agents.iter().all(|agent| !agent.is_running()).then_some(()));
    kept("all are dead");
    bed.nodes.iter().for_each(|node| bed.start(node));
    child = broker(&bed);
    whole("all were killed");
    kept("all are back");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Where packets leave towards the receiver.
fn way(node: &str) -> &'static str {
    if node == "yosemite" { "to-maui" } else { "to-glenwood" }
}
