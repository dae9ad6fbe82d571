//! What changes under a running agent: routes, links, traffic control of others.

use crate::bed::{Bed, SENDER, expect, reserve, tspec, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{EventDoc, FlowSpecDoc, Request, SenderId, SessionId, StyleDoc};
use std::net::IpAddr;

/// src - r1 - r2 - dst, with a way round over r3.
fn diamond(name: &str) -> TestbedFile {
    let nodes = [("src", "host"), ("r1", "router"), ("r2", "router"), ("r3", "router"), ("dst", "host")];
    let links = [("src", "r1"), ("r1", "r2"), ("r2", "dst"), ("r1", "r3"), ("r3", "r2")];
    let mut text = format!("name = \"{name}\"\nauth = \"none\"\n");
    for (node, kind) in nodes {
        text += &format!("[[node]]\nname = \"{node}\"\nkind = \"{kind}\"\n");
    }
    for (a, b) in links {
        text += &format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"10mbit\"\n");
    }
    TestbedFile::parse("diamond.toml".as_ref(), &text).unwrap()
}

#[test]
fn a_reservation_follows_a_changed_route() {
    let Some(bed) = Bed::of(diamond) else { return };
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let session = SessionId { dst: address("10.0.2.2"), protocol: 17, dst_port: 5004 };
    let from = SenderId { src: address("10.0.0.1"), src_port: 5004 };
    let mut sender = bed.client("src");
    sender.call(Request::Sender { session, sender: from, tspec: tspec(2_000_000), ttl: 64 }).unwrap();
    let mut receiver = bed.client("dst");
    receiver.call(Request::Receiver { session }).unwrap();
    expect(&mut receiver, "a path", |event| matches!(event, EventDoc::Path { .. }));
    let flowspecs = vec![FlowSpecDoc::ControlledLoad { tspec: tspec(2_000_000) }];
    let (style, senders) = (StyleDoc::Ff, vec![from]);
    receiver.call(Request::Reserve { session, style, senders, flowspecs, confirm: true }).unwrap();
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let out = |node: &str| -> Vec<String> { bed.reservations(node).into_iter().filter_map(|row| row.oif).collect() };
    assert_eq!((out("r1"), out("r3")), (vec!["to-r2".to_owned()], vec![]));
    bed.run("r1", "ip", &["route", "replace", "10.0.2.0/30", "via", "10.0.3.2"]);
    wait_for("reserved on the new way, and no longer on the old one", || {
        (out("r1") == ["to-r3"] && out("r3") == ["to-r2"]).then_some(())
    });
    let slots = |interface: &str| {
        let status = bed.status("r1");
        status.interfaces.iter().find(|row| row.name == interface).map(|row| row.slots)
    };
    assert_eq!((slots("to-r2"), slots("to-r3")), (Some(0), Some(1)), "counted once");
}

/// A route that is none of ours comes and goes all the time; one of ours changes once meanwhile. Most of the churn costs nothing, and the
/// change is followed.
#[test]
fn a_changed_route_is_followed_while_another_one_never_rests() {
    let Some(bed) = Bed::of(diamond) else { return };
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let session = SessionId { dst: address("10.0.2.2"), protocol: 17, dst_port: 5004 };
    let from = SenderId { src: address("10.0.0.1"), src_port: 5004 };
    let mut sender = bed.client("src");
    sender.call(Request::Sender { session, sender: from, tspec: tspec(2_000_000), ttl: 64 }).unwrap();
    let mut receiver = bed.client("dst");
    receiver.call(Request::Receiver { session }).unwrap();
    expect(&mut receiver, "a path", |event| matches!(event, EventDoc::Path { .. }));
    // In one program, so that it is as fast as it can be, and more changes than a fast machine makes in these seconds.
    let churn = bed.place.join("churn");
    let pair = "route add 203.0.113.0/24 dev lo\nroute del 203.0.113.0/24\n";
    std::fs::write(&churn, pair.repeat(1_000_000)).unwrap();
    let mut command = std::process::Command::new("timeout");
    command.args(["6", "ip", "-force", "-batch"]).arg(&churn).stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    let netns = bed.netns("r1");
    netns.enter_at_exec(&mut command);
    let mut churning = command.spawn().unwrap();
    bed.run("r1", "ip", &["route", "replace", "10.0.2.0/30", "via", "10.0.3.2"]);
    let out = |node: &str| -> Vec<String> {
        match bed.client(node).call(Request::Senders(Default::default())).unwrap() {
            documents::agent::Answer::Senders(rows) => rows.into_iter().filter_map(|row| row.oif).collect(),
            other => panic!("{other:?}"),
        }
    };
    wait_for("the path takes the new way", || (out("r1") == ["to-r3"] && !out("r3").is_empty()).then_some(()));
    assert!(churning.try_wait().unwrap().is_none(), "routes still come and go");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", bed.agent("r1").pid)).unwrap();
        let fields: Vec<u64> =
            stat[stat.rfind(')').unwrap() + 2..].split(' ').map(|f| f.parse().unwrap_or(0)).collect();
        fields[11] + fields[12]
    };
    let (before, begun) = (ticks(), std::time::Instant::now());
    std::thread::sleep(std::time::Duration::from_secs(1));
    let share = (ticks() - before) as f64 / 100.0 / begun.elapsed().as_secs_f64();
    eprintln!("the agent takes {:.0} % of a processor while routes come and go", 100.0 * share);
    let _ = churning.kill();
    churning.wait().unwrap();
}

