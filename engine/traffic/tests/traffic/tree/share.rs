//! Each scheduler at the root, and two levels.

use super::*;
use terms::ServiceCurve;
use traffic::scheduler::hfsc::Curves;

const LINK: Rate = Rate::from_mbps(10);

/// Every port of 1 to `n` gets 500 packets of 1,000 bytes at once; then one second of the link.
fn flood(spec: TreeSpec, n: u16) -> Link {
    let mut link = Link::new(spec);
    for id in 0..500 {
        for port in 1..=n {
            link.tree.enqueue(Time::ZERO, packet(id, port, 1_000, Time::ZERO));
        }
    }
    link.run(ms(200));
    link
}

fn two(scheduler: SchedulerKind, first: TreeShare, second: TreeShare) -> TreeSpec {
    tree(LINK, scheduler, vec![leaf("a", None, first, queue(Some(1))), leaf("b", None, second, queue(None))])
}

#[test]
fn priority_serves_the_first_alone() {
    let link = flood(two(SchedulerKind::Priority, TreeShare::Priority(1), TreeShare::Priority(0)), 2);
    assert_eq!(link.bytes("a", ms(200)), 0);
    assert!(link.bytes("b", ms(200)) >= 249_000, "200 ms of 10 Mb/s are 250,000 bytes");
}

#[test]
fn wf2q_shares_by_rates() {
    let rates = (TreeShare::Rate(Rate::from_mbps(7)), TreeShare::Rate(Rate::from_mbps(3)));
    let link = flood(two(SchedulerKind::Wf2q, rates.0, rates.1), 2);
    let (a, b) = (link.bytes("a", ms(200)), link.bytes("b", ms(200)));
    assert!(a.abs_diff(175_000) <= 2 * 1_038 && b.abs_diff(75_000) <= 2 * 1_038, "{a} and {b} of 250,000");
}

#[test]
fn drr_shares_by_quanta() {
    let link = flood(two(SchedulerKind::Drr, TreeShare::Quantum(3_000), TreeShare::Quantum(1_500)), 2);
    let (a, b) = (link.bytes("a", ms(200)), link.bytes("b", ms(200)));
    assert!(a.abs_diff(166_667) <= 4_500 && b.abs_diff(83_333) <= 4_500, "{a} and {b} of 250,000");
}

#[test]
fn hfsc_gives_real_time_first_and_limits() {
    let real = Curves { real_time: Some(ServiceCurve::linear(Rate::from_mbps(4))), ..Curves::default() };
    let limit = ServiceCurve::linear(Rate::from_mbps(2));
    let capped = Curves { upper_limit: Some(limit), ..Curves::share(Rate::from_mbps(6)) };
    let link = flood(two(SchedulerKind::Hfsc, TreeShare::Curves(real), TreeShare::Curves(capped)), 2);
    let (a, b) = (link.bytes("a", ms(200)), link.bytes("b", ms(200)));
    assert!(a.abs_diff(100_000) <= 2 * 1_038, "{a}: only its real-time curve, 4 Mb/s for 200 ms");
    assert!(b.abs_diff(50_000) <= 2 * 1_038, "{b}: no more than its limit, 2 Mb/s, though the link is idle");
}

#[test]
fn hfsc_that_is_limited_says_when_it_sends_again() {
    let limit = Some(ServiceCurve::linear(Rate::from_mbps(1)));
    let capped = Curves { upper_limit: limit, ..Curves::share(Rate::from_mbps(1)) };
    let spec = tree(LINK, SchedulerKind::Hfsc, vec![leaf("a", None, TreeShare::Curves(capped), queue(None))]);
    let mut tree = Tree::new(spec, Time::ZERO, 1).unwrap();
    for id in 0..2 {
        tree.enqueue(Time::ZERO, packet(id, 1, 1_000, Time::ZERO));
    }
    assert!(tree.dequeue(Time::ZERO).is_some());
    assert!(tree.dequeue(Time::ZERO).is_none());
    let again = tree.wake_at(Time::ZERO).unwrap();
    assert_eq!(again, Time::from_nanos(1_038 * 8_000), "1,038 bytes at 1 Mb/s");
    assert!(tree.dequeue(again).is_some());
}

