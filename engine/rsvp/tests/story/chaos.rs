//! I22, I23 in small: links fail and come back, nodes lose their memory, planes fail, messages are lost, applications
//! come, change their minds and go. Whatever happens, traffic control holds exactly what the engines think it holds, and
//! when it is over, every session ends up as its receiver last asked.

use crate::story::net::*;
use rsvp::io::{AppCall, AppId, Config, Event, Gone, Input};
use rsvp::lifetime::lifetime;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use terms::{FilterSpec, IfIndex, Rate, Session, Span, Style, Time};

const R: Span = Span::from_secs(1);
const FLOWS: usize = 8;

struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// `a - r1 - r2 - b` with `r1 - r3 - r2` beside it; flows in both directions between the hosts.
struct World {
    net: Net,
    chance: Chance,
    storm: Rc<Cell<bool>>,
    /// What each flow's receiver wants, if anything, and whether its sender sends.
    wanted: [(Option<u64>, bool); FLOWS],
    happened: BTreeMap<&'static str, u32>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut net = Net::new(seed % 2 == 1);
        for name in ["a", "r1", "r2", "b", "r3"] {
            net.node(name, Config { repair_wait: Span::from_millis(seed % 3 * 100), ..config(R) });
        }
        for (x, y) in [(0, 1), (1, 2), (2, 3), (1, 4), (4, 2)] {
            net.link(x, y);
        }
        let storm = Rc::new(Cell::new(true));
        let (blows, mut dice) = (Rc::clone(&storm), Chance(seed ^ 0xabcd));
        net.fate = Box::new(move |_, _| match dice.below(20) {
            _ if !blows.get() => Fate::Deliver,
            0 | 1 => Fate::Lose,
            2 => Fate::Double,
            3 => Fate::Late(Span::from_millis(dice.below(200))),
            _ => Fate::Deliver,
        });
        World { net, chance: Chance(seed), storm, wanted: [(None, false); FLOWS], happened: BTreeMap::new() }
    }

    fn flow(&self, n: usize) -> (usize, usize, Session, FilterSpec, AppId) {
        let (from, to) = if n.is_multiple_of(2) { (0, 3) } else { (3, 0) };
        let session = Session { dst_port: 5000 + n as u16, ..self.net.session_at(to) };
        (from, to, session, self.net.template_at(from), AppId(n as u64))
    }

    fn send(&mut self, n: usize, on: bool) {
        let (from, _, session, template, app) = self.flow(n);
        self.wanted[n].1 = on;
        let input = match on {
            true => Input::App(AppCall::Sender { app, session, template, tspec: tspec(10), ttl: 63 }),
            false => Input::App(AppCall::SenderGone { app, session, template }),
        };
        self.net.tell(from, input);
    }

    fn want(&mut self, n: usize, mbps: Option<u64>) {
        let (_, to, session, filter, app) = self.flow(n);
        self.wanted[n].0 = mbps;
        let (style, filters, confirm) = (Style::Ff, &[filter], false);
        match mbps {
            Some(mbps) => {
                let flowspecs = &[cl(mbps)];
                self.net.tell(to, Input::App(AppCall::Reserve { app, session, style, filters, flowspecs, confirm }));
            }
            None => self.net.tell(to, Input::App(AppCall::Release { app, session: Some(session) })),
        }
    }

    fn reroute_all(&mut self) {
        (0..5).for_each(|node| self.net.tell(node, Input::RouteChanged(None)));
    }

    fn step(&mut self) {
        let n = self.chance.below(FLOWS as u64) as usize;
        let what = match self.chance.below(12) {
            0..=2 => {
                let mbps = 1 + self.chance.below(9);
                self.want(n, Some(mbps));
                "asked"
            }
            3 => {
                self.want(n, None);
                "released"
            }
            4 | 5 => {
                self.send(n, true);
                "announced"
            }
            6 => {
                self.send(n, false);
                "silenced"
            }
            7 => {
                let link = [1, 3, 4][self.chance.below(3) as usize];
                let up = self.net.links[link].up;
                self.net.set_link(link, !up);
                self.reroute_all();
                if up { "link down" } else { "link up" }
            }
            8 => {
                let node = [1, 2, 4][self.chance.below(3) as usize];
                self.net.restart(node);
                self.net.nodes[node].env.held.clear();
                "restart"
            }
            9 => {
                let node = [1, 2, 4][self.chance.below(3) as usize];
                let env = &mut self.net.nodes[node].env;
                env.failing = match env.failing {
                    None => Some(terms::Fault { what: "class", code: 12 }),
                    Some(_) => None,
                };
                "plane fault"
            }
            10 => {
                let node = self.chance.below(5) as usize;
                let mbps = [5, 100][self.chance.below(2) as usize];
                let oif = IfIndex(1 + self.chance.below(3) as u32);
                self.net.nodes[node].env.capacity.insert(oif, Rate::from_mbps(mbps));
                "capacity"
            }
            _ => {
                let link = self.chance.below(5) as usize;
                let (node, interface) = self.net.links[link].a;
                let state = Some(self.net.interface(node, interface.0));
                self.net.tell(node, Input::Interface { interface, state: None });
                self.net.tell(node, Input::Interface { interface, state });
                "interface"
            }
        };
        *self.happened.entry(what).or_default() += 1;
    }

    /// Traffic control and the engines agree, now and to the last handle; nothing that is over is still there.
    fn check(&self) {
        for node in &self.net.nodes {
            let engine = node.engine.as_ref().expect("speaks");
            let held: BTreeSet<_> = node.env.held.iter().map(|(h, (oif, f))| (*h, *oif, f.rate())).collect();
            let known: BTreeSet<_> = engine.traffic_control().map(|t| (t.handle, t.oif, t.admitted.rate())).collect();
            assert_eq!(held, known, "{} at {:?}", node.name, self.net.now);
            let hops = engine.reservations().filter(|r| r.next_hop.oif().is_some()).count();
            assert!(hops >= known.len(), "{}: every block of traffic control is asked for by somebody", node.name);
            let blocks = engine.sessions().count() + engine.paths().count() + engine.reservations().count();
            assert!(engine.alarms() <= blocks, "{}: an alarm for nothing", node.name);
            assert!(engine.paths().all(|p| p.expires >= self.net.now), "{}: dead path state", node.name);
            assert!(engine.reservations().all(|r| r.expires >= self.net.now), "{}: dead reservation", node.name);
        }
    }

    /// The storm is over: every link is up, every plane works, there is room; everybody says once more what they want.
    fn calm(&mut self) {
        self.storm.set(false);
        for node in 0..5 {
            self.net.nodes[node].env.failing = None;
            self.net.nodes[node].env.capacity.values_mut().for_each(|c| *c = Rate::from_mbps(1000));
        }
        (0..5).for_each(|link| self.net.set_link(link, true));
        self.reroute_all();
        let wanted = self.wanted;
        for (n, (mbps, sends)) in wanted.into_iter().enumerate() {
            self.send(n, sends);
            self.want(n, mbps);
        }
        self.net.run(Span::from_millis(2 * 5_250 + 3_000));
        self.check();
    }
}

