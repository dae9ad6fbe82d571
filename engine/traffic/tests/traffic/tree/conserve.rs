//! Whatever the tree, the packets and the changes: what came in is sent, dropped, queued or held, packet by packet.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use traffic::dropper::{Coupling, RedCurve};
use traffic::meter::{AfClass, Marker};
use traffic::scheduler::hfsc::Curves;

const LINK: Rate = Rate::from_mbps(50);

fn shaper() -> impl Strategy<Value = Option<ShaperSpec>> {
    let ras = |green| RasSpec { buffer: Bytes::new(20_000), k: Span::from_millis(50), green };
    let rate = |kbps: u64| Rate::from_kbps(kbps);
    prop_oneof![
        Just(None),
        (1u64..20_000, 500u64..4_000).prop_map(move |(kbps, depth)| {
            Some(ShaperSpec::Bucket { rate: rate(kbps), depth: Bytes::new(depth), buffer: Bytes::new(20_000) })
        }),
        (1u64..9_000, any::<bool>()).prop_map(move |(kbps, green)| {
            let thresholds = [Bytes::new(2_000), Bytes::new(9_000)];
            Some(ShaperSpec::SrRas { rates: [rate(kbps), rate(kbps * 5)], thresholds, ras: ras(green) })
        }),
        (1u64..9_000, any::<bool>()).prop_map(move |(kbps, green)| {
            let thresholds = [2_000, 5_000, 9_000].map(Bytes::new);
            Some(ShaperSpec::TrRas { rates: [rate(kbps), rate(kbps * 2), rate(kbps * 5)], thresholds, ras: ras(green) })
        }),
    ]
}

fn meter() -> impl Strategy<Value = Option<MeterSpec>> {
    let kinds = (0u8..4, 1u64..9_000, 0u64..5_000, any::<bool>());
    kinds.prop_map(|(kind, kbps, burst, aware)| {
        let (cir, pir) = (Rate::from_kbps(kbps), Rate::from_kbps(kbps * 2));
        let (cbs, ebs) = (Bytes::new(burst + 1), Bytes::new(burst * 2 + 1));
        let kind = match kind {
            0 => MeterKind::SrTcm { cir, cbs, ebs },
            1 => MeterKind::TrTcm { cir, cbs, pir, pbs: ebs },
            2 => MeterKind::Rfc4115 { cir, cbs, eir: pir, ebs },
            _ => MeterKind::TswTcm { ctr: cir, ptr: pir, interval: Span::from_millis(20) },
        };
        Some(MeterSpec { kind, aware: aware && !matches!(kind, MeterKind::TswTcm { .. }) })
    })
}

fn dropper() -> impl Strategy<Value = Option<DropperSpec>> {
    let curve = |max| RedCurve { min: 3, max, max_p: 9_000, gentle: true };
    let couplings = prop_oneof![Just(Coupling::Coupled), Just(Coupling::Decoupled), Just(Coupling::Single)];
    proptest::option::of((couplings, any::<bool>())).prop_map(move |some| {
        some.map(|(coupling, packets)| DropperSpec {
            curves: [curve(20), curve(12), curve(6)],
            weight: 1 << 30,
            slot: Span::from_micros(200),
            coupling,
            unit: if packets { QueueUnit::Packets } else { QueueUnit::Bytes },
        })
    })
}

/// A leaf; where its green shaper would have nobody to ask, it has none.
fn conditioned() -> impl Strategy<Value = LeafSpec> {
    (shaper(), meter(), dropper(), 1u32..60).prop_map(|(shaper, meter, dropper, packets)| {
        let asks = matches!(meter.map(|m| m.kind), Some(MeterKind::SrTcm { .. } | MeterKind::TrTcm { .. }));
        let shaper = shaper.filter(|s| match s {
            ShaperSpec::Bucket { .. } => true,
            ShaperSpec::SrRas { ras, .. } | ShaperSpec::TrRas { ras, .. } => asks || !ras.green,
        });
        let marker = AfClass::new(1).map(Marker::af);
        let limits = QueueSpec { packets: packets.max(20), bytes: Bytes::new(30_000) };
        LeafSpec { rules: Vec::new(), shaper, meter, marker, dropper, queue: limits }
    })
}

fn share(scheduler: SchedulerKind, n: u64) -> TreeShare {
    match scheduler {
        SchedulerKind::Htb => unreachable!("it runs the classes of a plan"),
        SchedulerKind::Priority => TreeShare::Priority(n as u8),
        SchedulerKind::Wf2q => TreeShare::Rate(Rate::from_mbps(n + 1)),
        SchedulerKind::Drr => TreeShare::Quantum(400 + 700 * n as u32),
        SchedulerKind::Hfsc => {
            let limit = Some(terms::ServiceCurve::linear(Rate::from_mbps(2 * n + 1)));
            TreeShare::Curves(Curves { upper_limit: limit, ..Curves::share(Rate::from_mbps(n + 1)) })
        }
    }
}

