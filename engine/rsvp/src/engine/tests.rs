//! An engine that knows refreshes at once against one that reads every message.

use crate::Rsvp;
use crate::arrival::Arrival;
use crate::integrity::{Algorithm, AuthMode, IntegrityKey, KeyTable, Signer};
use crate::io::{Config, Input, Interface, Output};
use alloc::vec::Vec;
use core::net::IpAddr;
use proptest::prelude::*;
use terms::ports::{RHandle, Route, RouteDecision, TcRequest, TrafficControl};
use terms::{Adspec, Bytes, FlowSpec, IfIndex, Rate, Refused, SenderTemplate, Session, Span, Style, Time, Tspec};
use wire::{Builder, MessageType, RsvpHop};

/// A way that may turn, and a traffic control that has room for so much.
struct World {
    oif: u32,
    room: u64,
    handles: u64,
}

impl Route for World {
    fn route(&mut self, _: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        let source = [10, 0, self.oif as u8, 1].into();
        RouteDecision::Out { oif: IfIndex(self.oif), gateway: None, source }
    }
}

impl TrafficControl for World {
    fn add(&mut self, _: Time, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        self.modify(Time::ZERO, RHandle(0), request)?;
        self.handles += 1;
        Ok(RHandle(self.handles))
    }

    fn modify(&mut self, _: Time, _: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        let (asked, free) = (request.flowspec.rate(), Rate::from_mbps(self.room));
        if asked <= free { Ok(()) } else { Err(Refused::Capacity { interface: request.oif, asked, free }) }
    }

    fn remove(&mut self, _: Time, _: RHandle) {}

    fn advertise(&self, _: Time, _: IfIndex, arriving: &Adspec) -> Adspec {
        *arriving
    }
}

/// One thing that happens; small numbers choose among few sessions, hops, rates and periods, so that most messages
/// repeat an earlier one.
#[derive(Clone, Debug)]
enum Step {
    Path { session: u8, hop: u8, rate: u8, period: u8, ttl: u8 },
    Resv { session: u8, hop: u8, rates: Vec<u8>, period: u8, confirm: bool },
    PathTear { session: u8, hop: u8 },
    ResvTear { session: u8, hop: u8 },
    Route(bool),
    Room(u8),
    Interface(u8),
    Later(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rates = prop_oneof![8 => prop::collection::vec(1u8..3, 1), 1 => prop::collection::vec(1u8..3, 2)];
    let step = prop_oneof![
        12 => (0u8..2, 0u8..2, 1u8..3, 0u8..2, 62u8..64)
            .prop_map(|(session, hop, rate, period, ttl)| Step::Path { session, hop: hop / 2 + hop % 2 * (rate - 1), rate, period, ttl }),
        12 => (0u8..2, 0u8..2, rates, 0u8..2, prop::bool::weighted(0.1))
            .prop_map(|(session, hop, rates, period, confirm)| Step::Resv { session, hop, rates, period, confirm }),
        1 => (0u8..2, 0u8..2).prop_map(|(session, hop)| Step::PathTear { session, hop }),
        1 => (0u8..2, 0u8..2).prop_map(|(session, hop)| Step::ResvTear { session, hop }),
        1 => any::<bool>().prop_map(Step::Route),
        1 => (1u8..3).prop_map(Step::Room),
        1 => (0u8..2).prop_map(Step::Interface),
        6 => prop_oneof![0u16..5, 0u16..6000].prop_map(Step::Later),
    ];
    prop::collection::vec(step, 0..120)
}

fn session(n: u8) -> Session {
    Session { dst: [10, 9, 0, n + 1].into(), protocol: 17, dst_port: 5004 }
}

fn sender(n: usize) -> SenderTemplate {
    SenderTemplate { src: [10, 8, 0, 1].into(), src_port: 9 + n as u32 }
}

fn tspec(rate: u8) -> Tspec {
    let r = Rate::from_mbps(rate.into());
    Tspec { r, b: Bytes::new(4000), p: r, m: 64, M: 1500 }
}

/// Where it comes in, from and to whom, TTL, the message.
type Arrived = (IfIndex, IpAddr, IpAddr, u8, Vec<u8>);

fn message(step: &Step) -> Option<Arrived> {
    let period = |n: u8| Span::from_secs(u64::from(n) * 2 + 1);
    let up = |hop: u8| RsvpHop { addr: [10, 0, 1, 2 + hop].into(), lih: 7 };
    let down = |hop: u8| RsvpHop { addr: [10, 0, 2, 2 + hop].into(), lih: 2 };
    let to_us =
        |hop: RsvpHop, build: Builder| (IfIndex(2), hop.addr, [10, 0, 2, 1].into(), 255, build.finish().unwrap());
    Some(match *step {
        Step::Path { session: s, hop, rate, period: p, ttl } => {
            let build = Builder::new(MessageType::Path, 63).session(&session(s)).hop(&up(hop)).time_values(period(p));
            let build = build.sender_template(&sender(0).into()).sender_tspec(&tspec(rate));
            (IfIndex(1), sender(0).src, session(s).dst, ttl, build.finish().unwrap())
        }
        Step::Resv { session: s, hop, ref rates, period: p, confirm } => {
            let mut build =
                Builder::new(MessageType::Resv, 255).session(&session(s)).hop(&down(hop)).time_values(period(p));
            if confirm {
                build = build.confirm(session(s).dst);
            }
            let mut build = build.style(Style::Ff);
            for (n, rate) in rates.iter().enumerate() {
                let flowspec = FlowSpec::ControlledLoad(tspec(*rate));
                build = build.flowspec(&flowspec).filter_spec(&sender(n).into());
            }
            to_us(down(hop), build)
        }
        Step::PathTear { session: s, hop } => {
            let build = Builder::new(MessageType::PathTear, 63).session(&session(s)).hop(&up(hop));
            let build = build.sender_template(&sender(0).into()).sender_tspec(&tspec(1));
            (IfIndex(1), sender(0).src, session(s).dst, 63, build.finish().unwrap())
        }
        Step::ResvTear { session: s, hop } => {
            let build = Builder::new(MessageType::ResvTear, 255).session(&session(s)).hop(&down(hop));
            to_us(down(hop), build.style(Style::Ff).filter_spec(&sender(0).into()))
        }
        _ => return None,
    })
}

/// One engine in its world.
struct Node {
    engine: Rsvp,
    world: World,
    said: Vec<Output>,
    reads_all: bool,
}

impl Node {
    fn new(reads_all: bool) -> Node {
        let config = Config { refresh: Span::from_secs(2), repair_wait: Span::from_millis(100), ..Config::default() };
        let world = World { oif: 2, room: 9, handles: 0 };
        let mut node = Node { engine: Rsvp::new(config, 5), world, said: Vec::new(), reads_all };
        (1..4).for_each(|n| node.interface(Time::ZERO, n, 1500));
        node
    }

