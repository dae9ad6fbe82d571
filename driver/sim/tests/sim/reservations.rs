//! Reservations among hogs: one story per promise, played on simulated routers that run the very node of the daemon.

use node::io::{AppId, ControlEvent, Event, Upcall};
use sim::experiment::{
    BOTTLENECK, GLENWOOD, MAUI, SWISSVALE, YOSEMITE, flood_source, flow, reserve, testbed, video_source, video_tspec,
};
use sim::run_trace::TraceEvent;
use sim::{NodeId, Scenario, ScenarioAction, SimReservation, SourceId, World};
use terms::{IfIndex, Rate, Span, Time, Tspec};
use traffic::plan::ClassId;
use traffic::port::SchedulerKind;

const SECOND: Span = Span::from_secs(1);
/// Towards glenwood on both routers.
const OUT: IfIndex = IfIndex(2);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn reserved_on(world: &World, node: NodeId) -> Rate {
    world.agent(node).unwrap().links().map(|link| link.reserved).fold(Rate::ZERO, Rate::saturating_add)
}

fn upcalls(world: &World, node: NodeId) -> impl Iterator<Item = (Time, &Upcall)> {
    world.story().of(node).filter_map(|line| match &line.what {
        TraceEvent::Upcall(_, upcall) => Some((line.at, upcall)),
        TraceEvent::Event(_) | TraceEvent::Boomerang(..) => None,
    })
}

fn events(world: &World, node: NodeId) -> impl Iterator<Item = (Time, &Event)> {
    world.story().of(node).filter_map(|line| match &line.what {
        TraceEvent::Event(event) => Some((line.at, event)),
        TraceEvent::Upcall(..) | TraceEvent::Boomerang(..) => None,
    })
}

/// A reserved video and a flood of 12 Mbit/s for twenty seconds, R = 1 s.
fn reserved_video(scheduler: SchedulerKind) -> Scenario {
    Scenario {
        sources: vec![
            video_source(5_004, 5_004, at(2_000), at(22_000)),
            flood_source(Rate::from_mbps(12), 9_000, 9_000, at(1_000), at(23_000)),
        ],
        script: reserve(5_004, 5_004, video_tspec(), SimReservation::ControlledLoad, at(100)).to_vec(),
        measured: (at(2_000), at(22_000)),
        ..testbed(scheduler, SECOND, 7)
    }
}

#[test]
fn a_killed_router_keeps_its_flows_and_its_next_life_adopts_them() {
    for scheduler in [SchedulerKind::Htb, SchedulerKind::Hfsc] {
        let mut scenario = reserved_video(scheduler);
        scenario.script.push((at(5_000), ScenarioAction::Crash(YOSEMITE)));
        scenario.script.push((at(15_000), ScenarioAction::Restart(YOSEMITE)));
        let mut world = World::new(&scenario).unwrap();
        world.watch_every_step();
        world.run_until(at(4_999));
        let before = reserved_on(&world, YOSEMITE);
        let counted = world.station(YOSEMITE).plane().at(1).flow_counters(&flow(5_004, 5_004)).unwrap();
        world.run_until(at(14_999));
        let kept = world.station(YOSEMITE).plane().at(1).flow_counters(&flow(5_004, 5_004)).unwrap();
        assert!(world.agent(YOSEMITE).is_none() && kept.packets > counted.packets, "counters grow on");
        // The instant of the restart: the capacity is held before the first message is read.
        world.run_until(at(15_000));
        assert_eq!((reserved_on(&world, YOSEMITE), before > Rate::ZERO), (before, true));
        assert!(world.agent(YOSEMITE).unwrap().reservations().all(|r| r.adopted_until.is_some()));
        world.run_until(at(24_000));
        let adopted = world.agent(YOSEMITE).unwrap().reservations().next().unwrap();
        assert_eq!(adopted.adopted_until, None, "asked for again, in the same slot");
        assert_eq!(reserved_on(&world, YOSEMITE), before);
        let counters = world.station(YOSEMITE).plane().at(1).flow_counters(&flow(5_004, 5_004)).unwrap();
        assert_eq!(counters.over_packets, 0, "no reserved packet was ever best effort");
        assert_eq!(world.flow(SourceId(0)).lost(), 0, "{scheduler:?}");
        assert_eq!(world.check(), Ok(()));
    }
}

