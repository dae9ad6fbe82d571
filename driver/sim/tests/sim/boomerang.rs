//! Boomerang among hogs, on simulated links with queues and the very node of the daemon: streams in both directions are reserved
//! by one message from one end, the other end is a host that knows nothing but ping.

use boomerang::{AppId, ApplicationCall, BoomerangUpcall, SessionRequest};
use sim::experiment::{GLENWOOD, MAUI, SWISSVALE, YOSEMITE, flood_source, flow, testbed, video_source};
use sim::run_trace::TraceEvent;
use sim::scenario::{LinkId, NodeId, SimLinkSpec, SimNodeSpec, SourceSpec};
use sim::{Scenario, ScenarioAction, SourceId, World};
use terms::{FlowKey, Rate, Span, Time};
use traffic::port::SchedulerKind;
use wire::boomerang::{Family, Rates, Selector};

const OUT: Rate = Rate::from_kbps(3_200);
const VIDEO: SourceId = SourceId(0);
const BACK: SourceId = SourceId(1);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn turned(flow: FlowKey) -> FlowKey {
    FlowKey {
        src: flow.dst,
        dst: flow.src,
        protocol: flow.protocol,
        src_port: flow.dst_port,
        dst_port: flow.src_port,
        wild: terms::Wild::NONE,
    }
}

/// The receiver reserves the way back to it, and half a megabit for itself.
fn ask(refresh: u8) -> ScenarioAction {
    let forward = turned(flow(5_004, 5_004));
    let asked = SessionRequest {
        far_end: forward.dst,
        source: Some(forward.src),
        classifier: Selector::of(&forward),
        mask: Selector::exact(Family::V4),
        rates: vec![Rates { forward: 500_000, reverse: OUT.as_bps() as u32 }],
        at_least: Rates::default(),
        refresh,
        no_echo: false,
        uid: None,
        auth: None,
        count: true,
        ttl: 64,
        router_alert: false,
    };
    ScenarioAction::Boomerang { node: GLENWOOD, call: ApplicationCall::Reserve { app: AppId(1), asked } }
}

/// A stream from the other end: the same as a source there, in small packets.
fn back(mut source: SourceSpec) -> SourceSpec {
    source.node = GLENWOOD;
    source.flow = turned(source.flow);
    source
}

/// Video one way and a stream the other, floods of 12 Mbit/s both ways, over 10 Mbit/s; the sender's host has no agent.
fn scenario(reserve: bool) -> Scenario {
    let (from, until) = (at(2_000), at(22_000));
    let stream = SourceSpec {
        packet: 500,
        pattern: sim::scenario::SendPattern::Cbr { rate: Rate::from_kbps(400), jitter_percent: 0 },
        ..video_source(5_004, 5_004, from, until)
    };
    let flood = |from, until| flood_source(Rate::from_mbps(12), 9_000, 9_000, from, until);
    let mut scenario = Scenario {
        sources: vec![
            video_source(5_004, 5_004, from, until),
            back(stream),
            flood(at(1_000), at(23_000)),
            back(flood(at(1_000), at(23_000))),
        ],
        script: if reserve { vec![(at(100), ask(3))] } else { vec![] },
        measured: (from, until),
        ..testbed(SchedulerKind::Htb, Span::from_secs(1), 11)
    };
    scenario.nodes[SWISSVALE.0].agent = false;
    scenario
}

fn upcalls(world: &World) -> Vec<(Time, BoomerangUpcall)> {
    let lines = world.story().of(GLENWOOD);
    lines
        .filter_map(
            |line| if let TraceEvent::Boomerang(_, upcall) = line.what { Some((line.at, upcall)) } else { None },
        )
        .collect()
}

fn reserved_on(world: &World, node: NodeId) -> usize {
    world.agent(node).unwrap().reservations().count()
}

#[test]
fn both_directions_are_protected_by_one_round_trip() {
    let mut without = World::new(&scenario(false)).unwrap();
    without.run_until(at(24_000));
    assert!(without.flow(VIDEO).lost() > 100 && without.flow(BACK).lost() > 10, "the floods hurt");
    let mut world = World::new(&scenario(true)).unwrap();
    world.watch_every_step();
    world.run_until(at(24_000));
    assert_eq!((world.flow(VIDEO).lost(), world.flow(BACK).lost()), (0, 0));
    let (when, said) = upcalls(&world)[0];
    assert!(matches!(said, BoomerangUpcall::Reserved { hops: Some((2, 2)), .. }));
    assert!(when - at(100) < Span::from_millis(2), "one round trip: {:?}", when - at(100));
    assert_eq!((world.check(), world.broken()), (Ok(()), None));
}

