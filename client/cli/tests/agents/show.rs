//! The operator's tables: what each says of a reservation over two routers, and that filters hold.

use crate::bed::{Bed, SENDER, SESSION, SLUICE, expect, reserve};
use documents::agent::{Answer, EventDoc, Request, RowFilter, Rows, StyleDoc, TableDoc, View};
use documents::show::{HelloStateDoc, NeighbourRow};
use std::net::IpAddr;
use std::process::Command;

fn show(bed: &Bed, node: &str, view: View, filter: RowFilter) -> TableDoc {
    match bed.client(node).call(Request::Show { view, filter }).unwrap() {
        Answer::Shown(shown) => shown,
        other => panic!("{other:?}"),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The rows of one view, or a panic that shows what came instead.
macro_rules! rows {
    ($bed:expr, $node:expr, $view:ident, $filter:expr) => {
        match show($bed, $node, View::$view, $filter).rows {
            Rows::$view(rows) => rows,
            other => panic!("{other:?}"),
        }
    };
    ($bed:expr, $node:expr, $view:ident) => {
        rows!($bed, $node, $view, RowFilter::default())
    };
}

#[test]
fn every_table_tells_its_part_of_one_reservation() {
    let Some(bed) = Bed::up("30s") else { return };
    let _sender = bed.sender(3_000_000);
    let mut receiver = bed.receiver();
    reserve(&mut receiver, 3_000_000);
    expect(&mut receiver, "the confirmation", |event| matches!(event, EventDoc::Confirm { .. }));

    let interfaces = rows!(&bed, "maui", Interfaces);
    let told: Vec<_> = interfaces.iter().map(|i| (i.name.as_str(), i.up, i.reservations, i.neighbours)).collect();
    assert_eq!(told, [("to-yosemite", true, 0, 1), ("to-glenwood", true, 1, 1)]);
    let out = &interfaces[1];
    assert!(out.allocated_wire_bps > 3_000_000 && out.reservable_wire_bps > Some(90_000_000), "{out:?}");
    assert!(out.received >= 1 && out.sent >= 2, "a Resv in; a Path and a ResvConf out: {out:?}");

    let neighbours = rows!(&bed, "maui", Neighbours);
    let told: Vec<_> = neighbours.iter().map(|n| (n.address, n.paths, n.reservations, n.direct)).collect();
    assert_eq!(told, [(ip("10.0.1.1"), 1, 0, true), (ip("10.0.2.2"), 0, 1, true)]);

    crate::bed::wait_for("both neighbours have said Hello and reduce refreshes", || {
        let neighbours = rows!(&bed, "maui", Neighbours);
        let agreed = |n: &NeighbourRow| (n.refresh_reduction, n.hello) == (Some(true), HelloStateDoc::Up);
        (neighbours.len() == 2 && neighbours.iter().all(agreed)).then_some(())
    });
    for neighbour in rows!(&bed, "maui", Neighbours) {
        let [key] = &neighbour.keys[..] else { panic!("each link has its key: {neighbour:?}") };
        assert_eq!(key.algorithm.as_deref(), Some("hmac-sha-256"), "{neighbour:?}");
    }

    let sender = &rows!(&bed, "maui", Senders)[0];
    assert_eq!((sender.session, sender.sender, sender.phop), (SESSION, SENDER, Some(ip("10.0.1.1"))));

    let request = &rows!(&bed, "maui", Requests)[0];
    assert_eq!((request.phop, request.interface.as_deref()), (Some(ip("10.0.1.1")), Some("to-yosemite")));
    assert_eq!(request.style, Some(StyleDoc::Ff));
    assert!(request.refresh_in_ms.is_some_and(|ms| ms <= 45_000), "{request:?}");

    let reservation = &rows!(&bed, "maui", Reservations)[0];
    assert_eq!((reservation.nhop, reservation.oif.as_deref()), (Some(ip("10.0.2.2")), Some("to-glenwood")));

    let installed = &rows!(&bed, "maui", Installed)[0];
    assert_eq!((installed.interface.as_str(), installed.state.as_str()), ("to-glenwood", "installed"));
    assert_eq!((installed.class.as_str(), installed.bucket_bps), ("5c1c:4", Some(3_000_000)));

    let signalling = rows!(&bed, "maui", Signalling);
    let paths = signalling.iter().find(|s| (s.interface.as_str(), s.message.as_str()) == ("to-yosemite", "Path"));
    assert!(paths.is_some_and(|s| s.received >= 1 && s.received_peak_per_s >= 1), "{signalling:#?}");
    assert_eq!(rows!(&bed, "maui", Sessions)[0].session, SESSION);
    assert!(rows!(&bed, "maui", Counters).iter().any(|c| c.name == "Resv" && c.received >= 1));

    filters_hold(&bed);
    commands_print(&bed);
}

fn filters_hold(bed: &Bed) {
    let on = |name: &str| RowFilter { interface: Some(name.to_owned()), ..RowFilter::default() };
    assert_eq!(rows!(bed, "maui", Interfaces, on("to-glenwood")).len(), 1);
    assert_eq!(rows!(bed, "maui", Senders, on("to-yosemite")).len(), 1, "in by it");
    assert_eq!(rows!(bed, "maui", Senders, on("to-glenwood")).len(), 1, "out by it");
    assert_eq!(rows!(bed, "maui", Senders, on("lo")).len(), 0);
    assert_eq!(rows!(bed, "maui", Installed, on("to-yosemite")).len(), 0);
    let to = |dst: IpAddr, dst_port| RowFilter { dst: Some(dst), dst_port, ..RowFilter::default() };
    assert_eq!(rows!(bed, "maui", Reservations, to(SESSION.dst, None)).len(), 1);
    assert_eq!(rows!(bed, "maui", Reservations, to(SESSION.dst, Some(SESSION.dst_port))).len(), 1);
    assert_eq!(rows!(bed, "maui", Reservations, to(SESSION.dst, Some(1))).len(), 0);
    assert_eq!(rows!(bed, "maui", Requests, to(SENDER.src, None)).len(), 0);
    let none = show(bed, "maui", View::Senders, RowFilter { limit: Some(0), ..RowFilter::default() });
    assert_eq!(none, TableDoc { rows: Rows::Senders(Vec::new()), more: 1 });
}

/// The names of before and the names that operators know print the same rows.
fn commands_print(bed: &Bed) {
    let socket = bed.home("maui").join("agent.sock");
    let printed = |view: &str, more: &[&str]| {
        let output = Command::new(SLUICE).args(["rsvp", view, "--socket"]).arg(&socket).args(more).output().unwrap();
        assert!(output.status.success(), "{view}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for (name, old) in [("sender", "senders"), ("reservation", "reservations"), ("session", "sessions")] {
        let head = |text: String| text.lines().next().unwrap().split_whitespace().next().map(str::to_owned);
        assert_eq!((head(printed(name, &[])).as_deref(), head(printed(old, &[])).as_deref()), (Some("To"), Some("To")));
    }
    for view in ["interface", "neighbor", "request", "installed", "counters", "signalling", "rate"] {
        assert!(printed(view, &[]).lines().count() >= 2, "{view}: a head and a row");
        let json: serde_json::Value = serde_json::from_str(&printed(view, &["--json"])).unwrap();
        assert!(json.as_array().is_some_and(|rows| !rows.is_empty()), "{view}: {json}");
    }
    assert_eq!(printed("sender", &["--session", "10.9.9.9"]), "no senders\n");
}
