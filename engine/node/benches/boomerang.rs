//! What a Boomerang message costs a transit node in user space: engine, traffic control and the real ledger, which holds 10^5
//! booked slots besides, wired as in the daemon; no socket, and a data plane that says yes.
//!
//! `boomerang_user_ns_*`: a message that refreshes one of so many sessions, in random order: parsed, found, its timer set,
//! rewritten and sent on. `boomerang_user_new_ns_*`: one that makes a session. `boomerang_user_reply_ns_*`: the reply to
//! one that is known. `boomerang_bytes_per_session`: what one direction of a session has on the heap of the whole node.

use bench::{Bench, Draw, median, nanos};
use node::io::{Input, InterfaceState, Output, Reservable};
use node::{Config, Node};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::hint::black_box;
use std::net::IpAddr;
use terms::ports::{Route, RouteDecision};
use terms::{FlowKey, IfIndex, Rate, Span, Time, Window};
use traffic::plan::LinkSpec;
use wire::boomerang::{BoomerangRequest, Family, Rates, Selector, TravelDirection};
use wire::ip::Header;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const START: Time = Time::from_nanos(1_800_000_000_000_000_000);

struct TwoWays;

impl Route for TwoWays {
    fn route(&mut self, dst: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        let IpAddr::V4(v4) = dst else { return RouteDecision::None };
        let oif = if v4.octets()[0] == 172 { 2 } else { 1 };
        RouteDecision::Out { oif: IfIndex(oif), gateway: None, source: [10, 255, 2, 1].into() }
    }
}

/// Message of session number `n`: one of 2^20 initiating nodes.
fn message(n: u32, leg: TravelDirection, transaction: u32) -> Vec<u8> {
    let [_, a, b, c] = n.to_be_bytes();
    let (near, far): (IpAddr, IpAddr) = ([10, a, b, c].into(), [172, 16, b, c].into());
    let flow = FlowKey { src: near, dst: far, protocol: 17, src_port: 5_004, dst_port: 5_004, wild: terms::Wild::NONE };
    let request = BoomerangRequest {
        leg,
        id: 1,
        sequence: 1,
        transaction,
        flags: 0,
        refresh: 30,
        key: 1,
        classifier: Selector::of(&flow),
        mask: Selector::exact(Family::V4),
        rates: &[Rates { forward: 1_000_000, reverse: 0 }],
        policy: 0,
        options: &[],
    };
    let (src, dst) = if leg == TravelDirection::Request { (near, far) } else { (far, near) };
    let mut packet = Vec::new();
    let header = Header { src, dst, protocol: 0, ttl: 64, tos: 0, router_alert: false };
    request.write(&header, &mut packet).expect("short");
    packet
}

struct Transit {
    node: Node<TwoWays>,
    now: Time,
    plans: Vec<node::io::PlanId>,
}

impl Transit {
    fn new() -> Transit {
        let config = boomerang::Config { per_source: u32::MAX / 2, ..boomerang::Config::default() };
        let node = Node::new(Config { boomerang: config, seed: 42, ..Config::default() }, TwoWays);
        let mut t = Transit { node, now: START, plans: Vec::new() };
        for index in [1, 2] {
            let rate = Rate::from_bps(10_000_000_000_000);
            let spec = LinkSpec { rate, overhead: 14, mtu: 1500, scheduler: traffic::scheduler::SchedulerKind::Htb };
            let kept_back = Rate::from_mbps(1);
            let link = Reservable {
                spec,
                signalled_share: rate,
                kept_back,
                assumed_holding: None,
                guaranteed: None,
                measured: Rate::ZERO,
            };
            t.tell(Input::Interface(InterfaceState {
                index: IfIndex(index),
                name: format!("eth{index}"),
                addresses: vec![[10, 255, index as u8, 1].into()],
                mtu: 1500,
                rsvp: false,
                link: Some(link),
            }));
            t.answer();
        }
        t.book(100_000);
        t
    }

