//! An agent that cannot start says why, in one line that names what to do, and changes nothing.

use crate::bed::{Bed, PATIENCE, SLUICE, detached, place, skipped, wait_for};
use crate::lone::Lone;
use documents::agent::Request;
use linux::netns::Guarded;
use linux::process::ProcessId;
use rpc::client::Client;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs `sluice agent` with this file in this namespace and waits for its end.
fn run(netns: &linux::netns::Namespace, config: &Path) -> (i32, String) {
    let mut command = Command::new(SLUICE);
    command.arg("agent").arg("--config").arg(config);
    netns.enter_at_exec(&mut command);
    ended(&mut command)
}

/// Waits for the end of a command that is to end by itself; one that does not is stopped.
fn ended(command: &mut Command) -> (i32, String) {
    let mut child = loop {
        match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Ok(child) => break child,
            // A copy of the program is "busy" while a child that another test forks meanwhile still holds it open.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::sleep(SHORT),
            Err(error) => panic!("{command:?}: {error}"),
        }
    };
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            if let Some(id) = ProcessId::of(child.id()) {
                id.signal(15).unwrap();
            }
            let (_, text) = told(child.wait_with_output().unwrap());
            panic!("{command:?} runs on: {text}");
        }
        std::thread::sleep(SHORT);
    }
    told(child.wait_with_output().unwrap())
}

/// A copy of the program where everybody can read it.
fn copy(place: &Path) -> PathBuf {
    let copy = place.join("sluice");
    fs::copy(SLUICE, &copy).unwrap();
    copy
}

/// Runs the copy as nobody.
fn as_nobody(copy: &Path, arguments: &[&str]) -> (i32, String) {
    for _ in 0..200 {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(copy).args(arguments);
        let (status, text) = ended(&mut command);
        if !text.contains("Text file busy") {
            return (status, text);
        }
        std::thread::sleep(SHORT);
    }
    panic!("the copy stays busy");
}

const SHORT: Duration = Duration::from_millis(10);

fn told(output: Output) -> (i32, String) {
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
}

fn write(place: &Path, rest: &str) -> PathBuf {
    let path = place.join("agent.toml");
    let head = format!(
        "name = \"x\"\nauth = \"none\"\nsocket = {:?}\nstate = {:?}\n",
        place.join("agent.sock"),
        place.join("state")
    );
    fs::write(&path, head + rest).unwrap();
    path
}

#[test]
fn what_does_not_fit_the_machine_is_named() {
    if skipped() {
        return;
    }
    let (name, place) = place();
    let netns = Guarded::create(&name).unwrap();
    netns.run(|| linux::netlink::Socket::open().unwrap().add_veth("a0", "b0", None).unwrap()).unwrap();
    let table = [
        ("[[interface]]\nname = \"c0\"\nrate = \"1mbit\"\n", 2, "there is no interface c0; there are: "),
        ("[[interface]]\nname = \"a0\"\n", 2, "the rate of a0 is unknown (it is a veth device): write rate ="),
        ("[[interface]]\nname = \"lo\"\nrate = \"1mbit\"\n", 2, "lo is the loopback"),
        ("[[interface]]\nname = \"a0\"\nrate = \"1mbut\"\n", 2, ":7: \"mbut\" is no unit of rate"),
        ("[[interfaces]]\n", 2, ":5: unknown field `interfaces`"),
    ];
    for (rest, code, expected) in table {
        let (status, text) = run(&netns, &write(&place, rest));
        assert!(text.contains(expected), "{text}\n expected: {expected}");
        assert_eq!((status, text.lines().count()), (code, 1), "{text}");
        assert!(!place.join("agent.sock").exists() && !place.join("state").exists(), "nothing was started: {text}");
    }
}

