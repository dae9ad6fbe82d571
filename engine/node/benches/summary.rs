//! What a summary refresh costs (RFC 2961 section 5): a transit node with a path and a reservation for each of many
//! sessions, all named by its neighbours, is told their names again, as many to a message as fit into 1500 bytes. The
//! engine alone: no socket.
//!
//! `rsvp_srefresh_per_s_*`: states prolonged, paths and reservations in equal parts. `*_shuffled`: named in random order,
//! so that each state is a miss of every cache.

use bench::{Bench, Draw, median, nanos};
use node::io::{Input, InterfaceState, Output, Reservable};
use node::{Config, Node};
use std::net::IpAddr;
use terms::ports::{Route, RouteDecision};
use terms::{Adspec, Bytes, FlowSpec, IfIndex, Rate, SenderTemplate, Session, Span, Style, Time, Tspec};
use traffic::plan::LinkSpec;
use wire::objects::MessageId;
use wire::{Builder, MessageType, RsvpHop};

struct OneWay;

impl Route for OneWay {
    fn route(&mut self, _: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        RouteDecision::Out { oif: IfIndex(2), gateway: Some([10, 255, 2, 2].into()), source: [10, 255, 2, 1].into() }
    }
}

const TSPEC: Tspec = Tspec { r: Rate::from_mbps(1), b: Bytes::new(8192), p: Rate::from_mbps(1), m: 64, M: 1500 };
const START: Time = Time::from_nanos(1_800_000_000_000_000_000);
const EPOCH: u32 = 77;
/// Names in a summary of 1500 bytes.
const NAMES: usize = 366;
const RUNS: usize = 301;

const SENDER: SenderTemplate =
    SenderTemplate { src: IpAddr::V4(core::net::Ipv4Addr::new(10, 1, 1, 1)), src_port: 5004 };

fn session(n: u32) -> Session {
    let [_, a, b, c] = n.to_be_bytes();
    Session { dst: [172, a, b, c].into(), protocol: 17, dst_port: 5004 }
}

fn named(kind: MessageType, ttl: u8, n: u32) -> Builder {
    Builder::new(kind, ttl).flags(1).message_id(&MessageId { flags: 0, epoch: EPOCH, id: n + 1 }).session(&session(n))
}

fn path(n: u32) -> Vec<u8> {
    let m = named(MessageType::Path, 63, n).hop(&RsvpHop { addr: [10, 255, 1, 2].into(), lih: 7 });
    let m = m.time_values(Span::from_secs(30)).sender_template(&SENDER.into()).sender_tspec(&TSPEC);
    m.adspec(&Adspec::origin(1500)).finish().expect("short")
}

fn resv(n: u32) -> Vec<u8> {
    let m = named(MessageType::Resv, 255, n).hop(&RsvpHop { addr: [10, 255, 2, 2].into(), lih: 2 });
    let m = m.time_values(Span::from_secs(30)).style(Style::Ff).flowspec(&FlowSpec::ControlledLoad(TSPEC));
    m.filter_spec(&SENDER.into()).finish().expect("short")
}

struct Transit {
    node: Node<OneWay>,
    now: Time,
    plans: Vec<node::io::PlanId>,
}

impl Transit {
    fn new() -> Transit {
        let mut rsvp = rsvp::io::Config { refresh_reduction: true, ..Default::default() };
        (rsvp.max_sessions, rsvp.max_paths, rsvp.max_resvs) = (1 << 21, 1 << 21, 1 << 21);
        let mut t = Transit {
            node: Node::new(Config { rsvp, seed: 42, ..Config::default() }, OneWay),
            now: START,
            plans: Vec::new(),
        };
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
        }
        t
    }

    /// Tells one thing, lets the plane say yes; how many messages the node sent.
    fn tell(&mut self, input: Input<'_>) -> usize {
        self.node.handle(self.now, input);
        let mut sent = self.drain();
        while let Some(id) = self.plans.pop() {
            self.node.handle(self.now, Input::PlanDone { id, result: Ok(()) });
            sent += self.drain();
        }
        sent
    }

    fn drain(&mut self) -> usize {
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

    fn hear(&mut self, iif: u32, src: [u8; 4], dst: IpAddr, ttl: u8, bytes: &[u8]) -> usize {
        self.tell(Input::Message { iif: IfIndex(iif), src: src.into(), dst, ttl, bytes })
    }
}

fn measure(bench: &Bench, sessions: u32, tag: &str) {
    let [in_order, shuffled] = ["", "_shuffled"].map(|s| format!("rsvp_srefresh_per_s_{tag}{s}"));
    if !bench.wants(&in_order) && !bench.wants(&shuffled) {
        return;
    }
    let mut t = Transit::new();
    for n in 0..sessions {
        t.hear(1, [10, 1, 1, 1], session(n).dst, 63, &path(n));
        t.hear(2, [10, 255, 2, 2], [10, 255, 2, 1].into(), 255, &resv(n));
    }
    assert_eq!(
        (t.node.rsvp().paths().count(), t.node.rsvp().reservations().count()),
        (sessions as usize, sessions as usize)
    );
    let mut draw = Draw::new(3);
    for (name, random) in [(&in_order, false), (&shuffled, true)] {
        let mut next = 0;
        let mut ids = || -> Vec<u32> {
            let draw = &mut draw;
            let mut one = || {
                next = if random { (draw.next_u64() % u64::from(sessions)) as u32 } else { (next + 1) % sessions };
                next + 1
            };
            (0..NAMES).map(|_| one()).collect()
        };
        let mut each: Vec<f64> = (0..RUNS)
            .map(|_| {
                let ids = ids();
                let bytes = Builder::new(MessageType::Srefresh, 255).flags(1).message_id_list(EPOCH, &ids).finish();
                let bytes = bytes.expect("it fits");
                assert!(bytes.len() + 20 <= 1500);
                t.now = t.now + Span::from_micros(10);
                let mut sent = 0;
                let spent = nanos(|| {
                    sent += t.hear(1, [10, 255, 1, 2], [10, 255, 1, 1].into(), 255, &bytes);
                    sent += t.hear(2, [10, 255, 2, 2], [10, 255, 2, 1].into(), 255, &bytes);
                });
                assert_eq!(sent, 0, "every name is known");
                spent / (2 * NAMES) as f64
            })
            .collect();
        bench.report(name, 1e9 / median(&mut each), "1/s", RUNS);
    }
}

fn main() {
    let bench = Bench::from_args();
    measure(&bench, 1_000, "1e3");
    measure(&bench, 1_000_000, "1e6");
}
