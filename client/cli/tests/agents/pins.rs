//! `sluice agent --pins`: an agent that may mount nothing, as its service runs it.

use crate::lone::Lone;
use linux::process::ProcessId;
use std::fs;
use std::process::Command;

/// The bit of CAP_SYS_ADMIN in `/proc/PID/status` (capabilities(7)).
const SYS_ADMIN: u64 = 1 << 21;

fn may_mount(agent: ProcessId) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", agent.pid)).unwrap();
    let held = status.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap();
    u64::from_str_radix(held.trim(), 16).unwrap() & SYS_ADMIN != 0
}

#[test]
fn an_agent_that_may_not_mount_pins_where_it_is_told() {
    let Some(mut lone) = Lone::new("") else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        return bench::skipped("setpriv is not here");
    }
    lone.link_up();
    let pins = lone.place.join("bpffs");
    fs::create_dir_all(&pins).unwrap();
    let without = |more: &str| format!("exec setpriv --bounding-set -sys_admin \"$@\" {more}");
    let told = format!("--pins {}", pins.join("sluice").display());

    // Without a folder it cannot start, and says what is missing; nor with one that is on no bpffs.
    let refused = |line: &str| {
        let mut child = lone.child(&format!("{line} 2> {}", lone.place.join("said").display()));
        assert_eq!(child.wait().unwrap().code(), Some(3), "{line}");
        fs::read_to_string(lone.place.join("said")).unwrap()
    };
    let said = refused(&without(""));
    assert!(said.contains("CAP_SYS_ADMIN missing"), "{said}");
    let said = refused(&without(&told));
    assert!(said.contains("on no bpffs"), "{said}");

    let mounted = Command::new("mount").args(["-t", "bpf", "bpf"]).arg(&pins).status().unwrap();
    assert!(mounted.success());
    let agent = lone.start_with(&without(&told));
    assert!(!may_mount(agent), "it has the right to mount");
    assert_eq!(fs::read_link(lone.state().join("bpf")).unwrap(), pins.join("sluice"));
    let booking = [
        "reserve",
        "net/near=3mbit",
        "--for",
        "1h",
        "--source",
        "10.9.0.1",
        "--to",
        "10.9.0.2:5004",
        "--protocol",
        "udp",
    ];
    lone.printed(&booking);
    lone.printed(&["wait", "--last", "--for", "in-force", "--timeout", "10s"]);
    let (before, pinned) = (classes_of(&lone), count(&pins.join("sluice")));
    assert!(before >= 4 && pinned > 5, "{before} classes, {pinned} pins");

    // What it leaves when it is killed is there for the next one.
    lone.kill();
    assert_eq!(classes_of(&lone), before);
    let agent = lone.start_with(&without(&told));
    assert!(!may_mount(agent));
    lone.printed(&["wait", "--last", "--for", "in-force", "--timeout", "10s"]);
    assert_eq!((classes_of(&lone), count(&pins.join("sluice"))), (before, pinned));
    // An agent that may mount, and is told nothing, finds them too: it goes by the same link.
    lone.kill();
    lone.start();
    assert_eq!((classes_of(&lone), count(&pins.join("sluice"))), (before, pinned));
    lone.stop();
}

fn classes_of(lone: &Lone) -> usize {
    lone.tc(&["class", "show", "dev", "near"]).lines().count()
}

/// The pins below a folder.
fn count(dir: &std::path::Path) -> usize {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
}
