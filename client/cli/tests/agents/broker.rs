//! A broker over the agents of a testbed: the seed's Figure 2 program, in Python, on real packets.

use crate::bed::{Bed, SLUICE, wait_for};
use crate::remote::Running;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A Python program with the package on its path.
fn python(script: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg("-u").arg(script).args(args).env("PYTHONPATH", folder("client/python"));
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A broker over all agents of a testbed, and its socket.
pub fn broker_over(bed: &Bed) -> (Running, PathBuf) {
    let socket = bed.place.join("broker.sock");
    let mut broker = Command::new(SLUICE);
    broker.arg("broker").arg("--socket").arg(&socket).arg("--state").arg(bed.place.join("broker"));
    for node in &bed.nodes {
        broker.arg("--agent").arg(format!("{node}={}", bed.home(node).join("agent.sock").display()));
    }
    let running = Running::start(&mut broker, &bed.place.join("broker.log"));
    wait_for("the broker answers", || UnixStream::connect(&socket).ok());
    (running, socket)
}

#[test]
fn figure_2_streams_over_reserved_hops_and_grows_when_there_is_room() {
    if Command::new("python3").arg("--version").output().is_err() {
        bench::skipped("python3 is not installed");
        return;
    }
    let Some(bed) = Bed::up("30s") else { return };
    let (_broker, socket) = broker_over(&bed);
    let at = socket.to_str().unwrap();

    let script = folder("client/python/tests/figure2.py");
    let started = |node: &str, what: &str, args: &[&str]| {
        let mut command = python(&script, args);
        let netns = bed.netns(node); // stays open until the child is there
        netns.enter_at_exec(&mut command);
        Running::start(&mut command, &bed.place.join(format!("{what}.log")))
    };
    let counts = bed.place.join("counts");
    let _receiver = started("glenwood", "receive", &["receive", counts.to_str().unwrap()]);
    let _flood = started("swissvale", "flood", &["flood", "10.0.0.1", "10.0.2.2"]);
    // Something else has all but 2 Mbit/s, for a while.
    let mut blocker = python(&script, &["block", at, "10.0.0.1", "10.0.2.2", "2mbit", "3"]);
    let blocker = blocker.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let mut streamer = python(
        &folder("examples/udp_streamer.py"),
        &["10.0.0.1", "10.0.2.2", "--rate", "4mbit", "--for", "8s", "--broker", at],
    );
    let netns = bed.netns("swissvale");
    netns.enter_at_exec(&mut streamer);
    let streamed = streamer.output().unwrap();
    let blocked = blocker.wait_with_output().unwrap();
    assert!(streamed.status.success() && blocked.status.success(), "{}{}", said(&streamed), said(&blocked));
    assert!(said(&streamed).contains("4.000 Mbit/s reserved at the end"), "{}", said(&streamed));
    // Without a reservation at most 10 of 24 packets came through; a busy machine sends fewer than it should.
    let text = std::fs::read_to_string(&counts).unwrap();
    let counts: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    let all = 4_000_000 / (1028 * 8);
    assert!(counts.iter().filter(|count| **count >= all * 6 / 10).count() >= 2, "packets of each second: {counts:?}");
}
