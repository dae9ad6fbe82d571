//! One session with many senders: ten times as many cost about ten times as much, not a hundred. What is counted is what
//! the walks over the session's blocks look at, so that no clock decides.

use crate::story::net::{cl, config, tspec};
use rsvp::Rsvp;
use rsvp::io::{Config, Event, Input, Interface, Output};
use std::net::IpAddr;
use terms::ports::{RHandle, Route, RouteDecision, TcRequest, TrafficControl};
use terms::{Adspec, FilterSpec, IfIndex, Rate, Refused, Session, Span, Style, Time, Tspec};
use wire::{Builder, MessageType, RsvpHop};

const R: Span = Span::from_secs(30);

/// Everything leaves by interface 2; what traffic control was told last.
#[derive(Default)]
struct World {
    handles: u64,
    told: Option<(Tspec, bool)>,
}

impl Route for World {
    fn route(&mut self, _: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        RouteDecision::Out { oif: IfIndex(2), gateway: None, source: [10, 0, 2, 1].into() }
    }
}

impl TrafficControl for World {
    fn add(&mut self, _: Time, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        self.handles += 1;
        self.told = Some((request.path_te, request.police.merge));
        Ok(RHandle(self.handles))
    }

    fn modify(&mut self, _: Time, _: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        self.told = Some((request.path_te, request.police.merge));
        Ok(())
    }

    fn remove(&mut self, _: Time, _: RHandle) {}

    fn advertise(&self, _: Time, _: IfIndex, arriving: &Adspec) -> Adspec {
        *arriving
    }
}

struct Node {
    engine: Rsvp,
    world: World,
    events: Vec<Event>,
    /// Resvs sent upstream.
    resvs: usize,
    errors: usize,
}

const SESSION: Session = Session { dst: IpAddr::V4(std::net::Ipv4Addr::new(172, 16, 0, 1)), protocol: 17, dst_port: 5 };
const UPSTREAM: [u8; 4] = [10, 0, 1, 9];
const DOWNSTREAM: [u8; 4] = [10, 0, 2, 9];

impl Node {
    fn new(config: Config) -> Node {
        let mut node =
            Node { engine: Rsvp::new(config, 5), world: World::default(), events: vec![], resvs: 0, errors: 0 };
        for n in [1, 2] {
            let addresses = vec![IpAddr::from([10, 0, n as u8, 1])];
            let state = Interface { name: format!("if{n}"), addresses, mtu: 1500, enabled: true };
            node.tell(Input::Interface { interface: IfIndex(n), state: Some(state) });
        }
        node
    }

    fn tell(&mut self, input: Input<'_>) {
        let before = self.world.handles;
        self.engine.handle(Time::from_nanos(1), &mut self.world, input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Send(datagram) => {
                    self.resvs += usize::from(datagram.bytes[1] == MessageType::Resv.number());
                    self.errors += usize::from(datagram.bytes[1] == MessageType::PathErr.number());
                }
                Output::Event(event) => self.events.push(event),
                _ => {}
            }
        }
        for handle in before..self.world.handles {
            self.tell(Input::Installed { handle: RHandle(handle + 1), result: Ok(()) });
        }
    }

    fn message(&mut self, iif: u32, src: [u8; 4], dst: IpAddr, ttl: u8, build: Builder) {
        let bytes = build.finish().expect("fits");
        self.tell(Input::Message { iif: IfIndex(iif), src: src.into(), dst, ttl, bytes: &bytes });
    }

    /// Sender `n` says its Path, or its PathTear.
    fn path(&mut self, kind: MessageType, sender: FilterSpec, tspec: &Tspec) {
        let IpAddr::V4(src) = sender.src else { panic!("all are of IPv4") };
        let build = Builder::new(kind, 63).session(&SESSION).hop(&RsvpHop { addr: UPSTREAM.into(), lih: 7 });
        let build = if kind == MessageType::Path { build.time_values(R) } else { build };
        let build = build.sender_template(&sender.into()).sender_tspec(tspec);
        self.message(1, src.octets(), SESSION.dst, 63, build);
    }

    fn resv(&mut self, style: Style, senders: &[FilterSpec]) {
        let hop = RsvpHop { addr: DOWNSTREAM.into(), lih: 2 };
        let build = Builder::new(MessageType::Resv, 255).session(&SESSION).hop(&hop).time_values(R);
        let build = build.style(style).flowspec(&cl(3));
        let build = senders.iter().fold(build, |build, sender| build.filter_spec(&(*sender).into()));
        self.message(2, DOWNSTREAM, [10, 0, 2, 1].into(), 255, build);
    }
}