#[test]
fn a_resv_that_comes_before_the_path_is_let_go_and_not_refused() {
    let mut before_the_path = 0;
    for seed in 0..12 {
        let mut scenario = Scenario { seed, ..reserved_video(SchedulerKind::Htb) };
        scenario.script.push((at(5_000), ScenarioAction::Crash(YOSEMITE)));
        scenario.script.push((at(5_010), ScenarioAction::Restart(YOSEMITE)));
        let mut world = World::new(&scenario).unwrap();
        world.watch_every_step();
        world.run_until(at(9_000));
        let awaiting = |e: &Event| matches!(e, Event::Rsvp(rsvp::io::Event::AwaitingPath { .. }));
        before_the_path += usize::from(events(&world, YOSEMITE).any(|(_, e)| awaiting(e)));
        assert!(upcalls(&world, GLENWOOD).all(|(_, u)| !matches!(u, Upcall::Error { .. })), "seed {seed}");
        let view = world.agent(YOSEMITE).unwrap().reservations().next().expect("still there");
        assert_eq!((view.adopted_until, view.installed), (None, true), "seed {seed}");
        assert_eq!(world.check(), Ok(()));
    }
    assert!(before_the_path > 0, "no seed had the Resv come first");
}

#[test]
fn adopted_capacity_is_not_given_to_another() {
    let mut scenario = reserved_video(SchedulerKind::Htb);
    let big = Tspec { r: Rate::from_mbps(6), ..video_tspec() };
    scenario.script.push((at(5_000), ScenarioAction::Crash(YOSEMITE)));
    scenario.script.push((at(6_000), ScenarioAction::Restart(YOSEMITE)));
    scenario.script.extend(reserve(6_000, 6_000, big, SimReservation::ControlledLoad, at(6_001)));
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(24_000));
    assert_eq!(world.flow(SourceId(0)).lost(), 0);
    let refused = upcalls(&world, GLENWOOD).any(
        |(_, u)| matches!(u, Upcall::Error { session, error, .. } if session.dst_port == 6_000 && error.code == 1),
    );
    assert!(refused, "6 Mbit/s beside 3.2 do not fit");
    assert_eq!(world.check(), Ok(()));
}

#[test]
fn a_dead_receiver_is_forgotten_at_the_end_of_its_lifetime_and_not_before() {
    for (refresh, lifetime_ms) in [(SECOND, 5_250), (Span::from_secs(30), 157_500)] {
        let mut scenario = testbed(SchedulerKind::Htb, refresh, 11);
        scenario.script = reserve(5_004, 5_004, video_tspec(), SimReservation::ControlledLoad, at(100)).to_vec();
        let mut world = World::new(&scenario).unwrap();
        world.watch_every_step();
        let killed = at(400_000);
        world.run_until(killed);
        assert!([SWISSVALE, YOSEMITE, MAUI].iter().all(|n| reserved_on(&world, *n) > Rate::ZERO));
        let resv = world.agent(MAUI).unwrap().rsvp().reservations().next().unwrap();
        world.act(&ScenarioAction::Crash(GLENWOOD));
        let lifetime = Span::from_millis(lifetime_ms);
        let earliest = killed.saturating_sub(refresh.mul_div_ceil(3, 2)) + lifetime;
        assert!(resv.expires >= earliest && resv.expires <= killed + lifetime, "{:?} after {killed:?}", resv.expires);
        world.run_until(resv.expires.saturating_sub(Span::from_nanos(1)));
        assert!(reserved_on(&world, MAUI) > Rate::ZERO, "never before");
        world.run_until(resv.expires + Span::from_millis(1));
        assert_eq!(world.reserved(), Rate::ZERO, "every ledger is empty one round trip later");
        for node in [SWISSVALE, YOSEMITE, MAUI] {
            assert_eq!(world.agent(node).unwrap().rsvp().paths().count(), 1, "path state stays while it is refreshed");
        }
        world.run_until(killed + lifetime + lifetime + lifetime);
        assert_eq!(world.agent(MAUI).unwrap().rsvp().paths().count(), 1);
        assert_eq!(world.check(), Ok(()));
    }
}

