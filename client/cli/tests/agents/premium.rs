//! Premium cannot be stolen: a host that marks its own flood is best effort behind an edge, and on its own way out, while
//! what was booked keeps its class, also behind an interface that is believed.

use crate::bed::{Bed, wait_for};
use ::bed::file::TestbedFile;
use documents::agent::{Answer, BookAnswer, Request};
use documents::book::{AskDoc, BindingDoc, FlowDoc, PartDoc, ReservationDoc, WhenDoc};
use rpc::client::Client;
use std::path::Path;

/// Two hosts, an edge, a node in the middle of the domain with classes set apart, and where they send to.
fn domain(name: &str) -> TestbedFile {
    let mut text = format!("name = \"{name}\"\n");
    for (node, kind) in
        [("alpha", "host"), ("charlie", "host"), ("edge", "router"), ("core", "router"), ("far", "host")]
    {
        text += &format!("[[node]]\nname = \"{node}\"\nkind = \"{kind}\"\n");
    }
    for ends in [["alpha", "edge"], ["charlie", "edge"], ["edge", "core"], ["core", "far"]] {
        text += &format!("[[link]]\nbetween = {ends:?}\nrate = \"20mbit\"\n");
    }
    TestbedFile { keys: false, ..TestbedFile::parse(Path::new("domain.toml"), &text).unwrap() }
}

/// Twenty echoes from a node to the far end, marked EF by whoever sends them; all of them come back.
fn round(bed: &Bed, node: &str) {
    let arguments = ["-n", "-q", "-Q", "184", "-s", "500", "-c", "20", "-i", "0.02", "-W", "5", "10.0.3.2"];
    let said = bed.run(node, "ping", &arguments);
    assert!(said.contains(" 20 received"), "{node}: best effort is not lost: {said}");
}

/// Packets in the premium class of the way out of a node.
fn premium(bed: &Bed, node: &str, interface: &str) -> u64 {
    let status = bed.status(node);
    let row = status.interfaces.iter().find(|row| row.name == interface).unwrap();
    row.classes.iter().find(|class| class.class == "5c1c:5").map_or(0, |class| class.packets)
}

fn reservation(client: &mut Client, request: Request) -> ReservationDoc {
    match client.call(request).unwrap() {
        Answer::Book(BookAnswer::Reservation(doc)) => doc,
        other => panic!("{other:?}"),
    }
}

fn book(client: &mut Client, flow: FlowDoc) -> ReservationDoc {
    let binding = Some(BindingDoc::Flow(flow));
    let part = PartDoc { resource: "net/to-core".into(), rate: Some(8_000_000), binding, ..PartDoc::default() };
    let ask = AskDoc { parts: vec![part], when: WhenDoc::lasting(600.0), ..AskDoc::default() };
    reservation(client, Request::BookCreate(ask))
}

#[test]
fn a_host_that_marks_its_own_flood_gets_best_effort() {
    let Some(bed) = Bed::of(domain) else { return };
    bed.kill("core");
    let file = bed.home("core").join("agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("role = \"core\"") && text.contains("role = \"edge\""), "{text}");
    let set_apart = "name = \"to-far\"\ncore = { premium = \"10mbit\" }\n";
    std::fs::write(&file, text.replace("name = \"to-far\"\n", set_apart)).unwrap();
    bed.start("core");
    let flow = FlowDoc {
        src: Some("10.0.0.1".parse().unwrap()),
        dst: Some("10.0.3.2".parse().unwrap()),
        protocol: Some(1),
        ..FlowDoc::default()
    };
    let mut client = bed.client("edge");
    let booked = book(&mut client, flow);
    let show = || Request::BookShow { handle: Some(booked.handle.clone()), filter: Default::default() };
    wait_for("in force", || (reservation(&mut client, show()).parts[0].enforced == "in_force").then_some(()));
    let now = || [premium(&bed, "edge", "to-core"), premium(&bed, "core", "to-far")];
    // What hosts behind the edge send, and what nodes send themselves: none of it is booked.
    for node in ["charlie", "edge", "core"] {
        let before = now();
        round(&bed, node);
        assert_eq!(now(), before, "{node} marked its packets premium, and nobody had booked them");
    }
    // What is booked has the class at the edge, and behind the interface that is believed.
    let before = now();
    round(&bed, "alpha");
    assert_eq!(now(), before.map(|packets| packets + 20), "booked packets have their class on the whole way");
    for node in ["alpha", "edge", "core"] {
        let notes = bed.status(node).notes;
        assert!(notes.iter().all(|note| !note.contains("nobody has said")), "{node}: every end is declared: {notes:?}");
    }
    // An agent that was killed leaves the edges in force, and the next takes them over.
    bed.kill("edge");
    let before = premium(&bed, "core", "to-far");
    round(&bed, "charlie");
    assert_eq!(premium(&bed, "core", "to-far"), before, "while no agent runs");
    bed.start("edge");
    let before = now();
    round(&bed, "charlie");
    assert_eq!(now(), before, "and after it has come back");
}
