//! Soft state under fire (RFC 2205 section 3.7; invariants I22 and I23): signalling is lost, doubled and overtaken on a
//! line of nodes while senders and receivers come and go. No state dies before its lifetime after the last refresh that
//! reached it, none outlives that; ledger, plan and ports agree at every step; in the end nothing is left anywhere.

use node::io::{AppId, Event};
use rsvp::io::Gone;
use rsvp::lifetime::lifetime;
use sim::map::address;
use sim::rng::{Probability, Rng};
use sim::run_trace::{TraceEvent, TraceLine};
use sim::scenario::Impairment;
use sim::{LinkId, NodeId, Scenario, ScenarioAction, SimLinkSpec, SimNodeSpec, SimReservation, World};
use std::collections::BTreeMap;
use terms::{Bytes, Rate, SenderTemplate, Session, Span, Time, Tspec};
use traffic::port::SchedulerKind;
use wire::Message;

const NODES: usize = 5;
const PORTS: u16 = 4;
const KEEP: u32 = 3;

/// Path or reservation state of one sender in one node.
type State = (NodeId, bool, Session, SenderTemplate);

fn tspec() -> Tspec {
    Tspec { r: Rate::from_kbps(500), b: Bytes::new(5_000), p: Rate::INFINITE, m: 500, M: 1_500 }
}

fn session(port: u16) -> Session {
    Session { dst: address(LinkId(NODES - 2), 1), protocol: 17, dst_port: port }
}

fn template(port: u16) -> SenderTemplate {
    SenderTemplate { src: address(LinkId(0), 0), src_port: port.into() }
}

/// A line of nodes on which one message in `loss_percent` is lost, one in ten doubled, one in five late.
fn line(refresh: Span, seed: u64, loss_percent: u32) -> Scenario {
    let links = (0..NODES - 1).map(|n| {
        let (a, b) = (NodeId(n), NodeId(n + 1));
        SimLinkSpec::ethernet(a, b, Rate::from_mbps(10), Span::from_millis(2), SchedulerKind::Htb)
    });
    let impairment = Impairment {
        loss: Probability::percent(loss_percent),
        duplicate: Probability::percent(10),
        reorder: Probability::percent(20),
        late: refresh.mul_div_ceil(1, 2),
    };
    Scenario {
        seed,
        nodes: (0..NODES).map(|n| SimNodeSpec::new(&format!("n{n}"), refresh)).collect(),
        links: links.collect(),
        script: (0..NODES - 1).map(|n| (Time::ZERO, ScenarioAction::Impair(LinkId(n), impairment))).collect(),
        ..Scenario::default()
    }
}

/// Applications come and go at random until `end`, when all are gone.
fn restless(scenario: &mut Scenario, refresh: Span, end: Time, faults: bool) {
    let mut rng = Rng::new(scenario.seed, 99);
    let mut at = Time::ZERO;
    loop {
        at = at + Span::from_nanos(rng.below(refresh.as_nanos()));
        if at >= end {
            break;
        }
        let port = 5_000 + rng.below(u64::from(PORTS)) as u16;
        let (app, session, template) = (AppId(u64::from(port)), session(port), template(port));
        let (first, last) = (NodeId(0), NodeId(NODES - 1));
        let router = NodeId(1 + rng.below(NODES as u64 - 2) as usize);
        let link = LinkId(rng.below(NODES as u64 - 1) as usize);
        let action = match rng.below(if faults { 12 } else { 7 }) {
            0..=2 => ScenarioAction::Send { node: first, app, session, template, tspec: tspec() },
            3..=4 => ScenarioAction::Receive { node: last, app, session, ask: SimReservation::ControlledLoad },
            5 => ScenarioAction::Unsend { node: first, app, session, template },
            6 => ScenarioAction::Release { node: last, app },
            7 => ScenarioAction::Crash(router),
            8 => ScenarioAction::Restart(router),
            9 => ScenarioAction::FailPlane { node: router, batches: 1 },
            10 => ScenarioAction::LinkDown(link),
            _ => ScenarioAction::LinkUp(link),
        };
        scenario.script.push((at, action));
    }
    for port in 5_000..5_000 + PORTS {
        for node in [NodeId(0), NodeId(NODES - 1)] {
            scenario.script.push((end, ScenarioAction::Release { node, app: AppId(u64::from(port)) }));
        }
    }
    for n in 0..NODES - 1 {
        scenario.script.push((end, ScenarioAction::LinkUp(LinkId(n))));
        scenario.script.push((end, ScenarioAction::Restart(NodeId(n))));
    }
}

