//! What goes wrong with whole nodes and networks, with reservations on them: power, partitions, clocks, and loss of data.

use node::io::AppId;
use sim::map::{RouteMap, address};
use sim::rng::Probability;
use sim::scenario::{Impairment, LinkId, NodeId, Scenario, SimNodeSpec};
use sim::{ScenarioAction, SendPattern, SimLinkSpec, SimReservation, SourceId, SourceSpec, World};
use terms::{Bytes, FlowKey, Rate, SenderTemplate, Session, Span, Time, Tspec};
use traffic::port::SchedulerKind;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// A host, two routers, a host; a stream of 2.8 Mbit/s with a reservation.
fn line() -> Scenario {
    let names = ["host", "r1", "r2", "peer"];
    let link = |n| {
        SimLinkSpec::ethernet(NodeId(n), NodeId(n + 1), Rate::from_mbps(10), Span::from_millis(1), SchedulerKind::Htb)
    };
    let mut scenario = Scenario {
        seed: 11,
        nodes: names.iter().map(|name| SimNodeSpec::new(name, Span::from_secs(1))).collect(),
        links: (0..3).map(link).collect(),
        measured: (at(1_000), at(60_000)),
        ..Scenario::default()
    };
    let map = RouteMap::new(&scenario);
    let [src, dst] = [0, 3].map(|n| map.address(NodeId(n)).expect("it has a link"));
    let session = Session { dst, protocol: 17, dst_port: 5_004 };
    let template = SenderTemplate { src, src_port: 5_004 };
    let tspec = Tspec { r: Rate::from_mbps(3), b: Bytes::new(20_000), p: Rate::INFINITE, m: 1_000, M: 1_500 };
    let app = AppId(1);
    scenario.script = vec![
        (at(100), ScenarioAction::Receive { node: NodeId(3), app, session, ask: SimReservation::ControlledLoad }),
        (at(100), ScenarioAction::Send { node: NodeId(0), app, session, template, tspec }),
    ];
    scenario.sources = vec![SourceSpec {
        node: NodeId(0),
        flow: FlowKey::of(&session, &template),
        packet: 1_000,
        pattern: SendPattern::Cbr { rate: Rate::from_kbps(2_800), jitter_percent: 10 },
        from: at(1_000),
        until: at(60_000),
    }];
    scenario
}

fn watched(scenario: &Scenario) -> World {
    let mut world = World::new(scenario).expect("it can be played");
    world.watch_every_step();
    world
}

fn reservations(world: &World) -> usize {
    (0..4).filter_map(|n| world.agent(NodeId(n))).map(|agent| agent.reservations().count()).sum()
}

#[test]
fn a_router_without_power_holds_nothing_and_soft_state_fills_it_again() {
    let mut scenario = line();
    scenario.script.push((at(10_000), ScenarioAction::NodeDown(NodeId(1))));
    scenario.script.push((at(20_000), ScenarioAction::NodeUp(NodeId(1))));
    let mut world = watched(&scenario);
    world.run_until(at(9_000));
    assert_eq!(reservations(&world), 3);
    world.run_until(at(10_001));
    assert!(world.agent(NodeId(1)).is_none());
    assert_eq!(world.station(NodeId(1)).plan().links.len(), 0, "its data plane is empty");
    assert!(world.station(NodeId(1)).plane().iter().all(|port| port.inside() == 0));
    let before = world.flow(SourceId(0)).received;
    world.run_until(at(19_900));
    assert!(world.flow(SourceId(0)).received <= before + 5, "nothing crosses it");
    // (K + 0.5) 1.5 R is 5.25 s, and each hop's state may be as old as that when the one before it goes.
    assert_eq!(reservations(&world), 0, "and nobody holds anything for it any more");
    world.run_until(at(30_000));
    assert_eq!(reservations(&world), 3, "refreshes bring it back");
    world.check().expect("every law holds");
}

#[test]
fn a_partition_is_a_cut_and_heals() {
    let mut scenario = line();
    scenario.script.push((at(10_000), ScenarioAction::Partition(vec![NodeId(2), NodeId(3)])));
    scenario.script.push((at(25_000), ScenarioAction::Heal));
    let mut world = watched(&scenario);
    world.run_until(at(11_000));
    assert!(!world.hops()[2].up && world.hops()[0].up && world.hops()[4].up, "only the link between the two halves");
    world.run_until(at(24_000));
    assert_eq!(reservations(&world), 0);
    world.run_until(at(35_000));
    assert_eq!(reservations(&world), 3);
    world.check().expect("every law holds");
}

#[test]
fn a_link_with_two_reasons_to_be_down_waits_for_both() {
    let mut scenario = line();
    scenario.script = vec![
        (at(1_000), ScenarioAction::LinkDown(LinkId(1))),
        (at(2_000), ScenarioAction::NodeDown(NodeId(2))),
        (at(3_000), ScenarioAction::LinkUp(LinkId(1))),
        (at(4_000), ScenarioAction::NodeUp(NodeId(2))),
    ];
    let mut world = watched(&scenario);
    for (millis, up) in [(500, true), (1_500, false), (2_500, false), (3_500, false), (4_500, true)] {
        world.run_until(at(millis));
        assert_eq!(world.hops()[2].up, up, "at {millis} ms");
    }
}

#[test]
fn a_step_of_the_calendar_clock_changes_nothing_else() {
    let steady = line();
    let mut stepping = line();
    for (n, by_nanos) in [(1, 3_600_000_000_000), (2, -86_400_000_000_000), (0, i64::MAX)] {
        stepping.script.push((at(5_000), ScenarioAction::ClockStep { node: NodeId(n), by_nanos }));
    }
    let [a, b] = [steady, stepping].map(|scenario| {
        let mut world = watched(&scenario);
        world.run_until(at(40_000));
        world.check().expect("every law holds");
        world
    });
    assert_eq!(a.story().lines(), b.story().lines());
    assert_eq!(a.flow(SourceId(0)), b.flow(SourceId(0)));
    assert_eq!([0, 1, 2].map(|n| b.calendar(NodeId(n))), [i64::MAX, 3_600_000_000_000, -86_400_000_000_000]);
}

#[test]
fn loss_of_data_leaves_signalling_alone_and_is_counted() {
    let mut scenario = line();
    let bad = Impairment {
        loss: Probability::percent(10),
        duplicate: Probability::percent(5),
        reorder: Probability::percent(20),
        late: Span::from_millis(20),
    };
    scenario.script.push((at(500), ScenarioAction::ImpairData(LinkId(1), bad)));
    let mut world = watched(&scenario);
    world.run_until(at(61_000));
    world.check().expect("every law holds");
    let (flow, counts) = (world.flow(SourceId(0)), world.hops()[2].rest.counts);
    assert_eq!(flow.received, flow.sent - counts.lost + counts.doubled);
    let percent = |n: u64| n * 100 / flow.sent;
    assert!((9..=11).contains(&percent(counts.lost)) && (4..=6).contains(&percent(counts.doubled)), "{counts:?}");
    assert!(flow.delay_max > Span::from_millis(20), "some are late");
    assert_eq!(reservations(&world), 3);
    assert_eq!(address(LinkId(0), 0), scenario.sources[0].flow.src);
}