#[test]
fn after_the_storm_everything_is_as_it_was_last_asked() {
    let mut happened: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..25 {
        let mut world = World::new(seed);
        for _ in 0..120 {
            world.step();
            let span = Span::from_millis(world.chance.below(700));
            world.net.run(span);
            world.check();
        }
        world.calm();
        let mut expected = [0; 5];
        for (n, (mbps, sends)) in world.wanted.into_iter().enumerate() {
            let on_path = if n % 2 == 0 { [0, 1, 2] } else { [3, 2, 1] };
            if let (Some(mbps), true) = (mbps, sends) {
                on_path.into_iter().for_each(|node| expected[node] += mbps);
            }
        }
        assert_eq!(world.net.held(), expected, "seed {seed}");
        for n in 0..FLOWS {
            world.want(n, None);
            world.send(n, false);
        }
        world.net.run(Span::from_millis(50));
        assert_eq!((world.net.held(), world.net.paths()), (vec![0; 5], vec![0; 5]), "seed {seed}");
        assert!((0..5).all(|node| world.net.engine(node).alarms() == 0), "seed {seed}: nothing is due any more");
        world.happened.into_iter().for_each(|(what, n)| *happened.entry(what).or_default() += n);
    }
    assert!(happened.len() == 10 && happened.values().all(|n| *n > 50), "every fault was there: {happened:?}");
}

/// When each node heard a Path for each port.
type Heard = BTreeMap<(usize, u16), Vec<Time>>;

/// No node's state ends before `L` after the last refresh that this very node received, storm or not.
#[test]
fn nothing_expires_early_in_a_storm() {
    let mut ends = 0;
    for seed in 100..110 {
        let mut world = World::new(seed);
        let heard: Rc<RefCell<Heard>> = Rc::default();
        let (ears, mut dice) = (Rc::clone(&heard), Chance(seed));
        world.net.fate = Box::new(move |now, flight| {
            // Half of everything is lost: refreshes fail in rows.
            if dice.below(2) == 0 {
                return Fate::Lose;
            }
            if let Ok(wire::Message::Path(m)) = wire::Message::parse(&flight.datagram.bytes) {
                ears.borrow_mut().entry((flight.to, m.session.dst_port)).or_default().push(now + LINK_DELAY);
            }
            Fate::Deliver
        });
        (0..FLOWS).for_each(|n| world.send(n, true));
        world.net.run(Span::from_secs(300));
        for (node, n) in world.net.nodes.iter().enumerate() {
            let expired = n.events.iter().filter_map(|(t, e)| match e {
                Event::PathRemoved { why: Gone::Expired, session, .. } => Some((*t, session.dst_port)),
                _ => None,
            });
            for (at, port) in expired {
                ends += 1;
                let last = heard.borrow()[&(node, port)].iter().copied().filter(|t| *t <= at).max().expect("it began");
                assert_eq!(at, last + lifetime(R, 3), "node {node} port {port}");
            }
        }
    }
    assert!(ends > 20, "{ends} states ended");
}