/// `voice` above all; below it `data` shares by WF2Q+: gold 6, silver 3, rest 1.
fn two_levels() -> TreeSpec {
    let rate = |mbps| TreeShare::Rate(Rate::from_mbps(mbps));
    let nodes = vec![
        leaf("gold", Some("data"), rate(6), queue(Some(1))),
        leaf("silver", Some("data"), rate(3), queue(Some(2))),
        leaf("rest", Some("data"), rate(1), queue(None)),
        leaf("voice", None, TreeShare::Priority(0), queue(Some(4))),
        inner("data", None, TreeShare::Priority(1), SchedulerKind::Wf2q),
    ];
    tree(LINK, SchedulerKind::Priority, nodes)
}

#[test]
fn two_levels_share_what_voice_leaves() {
    let mut link = Link::new(two_levels());
    for id in 0..500 {
        for port in 1..=3 {
            link.tree.enqueue(Time::ZERO, packet(id, port, 1_000, Time::ZERO));
        }
    }
    // 162 bytes on the wire every ms: about 1.3 Mb/s.
    for at in 0..200 {
        link.offer(packet(at, 4, 124, ms(at)));
    }
    link.run(ms(200));
    let voice = link.bytes("voice", ms(200));
    assert_eq!(voice, 200 * 162);
    for (name, tenths) in [("gold", 6), ("silver", 3), ("rest", 1)] {
        let (is, due) = (link.bytes(name, ms(200)), (250_000 - voice) * tenths / 10);
        assert!(is.abs_diff(due) <= 2 * 1_038, "{name} has {is}, its share is {due}");
    }
    // Nothing below strict priority is settled ahead: voice waits for one packet on the wire at most.
    for (when, departure) in link.sent.iter().filter(|(_, d)| d.packet.flow.dst_port == 4) {
        let waited = when.since(departure.packet.arrival);
        assert!(waited <= LINK.span_for(Bytes::new(1_038)), "voice waited {waited:?}");
    }
}

#[test]
fn priority_below_wf2q_waits_for_one_settled_packet() {
    let rate = TreeShare::Rate(Rate::from_mbps(5));
    let nodes = vec![
        inner("left", None, rate, SchedulerKind::Priority),
        leaf("high", Some("left"), TreeShare::Priority(0), queue(Some(1))),
        leaf("low", Some("left"), TreeShare::Priority(1), queue(Some(2))),
        leaf("right", None, rate, queue(None)),
    ];
    let mut tree = Tree::new(tree(LINK, SchedulerKind::Wf2q, nodes), Time::ZERO, 1).unwrap();
    for (id, port) in [(0, 2), (1, 2), (2, 1), (3, 3)] {
        tree.enqueue(Time::ZERO, packet(id, port, 500, Time::ZERO));
    }
    let order: Vec<u64> = std::iter::from_fn(|| tree.dequeue(Time::ZERO)).map(|d| d.packet.id).collect();
    assert_eq!(order, [0, 3, 2, 1], "0 was settled before 2 came; 2 before 1");
}

#[test]
fn four_levels_of_every_kind() {
    let nodes = vec![
        inner("one", None, TreeShare::Curves(Curves::share(Rate::from_mbps(10))), SchedulerKind::Priority),
        inner("two", Some("one"), TreeShare::Priority(3), SchedulerKind::Drr),
        inner("three", Some("two"), TreeShare::Quantum(1_500), SchedulerKind::Wf2q),
        leaf("a", Some("three"), TreeShare::Rate(Rate::from_mbps(8)), queue(Some(1))),
        leaf("b", Some("three"), TreeShare::Rate(Rate::from_mbps(2)), queue(Some(2))),
        leaf("c", Some("two"), TreeShare::Quantum(1_500), queue(None)),
    ];
    let link = flood(tree(LINK, SchedulerKind::Hfsc, nodes), 3);
    for (name, due) in [("a", 100_000u64), ("b", 25_000), ("c", 125_000)] {
        let is = link.bytes(name, ms(200));
        assert!(is.abs_diff(due) <= 4 * 1_038, "{name} has {is} of {due}");
    }
}
