//! Live change of one leaf, and time that runs backwards.

use super::*;
use traffic::meter::{AfClass, Color, Marker};

const LINK: Rate = Rate::from_mbps(10);

fn shared() -> TreeSpec {
    let rate = TreeShare::Rate(Rate::from_mbps(5));
    let meter = MeterSpec {
        kind: MeterKind::SrTcm { cir: Rate::from_mbps(1), cbs: Bytes::new(5_000), ebs: Bytes::new(5_000) },
        aware: false,
    };
    let metered = LeafSpec { meter: Some(meter), marker: AfClass::new(1).map(Marker::af), ..queue(Some(1)) };
    tree(LINK, SchedulerKind::Wf2q, vec![leaf("a", None, rate, metered), leaf("b", None, rate, queue(None))])
}

/// What `b` sent while `a` was changed in its middle, or was not.
fn others(change: Option<&LeafSpec>) -> Vec<(Time, u64)> {
    let mut link = Link::new(shared());
    for id in 0..400 {
        let at = Time::ZERO + Span::from_micros(id * 500);
        link.offer(packet(id, 1, 700, at));
        link.offer(packet(id, 2, 900, at));
        if let Some(leaf) = change.filter(|_| id == 200) {
            link.tree.change(at, "a", leaf.clone()).unwrap();
        }
    }
    link.run(ms(1_000));
    let b = link.tree.leaf("b").unwrap();
    link.sent.iter().filter(|(_, d)| d.leaf == b).map(|(when, d)| (*when, d.packet.id)).collect()
}

#[test]
fn a_change_does_not_disturb_the_others() {
    let undisturbed = others(None);
    assert_eq!(undisturbed.len(), 400);
    let meter = MeterSpec {
        kind: MeterKind::TrTcm {
            cir: Rate::from_kbps(64),
            cbs: Bytes::new(2_000),
            pir: Rate::from_mbps(2),
            pbs: Bytes::new(9_000),
        },
        aware: false,
    };
    let changed = LeafSpec { meter: Some(meter), marker: AfClass::new(3).map(Marker::af), ..queue(Some(1)) };
    assert_eq!(others(Some(&changed)), undisturbed);
}

