//! The named steps of each message, in order, by a probe that writes them down; and that an engine without a probe is
//! the same engine, which says the same.

use node::io::{Input, InterfaceState, Output, Reservable};
use node::{Config, Node};
use std::net::IpAddr;
use terms::ports::{Route, RouteDecision};
use terms::probe::{Off, ProbeObserver, ProbePoint};
use terms::{Bytes, FlowSpec, IfIndex, Rate, SenderTemplate, Session, Span, Style, Time, Tspec};
use traffic::plan::LinkSpec;
use wire::{Builder, MessageType, RsvpHop};

/// Writes down what it is told: a step by its name, what lies within it in brackets.
#[derive(Clone, Default)]
struct Scribe {
    text: String,
    open: Vec<ProbePoint>,
}

impl ProbeObserver for Scribe {
    fn enter(&mut self, step: ProbePoint) {
        let begins = if self.text.is_empty() || self.text.ends_with('[') { "" } else { ", " };
        self.text += &format!("{begins}{step:?}[");
        self.open.push(step);
    }

    fn leave(&mut self, step: ProbePoint) {
        assert_eq!(self.open.pop(), Some(step), "steps nest");
        match self.text.ends_with('[') {
            true => drop(self.text.pop()),
            false => self.text.push(']'),
        }
    }
}

struct OneWay;

impl Route for OneWay {
    fn route(&mut self, _: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        RouteDecision::Out { oif: IfIndex(2), gateway: None, source: [10, 255, 2, 1].into() }
    }
}

const NOW: Time = Time::from_nanos(1_000_000_000);
const TSPEC: Tspec = Tspec { r: Rate::from_mbps(1), b: Bytes::new(8192), p: Rate::from_mbps(1), m: 64, M: 1500 };

fn sender(port: u32) -> SenderTemplate {
    SenderTemplate { src: [10, 1, 1, 1].into(), src_port: port }
}

/// A message of the previous hop about the sender of this port.
fn down(kind: MessageType, port: u32) -> Vec<u8> {
    let session = Session { dst: [172, 16, 0, 1].into(), protocol: 17, dst_port: 5004 };
    let build = Builder::new(kind, 63).session(&session).hop(&RsvpHop { addr: [10, 255, 1, 2].into(), lih: 7 });
    let build = if kind == MessageType::Path { build.time_values(Span::from_secs(30)) } else { build };
    build.sender_template(&sender(port).into()).sender_tspec(&TSPEC).finish().unwrap()
}

/// A message of the next hop.
fn up(kind: MessageType, port: u32) -> Vec<u8> {
    let session = Session { dst: [172, 16, 0, 1].into(), protocol: 17, dst_port: 5004 };
    let build = Builder::new(kind, 255).session(&session).hop(&RsvpHop { addr: [10, 255, 2, 2].into(), lih: 2 });
    let build = if kind == MessageType::Resv { build.time_values(Span::from_secs(30)) } else { build };
    let build = build.style(Style::Ff).flowspec(&FlowSpec::ControlledLoad(TSPEC));
    build.filter_spec(&sender(port).into()).finish().unwrap()
}

struct Transit<P>(Node<OneWay, P>);

impl<P: ProbeObserver + Clone> Transit<P> {
    fn new(probe: P) -> Transit<P> {
        let mut transit = Transit(Node::with(Config::default(), OneWay, probe));
        for (index, addr) in [(1, [10, 255, 1, 1]), (2, [10, 255, 2, 1])] {
            let spec = LinkSpec {
                rate: Rate::from_mbps(100),
                overhead: 14,
                mtu: 1500,
                scheduler: traffic::scheduler::SchedulerKind::Htb,
            };
            let (signalled_share, kept_back) = (spec.rate, Rate::from_mbps(1));
            let link = Reservable {
                spec,
                signalled_share,
                kept_back,
                assumed_holding: None,
                guaranteed: None,
                measured: Rate::ZERO,
            };
            let (name, addresses) = (format!("eth{index}"), vec![addr.into()]);
            let (index, link) = (IfIndex(index), Some(link));
            transit.tell(Input::Interface(InterfaceState { index, name, addresses, mtu: 1500, rsvp: true, link }));
        }
        transit
    }

