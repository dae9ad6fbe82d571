//! Ways and neighbours: what reservations do when the way changes, and when a node on it does not speak RSVP.

use node::io::{AppId, Event, Upcall};
use sim::experiment::set_up_time;
use sim::map::address;
use sim::run_trace::TraceEvent;
use sim::scenario::{LinkId, NodeId, Scenario, SimNodeSpec};
use sim::{ScenarioAction, SendPattern, SimLinkSpec, SimReservation, SourceId, SourceSpec, World};
use terms::{Bytes, FlowKey, IfIndex, Rate, SenderTemplate, Session, Span, Time, Tspec};
use traffic::port::SchedulerKind;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn tspec() -> Tspec {
    Tspec { r: Rate::from_mbps(3), b: Bytes::new(20_000), p: Rate::INFINITE, m: 1_000, M: 1_500 }
}

/// Nodes by name, links by their ends; a stream of 2.8 Mbit/s from the first node to the last, reserved.
fn reserved_stream(names: &[&str], ends: &[(usize, usize)]) -> Scenario {
    let node =
        |name: &&str| SimNodeSpec { agent: !name.starts_with("plain"), ..SimNodeSpec::new(name, Span::from_secs(1)) };
    let link = |&(a, b): &(usize, usize)| {
        let rate = Rate::from_mbps(10);
        SimLinkSpec::ethernet(NodeId(a), NodeId(b), rate, Span::from_millis(1), SchedulerKind::Htb)
    };
    let mut scenario = Scenario {
        nodes: names.iter().map(node).collect(),
        links: ends.iter().map(link).collect(),
        measured: (at(2_000), at(30_000)),
        seed: 4,
        ..Scenario::default()
    };
    let map = sim::map::RouteMap::new(&scenario);
    let [src, dst] = [0, names.len() - 1].map(|n| map.address(NodeId(n)).expect("every node has a link"));
    let session = Session { dst, protocol: 17, dst_port: 5_004 };
    let template = SenderTemplate { src, src_port: 5_004 };
    let (app, receiver) = (AppId(1), NodeId(names.len() - 1));
    scenario.script = vec![
        (at(100), ScenarioAction::Receive { node: receiver, app, session, ask: SimReservation::ControlledLoad }),
        (at(100), ScenarioAction::Send { node: NodeId(0), app, session, template, tspec: tspec() }),
    ];
    scenario.sources = vec![SourceSpec {
        node: NodeId(0),
        flow: FlowKey::of(&session, &template),
        packet: 1_000,
        pattern: SendPattern::Cbr { rate: Rate::from_kbps(2_800), jitter_percent: 10 },
        from: at(2_000),
        until: at(30_000),
    }];
    scenario
}

/// Which (node, interface) hold a reservation.
fn holders(world: &World, nodes: usize) -> Vec<(usize, u32)> {
    let of = |n| world.agent(NodeId(n)).into_iter().flat_map(|a| a.reservations()).map(move |r| (n, r.oif.0));
    (0..nodes).flat_map(of).collect()
}

#[test]
fn a_stream_finds_another_way_and_is_never_held_on_both() {
    // 0 host, 1 2 3 routers in a triangle, 4 host: the short way is 1-3, the other 1-2-3.
    let mut scenario = reserved_stream(&["host", "r1", "r2", "r3", "peer"], &[(0, 1), (1, 3), (1, 2), (2, 3), (3, 4)]);
    scenario.script.push((at(10_000), ScenarioAction::LinkDown(LinkId(1))));
    scenario.script.push((at(20_000), ScenarioAction::LinkUp(LinkId(1))));
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    let short = vec![(0, 1), (1, 2), (3, 3)];
    let long = vec![(0, 1), (1, 3), (2, 2), (3, 3)];
    world.run_until(at(9_000));
    assert_eq!(holders(&world, 5), short);
    world.run_until(at(19_000));
    assert_eq!(holders(&world, 5), long);
    let mut both = false;
    for millis in 19_000..29_000 {
        world.run_until(at(millis));
        let router: Vec<_> = holders(&world, 5).into_iter().filter(|(node, _)| *node == 1).collect();
        both |= router.len() > 1;
    }
    assert!(!both, "the same stream is held twice in one router");
    assert_eq!(holders(&world, 5), short, "and back");
    world.run_until(at(31_000));
    assert!(world.flow(SourceId(0)).lost() < 10, "only what was on the link when it went");
    assert_eq!(world.check(), Ok(()));
}

