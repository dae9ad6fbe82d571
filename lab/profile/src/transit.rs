//! A transit node in this process: both protocols, traffic control and the ledger as in the agent, between
//! two neighbours that exist only as messages. It has no socket, and its data plane agrees at once.

use node::io::{Input, InterfaceState, Output, PlanId, Reservable};
use node::{Config, Node};
use std::net::IpAddr;
use terms::ports::{Route, RouteDecision};
use terms::probe::ProbeObserver;
use terms::{Adspec, Bytes, FlowKey, FlowSpec, IfIndex, Rate, SenderTemplate, Session, Span, Style, Time, Tspec};
use traffic::plan::LinkSpec;
use wire::boomerang::{BoomerangRequest, Family, Opt, Rates, Selector, TravelDirection};
use wire::ip::Header;
use wire::{Builder, MessageType, RsvpHop};

/// A protocol under test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Protocol {
    /// RSVP: fixed filter, controlled load.
    Rsvp,
    /// Boomerang: one flow, forward only, so that one message reserves what an RSVP session does.
    Boomerang,
}

impl Protocol {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Rsvp => "RSVP",
            Protocol::Boomerang => "Boomerang",
        }
    }
}

/// The Tspec of each session.
pub const TSPEC: Tspec =
    Tspec { r: Rate::from_kbps(64), b: Bytes::new(2_000), p: Rate::from_kbps(64), m: 64, M: 1_500 };
/// The start of the clock.
pub const START: Time = Time::from_nanos(1_800_000_000_000_000_000);

/// The upstream interface.
const NEAR: IfIndex = IfIndex(1);
/// The downstream interface.
const FAR: IfIndex = IfIndex(2);
/// The rate of a link on which a million reservations fit.
const LINK: Rate = Rate::from_bps(10_000_000_000_000);

/// A routing table in which every route leads downstream.
pub struct OneWay;

impl Route for OneWay {
    fn route(&mut self, _: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        RouteDecision::Out { oif: FAR, gateway: None, source: [10, 255, 2, 1].into() }
    }
}

/// Returns session number `n`: one of 2^24 destinations.
fn session(n: u32) -> Session {
    let [_, a, b, c] = n.to_be_bytes();
    Session { dst: [172, a, b, c].into(), protocol: 17, dst_port: 5004 }
}

/// The port of the sender that reserves.
pub const FIRST: u32 = 5004;
/// The port of a second sender, without a reservation.
pub const SECOND: u32 = 5005;

fn sender(port: u32) -> SenderTemplate {
    SenderTemplate { src: [10, 1, 1, 1].into(), src_port: port }
}

/// Builds a Path or PathTear of session `n` from the previous hop.
pub fn down(kind: MessageType, n: u32, port: u32) -> Vec<u8> {
    let hop = RsvpHop { addr: [10, 255, 1, 2].into(), lih: 7 };
    let build = Builder::new(kind, 63).session(&session(n)).hop(&hop);
    let is_path = kind == MessageType::Path;
    let build = if is_path { build.time_values(Span::from_secs(30)) } else { build };
    let build = build.sender_template(&sender(port).into()).sender_tspec(&TSPEC);
    let build = if is_path { build.adspec(&Adspec::origin(1500)) } else { build };
    build.finish().unwrap_or_else(|_| unreachable!("a message of seven short objects"))
}

/// Builds a Resv or ResvTear of session `n` from the next hop: fixed filter, controlled load.
pub fn up(kind: MessageType, n: u32) -> Vec<u8> {
    let hop = RsvpHop { addr: [10, 255, 2, 2].into(), lih: FAR.0 };
    let build = Builder::new(kind, 255).session(&session(n)).hop(&hop);
    let build = if kind == MessageType::Resv { build.time_values(Span::from_secs(30)) } else { build };
    let build = build.style(Style::Ff).flowspec(&FlowSpec::ControlledLoad(TSPEC));
    let build = build.filter_spec(&sender(FIRST).into());
    build.finish().unwrap_or_else(|_| unreachable!("a message of seven short objects"))
}