#[test]
fn what_waits_survives_every_change_in_order() {
    let mut link = Link::new(shared());
    let bucket = |rate| ShaperSpec::Bucket { rate, depth: Bytes::new(2_000), buffer: Bytes::new(90_000) };
    let shaped = |shaper| LeafSpec { shaper, ..queue(Some(1)) };
    link.tree.change(Time::ZERO, "a", shaped(Some(bucket(Rate::from_kbps(8))))).unwrap();
    for id in 0..50 {
        assert_eq!(link.tree.enqueue(Time::ZERO, packet(id, 1, 1_000, Time::ZERO)), PathVerdict::Held);
    }
    assert_eq!(link.tree.counters(LeafId(0)).unwrap().held.packets, 48, "a depth of two packets");
    link.run(ms(1));
    let ras = RasSpec { buffer: Bytes::new(10_000), k: Span::from_millis(300), green: false };
    let (rates, thresholds) = ([Rate::from_mbps(1), Rate::from_mbps(2)], [Bytes::new(1_000), Bytes::new(2_000)]);
    link.tree.change(ms(1), "a", shaped(Some(ShaperSpec::SrRas { rates, thresholds, ras }))).unwrap();
    link.run(ms(20));
    link.tree.change(ms(20), "a", shaped(Some(bucket(Rate::from_mbps(5))))).unwrap();
    link.run(ms(30));
    assert!(link.tree.counters(LeafId(0)).unwrap().held.packets > 20);
    link.tree.change(ms(30), "a", shaped(None)).unwrap();
    assert_eq!(link.tree.counters(LeafId(0)).unwrap().held.packets, 0);
    link.run(ms(1_000));
    let order: Vec<u64> = link.sent.iter().map(|(_, d)| d.packet.id).collect();
    assert_eq!(order, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_packet_larger_than_the_changed_depth_is_lost_and_told() {
    let mut tree = Tree::new(shared(), Time::ZERO, 1).unwrap();
    let shaped = |depth| {
        let bucket = ShaperSpec::Bucket { rate: Rate::from_kbps(8), depth, buffer: Bytes::new(90_000) };
        LeafSpec { shaper: Some(bucket), ..queue(Some(1)) }
    };
    tree.change(Time::ZERO, "a", shaped(Bytes::new(1_000))).unwrap();
    for id in 0..2 {
        tree.enqueue(Time::ZERO, packet(id, 1, 1_000, Time::ZERO));
    }
    tree.change(ms(1), "a", shaped(Bytes::new(900))).unwrap();
    assert!(tree.dequeue(ms(1)).is_some_and(|d| d.packet.id == 0));
    let loss = tree.poll_loss().expect("the second can never go");
    assert_eq!((loss.packet.id, loss.why, loss.leaf), (1, Drop::OverDepth, LeafId(0)));
    assert!(tree.poll_loss().is_none());
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut tree = Tree::new(shared(), Time::ZERO, 1).unwrap();
    let before = tree.spec().clone();
    let mut bad = queue(Some(1));
    bad.queue.packets = 0;
    let refused = tree.change(Time::ZERO, "a", bad).unwrap_err();
    assert_eq!(refused.to_string(), "link/a: queue: packets is 0: allowed is 1 to 1048576");
    assert!(tree.change(Time::ZERO, "c", queue(Some(1))).unwrap_err().to_string().contains("no leaf of this name"));
    let over = tree.change_share(Time::ZERO, "a", TreeShare::Rate(Rate::from_mbps(6))).unwrap_err();
    assert!(over.to_string().contains("allowed is at most its own 10mbit"), "{over}");
    assert_eq!(tree.spec(), &before);
}

#[test]
fn a_share_changes_while_it_sends() {
    let mut link = Link::new(shared());
    for id in 0..1_000 {
        link.tree.enqueue(Time::ZERO, packet(id, 1, 1_000, Time::ZERO));
        link.tree.enqueue(Time::ZERO, packet(id, 2, 1_000, Time::ZERO));
    }
    link.run(ms(100));
    link.tree.change_share(link.free, "a", TreeShare::Rate(Rate::from_mbps(1))).unwrap();
    link.run(ms(500));
    let a = link.bytes("a", ms(500)) - link.bytes("a", ms(100));
    // 400 ms of 10 Mb/s are 500,000 bytes, and the rates now 1 and 5.
    assert!(a.abs_diff(83_333) <= 3 * 1_038, "{a}");
}

/// Three levels: WF2Q+, below it strict priority, below that WF2Q+ again.
fn nested(link: Rate, group: Rate) -> TreeSpec {
    let rate = |mbps| TreeShare::Rate(Rate::from_mbps(mbps));
    let nodes = vec![
        inner("group", None, TreeShare::Rate(group), SchedulerKind::Priority),
        leaf("other", None, rate(2), queue(None)),
        leaf("voice", Some("group"), TreeShare::Priority(0), queue(Some(1))),
        inner("data", Some("group"), TreeShare::Priority(1), SchedulerKind::Wf2q),
        leaf("a", Some("data"), rate(2), queue(Some(2))),
        leaf("b", Some("data"), rate(1), queue(Some(3))),
    ];
    tree(link, SchedulerKind::Wf2q, nodes)
}

/// Offers the same to every tree: bursts for all four leaves, some of them idle for a while.
fn offer(link: &mut Link, from: u64) {
    for id in 0..300 {
        let at = ms(from + id / 3);
        for (port, len, share) in [(1, 200, 3), (2, 1_400, 1), (3, 900, 2), (9, 1_100, 1)] {
            if id % share == 0 && (id / 60) % 4 != u64::from(port) {
                link.offer(packet(id, port, len, at));
            }
        }
    }
}

#[test]
fn a_changed_tree_is_as_one_made_that_way() {
    let (link, group) = (Rate::from_mbps(10), Rate::from_mbps(8));
    let sent = |mut link: Link| {
        offer(&mut link, 1);
        link.run(Time::FOREVER);
        link.sent.iter().map(|(when, d)| (*when, d.leaf, d.packet.id)).collect::<Vec<_>>()
    };
    let made = sent(Link::new(nested(link, group)));
    let mut changed = Link::new(nested(link, Rate::from_mbps(4)));
    changed.tree.change_share(Time::ZERO, "group", TreeShare::Rate(group)).unwrap();
    assert_eq!(changed.tree.spec(), &nested(link, group));
    assert!(sent(changed) == made, "an inner node's share");
    let mut changed = Link::new(nested(Rate::from_mbps(100), group));
    changed.tree.change_link(Time::ZERO, link).unwrap();
    assert_eq!(changed.tree.spec(), &nested(link, group));
    assert!(sent(changed) == made, "the link's rate");
}

#[test]
fn an_inner_nodes_share_changes_while_it_sends() {
    let mut link = Link::new(nested(LINK, Rate::from_mbps(8)));
    for id in 0..2_000 {
        for port in [2, 3, 9] {
            link.tree.enqueue(Time::ZERO, packet(id, port, 962, Time::ZERO));
        }
    }
    link.run(ms(400));
    let (a, b) = (link.bytes("a", ms(400)), link.bytes("b", ms(400)));
    // 8 Mb/s for 400 ms, shared 2 to 1.
    assert!(a.abs_diff(266_667) <= 3_000 && b.abs_diff(133_333) <= 3_000, "{a} {b}");
    link.tree.change_share(link.free, "group", TreeShare::Rate(Rate::from_mbps(3))).unwrap();
    link.run(ms(800));
    let [a, b, other] = ["a", "b", "other"].map(|leaf| link.bytes(leaf, ms(800)) - link.bytes(leaf, ms(400)));
    // 10 Mb/s shared 3 to 2, the group's 2 to 1; nobody waits for the other.
    assert!(a.abs_diff(200_000) <= 3_000 && b.abs_diff(100_000) <= 3_000 && other.abs_diff(200_000) <= 3_000);
}

#[test]
fn a_refused_change_of_an_inner_node_changes_nothing() {
    let mut tree = Tree::new(nested(LINK, Rate::from_mbps(8)), Time::ZERO, 1).unwrap();
    let before = tree.spec().clone();
    let mut refused = |name, share| tree.change_share(Time::ZERO, name, share).unwrap_err().to_string();
    let small = refused("group", TreeShare::Rate(Rate::from_mbps(2)));
    assert_eq!(small, "link/group/data: its children's rates sum to 3mbit: allowed is at most its own 2mbit");
    assert!(refused("group", TreeShare::Rate(Rate::from_mbps(9))).contains("link: its children's rates sum to 11mbit"));
    assert!(refused("group", TreeShare::Quantum(9)).contains("its parent's scheduler wf2q needs a rate"));
    assert!(refused("nobody", TreeShare::Quantum(9)).contains("there is no node of this name"));
    let refused = tree.change_link(Time::ZERO, Rate::from_mbps(9)).unwrap_err().to_string();
    assert_eq!(refused, "link: its children's rates sum to 10mbit: allowed is at most its own 9mbit");
    assert_eq!(tree.spec(), &before);
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "time runs backwards"))]
fn time_that_runs_backwards() {
    let mut tree = Tree::new(shared(), Time::ZERO, 1).unwrap();
    tree.enqueue(ms(2), packet(0, 1, 1_000, ms(2)));
    let verdict = tree.enqueue(ms(1), packet(1, 1, 1_000, ms(1)));
    // Only release builds come here.
    assert_eq!((verdict, tree.totals().backwards), (PathVerdict::Queued(Color::Green), 1));
}

#[test]
fn a_packet_that_a_change_drops_is_told_though_nothing_else_waits() {
    let mut link = Link::new(shared());
    let shaped = |depth| {
        let bucket = ShaperSpec::Bucket { rate: Rate::from_kbps(8), depth, buffer: Bytes::new(90_000) };
        LeafSpec { shaper: Some(bucket), ..queue(Some(1)) }
    };
    link.tree.change(Time::ZERO, "a", shaped(Bytes::new(1_000))).unwrap();
    for id in 0..2 {
        link.offer(packet(id, 1, 1_000, Time::ZERO));
    }
    link.run(ms(1));
    // The second can never go now. What the tree is asked next, the shaper drops it; and then nothing waits any more.
    link.tree.change(ms(1), "a", shaped(Bytes::new(900))).unwrap();
    link.tree.change_link(ms(1), LINK).unwrap();
    assert_eq!(link.tree.wake_at(ms(1)), None);
    link.run(Time::FOREVER);
    let told = |link: &Link| link.lost.iter().map(|loss| (loss.packet.id, loss.why)).collect::<Vec<_>>();
    assert_eq!(told(&link), [(1, Drop::OverDepth)]);
}