/// When a refresh reached which state, and how long it keeps it alive; in the order of time.
fn refreshes(world: &World) -> BTreeMap<State, Vec<(Time, Span)>> {
    let mut all: BTreeMap<State, Vec<(Time, Span)>> = BTreeMap::new();
    for heard in world.heard() {
        let (node, at) = (heard.node, heard.at);
        match Message::parse(&heard.bytes).expect("we sent it") {
            Message::Path(path) => {
                let sender = path.sender.ports().expect("by ports");
                all.entry((node, true, path.session, sender)).or_default().push((at, lifetime(path.refresh, KEEP)));
            }
            Message::Resv(resv) => {
                for flow in resv.flows() {
                    let sender = flow.filter.and_then(|f| f.ports()).expect("fixed filter");
                    let life = lifetime(resv.refresh, KEEP);
                    all.entry((node, false, resv.session, sender)).or_default().push((at, life));
                }
            }
            _ => {}
        }
    }
    all
}

fn expired(line: &TraceLine) -> Option<State> {
    let TraceEvent::Event(Event::Rsvp(event)) = &line.what else { return None };
    match event {
        rsvp::io::Event::PathRemoved { session, template, why: Gone::Expired } => {
            Some((line.node, true, *session, *template))
        }
        rsvp::io::Event::ResvRemoved { session, template: Some(template), why: Gone::Expired, .. } => {
            Some((line.node, false, *session, *template))
        }
        _ => None,
    }
}

/// Every state that expired did so at the end of the lifetime after the last refresh that reached it.
fn none_early_none_late(world: &World, seed: u64) -> usize {
    let refreshes = refreshes(world);
    let mut count = 0;
    for line in world.story().lines() {
        let Some(state) = expired(line) else { continue };
        let last = refreshes[&state].iter().rev().find(|(at, _)| *at <= line.at);
        let (at, life) = last.expect("a state that nobody made");
        assert_eq!(line.at, *at + *life, "seed {seed}: {state:?} was refreshed at {at:?}");
        count += 1;
    }
    count
}

fn play(refresh: Span, seed: u64, loss: u32, faults: bool) -> World {
    let busy = Time::ZERO + refresh.mul_div_ceil(60, 1);
    let mut scenario = line(refresh, seed, loss);
    restless(&mut scenario, refresh, busy, faults);
    let mut world = World::new(&scenario).expect("playable");
    world.watch_every_step();
    world.listen();
    // Each node forgets at the latest one lifetime after its neighbour stopped refreshing it.
    let all_gone = busy + lifetime(refresh, KEEP).mul_div_ceil(2 * NODES as u64, 1);
    world.run_until(all_gone);
    assert_eq!(world.check(), Ok(()), "seed {seed}");
    assert_eq!((world.reserved(), world.states()), (Rate::ZERO, 0), "seed {seed}: something is left");
    for n in 0..NODES {
        let plan = world.station(NodeId(n)).plan();
        assert!(plan.links.values().all(|link| link.flows.is_empty()), "seed {seed}: n{n} still holds flows");
    }
    world
}

/// So many seeds, or as many as `SLUICE_SEEDS` says.
fn seeds(usual: u64) -> u64 {
    std::env::var("SLUICE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn no_state_dies_early_and_none_outlives_its_lifetime() {
    let mut expiries = 0;
    for seed in 0..seeds(60) {
        let world = play(Span::from_secs(1), seed, 25, false);
        expiries += none_early_none_late(&world, seed);
    }
    assert!(expiries as u64 > seeds(60) * 8, "the test must see states expire, saw {expiries}");
}

#[test]
fn the_same_with_the_default_refresh_period() {
    let mut expiries = 0;
    for seed in 100_000..100_000 + seeds(30) {
        let world = play(Span::from_secs(30), seed, 25, false);
        expiries += none_early_none_late(&world, seed);
    }
    assert!(expiries as u64 > seeds(30) * 8, "the test must see states expire, saw {expiries}");
}

#[test]
fn crashes_failing_planes_and_links_that_flap_leave_nothing_behind() {
    for seed in 200_000..200_000 + seeds(40) {
        play(Span::from_secs(1), seed, 10, true);
    }
}

#[test]
fn without_loss_tears_empty_everything_at_once() {
    let refresh = Span::from_secs(30);
    let mut scenario = line(refresh, 1, 0);
    scenario.script.clear();
    let end = Time::ZERO + Span::from_secs(600);
    restless(&mut scenario, refresh, end, false);
    let mut world = World::new(&scenario).expect("playable");
    world.watch_every_step();
    world.run_until(end + Span::from_millis(100));
    assert_eq!((world.check(), world.reserved(), world.states()), (Ok(()), Rate::ZERO, 0));
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let hash = |seed| play(Span::from_secs(1), seed, 25, true).story().hash();
    assert_eq!(hash(7), hash(7));
    assert_ne!(hash(7), hash(8));
}
