//! RSVP from Python programs, between real agents: two hosts, two routers, real signalling.

use crate::agents::rapi::Program;
use crate::bed::{Bed, wait_for};
use std::path::Path;
use std::process::Command;

/// A Python program on a node that says what happens, and is told what to do.
fn started(bed: &Bed, node: &str, what: &str) -> Program {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
    let mut command = Command::new("python3");
    command.args(["-W", "error"]).arg(python.join("tests/rsvp.py")).arg(what);
    command.arg(bed.home(node).join("agent.sock")).env("PYTHONPATH", &python);
    let mut program = Program::run(bed, node, command);
    program.hear("began");
    program
}

fn up() -> Option<Bed> {
    if Command::new("python3").arg("--version").output().is_err() {
        bench::skipped("python3 is not installed");
        return None;
    }
    Bed::up("500ms")
}

#[test]
fn python_programs_send_reserve_change_and_release() {
    let Some(bed) = up() else { return };
    let mut receiver = started(&bed, "glenwood", "receive");
    let mut sender = started(&bed, "swissvale", "send");
    assert_eq!(receiver.tell("misuse"), "did misuse");
    sender.tell("send 5004 1mbit");
    assert_eq!(receiver.hear("path"), "path 10.0.0.1:5004 r=1000000 hops=3 mtu=1500 break=False");
    receiver.tell("ff 5004 1mbit");
    assert_eq!(receiver.hear("confirm"), "confirm 10.0.0.1:5004 r=1000000");
    assert_eq!(sender.hear("resv"), "resv 10.0.0.1:5004 ff r=1000000");
    assert_eq!(bed.reservations("yosemite").len(), 1);

    // More than the bottleneck has: who refused, what, and in which words; the older reservation stays.
    receiver.tell("ff 5004 100mbit");
    let error = receiver.hear("error");
    assert!(error.starts_with("error resv=True code=1 node=10.0."), "{error}");
    assert!(error.contains("in_place=True not_guilty=False 10.0.0.1:5004 r=100000000 "), "{error}");
    assert_eq!(bed.reservations("yosemite").len(), 1);
    receiver.tell("ff 5004 2mbit");
    assert_eq!(sender.hear("resv"), "resv 10.0.0.1:5004 ff r=2000000");

    // Several senders of one program, shared; and guaranteed service.
    sender.tell("send 5006 500kbit");
    assert_eq!(receiver.hear("path 10.0.0.1:5006"), "path 10.0.0.1:5006 r=500000 hops=3 mtu=1500 break=False");
    receiver.tell("unreserve");
    sender.hear("resv_gone 10.0.0.1:5004");
    receiver.tell("se 5004 5006 1mbit");
    let mut both = [sender.hear("resv "), sender.hear("resv ")];
    both.sort();
    assert_eq!(both, ["resv 10.0.0.1:5004 se r=1000000", "resv 10.0.0.1:5006 se r=1000000"]);
    receiver.tell("unreserve");
    sender.hear("resv_gone");
    sender.hear("resv_gone");
    receiver.tell("wf 1mbit");
    assert!(sender.hear("resv ").ends_with("wf r=1000000"));
    receiver.tell("unreserve");
    sender.tell("silent 5006");
    assert_eq!(receiver.hear("path_gone"), "path_gone 10.0.0.1:5006");
    drop(receiver);
    wait_for("the router has released", || bed.reservations("yosemite").is_empty().then_some(()));
    let mut awaited = started(&bed, "glenwood", "areceive");
    assert_eq!(awaited.hear("confirm"), "confirm 10.0.0.1:5004 r=1000000");
    awaited.hear("done");
}

#[test]
fn python_registers_again_when_the_agent_comes_back_and_a_crash_releases() {
    let Some(bed) = up() else { return };
    let mut receiver = started(&bed, "glenwood", "receive");
    let mut sender = started(&bed, "swissvale", "send");
    sender.tell("send 5004 1mbit");
    receiver.hear("path");
    receiver.tell("wf 1mbit");
    receiver.hear("confirm");
    bed.kill("glenwood");
    receiver.hear("away");
    assert_eq!(receiver.tell("wf 1mbit"), "did wf: unavailable", "calls say so while it is away");
    bed.start("glenwood");
    receiver.hear("path");
    receiver.hear("confirm");
    // A child that lives on does not keep what its parent had reserved.
    receiver.tell("fork");
    receiver.kill();
    wait_for("the router has released", || bed.reservations("yosemite").is_empty().then_some(()));
}