/// Builds a Boomerang request between these ends, for the flow between them: `rate` forward, nothing in
/// reverse.
pub fn request(src: IpAddr, dst: IpAddr, port: u16, transaction: u32, rate: u32, options: &[Opt<'_>]) -> Vec<u8> {
    let flow = FlowKey { src, dst, protocol: 17, src_port: port, dst_port: port, wild: terms::Wild::NONE };
    let request = BoomerangRequest {
        leg: TravelDirection::Request,
        id: 1,
        sequence: transaction as u16,
        transaction,
        flags: 0,
        refresh: 60,
        key: 1,
        classifier: Selector::of(&flow),
        mask: Selector::exact(Family::V4),
        rates: &[Rates { forward: rate, reverse: 0 }],
        policy: 0,
        options,
    };
    let header = Header { src, dst, protocol: 0, ttl: 64, tos: 0, router_alert: true };
    let mut packet = Vec::with_capacity(96);
    request.write(&header, &mut packet).unwrap_or_else(|_| unreachable!("a message of 92 octets, and little more"));
    packet
}

/// Builds the request of session `n`.
pub fn echo(n: u32, transaction: u32, rate: u32) -> Vec<u8> {
    request(sender(FIRST).src, session(n).dst, FIRST as u16, transaction, rate, &[])
}

/// The rate of [`TSPEC`], bit/s.
pub const RATE: u32 = 64_000;

/// The node.
pub struct Transit<P> {
    node: Node<OneWay, P>,
    /// The node's clock, which stands still unless it is set.
    pub now: Time,
    /// The plans that the plane has not answered yet.
    plans: Vec<PlanId>,
}

impl<P: ProbeObserver + Clone> Transit<P> {
    /// Creates a node with room for at least `sessions` sessions.
    pub fn new(sessions: u32, probe: P) -> Transit<P> {
        let room = (sessions as usize * 2).max(1 << 12);
        let limits = rsvp::io::Config { max_sessions: room, max_paths: room, max_resvs: room, ..Default::default() };
        let rsvp = rsvp::io::Config { node_name: "transit".into(), ..limits };
        // One source says all: what one source may say is not what is measured.
        let boomerang = boomerang::Config { per_source: u32::MAX / 2, most_sessions: room, ..Default::default() };
        let node = Node::with(Config { rsvp, boomerang, seed: 42, ..Config::default() }, OneWay, probe);
        let mut transit = Transit { node, now: START, plans: Vec::new() };
        for (index, addr) in [(NEAR, [10, 255, 1, 1]), (FAR, [10, 255, 2, 1])] {
            let spec =
                LinkSpec { rate: LINK, overhead: 14, mtu: 1500, scheduler: traffic::scheduler::SchedulerKind::Htb };
            let (signalled_share, kept_back) = (LINK, Rate::from_mbps(1));
            let link = Reservable {
                spec,
                signalled_share,
                kept_back,
                assumed_holding: None,
                guaranteed: None,
                measured: Rate::ZERO,
            };
            let (name, addresses) = (format!("eth{}", index.0), vec![addr.into()]);
            let state = InterfaceState { index, name, addresses, mtu: 1500, rsvp: true, link: Some(link) };
            transit.tell(Input::Interface(state));
            transit.answer();
        }
        transit
    }
}

impl<P: ProbeObserver> Transit<P> {
    /// Returns the probe in a protocol's engine.
    pub fn probe_mut(&mut self, protocol: Protocol) -> &mut P {
        match protocol {
            Protocol::Rsvp => self.node.probe_mut(),
            Protocol::Boomerang => self.node.boomerang_probe_mut(),
        }
    }

    /// Returns the time of the node's next alarm.
    pub fn wake_at(&self) -> Option<Time> {
        self.node.wake_at()
    }

    /// Passes one input to the node. Returns the number of messages that it sends.
    pub fn tell(&mut self, input: Input<'_>) -> usize {
        self.node.handle(self.now, input);
        let mut sent = 0;
        while let Some(output) = self.node.poll() {
            match output {
                Output::Plan { id, .. } => self.plans.push(id),
                Output::Send(_) | Output::Boomerang(boomerang::Output::Pass { .. }) => sent += 1,
                _ => {}
            }
        }
        sent
    }

    /// Answers for the plane. Returns the number of messages that the node then sends.
    pub fn answer(&mut self) -> usize {
        let mut sent = 0;
        while let Some(id) = self.plans.pop() {
            sent += self.tell(Input::PlanDone { id, result: Ok(()) });
        }
        sent
    }

    /// Passes a message from upstream, and the plane's answers. Returns the number of messages sent.
    pub fn from_upstream(&mut self, n: u32, bytes: &[u8]) -> usize {
        let (src, dst) = (sender(FIRST).src, session(n).dst);
        self.tell(Input::Message { iif: NEAR, src, dst, ttl: 63, bytes }) + self.answer()
    }

    /// Passes a message from downstream, and the plane's answers. Returns the number of messages sent.
    pub fn from_downstream(&mut self, bytes: &[u8]) -> usize {
        let (src, dst) = ([10, 255, 2, 2].into(), [10, 255, 2, 1].into());
        self.tell(Input::Message { iif: FAR, src, dst, ttl: 255, bytes }) + self.answer()
    }

    /// Passes a Boomerang message, which is rewritten, and the plane's answers. Returns the number of
    /// messages sent.
    pub fn passing(&mut self, packet: &mut [u8]) -> usize {
        self.tell(Input::Echo { iif: Some(NEAR), packet }) + self.answer()
    }

    /// Makes a session with its reservation.
    pub fn establish(&mut self, protocol: Protocol, n: u32) {
        match protocol {
            Protocol::Rsvp => {
                self.from_upstream(n, &down(MessageType::Path, n, FIRST));
                self.from_downstream(&up(MessageType::Resv, n));
            }
            Protocol::Boomerang => {
                self.passing(&mut echo(n, 1, RATE));
            }
        }
    }

    /// Returns the number of sessions with a reservation.
    pub fn reserved(&self, protocol: Protocol) -> usize {
        match protocol {
            Protocol::Rsvp => self.node.rsvp().reservations().count(),
            Protocol::Boomerang => self.node.boomerang().len(),
        }
    }
}
