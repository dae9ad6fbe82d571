//! Advance bookings beside RSVP, on simulated routers that run the very node and the very book of the daemon: no early
//! start, no late end, back-to-back windows that never overlap, one ledger for all, and an agent that dies in between.

use booking::io::CallResult;
use booking::{BookingRequest, BookingState, Call, PartAsk, RefusalReason, When};
use sim::book::BookingOutput;
use sim::experiment::{SWISSVALE, YOSEMITE, flood_source, flow, reserve, testbed, video_tspec};
use sim::{Scenario, ScenarioAction, SendPattern, SimReservation as Wish, SourceId, SourceSpec, World};
use terms::book::{Background, Binding, BoundFlow, Handle, PacketShape};
use terms::{FlowKey, Rate, Span, Time, Tspec, Window};
use traffic::edge::Side;
use traffic::port::SchedulerKind;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Of the router's interface towards the bottleneck.
const LINK: &str = "net/yosemite-maui";

fn part(amount: u64, port: u16) -> PartAsk {
    let flow = BoundFlow { protocol: Some(17), dst_port: Some(port), ..BoundFlow::default() };
    let binding = Some(Binding::Flow(flow));
    PartAsk { resource: LINK.into(), amount, least: amount, background: None, shape: PacketShape::default(), binding }
}

fn booking(amount: u64, port: u16, window: Window) -> ScenarioAction {
    let when = When::Window { start: Some(window.start()), end: Some(window.end()) };
    let ask = BookingRequest { parts: vec![part(amount, port)], when, ..BookingRequest::default() };
    ScenarioAction::Book {
        node: YOSEMITE,
        who: "ann".into(),
        call: Call::Create { ask, hold: None, key: String::new() },
    }
}