    fn interface(&mut self, now: Time, n: u32, mtu: u32) {
        let addresses = alloc::vec![IpAddr::from([10, 0, n as u8, 1])];
        let state = Interface { name: "if".into(), addresses, mtu, enabled: true };
        self.tell(now, Input::Interface { interface: IfIndex(n), state: Some(state) });
    }

    fn tell(&mut self, now: Time, input: Input<'_>) {
        let handles = self.world.handles;
        if self.reads_all {
            self.engine.state.unheard_all();
        }
        self.engine.handle(now, &mut self.world, input);
        self.said.extend(core::iter::from_fn(|| self.engine.poll()));
        for handle in handles..self.world.handles {
            self.tell(now, Input::Installed { handle: RHandle(handle + 1), result: Ok(()) });
        }
    }

    fn step(&mut self, now: Time, step: &Step) {
        match *step {
            Step::Route(other) => {
                self.world.oif = if other { 3 } else { 2 };
                self.tell(now, Input::RouteChanged(None));
            }
            Step::Room(room) => self.world.room = room.into(),
            Step::Interface(n) => self.interface(now, 3, 1400 + u32::from(n)),
            Step::Later(_) => self.tell(now, Input::Wake),
            _ => {
                if let Some((iif, src, dst, ttl, bytes)) = message(step) {
                    self.tell(now, Input::Message { iif, src, dst, ttl, bytes: &bytes });
                }
            }
        }
    }
}

/// Whatever comes in whatever order, both say the same, live as long, and wake for the same deadlines.
fn as_if_read(steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut knows, mut reads) = (Node::new(false), Node::new(true));
    let mut now = Time::ZERO;
    for step in steps {
        if let Step::Later(ms) = step {
            now = now + Span::from_millis((*ms).into());
        }
        knows.step(now, step);
        reads.step(now, step);
        prop_assert_eq!(core::mem::take(&mut knows.said), core::mem::take(&mut reads.said), "{:?}", step);
        prop_assert_eq!(knows.engine.counters(), reads.engine.counters());
        prop_assert_eq!(knows.engine.wake_at(), reads.engine.wake_at());
        for (id, _, psb) in knows.engine.state.psbs() {
            prop_assert_eq!((psb.expires, &psb.out), (reads.engine.state[id].expires, &reads.engine.state[id].out));
        }
        for (id, _, rsb) in knows.engine.state.rsbs() {
            prop_assert_eq!(rsb.expires, reads.engine.state[id].expires);
        }
        knows.engine.state.check_heard();
    }
    Ok(())
}