#[test]
fn a_refusal_names_node_interface_asked_and_free_and_changes_nothing() {
    let mut scenario = testbed(SchedulerKind::Htb, SECOND, 3);
    scenario.script = reserve(5_004, 5_004, video_tspec(), SimReservation::ControlledLoad, at(100)).to_vec();
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(3_000));
    let state = |world: &World| -> Vec<_> {
        let one = |n| (world.agent(n).unwrap().tc().ledger_digest(), world.station(n).plan().clone());
        [SWISSVALE, YOSEMITE].map(one).to_vec()
    };
    let before: Vec<_> = state(&world).into_iter().map(|(_, plan)| plan).collect();
    let reserved = [SWISSVALE, YOSEMITE, MAUI].map(|n| reserved_on(&world, n));
    let big = Tspec { r: Rate::from_mbps(9), m: 1_400, ..video_tspec() };
    for (_, action) in reserve(6_000, 6_000, big, SimReservation::ControlledLoad, at(0)) {
        world.act(&action);
    }
    world.run_until(at(3_500));
    let error = upcalls(&world, GLENWOOD).find_map(|(_, u)| match u {
        Upcall::Error { error, resv: true, .. } => Some(error.clone()),
        _ => None,
    });
    let error = error.expect("the receiver is told");
    assert_eq!((error.code, error.in_place), (1, false));
    let text = error.text.expect("in words");
    assert_eq!(text, "node yosemite interface yosemite-maui asked 9090kbit free 5755599bit");
    assert_eq!(reserved[..2], [SWISSVALE, YOSEMITE].map(|n| reserved_on(&world, n)), "upstream never heard of it");
    assert_eq!(before, state(&world).into_iter().map(|(_, plan)| plan).collect::<Vec<_>>());
    assert_eq!(world.check(), Ok(()));
}

/// Two reserved videos, of which the first sends three times what it reserved, and a flood.
#[test]
fn who_sends_three_times_its_reservation_hurts_only_itself() {
    for scheduler in [SchedulerKind::Htb, SchedulerKind::Hfsc] {
        let mut greedy = video_source(5_004, 5_004, at(2_000), at(12_000));
        greedy.pattern = sim::SendPattern::Cbr { rate: Rate::from_kbps(9_600), jitter_percent: 20 };
        let mut script = reserve(5_004, 5_004, video_tspec(), SimReservation::ControlledLoad, at(100)).to_vec();
        script.extend(reserve(5_006, 5_006, video_tspec(), SimReservation::ControlledLoad, at(100)));
        let scenario = Scenario {
            sources: vec![
                greedy,
                video_source(5_006, 5_006, at(2_000), at(12_000)),
                flood_source(Rate::from_mbps(12), 9_000, 9_000, at(1_000), at(13_000)),
            ],
            script,
            measured: (at(2_000), at(12_000)),
            ..testbed(scheduler, SECOND, 5)
        };
        let mut world = World::new(&scenario).unwrap();
        world.watch_every_step();
        let best_effort =
            |world: &World| world.station(YOSEMITE).plane().at(1).class_counters(ClassId::BEST_EFFORT).unwrap().bytes;
        world.run_until(at(2_000));
        let start = best_effort(&world);
        world.run_until(at(12_000));
        let got = Rate::from_bps((best_effort(&world) - start) * 8 / 10);
        world.run_until(at(13_500));
        assert_eq!(world.flow(SourceId(1)).lost(), 0, "{scheduler:?}: the second reserved flow is untouched");
        // What the two reservations leave of the link: 10 Mbit/s less twice 3.2 with overhead.
        let share = Rate::from_mbps(10).saturating_sub(Rate::from_kbps(6_400).with_overhead(14, 1_009));
        assert!(got >= share.share(99, 100), "{scheduler:?}: best effort got {got} of {share}");
        let first = world.flow(SourceId(0));
        assert!(first.throughput() >= Rate::from_kbps(3_150), "what it reserved it gets: {}", first.throughput());
        assert!(first.lost() > first.sent / 3, "and what exceeds it takes its chance");
        let depth = |node| {
            let entry = world.station(node).plane().iter().last().and_then(|port| port.flow(&flow(5_004, 5_004)));
            entry.map(|entry| entry.bucket.depth)
        };
        assert_eq!(depth(SWISSVALE), Some(video_tspec().b), "policed to the byte where it enters");
        assert!(depth(YOSEMITE) > depth(SWISSVALE), "and inside only to its rate");
        assert_eq!(world.check(), Ok(()));
    }
}