/// Senders with ports, or each an address that has no ports at all.
fn sender(n: u32, port: u32) -> FilterSpec {
    let [_, _, c, d] = n.to_be_bytes();
    FilterSpec { src: [10, 9, c, d].into(), src_port: port }
}

/// What a session with so many senders costs, that all come, are said again, and go.
fn cost(many: u32, port: u32, style: Option<Style>) -> u64 {
    let mut node = Node::new(Config { max_senders: 4_096, ..config(R) });
    node.path(MessageType::Path, sender(0, port), &tspec(1));
    if let Some(style) = style {
        let named = [sender(0, port)];
        node.resv(style, if style == Style::Wf { &[] } else { &named });
        assert_eq!((node.world.handles, node.resvs), (1, 1), "reserved and asked upstream");
    }
    for n in 1..many {
        node.path(MessageType::Path, sender(n, port), &tspec(1 + u64::from(n % 3)));
    }
    assert_eq!(node.engine.sessions().map(|session| session.senders).sum::<usize>(), many as usize);
    if style == Some(Style::Wf) {
        let sum: u64 = (0..u64::from(many)).map(|n| if n == 0 { 1 } else { 1 + n % 3 }).sum();
        let (told, merge) = node.world.told.expect("told");
        assert_eq!((told.r, merge), (Rate::from_mbps(sum), true), "what they send together");
        assert_eq!(node.resvs, 1, "the request upstream lists nobody: it covers who comes later");
    }
    for n in 0..many {
        node.path(MessageType::Path, sender(n, port), &tspec(1 + if n == 0 { 0 } else { u64::from(n % 3) }));
    }
    for n in 1..many {
        node.path(MessageType::PathTear, sender(n, port), &tspec(1));
    }
    assert_eq!(node.engine.sessions().map(|session| session.senders).sum::<usize>(), 1);
    if style == Some(Style::Wf) {
        assert_eq!(node.world.told.map(|(told, merge)| (told.r, merge)), Some((Rate::from_mbps(1), false)));
    }
    assert_eq!(node.errors, 0);
    node.engine.walked()
}

#[test]
fn ten_times_the_senders_cost_ten_times_as_much() {
    for (port, style) in [(0, None), (9, None), (9, Some(Style::Wf)), (0, Some(Style::Wf)), (9, Some(Style::Se))] {
        let (few, many) = (cost(200, port, style), cost(2_000, port, style));
        assert!(many <= 15 * few.max(200), "port {port}, {style:?}: {few} steps, then {many}");
    }
}

#[test]
fn a_session_has_a_limit_of_senders_and_says_so() {
    let mut node = Node::new(Config { max_senders: 3, ..config(R) });
    for n in 0..3 {
        node.path(MessageType::Path, sender(n, 9), &tspec(1));
    }
    node.path(MessageType::Path, sender(1, 9), &tspec(2));
    assert_eq!(node.errors, 0, "who is there may say something else");
    node.events.clear();
    node.path(MessageType::Path, sender(3, 9), &tspec(1));
    assert_eq!((node.errors, node.engine.sessions().map(|session| session.senders).sum::<usize>()), (1, 3));
    let said = format!("{:?}", node.events);
    assert!(said.contains("senders of this session (max_senders): the limit of 3 is reached"), "{said}");
    node.path(MessageType::PathTear, sender(0, 9), &tspec(1));
    node.path(MessageType::Path, sender(3, 9), &tspec(1));
    assert_eq!(node.errors, 1, "there is room again");
    // Another session has its own.
    assert_eq!(Config::default().max_senders, 4_096);
}

/// Whoever mixes source ports of one address is told so, whoever came first, and may when the others are gone.
#[test]
fn ports_of_one_address_are_mixed_by_nobody() {
    for (first, then) in [(0, 9), (9, 0)] {
        let mut node = Node::new(config(R));
        let of = |port| sender(1, port);
        node.path(MessageType::Path, of(first), &tspec(1));
        node.path(MessageType::Path, of(then), &tspec(1));
        assert_eq!(node.errors, 1, "{first} and {then}");
        node.path(MessageType::PathTear, of(first), &tspec(1));
        node.path(MessageType::Path, of(then), &tspec(1));
        assert_eq!(node.errors, 1, "{then} alone");
    }
}