    /// Tells one thing, and what the plane answers; what was said.
    fn tell(&mut self, input: Input<'_>) -> Vec<Output> {
        let mut said = Vec::new();
        self.0.handle(NOW, input);
        while let Some(output) = self.0.poll() {
            if let Output::Plan { id, .. } = &output {
                self.0.handle_plan(NOW, *id, &mut said);
            }
            said.push(output);
        }
        said
    }

    fn message(&mut self, bytes: &[u8]) -> Vec<Output> {
        let kind = MessageType::from_number(bytes[1]);
        let downwards = matches!(kind, Some(MessageType::Path | MessageType::PathTear));
        let (iif, src, dst, ttl): (_, IpAddr, IpAddr, _) = match downwards {
            true => (1, [10, 1, 1, 1].into(), [172, 16, 0, 1].into(), 63),
            false => (2, [10, 255, 2, 2].into(), [10, 255, 2, 1].into(), 255),
        };
        self.tell(Input::Message { iif: IfIndex(iif), src, dst, ttl, bytes })
    }
}

/// A plane that says yes, once all that was said before is taken.
trait Answering {
    fn handle_plan(&mut self, now: Time, id: node::io::PlanId, said: &mut Vec<Output>);
}

impl<P: ProbeObserver> Answering for Node<OneWay, P> {
    fn handle_plan(&mut self, now: Time, id: node::io::PlanId, said: &mut Vec<Output>) {
        while let Some(output) = self.poll() {
            said.push(output);
        }
        self.handle(now, Input::PlanDone { id, result: Ok(()) });
    }
}

#[test]
fn the_steps_of_each_message() {
    let mut transit = Transit::new(Scribe::default());
    let mut steps = |what: &[u8]| {
        transit.0.probe_mut().text.clear();
        transit.message(what);
        transit.0.probe_mut().text.clone()
    };
    let (path, resv) = (MessageType::Path, MessageType::Resv);
    let (path_tear, resv_tear) = (MessageType::PathTear, MessageType::ResvTear);
    let story = [
        (down(path, 1), "Route, FindSession, CreatePsb[CreateSession], PathRefresh, ResvRefresh"),
        (down(path, 2), "Route, FindSession, FindPsb, CreatePsb, PathRefresh, ResvRefresh"),
        // Byte for byte what came before: nothing is looked at but that.
        (down(path, 1), ""),
        (up(resv, 1), "FindSession, CheckStyles, ManageReservation, ResvRefresh"),
        (up(resv, 1), ""),
        (up(resv_tear, 1), "FindSession, FindRsb, TearReservation[ResvRefresh]"),
        (up(resv_tear, 1), "FindSession, FindRsb"),
        (down(path_tear, 1), "FindSession, FindPsb, TearPsb"),
        (down(path_tear, 2), "FindSession, FindPsb, TearPsb"),
        (down(path_tear, 2), "FindSession"),
        (up(resv, 1), "FindSession"),
    ];
    for (bytes, expected) in story {
        assert_eq!(steps(&bytes), expected, "{:?}", MessageType::from_number(bytes[1]));
    }
}

#[test]
fn who_looks_on_changes_nothing() {
    let (mut seen, mut alone) = (Transit::new(Scribe::default()), Transit::new(Off));
    let kinds = [MessageType::Path, MessageType::PathTear];
    let messages = (1..6).map(|port| down(kinds[0], port)).chain((1..5).map(|port| up(MessageType::Resv, port)));
    let tears = (1..4).map(|port| up(MessageType::ResvTear, port)).chain((2..6).map(|port| down(kinds[1], port)));
    for bytes in messages.chain(tears).chain([vec![0x10; 40]]) {
        assert_eq!(seen.message(&bytes), alone.message(&bytes));
    }
    assert_eq!(seen.0.rsvp().digest(), alone.0.rsvp().digest());
    assert!(seen.0.probe_mut().open.is_empty(), "every step was left");
    assert_eq!(size_of_val(alone.0.probe_mut()), 0);
}