/// A fifth of all messages is lost, each way: with an interval of two seconds the state still lives.
#[test]
fn lost_refreshes_do_not_lose_the_reservation() {
    let mut scenario = scenario(true);
    scenario.script[0].1 = ask(2);
    let lossy = sim::scenario::Impairment { loss: sim::rng::Probability::percent(20), ..Default::default() };
    scenario.script.push((at(1_900), ScenarioAction::Impair(LinkId(1), lossy)));
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(24_000));
    assert_eq!((world.flow(VIDEO).lost(), world.flow(BACK).lost()), (0, 0));
    assert_eq!(world.check(), Ok(()));
}

#[test]
fn a_killed_router_keeps_classes_and_adopts_them() {
    let mut scenario = scenario(true);
    scenario.script.push((at(5_000), ScenarioAction::Crash(YOSEMITE)));
    scenario.script.push((at(9_000), ScenarioAction::Restart(YOSEMITE)));
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(9_000));
    let agent = world.agent(YOSEMITE).unwrap();
    assert!(agent.reservations().count() == 2 && agent.reservations().all(|r| r.adopted_until.is_some()));
    world.run_until(at(13_000));
    assert!(world.agent(YOSEMITE).unwrap().reservations().all(|r| r.adopted_until.is_none()), "asked for again");
    world.run_until(at(24_000));
    assert_eq!((world.flow(VIDEO).lost(), world.flow(BACK).lost()), (0, 0));
    assert_eq!((world.check(), world.broken()), (Ok(()), None));
}

/// The initiating host dies: nobody refreshes, and after 3.5 intervals nothing is left anywhere.
#[test]
fn a_dead_initiator_is_forgotten() {
    let mut scenario = scenario(true);
    scenario.script.push((at(5_000), ScenarioAction::Crash(GLENWOOD)));
    let mut world = World::new(&scenario).unwrap();
    world.run_until(at(12_000));
    assert_eq!((reserved_on(&world, YOSEMITE), reserved_on(&world, MAUI)), (2, 2));
    world.run_until(at(16_000));
    assert_eq!((reserved_on(&world, YOSEMITE), reserved_on(&world, MAUI)), (0, 0));
}

/// A router between the two that runs nothing: messages pass it, the aware ones hold the reservation.
#[test]
fn an_unaware_router_in_the_middle_changes_nothing() {
    let mut scenario = scenario(true);
    let middle = NodeId(scenario.nodes.len());
    scenario.nodes.push(SimNodeSpec { agent: false, ..SimNodeSpec::new("old", Span::from_secs(1)) });
    let last = scenario.links[2];
    scenario.links[2] = SimLinkSpec { ends: [MAUI, middle], ..last };
    scenario.links.push(SimLinkSpec { ends: [middle, GLENWOOD], ..last });
    // Glenwood is now at the end of link 3.
    let glenwood = sim::map::address(LinkId(3), 1);
    let moved = |flow: FlowKey| {
        let place = |address| if address == flow_end() { glenwood } else { address };
        FlowKey { src: place(flow.src), dst: place(flow.dst), ..flow }
    };
    for source in &mut scenario.sources {
        source.flow = moved(source.flow);
    }
    if let ScenarioAction::Boomerang { call: ApplicationCall::Reserve { asked, .. }, .. } = &mut scenario.script[0].1 {
        asked.classifier.src = glenwood;
        asked.source = Some(glenwood);
    }
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(24_000));
    assert!(
        matches!(upcalls(&world)[0].1, BoomerangUpcall::Reserved { hops: Some((2, 2)), .. }),
        "{:?}",
        upcalls(&world)
    );
    assert_eq!((world.flow(VIDEO).lost(), world.flow(BACK).lost()), (0, 0));
    assert_eq!((world.check(), world.broken()), (Ok(()), None));
}

fn flow_end() -> std::net::IpAddr {
    flow(5_004, 5_004).dst
}