#[test]
fn traffic_control_of_others_is_refused_not_fought() {
    if skipped() {
        return;
    }
    let (name, place) = place();
    let netns = Guarded::create(&name).unwrap();
    netns.run(|| linux::netlink::Socket::open().unwrap().add_veth("a0", "b0", None).unwrap()).unwrap();
    let tc = |arguments: &[&str]| {
        let mut command = Command::new("tc");
        command.args(arguments);
        netns.enter_at_exec(&mut command);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    tc(&["qdisc", "add", "dev", "a0", "root", "handle", "7:", "pfifo", "limit", "77"]);
    let (status, text) = run(&netns, &write(&place, "[[interface]]\nname = \"a0\"\nrate = \"1mbit\"\n"));
    assert!(text.contains("another program has set traffic control of a0 up"), "{text}");
    assert!(text.contains("tc qdisc del dev a0 root"), "{text}");
    assert_eq!(status, 2);
    assert!(tc(&["qdisc", "show", "dev", "a0"]).contains("limit 77p"), "it is as it was");
}

#[test]
fn a_second_agent_is_told_who_is_there() {
    let Some(bed) = Bed::up("30s") else { return };
    let pid = bed.agent("maui").pid;
    let (status, text) = run(&bed.netns("maui"), &bed.home("maui").join("agent.toml"));
    assert!(text.contains(&format!("an agent is already running (process {pid}): it holds the state in")), "{text}");
    assert_eq!(status, 3);
    let (_, other) = place();
    let config = write(&other, "[[interface]]\nname = \"to-glenwood\"\nrate = \"1mbit\"\n");
    let (status, text) = run(&bed.netns("maui"), &config);
    assert!(text.contains(&format!("(process {pid}): it holds this network namespace")), "{text}");
    assert_eq!(status, 3);
    assert_eq!(bed.status("maui").agent.pid, pid, "and the first one runs on");
}

#[test]
fn without_rights_it_says_which() {
    if skipped() {
        return;
    }
    let (_, place) = place();
    let config = write(&place, "");
    let (status, text) = as_nobody(&copy(&place), &["agent", "--config", config.to_str().unwrap()]);
    assert!(text.contains("CAP_NET_RAW") && text.contains("CAP_NET_ADMIN") && text.contains("root"), "{text}");
    assert_eq!((status, text.lines().count()), (3, 1), "{text}");
}

#[test]
fn each_right_that_is_missing_is_named_and_no_more_than_these_are_needed() {
    if skipped() {
        return;
    }
    let (name, place) = place();
    let netns = Guarded::create(&name).unwrap();
    let config = write(&place, "");
    let needed = "-all,+net_raw,+net_admin,+bpf,+sys_admin,+chown";
    let with = |rights: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--no-new-privs", "--bounding-set", rights, "--", SLUICE, "agent", "--config"]).arg(&config);
        netns.enter_at_exec(&mut command);
        command
    };
    for right in ["net_raw", "net_admin", "bpf", "sys_admin"] {
        let (status, text) = ended(&mut with(&format!("{needed},-{right}")));
        assert!(text.contains(&format!("CAP_{} missing", right.to_uppercase())), "{text}");
        assert_eq!(status, 3);
    }
    let log = place.join("log");
    let id = detached(&mut with(needed), &log);
    let answered = std::panic::catch_unwind(|| {
        wait_for("it answers", || Client::connect(&place.join("agent.sock")).ok()?.call(Request::Hello).ok())
    });
    id.signal(15).unwrap();
    wait_for("it stops", || (!id.is_running()).then_some(()));
    assert!(answered.is_ok(), "{}", fs::read_to_string(&log).unwrap());
}

#[test]
fn a_testbed_without_rights_is_refused_before_anything_is_made() {
    if skipped() {
        return;
    }
    let (_, place) = place();
    let topology = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/seed.toml");
    fs::copy(topology, place.join("seed.toml")).unwrap();
    let (status, text) = as_nobody(&copy(&place), &["up", place.join("seed.toml").to_str().unwrap()]);
    assert!(text.contains("CAP_SYS_ADMIN") && text.contains("sudo") && text.contains("simulated time"), "{text}");
    assert_eq!(status, 3);
}

#[test]
fn a_file_in_the_socket_s_place_is_not_removed() {
    if skipped() {
        return;
    }
    let (name, place) = place();
    let netns = Guarded::create(&name).unwrap();
    let config = write(&place, "");
    fs::write(place.join("agent.sock"), b"precious").unwrap();
    let (status, text) = run(&netns, &config);
    assert!(text.contains("there is a file that is no socket"), "{text}");
    assert_eq!(status, 3);
    assert_eq!(fs::read(place.join("agent.sock")).unwrap(), b"precious");
}

#[test]
fn a_socket_that_a_dead_agent_left_is_no_hindrance() {
    let Some(bed) = Bed::up("30s") else { return };
    bed.kill("maui");
    assert!(bed.home("maui").join("agent.sock").exists(), "a killed agent leaves it");
    bed.start("maui");
    wait_for("it answers", || (bed.status("maui").agent.node == "maui").then_some(()));
}

/// Who finds the control socket may signal at once: the socket of RSVP (protocol 46) is there before it, and what comes
/// early waits in it. Paths that came in between were once answered by "protocol unreachable".
#[test]
fn signalling_is_open_before_the_control_socket() {
    let Some(mut lone) = Lone::new("") else { return };
    let sockets = lone.start_and_look(|| fs::read_to_string("/proc/thread-self/net/raw").unwrap());
    assert!(sockets.lines().any(|line| line.contains(":002E ")), "no raw socket of protocol 46: {sockets}");
}

/// Where mounts are private the pinned maps end with the agent: it says so, and what to do.
#[test]
fn an_agent_under_private_mounts_says_what_that_costs() {
    let Some(mut lone) = Lone::new("") else { return };
    if Command::new("unshare").arg("--version").output().is_err() {
        return bench::skipped("unshare is not installed");
    }
    lone.start_with("exec unshare -m --propagation private \"$@\"");
    let log = lone.log();
    let line = log.lines().find(|line| line.contains("private_mounts")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("nsenter --net") && line.contains("/state/bpf"), "{line}");
}
