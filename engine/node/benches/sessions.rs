//! What a session costs a transit node: RSVP, traffic control and the real ledger, which holds 10^5 booked slots
//! besides, all wired as in the daemon; no socket, and a data plane that says yes.
//!
//! `rsvp_new_session_ns_*`: a first Path decoded, kept and sent on; a first Resv decoded, admitted by the ledger, put
//! before the plane; its answer taken and the Resv sent on. With so many sessions there already.
//! `rsvp_refresh_per_s_*`: Path and Resv messages, half of each, that refresh what is there, sessions in random order.
//! `rsvp_send_refresh_ns_*`: a due Path or Resv encoded and said.
//! `rsvp_bytes_per_session`: what a session (path and reservation) has on the heap, in the RSVP engine and in all of
//! the node, by an allocator that counts.

use bench::{Bench, Draw, median, nanos};
use node::io::{Input, InterfaceState, Output, Reservable};
use node::{Config, Node};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::net::IpAddr;
use terms::ports::{Route, RouteDecision};
use terms::{Adspec, Bytes, FlowSpec, IfIndex, Rate, SenderTemplate, Session, Span, Style, Time, Tspec, Window};
use traffic::plan::LinkSpec;
use wire::objects::MessageId;
use wire::{Builder, MessageType, RsvpHop};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct OneWay;

impl Route for OneWay {
    fn route(&mut self, _: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        RouteDecision::Out { oif: IfIndex(2), gateway: None, source: [10, 255, 2, 1].into() }
    }
}

const TSPEC: Tspec = Tspec { r: Rate::from_mbps(1), b: Bytes::new(8192), p: Rate::from_mbps(1), m: 64, M: 1500 };
const START: Time = Time::from_nanos(1_800_000_000_000_000_000);

/// Session number `n`: one of 2^24 destinations.
fn session(n: u32) -> Session {
    let [_, a, b, c] = n.to_be_bytes();
    Session { dst: [172, a, b, c].into(), protocol: 17, dst_port: 5004 }
}

const SENDER: SenderTemplate =
    SenderTemplate { src: IpAddr::V4(core::net::Ipv4Addr::new(10, 1, 1, 1)), src_port: 5004 };

fn path(n: u32) -> Vec<u8> {
    let build = Builder::new(MessageType::Path, 63);
    path_of(n, build)
}

/// A Path and a Resv with names (RFC 2961): a neighbour counts its messages up.
fn named(n: u32) -> (Vec<u8>, Vec<u8>) {
    let id = MessageId { flags: 0, epoch: 1, id: n + 1 };
    let name = |kind, ttl| Builder::new(kind, ttl).flags(CAPABLE).message_id(&id);
    (path_of(n, name(MessageType::Path, 63)), resv_of(n, name(MessageType::Resv, 255)))
}

/// A summary of so many names from this one on, sent to `to`.
fn summary(first: u32) -> Vec<u8> {
    let names: Vec<u32> = (first + 1..=first + NAMES).collect();
    Builder::new(MessageType::Srefresh, 255).flags(CAPABLE).message_id_list(1, &names).finish().expect("short")
}

/// Refresh-Reduction-Capable.
const CAPABLE: u8 = 1;
/// Names in a summary: what fits into 1,500 bytes.
const NAMES: u32 = 360;

fn path_of(n: u32, build: Builder) -> Vec<u8> {
    let build = build.session(&session(n));
    let build = build.hop(&RsvpHop { addr: [10, 255, 1, 2].into(), lih: 7 }).time_values(Span::from_secs(30));
    let build = build.sender_template(&SENDER.into()).sender_tspec(&TSPEC).adspec(&Adspec::origin(1500));
    build.finish().expect("short")
}

fn resv(n: u32) -> Vec<u8> {
    let build = Builder::new(MessageType::Resv, 255);
    resv_of(n, build)
}

fn resv_of(n: u32, build: Builder) -> Vec<u8> {
    let build = build.session(&session(n));
    let build = build.hop(&RsvpHop { addr: [10, 255, 2, 2].into(), lih: 2 }).time_values(Span::from_secs(30));
    let build = build.style(Style::Ff).flowspec(&FlowSpec::ControlledLoad(TSPEC)).filter_spec(&SENDER.into());
    build.finish().expect("short")
}