#[test]
fn a_node_that_does_not_speak_rsvp_is_crossed_and_noticed() {
    let scenario = reserved_stream(&["host", "r1", "plain", "r2", "peer"], &[(0, 1), (1, 2), (2, 3), (3, 4)]);
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(31_000));
    assert_eq!(holders(&world, 5), [(0, 1), (1, 2), (3, 2)]);
    assert!(set_up_time(&world, NodeId(4)).is_some());
    let noticed = |line: &sim::run_trace::TraceLine| {
        matches!(line.what, TraceEvent::Event(Event::Rsvp(rsvp::io::Event::NonRsvpHop { .. })))
    };
    assert!(world.story().of(NodeId(3)).any(noticed), "the next RSVP node sees the TTL");
    let adspec = world.story().of(NodeId(4)).find_map(|line| match &line.what {
        TraceEvent::Upcall(_, Upcall::Path { adspec, .. }) => *adspec,
        _ => None,
    });
    assert!(adspec.unwrap().break_bit, "and the receiver is told");
    assert_eq!((world.flow(SourceId(0)).lost(), world.check()), (0, Ok(())));
}

#[test]
fn ways_are_shortest_and_ties_are_settled_by_the_lower_interface() {
    // A square: from 0 to 3 both ways are two hops.
    let scenario = reserved_stream(&["a", "b", "c", "d"], &[(0, 2), (0, 1), (1, 3), (2, 3)]);
    let map = sim::map::RouteMap::new(&scenario);
    let to = map.address(NodeId(3)).unwrap();
    assert_eq!(map.way_out(NodeId(0), to), Some(IfIndex(1)), "by c, whose link comes first");
    assert_eq!(map.with(LinkId(0), false).way_out(NodeId(0), to), Some(IfIndex(2)));
    let cut = map.with(LinkId(0), false).with(LinkId(1), false);
    assert_eq!(cut.way_out(NodeId(0), to), None);
    assert_eq!(map.owner(address(LinkId(3), 1)), Some(NodeId(3)));
}

#[test]
fn scenarios_that_mean_nothing_are_refused_with_what_is_wrong() {
    let good = || reserved_stream(&["a", "b"], &[(0, 1)]);
    let wrong = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = good();
        change(&mut scenario);
        World::new(&scenario).err().map(|unplayable| unplayable.what).unwrap_or_default()
    };
    assert_eq!(wrong(&|_| {}), "");
    assert_eq!(wrong(&|s| s.links[0].rate = Rate::ZERO), "link 0 has a rate of zero");
    assert_eq!(wrong(&|s| s.links[0].ends[1] = NodeId(7)), "link 0 ends at node 7, but there are only 2");
    assert_eq!(wrong(&|s| s.links[0].ends[1] = NodeId(0)), "link 0 begins and ends at a");
    assert_eq!(wrong(&|s| s.sources[0].flow.dst = address(LinkId(9), 1)), "source 0: no way from a to 10.0.9.2");
    assert_eq!(wrong(&|s| s.sources[0].packet = 0), "source 0 sends packets of no length");
    assert_eq!(
        wrong(&|s| s.sources[0].packet = 9_000),
        "source 0 sends packets of 9000 bytes, the MTU on the way is 1500"
    );
    assert_eq!(wrong(&|s| s.measured = (at(2), at(1))), "the measured window ends before it begins");
    assert_eq!(
        wrong(&|s| s.script.push((at(1), ScenarioAction::Crash(NodeId(2))))),
        "line 2 of the script names node 2, but there are only 2"
    );
    assert_eq!(
        wrong(&|s| s.script.push((at(1), ScenarioAction::LinkUp(LinkId(2))))),
        "line 2 of the script names link 2, but there are only 1"
    );
}
