//! Random networks with random queues, sources and faults: every packet is somewhere, every finite transfer ends, and the same
//! seed tells the same story. A failure names its seed.

use sim::World;
use sim::map::RouteMap;
use sim::packet::UDP;
use sim::rng::{Probability, Rng};
use sim::scenario::{
    EgressSpec, Growth, Impairment, LinkConditioner, LinkId, NodeId, Queue, QueueSpec, Scenario, ScenarioAction,
    SendPattern, SimLinkSpec, SimNodeSpec, SourceId, SourceSpec, Tcp, TcpId, TcpSpec, Trace, TraceId, af1,
};
use terms::{Bytes, FlowKey, Rate, Span, Time};
use traffic::dropper::{Coupling, RedCurve};
use traffic::port::SchedulerKind;
use traffic::tree::{DropperSpec, MeterKind, MeterSpec, QueueUnit, RasSpec, ShaperSpec};

const FAULTS_END: u64 = 20;

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn queue(chance: &mut Rng) -> Queue {
    let limits = QueueSpec { packets: 2 + chance.below(40) as u32, bytes: Bytes::new(3_000 + chance.below(60_000)) };
    match chance.below(4) {
        0 => Queue::UNLIMITED,
        1 => Queue::Fifo(limits),
        2 => {
            let curve = |min| RedCurve { min, max: 3 * min, max_p: 6_000, gentle: min % 2 == 0 };
            let dropper = DropperSpec {
                curves: [curve(12), curve(8), curve(3)],
                weight: 1 << 27,
                slot: Span::from_millis(1),
                coupling: [Coupling::Coupled, Coupling::Decoupled, Coupling::Single][chance.below(3) as usize],
                unit: QueueUnit::Packets,
            };
            Queue::Rio { dropper, marker: af1(), queue: limits }
        }
        _ => Queue::Port,
    }
}

fn conditioner(chance: &mut Rng) -> LinkConditioner {
    let cir = Rate::from_kbps(500 + chance.below(2_000));
    let (pir, mir) = (cir.saturating_add(cir), Rate::from_mbps(5));
    let cbs = Bytes::new(3_000 + chance.below(9_000));
    let ras = RasSpec { buffer: Bytes::new(60_000), k: Span::from_millis(300), green: chance.below(2) == 0 };
    let thresholds = [cbs, cbs.saturating_add(cbs), Bytes::new(50_000)];
    let shaper = match chance.below(3) {
        0 => None,
        1 => Some(ShaperSpec::TrRas { rates: [cir, pir, mir], thresholds, ras }),
        _ => Some(ShaperSpec::Bucket { rate: pir, depth: Bytes::new(5_000), buffer: Bytes::new(20_000) }),
    };
    let kind = match chance.below(3) {
        0 => MeterKind::TrTcm { cir, cbs, pir, pbs: cbs },
        1 => MeterKind::SrTcm { cir, cbs, ebs: cbs },
        _ => MeterKind::TswTcm { ctr: cir, ptr: pir, interval: Span::from_millis(500) },
    };
    LinkConditioner { shaper, meter: Some(MeterSpec { kind, aware: chance.below(2) == 0 }), marker: af1() }
}

fn sources(scenario: &mut Scenario, chance: &mut Rng) {
    let map = RouteMap::new(scenario);
    let all = scenario.nodes.len() as u64;
    scenario.traces =
        vec![Trace { packets: (0..200).map(|n| (Span::from_millis(37 * n), 60 + n as u32 * 7)).collect() }];
    for n in 0..6 {
        let (from, to) = (chance.below(all) as usize, chance.below(all) as usize);
        let (Some(src), Some(dst)) = (map.address(NodeId(from)), map.address(NodeId(to))) else { continue };
        let (rate, on, off) = (Rate::from_kbps(400), Span::from_millis(300), Span::from_millis(500));
        let pattern = match n {
            0 => SendPattern::Cbr { rate, jitter_percent: 20 },
            1 => SendPattern::Exponential { rate, on, off },
            2 => SendPattern::Pareto { rate, on, off, shape_milli: 1_500 },
            3 => SendPattern::Poisson { rate },
            4 => SendPattern::OnOff { rate, on, off },
            _ => SendPattern::Trace(TraceId(0)),
        };
        let flow = FlowKey { src, dst, protocol: UDP, src_port: 9, dst_port: 9, wild: terms::Wild::NONE };
        let (from_time, until) = (Time::ZERO, at(FAULTS_END));
        scenario.sources.push(SourceSpec { node: NodeId(from), flow, packet: 500, pattern, from: from_time, until });
    }
    for _ in 0..8 {
        let (from, to) = (chance.below(all) as usize, chance.below(all) as usize);
        if from != to {
            let tcp = Tcp {
                growth: [Growth::Reno, Growth::Cubic][chance.below(2) as usize],
                limited_transmit: chance.below(2) == 0,
                delayed_ack: (chance.below(2) == 0).then(|| Span::from_millis(100)),
                forget_on_timeout: chance.below(2) == 0,
                ..Tcp::default()
            };
            let bytes = Some(Bytes::new(1 + chance.below(400_000)));
            let start = Time::from_nanos(chance.below(5_000_000_000));
            let greedy = TcpSpec::greedy(NodeId(from), NodeId(to), (1_024, 80));
            scenario.connections.push(TcpSpec { bytes, start, tcp, ..greedy });
        }
    }
}

