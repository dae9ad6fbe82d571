//! Reservations across two routers, on real packets: made, seen, measured, refused, given up.

use crate::bed::{Bed, NODES, SENDER, SESSION, expect, reserve, wait_for};
use documents::agent::{EventDoc, Request};
use std::net::UdpSocket;
use std::time::Duration;

#[test]
fn a_reservation_is_installed_at_every_hop_and_confirmed() {
    let Some(bed) = Bed::up("30s") else { return };
    let before = bed.footprint();
    let mut sender = bed.sender(3_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 3_000_000);
    let (_, confirm) = expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let EventDoc::Confirm { session, sender: whose, node, .. } = confirm else { unreachable!("expected above") };
    assert_eq!((session, whose, node), (SESSION, SENDER, SENDER.src));
    expect(&mut sender, "word to the sender", |event| matches!(event, EventDoc::Resv { .. }));
    for (node, oif) in [("swissvale", "to-yosemite"), ("yosemite", "to-maui"), ("maui", "to-glenwood")] {
        let rows = bed.reservations(node);
        assert_eq!(rows.len(), 1, "{node}: {rows:#?}");
        let (row, installed) = (&rows[0], rows[0].installed.as_ref().expect("read back"));
        assert_eq!((row.oif.as_deref(), installed.state.as_str()), (Some(oif), "installed"), "{node}");
        assert_eq!(installed.bucket_bps, 3_000_000, "{node}");
        assert!(installed.bucket_bytes >= 64_000, "{node}: the burst that was asked, and what jitter adds to it");
        let wire = row.admitted_wire_bps.expect("admitted");
        assert!(wire > 3_000_000 && wire < 4_000_000, "{node}: link headers on top: {wire}");
        let class = bed.status(node).interfaces.into_iter().find(|i| i.name == oif).unwrap();
        let shared = class.classes.iter().find(|c| c.name == "controlled-load").unwrap();
        assert!(shared.rate_wire_bps >= wire, "{node}: {shared:?}");
        assert!(bed.tc(node, oif).contains("htb 5c1c:4"), "{node}: {}", bed.tc(node, oif));
    }
    assert_eq!(bed.reservations("glenwood")[0].oif, None, "the receiver's own, on no interface");
    drop(receiver); // an application that ends gives back what it had
    for node in NODES {
        wait_for("torn down", || bed.reservations(node).is_empty().then_some(()));
    }
    expect(&mut sender, "word to the sender", |event| matches!(event, EventDoc::ResvGone { .. }));
    let (left, had) = (sums(&bed.footprint()), sums(&before));
    assert_eq!(left, had, "ledgers are as they were, and each link's classes sum to what they summed to");
}

/// A footprint with the class of controlled load and best effort as one sum on each interface: the class keeps a step of
/// its rate for the next reservation.
fn sums(footprint: &[String]) -> Vec<String> {
    let mut sum = 0;
    let mut all = Vec::new();
    for line in footprint {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [_, _, "5c1c:2", rate, _] => sum = rate.parse::<u64>().unwrap(),
            [node, oif, "5c1c:4", rate, _] => {
                let rate = rate.parse::<u64>().unwrap();
                all.push(format!("{node} {oif} shared {}", sum + rate));
                assert!(rate <= (sum + rate) / 7, "no more than two steps of the link are kept: {line}");
            }
            _ => all.push(line.clone()),
        }
    }
    all
}

#[test]
fn what_flows_is_measured_and_what_exceeds_is_told_apart() {
    let Some(bed) = Bed::up("30s") else { return };
    let _sender = bed.sender(1_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 1_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    let socket = bed.netns("swissvale").run(|| UdpSocket::bind((SENDER.src, SENDER.src_port as u16)).unwrap()).unwrap();
    let bucket = bed.reservations("yosemite")[0].installed.as_ref().unwrap().bucket_bytes / 1000; // the first reading
    // 150 packets of 1,000 bytes at once: what the bucket holds conforms, the rest exceeds.
    for _ in 0..150 {
        socket.send_to(&[0; 972], (SESSION.dst, SESSION.dst_port)).unwrap();
    }
    let measured = wait_for("counted", || {
        let measured = bed.reservations("yosemite")[0].measured.clone().unwrap();
        (measured.packets + measured.excess_packets == 150).then_some(measured)
    });
    let conforming = bucket..=bucket + 20;
    assert!(
        conforming.contains(&measured.packets),
        "the bucket's {bucket} and what it filled up meanwhile: {measured:?}"
    );
    assert!(measured.excess_packets > 30, "{measured:?}");
    assert_eq!(measured.bytes, measured.packets * 1000, "IP bytes");
    assert_eq!(measured.excess_bytes, measured.excess_packets * 1000, "IP bytes");
    let rated = wait_for("a rate over a known interval", || {
        let measured = bed.reservations("yosemite")[0].measured.clone().unwrap();
        (measured.interval_ms >= 200).then_some(measured)
    });
    assert!(rated.bps >= 0.0 && rated.packets == measured.packets);
}

#[test]
fn a_request_over_the_bottleneck_is_refused_with_all_that_matters_and_changes_nothing() {
    let Some(bed) = Bed::up("30s") else { return };
    let _sender = bed.sender(20_000_000);
    let mut receiver = bed.receiver();
    let before = bed.footprint();
    reserve(&mut receiver, 20_000_000);
    let (_, error) = expect(&mut receiver, "the refusal", |event| matches!(event, EventDoc::Error { .. }));
    let EventDoc::Error { answers, node, code, text, .. } = error else { unreachable!("expected above") };
    assert_eq!((answers.as_str(), code), ("resv", 1), "admission control failure");
    assert_eq!(node.to_string(), "10.0.1.1", "yosemite, where the bottleneck is");
    let text = text.expect("the refusing node's own words");
    for part in ["yosemite", "to-maui", "asked", "free"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    drop(receiver);
    bed.returns_to(&before);
}

#[test]
fn the_path_goes_with_the_sender() {
    let Some(bed) = Bed::up("30s") else { return };
    let sender = bed.sender(1_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 1_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));
    drop(sender);
    expect(&mut receiver, "the path goes", |event| matches!(event, EventDoc::PathGone { .. }));
    for node in ["swissvale", "yosemite", "maui"] {
        wait_for("torn down", || bed.reservations(node).is_empty().then_some(()));
    }
}

#[test]
fn whoever_watches_sees_what_happens() {
    let Some(bed) = Bed::up("30s") else { return };
    let mut watcher = bed.client("maui");
    watcher.call(Request::Watch).unwrap();
    let _sender = bed.sender(1_000_000);
    let named =
        |wanted: &'static str| move |event: &EventDoc| matches!(event, EventDoc::Node { name, .. } if name == wanted);
    expect(&mut watcher, "path_created", named("path_created"));
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 1_000_000);
    expect(&mut watcher, "admitted", named("admitted"));
    receiver.call(Request::Release { session: Some(SESSION) }).unwrap();
    expect(&mut watcher, "released", named("released"));
    assert!(watcher.event(Duration::from_millis(1)).is_ok());
}