struct Transit {
    node: Node<OneWay>,
    now: Time,
    /// Batches that the plane has yet to answer.
    plans: Vec<node::io::PlanId>,
}

impl Transit {
    fn new(refresh_reduction: bool) -> Transit {
        let mut rsvp = rsvp::io::Config { node_name: "transit".into(), refresh_reduction, ..Default::default() };
        (rsvp.max_sessions, rsvp.max_paths, rsvp.max_resvs) = (1 << 21, 1 << 21, 1 << 21);
        let node = Node::new(Config { rsvp, seed: 42, ..Config::default() }, OneWay);
        let mut t = Transit { node, now: START, plans: Vec::new() };
        for (index, addr) in [(1, [10, 255, 1, 1]), (2, [10, 255, 2, 1])] {
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
                addresses: vec![addr.into()],
                mtu: 1500,
                rsvp: true,
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

    /// Tells one thing; how many messages the node sent.
    fn tell(&mut self, input: Input<'_>) -> usize {
        self.node.handle(self.now, input);
        let mut sent = 0;
        while let Some(output) = self.node.poll() {
            match output {
                Output::Plan { id, .. } => self.plans.push(id),
                Output::Send(_) => sent += 1,
                _ => {}
            }
        }
        sent
    }

    /// The plane answers.
    fn answer(&mut self) -> usize {
        let mut sent = 0;
        while let Some(id) = self.plans.pop() {
            sent += self.tell(Input::PlanDone { id, result: Ok(()) });
        }
        sent
    }

    fn path(&mut self, n: u32, bytes: &[u8]) -> usize {
        let (iif, src, dst) = (IfIndex(1), SENDER.src, session(n).dst);
        self.tell(Input::Message { iif, src, dst, ttl: 63, bytes })
    }

    fn resv(&mut self, bytes: &[u8]) -> usize {
        let (iif, src, dst) = (IfIndex(2), [10, 255, 2, 2].into(), [10, 255, 2, 1].into());
        self.tell(Input::Message { iif, src, dst, ttl: 255, bytes })
    }

    fn establish(&mut self, n: u32, path: &[u8], resv: &[u8]) {
        let sent = self.path(n, path) + self.resv(resv) + self.answer();
        assert_eq!(sent, 2, "a Path downstream and a Resv upstream");
    }
}

/// Bytes on the heap.
fn held() -> usize {
    let stats = COUNTING.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Many short runs rather than few long ones: each fits into a time slice of a busy machine.
const RUNS: usize = 801;
const BATCH: usize = 20;

/// The median over runs of the time per message of a batch.
fn per_one(batch: usize, mut run: impl FnMut() -> f64) -> f64 {
    median(&mut (0..RUNS).map(|_| run() / batch as f64).collect::<Vec<_>>())
}

/// New sessions and refreshes at this size, ns each.
struct Costs {
    new: f64,
    refresh: f64,
}

fn measure(bench: &Bench, sessions: u32, tag: &str) -> Option<Costs> {
    let [new_name, path_name, resv_name, send_name, rate_name] =
        ["new_session_ns", "path_refresh_ns", "resv_refresh_ns", "send_refresh_ns", "refresh_per_s"]
            .map(|n| format!("rsvp_{n}_{tag}"));
    let memory = "rsvp_bytes_per_session";
    let names = [&new_name, &path_name, &resv_name, &send_name, &rate_name];
    let wanted = names.into_iter().any(|n| bench.wants(n)) || bench.wants("rsvp_growth");
    if !(wanted || tag == "1e6" && bench.wants(memory)) {
        return None;
    }
    let mut transit = Transit::new(false);
    let before = held();
    for n in 0..sessions {
        transit.establish(n, &path(n), &resv(n));
    }
    if tag == "1e6" {
        bench.report(memory, (held() - before) as f64 / f64::from(sessions), "bytes", 1);
    }
    let (mut draw, batch, mut fresh) = (Draw::new(7), BATCH, sessions);
    let new = per_one(batch, || {
        let messages: Vec<_> = (fresh..fresh + batch as u32).map(|n| (n, path(n), resv(n))).collect();
        fresh += batch as u32;
        nanos(|| messages.iter().for_each(|(n, path, resv)| transit.establish(*n, path, resv)))
    });
    let some = |draw: &mut Draw, of: fn(u32) -> Vec<u8>| -> Vec<(u32, Vec<u8>)> {
        let chosen = (0..batch).map(|_| (draw.next_u64() % u64::from(sessions)) as u32);
        chosen.map(|n| (n, of(n))).collect()
    };
    let paths = per_one(batch, || {
        let messages = some(&mut draw, path);
        nanos(|| messages.iter().for_each(|(n, bytes)| assert_eq!(transit.path(*n, bytes), 0)))
    });
    let resvs = per_one(batch, || {
        let messages = some(&mut draw, resv);
        nanos(|| messages.iter().for_each(|(_, bytes)| assert_eq!(transit.resv(bytes), 0)))
    });
    let sent = per_one(1, || {
        transit.now = transit.node.wake_at().expect("something is due").max(transit.now);
        let mut count = 0;
        let spent = nanos(|| {
            while count < batch {
                transit.now = transit.node.wake_at().expect("something is due").max(transit.now);
                count += transit.tell(Input::Wake);
            }
        });
        spent / count as f64
    });
    for (name, value) in [(&new_name, new), (&path_name, paths), (&resv_name, resvs), (&send_name, sent)] {
        bench.report(name, value, "ns", RUNS);
    }
    bench.report(&rate_name, 2e9 / (paths + resvs), "1/s", RUNS);
    Some(Costs { new, refresh: paths + resvs })
}

/// `rsvp_srefresh_per_s_1e6`: states prolonged a second by summaries of 360 names, half of Paths and half of Resvs.
fn measure_summaries(bench: &Bench, sessions: u32) {
    const NAME: &str = "rsvp_srefresh_per_s_1e6";
    if !bench.wants(NAME) {
        return;
    }
    let mut transit = Transit::new(true);
    for n in 0..sessions {
        let (path, resv) = named(n);
        let sent = transit.path(n, &path) + transit.resv(&resv) + transit.answer();
        assert!(sent >= 2, "a Path downstream and a Resv upstream");
    }
    let expires = |t: &Transit| t.node.rsvp().paths().next().expect("there are paths").expires;
    let (before, mut draw) = (expires(&transit), Draw::new(9));
    transit.now = START + Span::from_secs(1);
    let each = per_one(2 * NAMES as usize, || {
        let first = (draw.next_u64() % u64::from(sessions - NAMES)) as u32;
        let bytes = summary(first);
        nanos(|| {
            for (iif, us, hop) in [(1, [10, 255, 1, 1], [10, 255, 1, 2]), (2, [10, 255, 2, 1], [10, 255, 2, 2])] {
                let (iif, src, dst) = (IfIndex(iif), hop.into(), us.into());
                let sent = transit.tell(Input::Message { iif, src, dst, ttl: 255, bytes: &bytes });
                assert_eq!(sent, 0, "every name is known");
            }
        })
    });
    let bytes = summary(0);
    transit.tell(Input::Message {
        iif: IfIndex(1),
        src: [10, 255, 1, 2].into(),
        dst: [10, 255, 1, 1].into(),
        ttl: 255,
        bytes: &bytes,
    });
    assert!(expires(&transit) > before, "a summary prolongs");
    bench.report(NAME, 1e9 / each, "1/s", RUNS);
}

fn main() {
    let bench = Bench::from_args();
    measure_summaries(&bench, 1_000_000);
    let small = measure(&bench, 1_000, "1e3");
    measure(&bench, 100_000, "1e5");
    let large = measure(&bench, 1_000_000, "1e6");
    if let (Some(small), Some(large)) = (small, large) {
        bench.report("rsvp_growth_new_1e3_1e6", large.new / small.new, "x", RUNS);
        bench.report("rsvp_growth_refresh_1e3_1e6", large.refresh / small.refresh, "x", RUNS);
    }
}