fn faults(scenario: &mut Scenario, chance: &mut Rng) {
    let (nodes, links) = (scenario.nodes.len() as u64, scenario.links.len() as u64);
    for _ in 0..6 {
        let (node, link) = (NodeId(chance.below(nodes) as usize), LinkId(chance.below(links) as usize));
        let when = Time::from_nanos(chance.below(15_000_000_000));
        let later = when + Span::from_nanos(chance.below(5_000_000_000));
        let bad = Impairment {
            loss: Probability::percent(chance.below(20) as u32),
            duplicate: Probability::percent(chance.below(10) as u32),
            reorder: Probability::percent(chance.below(20) as u32),
            late: Span::from_millis(30),
        };
        let good = Impairment::default();
        let (bad, good) = match chance.below(4) {
            0 => (ScenarioAction::LinkDown(link), ScenarioAction::LinkUp(link)),
            1 => (ScenarioAction::NodeDown(node), ScenarioAction::NodeUp(node)),
            2 => (ScenarioAction::Partition(vec![node]), ScenarioAction::Heal),
            _ => (ScenarioAction::ImpairData(link, bad), ScenarioAction::ImpairData(link, good)),
        };
        scenario.script.push((when, bad));
        scenario.script.push((later, good));
    }
}

/// A tree of nodes with a few links more, so that everyone reaches everyone.
fn network(seed: u64, faulty: bool) -> Scenario {
    let mut chance = Rng::new(seed, 77);
    let all = 4 + chance.below(5) as usize;
    let node = |n| SimNodeSpec { agent: false, ..SimNodeSpec::new(&format!("n{n}"), Span::from_secs(30)) };
    let mut scenario = Scenario { seed, nodes: (0..all).map(node).collect(), ..Scenario::default() };
    for n in 1..all + 2 {
        let (a, b) = match n {
            n if n < all => (chance.below(n as u64) as usize, n),
            _ => (0, 1 + chance.below(all as u64 - 1) as usize),
        };
        let (rate, delay) = (Rate::from_mbps(5 + chance.below(20)), Span::from_micros(chance.below(20_000)));
        scenario.links.push(SimLinkSpec::ethernet(NodeId(a), NodeId(b), rate, delay, SchedulerKind::Htb));
    }
    for link in 0..scenario.links.len() {
        for side in 0..2 {
            let queue = queue(&mut chance);
            let with = queue != Queue::Port && chance.below(3) == 0;
            let conditioner = with.then(|| conditioner(&mut chance));
            scenario.egress.push(EgressSpec { link: LinkId(link), side, conditioner, queue });
        }
    }
    sources(&mut scenario, &mut chance);
    if faulty {
        faults(&mut scenario, &mut chance);
    }
    scenario.measured = (at(1), at(FAULTS_END));
    scenario
}

fn seeds() -> u64 {
    std::env::var("SLUICE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// Plays it, checking every law at every step of a second.
fn play(seed: u64, faulty: bool) -> World {
    let scenario = network(seed, faulty);
    let mut world = World::new(&scenario).unwrap_or_else(|why| panic!("seed {seed}: {}", why.what));
    for second in 1..=FAULTS_END {
        world.run_until(at(second));
        world.check().unwrap_or_else(|broken| panic!("seed {seed}, {second} s: {broken:?}"));
    }
    // Long enough for a timer that backed off to its minute.
    world.run_until(at(FAULTS_END + 1_200));
    world.check().unwrap_or_else(|broken| panic!("seed {seed}, at the end: {broken:?}"));
    for n in 0..scenario.connections.len() {
        let (report, spec) = (world.tcp(TcpId(n)), &scenario.connections[n]);
        assert_eq!(Some(report.delivered), spec.bytes, "seed {seed}: connection {n} is not done: {report:?}");
    }
    for n in 0..scenario.sources.len() {
        let flow = world.flow(SourceId(n));
        let doubled: u64 = world.hops().iter().map(|hop| hop.rest.counts.doubled).sum();
        assert!(flow.received <= flow.sent + doubled, "seed {seed}: source {n} received what was never sent");
    }
    world
}

#[test]
fn every_packet_is_somewhere_and_every_transfer_ends() {
    for seed in 0..seeds() {
        play(seed, false);
    }
}

#[test]
fn also_when_links_and_nodes_fail() {
    for seed in 0..seeds() {
        play(seed, true);
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..5 {
        let [a, b] = [play(seed, true), play(seed, true)];
        assert_eq!((a.story().hash(), a.events()), (b.story().hash(), b.events()), "seed {seed}");
    }
}
