//! A testbed's life: up, down, and every way that can go wrong in between.

use crate::bed::{Bed, NODES, SLUICE, place, seed, skipped};
use ::bed::record::{self, TestbedRecord, TestbedStep};
use ::bed::testbed::{self, UpError, UpOptions};
use std::fs;

fn traces(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let netns = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    found.extend(netns.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|n| n.contains(name)));
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(name)).map(str::to_owned));
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(name) && line.contains(" agent ") {
            found.push(line);
        }
    }
    found
}

#[test]
fn two_nodes_come_up_and_their_links_are_read_back() {
    if skipped() {
        return;
    }
    let (name, place) = place();
    let text = format!(
        "name = \"{name}\"\nauth = \"none\"\nnode = [{{ name = \"a\", kind = \"host\" }}, {{ name = \"b\", kind = \"host\" }}]\n\
         [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10mbit\"\nmtu = 1400\n"
    );
    let file = ::bed::file::TestbedFile::parse("two.toml".as_ref(), &text).unwrap();
    let options = UpOptions { program: SLUICE.into(), testbeds: place.to_path_buf() };
    let nodes = testbed::up(&file, &options).unwrap();
    let mut client = rpc::client::Client::connect(&nodes[0].socket).unwrap();
    let documents::agent::Answer::Status(status) = client.call(documents::agent::Request::Status).unwrap() else {
        panic!()
    };
    let link = status.interfaces.iter().find(|i| i.name == "to-b").unwrap();
    assert_eq!((link.mtu, link.rate_wire_bps, link.plane.as_deref()), (1400, Some(10_000_000), Some("htb")));
    let names: Vec<&str> = link.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["link", "best-effort", "control", "controlled-load"]);
    let guaranteed: u64 = link.classes[1..].iter().map(|class| class.rate_wire_bps).sum();
    assert!(guaranteed <= 10_000_000, "children never sum over the link: {guaranteed}");
    drop(client);
    let done = testbed::down(&place, &name).unwrap().unwrap();
    assert_eq!((done.stopped, done.killed, done.namespaces), (2, 0, 2));
    assert_eq!(traces(&name), [""; 0]);
}

#[test]
fn down_leaves_nothing_even_of_agents_that_were_killed() {
    let Some(bed) = Bed::up("30s") else { return };
    let name = bed.name.clone();
    assert!(traces(&name).len() >= 12, "4 namespaces (and mounts), 4 bpffs, 4 agents: {:#?}", traces(&name));
    bed.kill("maui");
    bed.kill("glenwood");
    let done = testbed::down(&bed.place, &name).unwrap().unwrap();
    assert_eq!((done.stopped, done.killed, done.namespaces), (2, 0, 4));
    assert_eq!(traces(&name), [""; 0]);
    assert!(!bed.place.join(&name).exists());
    assert_eq!(testbed::down(&bed.place, &name).unwrap(), None, "twice is no error");
}

#[test]
fn an_agent_that_does_not_start_takes_the_testbed_with_it() {
    if skipped() {
        return;
    }
    let (name, place) = place();
    let options = UpOptions { program: "/bin/false".into(), testbeds: place.to_path_buf() };
    match testbed::up(&seed(&name, "30s"), &options) {
        Err(UpError::Agent { node, .. }) => assert!(NODES.contains(&node.as_str())),
        other => panic!("{other:?}"),
    }
    assert_eq!(traces(&name), [""; 0]);
}

#[test]
fn what_a_crash_left_half_made_is_seen_and_removed() {
    if skipped() {
        return;
    }
    let (name, place) = place();
    let dir = place.join(&name);
    fs::create_dir_all(&dir).unwrap();
    let mut record = TestbedRecord::begin(&dir).unwrap();
    let half = format!("{name}-swissvale");
    record.add(&TestbedStep::Namespace(half.clone())).unwrap();
    linux::netns::Namespace::create(&half).unwrap();
    record.add(&TestbedStep::Namespace(format!("{name}-yosemite"))).unwrap(); // the crash came before it was made
    drop(record);
    let options = UpOptions { program: SLUICE.into(), testbeds: place.to_path_buf() };
    let refused = testbed::up(&seed(&name, "30s"), &options).unwrap_err();
    assert!(matches!(refused, UpError::AlreadyUp(_)), "{refused}");
    assert!(refused.to_string().contains(&format!("sluice down {name}")), "{refused}");
    assert_eq!(record::read(&dir).unwrap().len(), 2, "and it was left alone");
    testbed::down(&place, &name).unwrap().unwrap();
    assert_eq!(traces(&name), [""; 0]);
}
