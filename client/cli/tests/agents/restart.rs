//! An agent that is killed: what it promised stays in the kernel, and the next one takes it over.

use crate::bed::{Bed, SENDER, SESSION, expect, reserve, tspec, wait_for};
use documents::agent::{EventDoc, FlowSpecDoc, Request, StyleDoc};
use std::net::UdpSocket;

#[test]
fn a_killed_router_s_promises_stay_and_are_adopted() {
    let Some(bed) = Bed::up("1s") else { return };
    let _sender = bed.sender(6_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 6_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let classes = bed.tc("yosemite", "to-maui");
    let socket = bed.netns("swissvale").run(|| UdpSocket::bind((SENDER.src, SENDER.src_port as u16)).unwrap()).unwrap();
    let send = |n: usize| {
        for _ in 0..n {
            socket.send_to(&[0; 72], (SESSION.dst, SESSION.dst_port)).unwrap();
        }
    };
    send(10);
    let counted = || bed.reservations("yosemite")[0].measured.clone().map(|m| m.packets);
    wait_for("the flow is counted", || (counted()? == 10).then_some(()));
    bed.kill("yosemite");
    assert_eq!(bed.tc("yosemite", "to-maui"), classes, "classes stay without an agent");
    send(10);
    bed.start("yosemite");
    let rows = bed.reservations("yosemite");
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let state = rows[0].installed.as_ref().unwrap().state;
    assert!(state == "adopted" || state == "installed", "{state}");
    assert!(rows[0].admitted_wire_bps.is_some_and(|wire| wire > 6_000_000), "it holds its capacity");
    wait_for("packets that passed while no agent ran were counted", || (counted()? == 20).then_some(()));
    assert!(bed.log("yosemite").contains("event=adopted"), "{}", bed.log("yosemite"));
    wait_for("a refresh claims it again", || {
        let rows = bed.reservations("yosemite");
        (rows.len() == 1 && rows[0].installed.as_ref()?.state == "installed" && rows[0].nhop.is_some()).then_some(())
    });
    assert_eq!(bed.tc("yosemite", "to-maui"), classes);
    assert_eq!(bed.reservations("swissvale").len(), 1, "nobody upstream noticed");
}

#[test]
fn a_shared_reservation_of_a_killed_router_loses_no_packet_of_its_class() {
    let Some(bed) = Bed::up("1s") else { return };
    let _sender = bed.sender(2_000_000);
    let mut receiver = bed.receiver();
    let flowspecs = vec![FlowSpecDoc::ControlledLoad { tspec: tspec(2_000_000) }];
    let (style, senders) = (StyleDoc::Se, vec![SENDER]);
    receiver.call(Request::Reserve { session: SESSION, style, senders, flowspecs, confirm: true }).unwrap();
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let socket = bed.netns("swissvale").run(|| UdpSocket::bind((SENDER.src, SENDER.src_port as u16)).unwrap()).unwrap();
    let mut sent = 0;
    let mut send = || {
        for _ in 0..10 {
            socket.send_to(&[0; 72], (SESSION.dst, SESSION.dst_port)).unwrap();
        }
        sent += 10;
        sent
    };
    let counted = || bed.reservations("yosemite").first()?.measured.clone().map(|m| m.packets);
    let all = send();
    wait_for("the flow is counted", || (counted()? == all).then_some(()));
    bed.kill("yosemite");
    send();
    bed.start("yosemite");
    let all = send();
    wait_for("each packet before, between and after had its class", || (counted()? == all).then_some(()));
    wait_for("a refresh claims it again", || {
        let rows = bed.reservations("yosemite");
        let state = rows.first()?.installed.as_ref().map(|installed| installed.state.as_str());
        (rows.len() == 1 && rows[0].style == Some(StyleDoc::Se) && state == Some("installed")).then_some(())
    });
    let all = send();
    wait_for("and still", || (counted()? == all).then_some(()));
}

#[test]
fn adopted_capacity_is_not_given_twice_and_ends_with_its_lifetime() {
    let Some(bed) = Bed::up("1s") else { return };
    let sender = bed.sender(6_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 6_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    for node in ["glenwood", "swissvale", "yosemite"] {
        bed.kill(node); // nobody is left who could refresh
    }
    drop((sender, receiver));
    bed.start("yosemite");
    let link = || bed.status("yosemite").interfaces.into_iter().find(|i| i.name == "to-maui").unwrap();
    let held = link();
    assert_eq!(held.slots, 1);
    assert!(held.free_wire_bps < 4_000_000, "{held:?}");
    wait_for("its lifetime of 5.25 s ends", || (link().slots == 0).then_some(()));
    assert!(link().free_wire_bps > 9_000_000);
    assert!(bed.log("yosemite").contains("event=adopted_expired"));
    assert!(bed.reservations("yosemite").is_empty());
}

#[test]
fn a_stop_in_good_order_gives_everything_back() {
    let Some(bed) = Bed::up("30s") else { return };
    assert!(bed.tc("maui", "to-glenwood").contains("5c1c"));
    let agent = bed.agent("maui");
    agent.signal(15).unwrap();
    wait_for("it stops", || (!agent.is_running()).then_some(()));
    assert_eq!(bed.tc("maui", "to-glenwood"), "");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(bed.home("maui").to_str().unwrap()), "its bpffs is unmounted");
    assert!(!bed.home("maui").join("agent.sock").exists());
    bed.start("maui");
    assert!(bed.tc("maui", "to-glenwood").contains("5c1c"));
}