#[test]
fn what_others_change_is_mended_and_what_they_take_is_told() {
    let Some(bed) = Bed::up("30s") else { return };
    let _sender = bed.sender(2_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 2_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let classes = bed.tc("yosemite", "to-maui");
    let rate = classes.lines().find(|line| line.contains("htb 5c1c:4")).unwrap().to_owned();
    bed.run("yosemite", "tc", &["qdisc", "del", "dev", "to-maui", "root"]);
    wait_for("the classes are back", || bed.tc("yosemite", "to-maui").contains(&rate).then_some(()));
    wait_for("it is told", || bed.log("yosemite").contains("event=plane_mended").then_some(()));
    let mut watcher = bed.client("yosemite");
    watcher.call(Request::Watch).unwrap();
    bed.run("yosemite", "tc", &["qdisc", "replace", "dev", "to-maui", "root", "handle", "7:", "pfifo"]);
    expect(&mut watcher, "plane_foreign", |e| matches!(e, EventDoc::Node { name, .. } if name == "plane_foreign"));
    assert!(bed.run("yosemite", "tc", &["qdisc", "show", "dev", "to-maui"]).contains("pfifo 7:"), "not fought");
    assert!(
        bed.status("yosemite").notes.iter().any(|note| note.contains("to-maui") && note.contains("another program"))
    );
    bed.run("yosemite", "tc", &["qdisc", "del", "dev", "to-maui", "root"]);
    wait_for("ours again", || bed.tc("yosemite", "to-maui").contains(&rate).then_some(()));
    wait_for("and the note goes", || {
        bed.status("yosemite").notes.iter().all(|note| !note.contains("another program")).then_some(())
    });
}

#[test]
fn a_link_that_goes_ends_what_was_reserved_on_it_and_comes_back_empty() {
    let Some(bed) = Bed::up("1s") else { return };
    let mut sender = bed.sender(2_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 2_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    bed.run("yosemite", "ip", &["link", "set", "to-maui", "down"]);
    wait_for("nothing is reserved there", || bed.reservations("yosemite").is_empty().then_some(()));
    assert!(bed.status("yosemite").notes.iter().any(|note| note.starts_with("to-maui is down or gone")));
    expect(
        &mut sender,
        "word to the sender",
        |event| matches!(event, EventDoc::ResvGone { sender, .. } if *sender == SENDER),
    );
    bed.run("yosemite", "ip", &["link", "set", "to-maui", "up"]);
    wait_for("the link is ours again", || {
        let status = bed.status("yosemite");
        let link = status.interfaces.into_iter().find(|row| row.name == "to-maui")?;
        (link.plane.is_some() && link.slots == 0).then_some(())
    });
}

#[test]
fn an_interface_that_leaves_the_configuration_is_given_back() {
    let Some(bed) = Bed::up("30s") else { return };
    let path = bed.home("maui").join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once("\n[[interface]]\nname = \"to-glenwood\"").unwrap();
    assert!(!rest.contains("[[interface]]"), "it was the last one");
    bed.kill("maui");
    std::fs::write(&path, head).unwrap();
    bed.start("maui");
    assert_eq!(bed.tc("maui", "to-glenwood"), "");
    assert!(bed.tc("maui", "to-yosemite").contains("5c1c"));
}