    /// Advance bookings of a year on the outgoing link.
    fn book(&mut self, count: usize) {
        let mut draw = Draw::new(11);
        let Some(ledger) = self.node.ledger_mut(IfIndex(2)) else { panic!("the link takes reservations") };
        for _ in 0..count {
            let ns = |unit: f64, most: f64| Span::from_nanos((unit * most * 1e9) as u64 + 60_000_000_000);
            let start = START + ns(draw.unit(), 365.0 * 86_400.0);
            let window = Window::new(start, start + ns(draw.unit(), 86_400.0)).expect("it is not empty");
            let rate = Rate::from_bps(1_000_000 + draw.next_u64() % 99_000_000);
            let slot = ledger.table_mut().hold(window, rate, Time::FOREVER).expect("there is room");
            ledger.table_mut().promise(slot).expect("held");
            ledger.table_mut().commit(slot).expect("promised");
        }
    }

    /// Tells one thing; whether a packet passed.
    fn tell(&mut self, input: Input<'_>) -> bool {
        self.node.handle(self.now, input);
        let mut passed = false;
        while let Some(output) = self.node.poll() {
            match output {
                Output::Plan { id, .. } => self.plans.push(id),
                Output::Boomerang(boomerang::Output::Pass { .. }) => passed = true,
                _ => {}
            }
        }
        passed
    }

    fn answer(&mut self) {
        while let Some(id) = self.plans.pop() {
            self.tell(Input::PlanDone { id, result: Ok(()) });
        }
    }

    fn pass(&mut self, iif: u32, packet: &mut [u8]) {
        assert!(self.tell(Input::Echo { iif: Some(IfIndex(iif)), packet }), "it goes on");
        black_box(packet);
    }
}

fn held() -> usize {
    let stats = COUNTING.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

const RUNS: usize = 801;
const BATCH: u32 = 20;

fn per_one(mut run: impl FnMut() -> f64) -> f64 {
    median(&mut (0..RUNS).map(|_| run() / f64::from(BATCH)).collect::<Vec<_>>())
}

fn measure(bench: &Bench, sessions: u32, tag: &str) {
    let [refresh, new, reply] =
        ["user_ns", "user_new_ns", "user_reply_ns"].map(|name| format!("boomerang_{name}_{tag}"));
    let memory = "boomerang_bytes_per_session";
    if ![&refresh, &new, &reply].into_iter().any(|name| bench.wants(name)) && !bench.wants(memory) {
        return;
    }
    let mut transit = Transit::new();
    let before = held();
    for n in 0..sessions {
        transit.pass(1, &mut message(n, TravelDirection::Request, 1));
        transit.answer();
    }
    assert_eq!(transit.node.boomerang().len(), sessions as usize);
    if tag == "1e6" {
        bench.report(memory, (held() - before) as f64 / f64::from(sessions), "bytes", 1);
    }
    let (mut draw, mut fresh, mut transaction) = (Draw::new(7), sessions, 2);
    let mut some = |leg, transaction| -> Vec<Vec<u8>> {
        (0..BATCH).map(|_| message((draw.next_u64() % u64::from(sessions)) as u32, leg, transaction)).collect()
    };
    let value = per_one(|| {
        transaction += 1;
        let mut packets = some(TravelDirection::Request, transaction);
        nanos(|| packets.iter_mut().for_each(|packet| transit.pass(1, packet)))
    });
    bench.report(&refresh, value, "ns", RUNS);
    let value = per_one(|| {
        let mut packets = some(TravelDirection::Reply, 1);
        nanos(|| packets.iter_mut().for_each(|packet| transit.pass(2, packet)))
    });
    bench.report(&reply, value, "ns", RUNS);
    let value = per_one(|| {
        let mut packets: Vec<_> = (fresh..fresh + BATCH).map(|n| message(n, TravelDirection::Request, 1)).collect();
        fresh += BATCH;
        nanos(|| {
            for packet in &mut packets {
                transit.pass(1, packet);
                transit.answer();
            }
        })
    });
    bench.report(&new, value, "ns", RUNS);
}

fn main() {
    let bench = Bench::from_args();
    measure(&bench, 1_000, "1e3");
    measure(&bench, 1_000_000, "1e6");
}