#[test]
fn a_plane_that_fails_is_reported_and_leaves_nothing_behind() {
    let mut scenario = testbed(SchedulerKind::Htb, SECOND, 3);
    scenario.script = reserve(5_004, 5_004, video_tspec(), SimReservation::ControlledLoad, at(100)).to_vec();
    scenario.script.push((at(50), ScenarioAction::FailPlane { node: YOSEMITE, batches: 1 }));
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(200));
    assert!(events(&world, YOSEMITE).any(|(_, e)| matches!(e, Event::Control(ControlEvent::PlaneFault { .. }))));
    assert!(upcalls(&world, GLENWOOD).any(|(_, u)| matches!(u, Upcall::Error { resv: true, .. })));
    assert_eq!(reserved_on(&world, YOSEMITE), Rate::ZERO);
    assert!(world.station(YOSEMITE).plan().links[&OUT].flows.is_empty());
    world.run_until(at(1_000));
    assert_eq!(world.reserved(), Rate::ZERO, "nothing is held anywhere for a request that failed");
    for (_, action) in reserve(5_004, 5_004, video_tspec(), SimReservation::ControlledLoad, at(0)) {
        world.act(&action);
    }
    world.run_until(at(1_100));
    assert!(reserved_on(&world, YOSEMITE) > Rate::ZERO, "asked again, and installed");
    assert_eq!(world.check(), Ok(()));
}

#[test]
fn a_link_that_goes_takes_its_reservations_and_gives_them_back_when_it_returns() {
    let mut scenario = testbed(SchedulerKind::Htb, SECOND, 3);
    scenario.script = reserve(5_004, 5_004, video_tspec(), SimReservation::ControlledLoad, at(100)).to_vec();
    scenario.script.push((at(5_000), ScenarioAction::LinkDown(BOTTLENECK)));
    scenario.script.push((at(20_000), ScenarioAction::LinkUp(BOTTLENECK)));
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(19_000));
    assert_eq!(world.reserved(), Rate::ZERO, "nothing is held for a stream that cannot flow");
    world.run_until(at(30_000));
    let all = [SWISSVALE, YOSEMITE, MAUI].map(|n| reserved_on(&world, n));
    assert!(all.iter().all(|r| *r > Rate::ZERO), "{all:?}");
    assert_eq!(world.check(), Ok(()));
}

#[test]
fn an_agent_that_stops_gives_its_interfaces_back() {
    let mut scenario = testbed(SchedulerKind::Htb, SECOND, 3);
    scenario.script = reserve(5_004, 5_004, video_tspec(), SimReservation::ControlledLoad, at(100)).to_vec();
    scenario.script.push((at(3_000), ScenarioAction::Release { node: GLENWOOD, app: AppId(5_004) }));
    scenario.script.push((at(4_000), ScenarioAction::Stop(YOSEMITE)));
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(3_999));
    assert_eq!(world.reserved(), Rate::ZERO, "a tear goes all the way up");
    world.run_until(at(5_000));
    assert!(world.station(YOSEMITE).plan().links.is_empty());
    assert_eq!(world.check(), Ok(()));
}

#[test]
fn guaranteed_service_is_refused_where_no_bound_is_kept() {
    let mut scenario = testbed(SchedulerKind::Htb, SECOND, 3);
    let ask = SimReservation::Guaranteed(Rate::from_mbps(4));
    scenario.script = reserve(5_004, 5_004, video_tspec(), ask, at(100)).to_vec();
    let mut world = World::new(&scenario).unwrap();
    world.run_until(at(2_000));
    assert!(upcalls(&world, GLENWOOD).any(|(_, u)| matches!(u, Upcall::Error { .. })));
    let broken = upcalls(&world, GLENWOOD).find_map(|(_, u)| match u {
        Upcall::Path { adspec: Some(adspec), .. } => adspec.guaranteed.map(|g| g.break_bit),
        _ => None,
    });
    assert_eq!(broken, Some(true), "and the Adspec says so before anyone asks");
    assert_eq!(world.reserved(), Rate::ZERO);
}
