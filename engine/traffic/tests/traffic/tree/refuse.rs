//! What cannot work is refused, with the path of the offending node and what is allowed.

use super::*;
use terms::ServiceCurve;
use traffic::dropper::{Coupling, RedCurve};
use traffic::meter::Marker;
use traffic::scheduler::hfsc::Curves;

const LINK: Rate = Rate::from_mbps(10);

fn rate(mbps: u64) -> TreeShare {
    TreeShare::Rate(Rate::from_mbps(mbps))
}

fn says(spec: TreeSpec) -> String {
    check(&spec).expect_err("this cannot work").to_string()
}

/// What is said of a leaf that was changed so.
fn of_leaf(change: impl FnOnce(&mut LeafSpec)) -> String {
    let mut spec = queue(None);
    change(&mut spec);
    let nodes =
        vec![inner("data", None, TreeShare::Priority(0), SchedulerKind::Wf2q), leaf("x", Some("data"), rate(1), spec)];
    says(tree(LINK, SchedulerKind::Priority, nodes))
}

#[test]
fn structure() {
    let wf2q = |nodes| says(tree(LINK, SchedulerKind::Wf2q, nodes));
    let default = || leaf("rest", None, rate(1), queue(None));
    let table = [
        (
            says(tree(Rate::ZERO, SchedulerKind::Wf2q, vec![default()])),
            "link: rate is 0bit: allowed is 1bit to 400gbit",
        ),
        (
            says(tree(Rate::INFINITE, SchedulerKind::Wf2q, vec![default()])),
            "link: rate is infinite: allowed is 1bit to 400gbit",
        ),
        (wf2q(vec![]), "link: the number of nodes is 0: allowed is 1 to 262144"),
        (wf2q(vec![default(), default()]), "link/rest: the name is there twice: each node needs its own"),
        (wf2q(vec![leaf("a/b", None, rate(1), queue(None))]), "link/a/b: a name is 1 to 64 characters without `/`"),
        (
            wf2q(vec![leaf("a", Some("nobody"), rate(1), queue(None))]),
            "link/a: there is no node \"nobody\" to be its parent",
        ),
        (
            wf2q(vec![default(), leaf("a", Some("rest"), rate(1), queue(Some(1)))]),
            "link/a: its parent \"rest\" is a leaf: only a node with a scheduler has children",
        ),
        (
            wf2q(vec![
                default(),
                inner("a", Some("b"), rate(1), SchedulerKind::Wf2q),
                inner("b", Some("a"), rate(1), SchedulerKind::Wf2q),
            ]),
            "link/a: the node is its own ancestor: its parents must lead to the link",
        ),
        (
            wf2q(vec![default(), inner("a", None, rate(1), SchedulerKind::Wf2q)]),
            "link/a: it has a scheduler but no children: at least one is needed",
        ),
        (
            wf2q(vec![default(), leaf("a", None, TreeShare::Priority(1), queue(Some(1)))]),
            "link/a: it states a priority, its parent's scheduler wf2q needs a rate",
        ),
        (
            wf2q(vec![default(), inner("a", None, rate(1), SchedulerKind::Hfsc)]),
            "link/a: hfsc is allowed at the link only: use wf2q, drr or priority here",
        ),
        (
            wf2q(vec![leaf("a", None, rate(1), queue(Some(1)))]),
            "link: no leaf takes what no rule matches: exactly one leaf must be without rules",
        ),
        (
            wf2q(vec![default(), leaf("a", None, rate(1), queue(None))]),
            "link/a: rules: 2 leaves are without rules: exactly one takes what no rule matches",
        ),
    ];
    for (said, expected) in table {
        assert_eq!(said, expected);
    }
}

#[test]
fn children_over_the_parent() {
    let over = vec![leaf("a", None, rate(6), queue(Some(1))), leaf("rest", None, rate(5), queue(None))];
    assert_eq!(
        says(tree(LINK, SchedulerKind::Wf2q, over)),
        "link: its children's rates sum to 11mbit: allowed is at most its own 10mbit"
    );
    let below = vec![
        inner("data", None, rate(4), SchedulerKind::Wf2q),
        leaf("a", Some("data"), rate(3), queue(Some(1))),
        leaf("rest", Some("data"), rate(2), queue(None)),
    ];
    assert_eq!(
        says(tree(LINK, SchedulerKind::Wf2q, below)),
        "link/data: its children's rates sum to 5mbit: allowed is at most its own 4mbit"
    );
    let alone =
        vec![inner("data", None, rate(4), SchedulerKind::Wf2q), leaf("rest", Some("data"), rate(5), queue(None))];
    assert_eq!(says(tree(LINK, SchedulerKind::Wf2q, alone)), "link/data/rest: rate is 5mbit: allowed is 1bit to 4mbit");
    let zero = vec![leaf("rest", None, rate(0), queue(None))];
    assert_eq!(says(tree(LINK, SchedulerKind::Wf2q, zero)), "link/rest: rate is 0bit: allowed is 1bit to 10mbit");
    let quantum = vec![leaf("rest", None, TreeShare::Quantum(0), queue(None))];
    assert_eq!(says(tree(LINK, SchedulerKind::Drr, quantum)), "link/rest: quantum is 0: allowed is 1 to 16777216");
    let curves = |m1, m2| {
        let curve = ServiceCurve { m1: Rate::from_mbps(m1), d: Span::from_millis(10), m2: Rate::from_mbps(m2) };
        TreeShare::Curves(Curves { real_time: Some(curve), ..Curves::default() })
    };
    let hfsc = |a, b| {
        says(tree(
            LINK,
            SchedulerKind::Hfsc,
            vec![leaf("a", None, a, queue(Some(1))), leaf("rest", None, b, queue(None))],
        ))
    };
    assert_eq!(
        hfsc(curves(6, 1), curves(5, 1)),
        "link: its children's real-time curves ask for more than 10mbit carries in 10ms: lower them"
    );
    assert_eq!(
        hfsc(curves(1, 6), curves(1, 5)),
        "link: its children's real-time curves rise faster than 10mbit in the end: lower m2"
    );
    let nothing = TreeShare::Curves(Curves::default());
    assert_eq!(
        hfsc(nothing, curves(1, 1)),
        "link/a: it has neither a real-time nor a link-sharing curve: at least one is needed"
    );
}