fn window(start: u64, end: u64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

fn stream(port: u16, mbit: u64, from: u64, until: u64) -> SourceSpec {
    let pattern = SendPattern::Cbr { rate: Rate::from_mbps(mbit), jitter_percent: 10 };
    SourceSpec { node: SWISSVALE, flow: flow(port, port), packet: 1_000, pattern, from: at(from), until: at(until) }
}

/// Rates that came into force at the edge: when, for which reservation, how much (0: it ended).
fn orders(world: &World) -> Vec<(Time, Handle, u64)> {
    let booking_host = world.booking_host(YOSEMITE).expect("it has a book");
    let done = booking_host.log().iter().filter_map(|(at, said)| match said {
        BookingOutput::Enforced(handle, 0, rate) => Some((*at, *handle, rate.as_bps())),
        _ => None,
    });
    done.collect()
}

/// The destination ports of the flows with a rule in the router's data plane.
fn ruled(world: &World) -> Vec<Option<u16>> {
    world.station(YOSEMITE).plan().edges.values().flat_map(|rules| rules.keys().map(|fields| fields.dst_port)).collect()
}

fn refusal(world: &World, call: u64) -> Option<RefusalReason> {
    let booking_host = world.booking_host(YOSEMITE)?;
    booking_host.log().iter().find_map(|(_, said)| match said {
        BookingOutput::Reply(id, Err(refusal)) if *id == call => Some(refusal.why.clone()),
        _ => None,
    })
}

/// Two bookings of 7 of 10 Mb/s, one after the other, under a flood of 12; and RSVP beside them.
fn back_to_back(scheduler: SchedulerKind) -> Scenario {
    let mut scenario = Scenario {
        sources: vec![
            stream(5_001, 6, 500, 9_500),
            stream(5_002, 6, 500, 9_500),
            flood_source(Rate::from_mbps(12), 9_000, 9_000, at(500), at(9_500)),
        ],
        script: vec![
            (at(100), booking(7_000_000, 5_001, window(2_000, 5_000))),
            (at(110), booking(7_000_000, 5_002, window(5_000, 8_000))),
            (at(120), booking(7_000_000, 5_003, window(4_000, 6_000))),
        ],
        measured: (at(2_500), at(4_900)),
        ..testbed(scheduler, Span::from_secs(1), 7)
    };
    // 1 Mb/s fits beside what is booked ahead, 5 do not, though nothing is in force yet.
    let small = Tspec { r: Rate::from_mbps(1), ..video_tspec() };
    let large = Tspec { r: Rate::from_mbps(5), ..video_tspec() };
    scenario.script.extend(reserve(6_001, 6_001, small, Wish::ControlledLoad, at(200)));
    scenario.script.extend(reserve(6_002, 6_002, large, Wish::ControlledLoad, at(300)));
    scenario
}

#[test]
fn back_to_back_windows_beside_rsvp() {
    for scheduler in [SchedulerKind::Htb, SchedulerKind::Hfsc] {
        let mut world = World::new(&back_to_back(scheduler)).unwrap();
        world.watch_every_step();
        world.run_until(at(7_900));
        // RSVP has its small one, and not its large one, for which there is no room before 8 s.
        assert_eq!(world.agent(YOSEMITE).unwrap().reservations().count(), 1);
        world.run_until(at(10_000));
        let booking_host = world.booking_host(YOSEMITE).unwrap();
        let (first, second) = (booking_host.granted(1).unwrap(), booking_host.granted(2).unwrap());
        assert!(
            matches!(refusal(&world, 3), Some(RefusalReason::NoRoom { free, .. }) if free < 2_000_000),
            "{:?}",
            refusal(&world, 3)
        );
        // No early start, no late end, and never both.
        let soon = Span::from_millis(10);
        let all = orders(&world);
        let due = [(2_000, first, 7_000_000), (5_000, first, 0), (5_000, second, 7_000_000), (8_000, second, 0)];
        assert_eq!(all.len(), due.len(), "{all:?}");
        for ((when, handle, amount), (millis, of, much)) in all.iter().zip(due) {
            assert_eq!((*handle, *amount), (of, much));
            assert!(*when >= at(millis) && *when < at(millis) + soon, "{when:?} for {millis}");
        }
        assert_eq!(
            [first, second].map(|handle| world.agent(YOSEMITE).unwrap().bookings().peek(handle)),
            [Some(BookingState::Ended); 2]
        );
        // In its window the first stream arrives whole, the second as best effort among the flood.
        let (booked, other) = (world.flow(SourceId(0)), world.flow(SourceId(1)));
        assert_eq!(booked.lost(), 0, "{scheduler:?}");
        assert!(other.lost() > other.sent / 2, "{scheduler:?}: {} of {}", other.lost(), other.sent);
        assert_eq!(world.check(), Ok(()));
    }
}

#[test]
fn an_agent_that_dies_in_a_window_knows_what_was_promised() {
    let mut scenario = back_to_back(SchedulerKind::Htb);
    scenario.script.push((at(3_000), ScenarioAction::Crash(YOSEMITE)));
    scenario.script.push((at(5_500), ScenarioAction::Restart(YOSEMITE)));
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(5_499));
    let booking_host = world.booking_host(YOSEMITE).unwrap();
    let (first, second) = (booking_host.granted(1).unwrap(), booking_host.granted(2).unwrap());
    assert_eq!(ruled(&world), [Some(5_001)], "the data plane goes on by itself");
    world.run_until(at(5_600));
    assert_eq!(ruled(&world), [Some(5_002)], "converged");
    let bookings = world.agent(YOSEMITE).unwrap().bookings();
    assert_eq!((bookings.peek(first), bookings.peek(second)), (Some(BookingState::Ended), Some(BookingState::Active)));
    world.run_until(at(10_000));
    assert_eq!(ruled(&world), []);
    assert_eq!(world.flow(SourceId(0)).lost(), 0, "nothing was lost while nobody looked after it");
    assert_eq!(world.check(), Ok(()));
}