/// Three leaves at the link, three below one of its children.
fn spec() -> impl Strategy<Value = TreeSpec> {
    let inner_kind = prop_oneof![Just(SchedulerKind::Priority), Just(SchedulerKind::Wf2q), Just(SchedulerKind::Drr)];
    let root_kind = prop_oneof![inner_kind.clone(), Just(SchedulerKind::Hfsc)];
    (root_kind, inner_kind, proptest::collection::vec(conditioned(), 6)).prop_map(|(root, below, leaves)| {
        let mut nodes = vec![inner("below", None, share(root, 9), below)];
        for (i, mut spec) in leaves.into_iter().enumerate() {
            if i > 0 {
                spec.rules.push(MultiFieldRule { dst_ports: Some((i as u16, i as u16)), ..MultiFieldRule::default() });
            }
            let (parent, kind) = if i < 3 { (None, root) } else { (Some("below"), below) };
            nodes.push(leaf(&format!("leaf{i}"), parent, share(kind, i as u64 % 3), spec));
        }
        tree(LINK, root, nodes)
    })
}

fn balanced(tree: &Tree) -> Result<(), TestCaseError> {
    for (id, name) in tree.leaves() {
        let leaf = tree.counters(id).unwrap();
        let all = leaf.total();
        prop_assert_eq!(leaf.arrived, leaf.refused.plus(leaf.held).plus(all.metered), "{}: {:?}", name, leaf);
        let after = [all.early, all.forced, all.overflowed, all.queued, all.sent];
        let after = after.into_iter().fold(Tally::default(), Tally::plus);
        prop_assert_eq!(all.metered, after, "{}: {:?}", name, leaf);
    }
    Ok(())
}

/// Offers the arrivals, changing one leaf's description before one of them; every packet goes one way exactly once.
fn holds(
    spec: TreeSpec,
    arrivals: &[(u64, u16, u32, u8)],
    (changed, which, before): &(LeafSpec, usize, usize),
    seed: u64,
) -> Result<(), TestCaseError> {
    let tree = Tree::new(spec, Time::ZERO, seed).unwrap();
    let mut link = Link { tree, free: Time::ZERO, sent: Vec::new(), lost: Vec::new() };
    let (mut now, mut gone, mut offered) = (Time::ZERO, BTreeSet::new(), Tally::default());
    for (id, &(gap, port, len, dscp)) in arrivals.iter().enumerate() {
        now = now + Span::from_nanos(gap);
        let packet = PacketMeta { dscp: Dscp(dscp), ..packet(id as u64, port, len, now) };
        offered = offered.plus(Tally { packets: 1, bytes: u64::from(len) });
        link.run(now);
        if id == *before {
            let mut leaf = changed.clone();
            leaf.rules
                .push(MultiFieldRule { dst_ports: Some((*which as u16, *which as u16)), ..MultiFieldRule::default() });
            link.tree.change(now, &format!("leaf{which}"), leaf).unwrap();
        }
        if let PathVerdict::Dropped(_) = link.tree.enqueue(now, packet) {
            prop_assert!(gone.insert(packet.id));
        }
        balanced(&link.tree)?;
    }
    let arrived = link.tree.leaves().map(|(id, _)| link.tree.counters(id).unwrap().arrived);
    prop_assert_eq!(arrived.fold(link.tree.totals().runts, Tally::plus), offered);
    // Everything drains, and every packet went one way exactly once.
    link.run(Time::FOREVER);
    balanced(&link.tree)?;
    for loss in &link.lost {
        prop_assert!(gone.insert(loss.packet.id));
    }
    for (_, departure) in &link.sent {
        prop_assert!(gone.insert(departure.packet.id));
    }
    prop_assert_eq!(gone.len() as u64, offered.packets);
    prop_assert_eq!(link.tree.queued(), 0);
    prop_assert_eq!(link.tree.wake_at(link.free), None);
    Ok(())
}

/// Found by chance, and made small: a shaper lets the third packet go at once, the dropper behind it takes it, and nothing
/// else is in the tree, so that nothing is due. That it was lost must be told all the same.
#[test]
fn a_packet_that_is_dropped_behind_its_shaper_when_nothing_else_waits() {
    let curve = |max| RedCurve { min: 3, max, max_p: 9_000, gentle: true };
    let (depth, buffer) = (Bytes::new(2_528), Bytes::new(20_000));
    let shaped = LeafSpec {
        shaper: Some(ShaperSpec::Bucket { rate: Rate::from_kbps(6_445), depth, buffer }),
        dropper: Some(DropperSpec {
            curves: [curve(20), curve(12), curve(6)],
            weight: 1 << 30,
            slot: Span::from_micros(200),
            coupling: Coupling::Coupled,
            unit: QueueUnit::Bytes,
        }),
        ..queue(None)
    };
    let rest = leaf("leaf0", None, TreeShare::Priority(0), queue(None));
    let spec =
        tree(LINK, SchedulerKind::Priority, vec![rest, leaf("leaf1", None, TreeShare::Priority(1), queue(Some(1)))]);
    let arrivals = [(0, 1, 1_000, 0), (0, 1, 1_000, 0), (450_000, 1, 90, 0)];
    holds(spec, &arrivals, &(shaped, 1, 0), 0).unwrap();
}

proptest! {
    #![proptest_config(chance::cases(300))]

    #[test]
    fn nothing_is_lost(
        spec in spec(),
        arrivals in proptest::collection::vec((0u64..400_000, 0u16..7, 0u32..1_600, 0u8..64), 1..250),
        change in (conditioned(), 1usize..6, 0usize..250),
        seed in any::<u64>(),
    ) {
        holds(spec, &arrivals, &change, seed)?;
    }
}