fn tr_tcm(cir: u64, pir: u64) -> Option<MeterSpec> {
    let (cir, pir) = (Rate::from_mbps(cir), Rate::from_mbps(pir));
    let kind = MeterKind::TrTcm { cir, cbs: Bytes::new(3_000), pir, pbs: Bytes::new(3_000) };
    Some(MeterSpec { kind, aware: false })
}

fn tr_ras(rates: [u64; 3], thresholds: [u64; 3], green: bool) -> Option<ShaperSpec> {
    let ras = RasSpec { buffer: Bytes::new(9_000), k: Span::from_millis(300), green };
    Some(ShaperSpec::TrRas { rates: rates.map(Rate::from_mbps), thresholds: thresholds.map(Bytes::new), ras })
}

#[test]
fn leaves() {
    let marker = |dscp| Some(Marker::new(Dscp(dscp), Dscp(0), Dscp(0)));
    let table = [
        (of_leaf(|l| l.queue.packets = 0), "queue: packets is 0: allowed is 1 to 1048576"),
        (of_leaf(|l| l.queue.bytes = Bytes::ZERO), "queue: bytes is 0b: allowed is 1b to 4096mb"),
        (of_leaf(|l| l.meter = tr_tcm(0, 1)), "meter: cir is 0bit: allowed is 1bit to 1mbit"),
        (of_leaf(|l| l.meter = tr_tcm(3, 2)), "meter: cir is 3mbit: allowed is 1bit to 2mbit"),
        (of_leaf(|l| l.meter = tr_tcm(3, 11)), "meter: pir is 11mbit: allowed is 1bit to 10mbit"),
        (
            of_leaf(|l| l.meter = tr_tcm(1, 2).map(|m| MeterSpec { aware: true, ..m })),
            "meter: a colour-aware meter needs a marker that says which code points mean which colour",
        ),
        (of_leaf(|l| l.marker = marker(64)), "marker: a code point is 64: allowed is 0 to 63"),
        (
            of_leaf(|l| l.shaper = tr_ras([3, 2, 10], [1, 2, 3], false)),
            "shaper: CIR 3mbit, PIR 2mbit, MIR 10mbit, line 10mbit: must be 0 < CIR <= PIR <= MIR <= line rate",
        ),
        (
            of_leaf(|l| l.shaper = tr_ras([1, 2, 11], [1, 2, 3], false)),
            "shaper: CIR 1mbit, PIR 2mbit, MIR 11mbit, line 10mbit: must be 0 < CIR <= PIR <= MIR <= line rate",
        ),
        (
            of_leaf(|l| l.shaper = tr_ras([1, 2, 3], [1, 3, 2], false)),
            "shaper: CIR_th 1b, PIR_th 3b, MIR_th 2b, buffer 9000b: must be CIR_th <= PIR_th <= MIR_th <= buffer",
        ),
        (
            of_leaf(|l| l.shaper = tr_ras([1, 2, 3], [1, 2, 3], true)),
            "shaper: a green shaper asks the meter behind it: allowed are srtcm and trtcm",
        ),
    ];
    for (said, expected) in table {
        assert_eq!(said, format!("link/data/x: {expected}"));
    }
}

#[test]
fn droppers() {
    let with = |max: [u32; 3], weight, queue: u32| {
        of_leaf(|l| {
            let curves = max.map(|max| RedCurve { min: 10, max, max_p: 100, gentle: false });
            let (slot, coupling) = (Span::from_micros(1), Coupling::Coupled);
            l.dropper = Some(DropperSpec { curves, weight, slot, coupling, unit: QueueUnit::Packets });
            l.queue.packets = queue;
        })
    };
    let table = [
        (with([30, 10, 30], 1, 100), "thresholds 10 and 10: the lower must be below the upper, the upper at most 2^30"),
        (with([30, 30, 30], 0, 100), "a weight of 0/2^32: allowed is 1 to 2^32"),
        (with([30, 30, 101], 1, 100), "the upper threshold (the queue must reach it) is 101: allowed is 1 to 100"),
    ];
    for (said, expected) in table {
        assert_eq!(said, format!("link/data/x: dropper: {expected}"));
    }
}
