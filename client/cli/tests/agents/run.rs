//! `sluice run --to`: a command whose way is reserved from its start to its end, by RSVP, by Boomerang, or by a booking of
//! its own packets; what is refused, interrupted, killed or left behind.

use crate::agents::broker::broker_over;
use crate::bed::{Bed, SLUICE, tspec, wait_for};
use crate::boomerang::{FAR, line};
use crate::lone::Lone;
use documents::agent::{Answer, FlowSpecDoc, Request, SenderId, SessionId, StaticDoc, StyleDoc};
use documents::book::{BookAnswer, BookFilter};
use linux::process::ProcessId;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// `sluice run ...` on a node of a testbed.
fn run_on(bed: &Bed, node: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(SLUICE);
    command.arg("run").args(arguments).env("SLUICE_SOCKET", bed.home(node).join("agent.sock")).stdin(Stdio::null());
    // The namespace is entered when the program starts, and its descriptor must live so long.
    let netns = bed.netns(node);
    netns.enter_at_exec(&mut command);
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// The report: the last line of the standard error.
fn report(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn sessions(bed: &Bed, node: &str) -> usize {
    match bed.client(node).call(Request::BoomerangSessions { skip: 0 }).unwrap() {
        Answer::Boomerang(doc) => doc.sessions.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_far_end_need_only_answer_a_ping() {
    let Some(bed) = line() else { return };
    let to = FAR.to_string();
    let seen = bed.home("a").join("seen");
    let look = format!("{SLUICE} boomerang sessions --json > {}; exit 7", seen.display());
    let words = [
        "--to",
        &to,
        "--forward",
        "2mbit",
        "--reverse",
        "1mbit",
        "--patience",
        "20s",
        "--json",
        "--",
        "sh",
        "-c",
        &look,
    ];
    let done = run_on(&bed, "a", &words).wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(7), "the command's: {}", String::from_utf8_lossy(&done.stderr));
    let said = report(&done);
    assert_eq!(
        (&said["status"], &said["reserved"], &said["way"]["with"]),
        (&7.into(), &true.into(), &"boomerang".into())
    );
    assert_eq!(said["way"]["admitted"]["reverse_bps"], 1_000_000);
    assert!(std::fs::read_to_string(&seen).unwrap().contains("2000000"), "it stood while the command ran");
    wait_for("given back", || (sessions(&bed, "a") == 0).then_some(()));
    // More than the link has: the command does not begin, or runs without.
    let mark = bed.home("a").join("ran");
    let touch = ["--", "touch", mark.to_str().unwrap()];
    let much = ["--to", &to, "--forward", "50mbit", "--with", "boomerang", "--patience", "20s"];
    let refused = run_on(&bed, "a", &[&much[..], &touch].concat()).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && text.contains("refused by Boomerang: there is"), "{text}");
    assert!(!mark.exists(), "it has not begun");
    let without =
        run_on(&bed, "a", &[&much[..], &["--or-best-effort", "--json"], &touch].concat()).wait_with_output().unwrap();
    assert!(without.status.success() && mark.exists());
    assert_eq!(report(&without)["reserved"], false);
    // Whoever is killed leaves nothing reserved.
    let words = ["--to", &to, "--forward", "2mbit", "--with", "boomerang", "--patience", "20s", "--", "sleep", "5"];
    let mut killed = run_on(&bed, "a", &words);
    wait_for("it stands", || (sessions(&bed, "a") == 1).then_some(()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_for("the agent gives it back", || (sessions(&bed, "a") == 0).then_some(()));
}

#[test]
fn rsvp_is_taken_where_the_far_end_reserves() {
    let Some(bed) = Bed::up("1s") else { return };
    let session = SessionId { dst: "10.0.2.2".parse().unwrap(), protocol: 6, dst_port: 0 };
    let sender = SenderId { src: "10.0.0.1".parse().unwrap(), src_port: 0 };
    let flowspecs = vec![FlowSpecDoc::ControlledLoad { tspec: tspec(1_000_000) }];
    let what = StaticDoc::Reservation { session, style: StyleDoc::Ff, senders: vec![sender], flowspecs };
    bed.client("glenwood").call(Request::AddStatic { what }).unwrap();
    let words = ["--to", "10.0.2.2", "--forward", "1mbit", "--patience", "20s", "--json", "--", "sleep", "3"];
    let running = run_on(&bed, "swissvale", &words);
    wait_for("every node holds it", || {
        ["swissvale", "yosemite", "maui"].iter().all(|node| !bed.reservations(node).is_empty()).then_some(())
    });
    let done = running.wait_with_output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let said = report(&done);
    assert_eq!((&said["way"]["with"], &said["way"]["admitted"]["forward_bps"]), (&"rsvp".into(), &1_000_000.into()));
    wait_for("given back", || bed.reservations("yosemite").is_empty().then_some(()));
}

/// An agent with one link and a route over it to nobody who answers.
fn lone() -> Option<Lone> {
    let mut lone = Lone::new("")?;
    lone.link_up();
    for words in [
        &["address", "add", "10.0.0.1/24", "dev", "near"][..],
        &["neigh", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "near", "nud", "permanent"],
    ] {
        assert!(lone.command("ip", words).status().unwrap().success(), "{words:?}");
    }
    lone.start();
    Some(lone)
}

fn run_in(lone: &Lone, arguments: &[&str]) -> Command {
    let mut command = lone.command(SLUICE, &[&["run", "--to", "10.0.0.2", "--forward", "5mbit"], arguments].concat());
    command.env("SLUICE_SOCKET", lone.socket());
    command
}

/// What is booked and not over.
fn booked(lone: &Lone) -> usize {
    let show = Request::BookShow { handle: None, filter: BookFilter::default() };
    let Answer::Book(BookAnswer::Reservations { rows, .. }) = lone.client().call(show).unwrap() else {
        panic!("no list")
    };
    rows.iter().filter(|found| found.state == "active").count()
}

/// Groups of commands that `sluice run` of this process number made.
fn group(run: u32) -> PathBuf {
    let root = linux::cgroup::for_packets(&linux::cgroup::all_mounted()).unwrap();
    let home = linux::cgroup::home_of(std::process::id(), &root).unwrap();
    home.join(format!("sluice-run-{run}"))
}

#[test]
fn a_booking_is_for_the_commands_own_packets() {
    if linux::cgroup::for_packets(&linux::cgroup::all_mounted()).is_none() {
        return bench::skipped("no hierarchy of version 2 is mounted");
    }
    let Some(mut lone) = lone() else { return };
    // Nobody speaks RSVP, and this agent no Boomerang: a booking is what is left.
    let counted = lone.place.join("counted");
    let send = format!(
        "for n in $(seq 25); do (echo x > /dev/udp/10.0.0.2/9); done; tc -s class show dev near > {}; \
         kill -TERM $PPID; sleep 30",
        counted.display()
    );
    let words = ["--patience", "200ms", "--json", "--", "bash", "-c", &send];
    let running = run_in(&lone, &words).stderr(Stdio::piped()).spawn().unwrap();
    let place = group(running.id());
    let done = running.wait_with_output().unwrap();
    let said = report(&done);
    assert_eq!(done.status.code(), Some(128 + 15), "SIGTERM was passed on: {said}");
    assert_eq!(said["way"]["with"], "booking", "{said}");
    let part = &said["parts"][0];
    assert_eq!(
        (&part["resource"], &part["admitted"], &part["installed"]),
        (&"net/near".into(), &5e6.into(), &5e6.into())
    );
    assert_eq!(premium(&counted), 25, "the packets of its children: {said}");
    wait_for("the group has gone", || (!place.exists()).then_some(()));
    assert_eq!(booked(&lone), 0, "given back");
    // One that is killed leaves a lease that ends by itself, and a group that the next one removes.
    let mut killed = run_in(&lone, &["--with", "booking", "--", "sleep", "1"]).spawn().unwrap();
    let (place, number) = (group(killed.id()), killed.id());
    wait_for("it runs", || runs_in(&place, "sleep").then_some(()));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(ProcessId::of(number).is_none());
    wait_for("the command has ended", || (!in_group(&place)).then_some(()));
    assert!(run_in(&lone, &["--with", "booking", "--", "true"]).status().unwrap().success());
    assert!(!place.exists(), "an empty group of one that was killed is removed");
    // What does not fit is refused, and waited for.
    let much = ["--with", "booking", "--forward", "99mbit", "--wait", "2s", "-v", "--", "true"];
    let mut command = lone.command(SLUICE, &[&["run", "--to", "10.0.0.2"], &much[..]].concat());
    let done = command.env("SLUICE_SOCKET", lone.socket()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && text.contains("asking again"), "{text}");
    lone.stop();
}

fn in_group(place: &Path) -> bool {
    std::fs::read_to_string(place.join("cgroup.procs")).is_ok_and(|procs| !procs.trim().is_empty())
}

/// True if the first process of a group has become this program.
fn runs_in(place: &Path, program: &str) -> bool {
    let procs = std::fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
    let name = procs.lines().next().and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    name.is_some_and(|name| name.trim() == program)
}

/// Packets that the premium class had, by the kernel's own count.
fn premium(counted: &Path) -> u64 {
    let said = std::fs::read_to_string(counted).unwrap();
    let mut lines = said.lines().skip_while(|line| !line.contains("htb 5c1c:5 "));
    let sent = lines.nth(1).unwrap_or_else(|| panic!("no premium class: {said}"));
    sent.split_whitespace().nth(3).unwrap().parse().unwrap()
}

/// A broker books both directions at every agent on the way; all of it goes with the command, also when `run` is killed.
#[test]
fn a_broker_reserves_the_way_at_every_agent_on_it() {
    let Some(bed) = Bed::up("30s") else { return };
    let (_broker, socket) = broker_over(&bed);
    let broker = format!("unix:{}", socket.display());
    let booked =
        |node: &str| match bed.client(node).call(Request::BookShow { handle: None, filter: BookFilter::default() }) {
            Ok(Answer::Book(BookAnswer::Reservations { rows, .. })) => rows.len(),
            other => panic!("{other:?}"),
        };
    let nothing_left = || bed.nodes.iter().all(|node| booked(node) == 0).then_some(());
    let way = ["--to", "10.0.2.2", "--forward", "2mbit", "--reverse", "500kbit", "--broker", &broker];
    let done = run_on(&bed, "swissvale", &[&way[..], &["--json", "--", "sh", "-c", "exit 7"]].concat());
    let done = done.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(7), "the command's: {}", String::from_utf8_lossy(&done.stderr));
    let told = report(&done);
    let parts = told["way"]["parts"].as_array().unwrap();
    let rates: Vec<f64> = parts.iter().map(|part| part["part"]["admitted"].as_f64().unwrap()).collect();
    // Three interfaces forward, and three back.
    assert_eq!(rates.iter().filter(|rate| **rate == 2e6).count(), 3, "{told}");
    assert_eq!(rates.iter().filter(|rate| **rate == 5e5).count(), 3, "{told}");
    assert!(parts.iter().all(|part| part["part"]["installed"].as_f64().unwrap() > 0.0), "{told}");
    wait_for("it is given back everywhere", nothing_left);
    // Interrupted in the middle of the command.
    let begun = bed.home("swissvale").join("begun");
    let line = format!("touch {}; exec sleep 60", begun.display());
    let held = run_on(&bed, "swissvale", &[&way[..], &["--", "sh", "-c", &line]].concat());
    wait_for("the command has begun", || begun.exists().then_some(()));
    assert!(bed.nodes.iter().all(|node| booked(node) > 0), "it stands");
    ProcessId::of(held.id()).unwrap().signal(15).unwrap();
    assert_eq!(held.wait_with_output().unwrap().status.code(), Some(128 + 15));
    wait_for("it is given back", nothing_left);
    // What does not fit is refused before the command begins, and nothing of it stays.
    let much = ["--to", "10.0.2.2", "--forward", "900mbit", "--broker", &broker, "--", "touch", "/none/begun"];
    let refused = run_on(&bed, "swissvale", &much).wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    wait_for("nothing stays", nothing_left);
}