/// A bulk transfer in the background makes way for foreground and for what is signalled, and is told so.
#[test]
fn background_follows_foreground_and_rsvp() {
    let mut bulk = part(9_000_000, 7_000);
    bulk.background = Some(Background { weight: 1, floor: 500_000 });
    let ask = BookingRequest { parts: vec![bulk], ..BookingRequest::default() };
    let call = Call::Create { ask, hold: None, key: String::new() };
    let mut scenario = Scenario {
        script: vec![
            (at(100), ScenarioAction::Book { node: YOSEMITE, who: "bob".into(), call }),
            (at(200), booking(3_000_000, 5_001, window(2_000, 4_000))),
        ],
        ..testbed(SchedulerKind::Htb, Span::from_secs(1), 7)
    };
    scenario.script.extend(reserve(6_001, 6_001, video_tspec(), Wish::ControlledLoad, at(5_000)));
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(7_000));
    let booking_host = world.booking_host(YOSEMITE).unwrap();
    let bulk = booking_host.granted(1).unwrap();
    let shares: Vec<u64> = orders(&world).iter().filter(|(_, h, _)| *h == bulk).map(|(_, _, amount)| *amount).collect();
    let [whole, beside, again, .., last] = shares[..] else { panic!("{shares:?}") };
    assert_eq!((beside, again), (whole - 3_000_000, whole), "nine tenths less foreground");
    assert!(last < whole, "what is signalled is not background's: {shares:?}");
    let events = booking_host
        .log()
        .iter()
        .filter(|(_, said)| matches!(said, BookingOutput::Event(e) if e.what.name() == "share"));
    assert_eq!(events.count(), shares.len(), "told each time");
    assert!(
        booking_host
            .log()
            .iter()
            .any(|(_, said)| matches!(said, BookingOutput::Reply(1, Ok(CallResult::Reservation(_)))))
    );
    assert_eq!(world.check(), Ok(()));
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let run = || {
        let mut world = World::new(&back_to_back(SchedulerKind::Htb)).unwrap();
        world.run_until(at(10_000));
        let booking_host = world.booking_host(YOSEMITE).unwrap();
        (world.story().hash(), booking_host.log().to_vec(), world.agent(YOSEMITE).unwrap().bookings().digest())
    };
    assert_eq!(run(), run());
}

/// A flow whose source is stated has its rule where it comes in, on the way back to the source, and loses there what
/// exceeds it, though the link behind has room.
#[test]
fn a_flow_with_a_source_is_policed_where_it_comes_in() {
    let stream = stream(5_001, 6, 500, 4_500);
    let mut part = part(3_000_000, 5_001);
    let FlowKey { src, dst, protocol, src_port, dst_port, .. } = stream.flow;
    let (ports, protocol) = ((Some(src_port), Some(dst_port)), Some(protocol));
    // Without an open field: what exceeds such a rule is dropped.
    let bound = BoundFlow { src: Some(src), dst: Some(dst), protocol, src_port: ports.0, dst_port: ports.1 };
    part.binding = Some(Binding::Flow(bound));
    let when = When::Window { start: Some(at(400)), end: Some(at(5_000)) };
    let ask = BookingRequest { parts: vec![part], when, ..BookingRequest::default() };
    let call = Call::Create { ask, hold: None, key: String::new() };
    let scenario = Scenario {
        sources: vec![stream],
        script: vec![(at(100), ScenarioAction::Book { node: YOSEMITE, who: "ann".into(), call })],
        measured: (at(1_000), at(4_000)),
        ..testbed(SchedulerKind::Htb, Span::from_secs(1), 7)
    };
    let mut world = World::new(&scenario).unwrap();
    world.watch_every_step();
    world.run_until(at(4_800));
    let edges: Vec<Side> = world.station(YOSEMITE).plan().edges.keys().map(|edge| edge.side).collect();
    assert_eq!(edges, [Side::Ingress]);
    let flow = world.flow(SourceId(0));
    assert!(flow.lost() > flow.sent * 4 / 10 && flow.lost() < flow.sent * 6 / 10, "{} of {}", flow.lost(), flow.sent);
    assert_eq!(world.check(), Ok(()));
}