proptest! {
    #![proptest_config(chance::cases(256))]

    #[test]
    fn as_if_every_message_were_read(steps in steps()) {
        as_if_read(&steps)?;
    }
}

/// Found by chance: the same Path twice, but for its TTL.
#[test]
fn a_path_that_came_another_way_is_read() {
    let path = |ttl| Step::Path { session: 1, hop: 0, rate: 1, period: 0, ttl };
    as_if_read(&[path(62), path(63)]).unwrap();
}

/// The shortcut is taken: a message that came before is not parsed again, and one that differs in a bit is.
#[test]
fn a_repeated_message_is_known_at_once() {
    let mut node = Node::new(false);
    let path = Step::Path { session: 0, hop: 0, rate: 1, period: 0, ttl: 63 };
    let resv = Step::Resv { session: 0, hop: 0, rates: alloc::vec![1], period: 0, confirm: false };
    node.step(Time::ZERO, &path);
    node.step(Time::ZERO, &resv);
    for step in [&path, &resv] {
        let (iif, src, dst, ttl, bytes) = message(step).unwrap();
        let from = Arrival { iif, src, dst, ttl, direct: true, proof: None };
        let later = Time::from_nanos(1_000);
        assert!(node.engine.state.heard_again(later, &from, &bytes).is_some());
        for at in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[at / 8] ^= 1 << (at % 8);
            assert!(node.engine.state.heard_again(later, &from, &other).is_none(), "bit {at}");
        }
        for cut in 0..bytes.len() {
            assert!(node.engine.state.heard_again(later, &from, &bytes[..cut]).is_none(), "cut at {cut}");
        }
        for other in [
            Arrival { iif: IfIndex(3), ..from },
            Arrival { ttl: ttl - 1, ..from },
            Arrival { src: [10, 8, 0, 2].into(), ..from },
            Arrival { dst: [10, 8, 0, 2].into(), ..from },
        ] {
            assert!(node.engine.state.heard_again(later, &other, &bytes).is_none(), "{other:?}");
        }
    }
}

/// The jitter of refreshes reveals nothing about cookies: these come from random numbers of their own.
#[test]
fn cookies_hang_on_the_secret_and_not_on_the_seed() {
    let key = IntegrityKey::new(1, Algorithm::HmacSha256, b"key");
    let path = Step::Path { session: 0, hop: 0, rate: 1, period: 0, ttl: 63 };
    let (iif, src, dst, ttl, bytes) = message(&path).unwrap();
    let bytes = Signer::new(&key, 1).sign(&bytes).unwrap();
    let challenge = |seed: u64, first: u64| {
        let table = KeyTable::new(alloc::vec![key.clone()]).unwrap();
        let mut rsvp = Rsvp::new(Config { auth: AuthMode::Keys(table), ..Config::default() }, seed);
        let mut word = first;
        rsvp.keyed(&mut || {
            word += 1;
            word
        });
        let mut world = World { oif: 2, room: 9, handles: 0 };
        let addresses = alloc::vec![IpAddr::from([10, 0, 1, 1])];
        let state = Interface { name: "if".into(), addresses, mtu: 1500, enabled: true };
        rsvp.handle(Time::ZERO, &mut world, Input::Interface { interface: iif, state: Some(state) });
        while rsvp.poll().is_some() {}
        rsvp.handle(Time::ZERO, &mut world, Input::Message { iif, src, dst, ttl, bytes: &bytes });
        let said = core::iter::from_fn(|| rsvp.poll());
        let sent =
            said.filter_map(|output| if let Output::Send(datagram) = output { Some(datagram.bytes) } else { None });
        let sent: Vec<_> = sent.collect();
        assert_eq!(sent.len(), 1, "one challenge");
        sent
    };
    assert_eq!(challenge(7, 1), challenge(7, 1));
    assert_ne!(challenge(7, 1), challenge(7, 1_000));
    assert_eq!(challenge(7, 1), challenge(8, 1));
}
