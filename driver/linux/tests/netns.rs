//! Namespaces on this kernel: made, entered, seen by iproute2, gone.

use linux::netns::{Guarded, NETNS_DIR, Namespace};
use std::process::Command;

fn skipped() -> bool {
    // SAFETY-free check: only root may make namespaces.
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !root {
        bench::skipped("network namespaces need root");
    }
    !root
}

fn inode_of_current() -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata("/proc/thread-self/ns/net").unwrap())
}

fn unique(what: &str) -> String {
    format!("agent-{what}-{}", std::process::id())
}

#[test]
fn a_thread_enters_and_the_rest_stays_outside() {
    if skipped() {
        return;
    }
    let name = unique("enter");
    let netns = Guarded::create(&name).unwrap();
    let outside = inode_of_current();
    let inside = netns.run(inode_of_current).unwrap();
    assert_ne!(outside, inside);
    assert_eq!(inode_of_current(), outside);
    assert_eq!(Namespace::open(&name).unwrap().run(inode_of_current).unwrap(), inside);
    drop(netns);
    assert!(!Namespace::exists(&name));
    assert!(!std::fs::read_to_string("/proc/mounts").unwrap().contains(&name));
}

#[test]
fn a_child_starts_inside_and_iproute2_sees_the_name() {
    if skipped() {
        return;
    }
    let name = unique("child");
    let netns = Guarded::create(&name).unwrap();
    let mut command = Command::new("readlink");
    command.arg("/proc/self/ns/net");
    netns.enter_at_exec(&mut command);
    let child = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert_eq!(child.trim(), format!("net:[{}]", netns.run(inode_of_current).unwrap()));
    let list = Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(String::from_utf8_lossy(&list.stdout).contains(&name));
    let via_ip = Command::new("ip").args(["netns", "exec", &name, "readlink", "/proc/self/ns/net"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&via_ip.stdout).trim(), child.trim());
}

#[test]
fn names_that_are_taken_or_not_plain_are_refused() {
    if skipped() {
        return;
    }
    let name = unique("twice");
    let first = Guarded::create(&name).unwrap();
    let again = Namespace::create(&name).unwrap_err();
    assert!(again.to_string().contains(&name), "{again}");
    assert_eq!(again.code(), 17, "EEXIST");
    assert!(Namespace::exists(&name), "the failed attempt left the first one alone");
    drop(first);
    for bad in ["", ".", "..", "a/b"] {
        assert!(Namespace::create(bad).is_err());
    }
}

#[test]
fn deleting_is_idempotent_and_clears_a_half_made_name() {
    if skipped() {
        return;
    }
    let name = unique("half");
    let keeper = Guarded::create(&unique("keeper")).unwrap();
    std::fs::write(format!("{NETNS_DIR}/{name}"), b"").unwrap(); // what a crash before the mount leaves
    Namespace::delete(&name).unwrap();
    assert!(!Namespace::exists(&name));
    Namespace::delete(&name).unwrap();
    drop(keeper);
}
