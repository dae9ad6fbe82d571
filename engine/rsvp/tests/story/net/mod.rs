//! A small network in memory: engines joined by links, in virtual time, with a traffic control that counts.
//!
//! Links take 1 ms, installing takes 1 ms, routes are shortest paths over the links that are up. A test looks at every
//! message on its way and may lose, double or delay it.

mod env;
mod forge;
mod group;
mod talk;

pub use env::Env;
pub use forge::Forged;
pub use talk::*;

use rsvp::Rsvp;
use rsvp::io::{AppId, Config, Datagram, Event, Input, Interface, Output, Upcall};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use terms::ports::RouteDecision;
use terms::{IfIndex, Rate, Span, Time};
use wire::Message;

/// One way over a link.
pub const LINK_DELAY: Span = Span::from_millis(1);

/// A node: an engine with its surroundings, or (without an engine) a router that does not speak RSVP.
pub struct Node {
    pub name: String,
    pub engine: Option<Rsvp>,
    pub env: Env,
    pub events: Vec<(Time, Event)>,
    pub upcalls: Vec<(Time, AppId, Upcall)>,
    pub config: Config,
    /// Sequence numbers that may be used up, as its disk says; and what it said when this life began.
    pub disk: u64,
    pub born: u64,
    /// The disk takes nothing more.
    pub full: bool,
    interfaces: Vec<(IfIndex, Interface)>,
}

/// A link between interface `a.1` of node `a.0` and `b.1` of `b.0`.
pub struct Link {
    pub a: (usize, IfIndex),
    pub b: (usize, IfIndex),
    pub up: bool,
}

/// A datagram between two nodes.
#[derive(Clone, Debug)]
pub struct Flight {
    pub from: usize,
    pub to: usize,
    pub iif: IfIndex,
    pub datagram: Datagram,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Deliver,
    Lose,
    Double,
    Late(Span),
}

/// Decides the fate of every datagram.
pub type Weather = Box<dyn FnMut(Time, &Flight) -> Fate>;

pub struct Net {
    pub now: Time,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    pub fate: Weather,
    /// Every message that reached a link: when, from, to, its type by name.
    pub log: Vec<(Time, usize, usize, &'static str)>,
    flights: BTreeMap<(Time, u64), Flight>,
    turn: u64,
    v6: bool,
    /// Where each group has members.
    members: BTreeMap<IpAddr, BTreeSet<usize>>,
}

pub fn config(refresh: Span) -> Config {
    Config { refresh, repair_wait: Span::ZERO, ..Config::default() }
}

impl Net {
    pub fn new(v6: bool) -> Net {
        let fate = Box::new(|_: Time, _: &Flight| Fate::Deliver);
        let (nodes, links, log) = (Vec::new(), Vec::new(), Vec::new());
        Net {
            now: Time::ZERO,
            nodes,
            links,
            fate,
            log,
            flights: BTreeMap::new(),
            turn: 0,
            v6,
            members: BTreeMap::new(),
        }
    }

    /// Nodes in a line, all speaking RSVP, 100 Mbit/s on every interface.
    pub fn line(names: &[&str], refresh: Span) -> Net {
        let mut net = Net::new(false);
        for name in names {
            net.node(name, config(refresh));
        }
        net.link_up(1..names.len());
        net
    }

    pub fn node(&mut self, name: &str, config: Config) -> usize {
        let config = Config { node_name: name.to_string(), ..config };
        let seed = 1 + self.nodes.len() as u64;
        self.nodes.push(Node {
            name: name.to_string(),
            engine: Some(Rsvp::new(config.clone(), seed)),
            env: Env::default(),
            events: Vec::new(),
            upcalls: Vec::new(),
            config,
            disk: 0,
            born: 0,
            full: false,
            interfaces: Vec::new(),
        });
        self.nodes.len() - 1
    }

    /// A link; its two ends get the next free interface numbers (from 1) and addresses `10.0.LINK.1` and `.2`.
    pub fn link(&mut self, a: usize, b: usize) -> usize {
        let number = self.links.len();
        let ends = [a, b].map(|n| (n, IfIndex(self.nodes[n].interfaces.len() as u32 + 1)));
        for (side, (node, index)) in ends.into_iter().enumerate() {
            let host = side as u8 + 1;
            let addr: IpAddr = if self.v6 {
                [0xfd00, number as u16, 0, 0, 0, 0, 0, u16::from(host)].into()
            } else {
                [10, 0, number as u8, host].into()
            };
            let state = Interface { name: format!("eth{}", index.0), addresses: vec![addr], mtu: 1500, enabled: true };
            self.nodes[node].interfaces.push((index, state.clone()));
            self.nodes[node].env.capacity.insert(index, Rate::from_mbps(100));
            self.tell(node, Input::Interface { interface: index, state: Some(state) });
        }
        self.links.push(Link { a: ends[0], b: ends[1], up: true });
        self.learn_routes();
        number
    }

    /// Links between neighbours in a line.
    pub fn link_up(&mut self, right_ends: core::ops::Range<usize>) {
        for right in right_ends {
            self.link(right - 1, right);
        }
    }

    pub fn set_link(&mut self, link: usize, up: bool) {
        self.links[link].up = up;
        self.learn_routes();
    }

    /// A node stops speaking RSVP but goes on forwarding.
    pub fn mute(&mut self, node: usize) {
        self.nodes[node].engine = None;
    }

    /// An interface goes and comes back under the same index with another address.
    pub fn recreate(&mut self, node: usize, index: u32, addr: IpAddr) {
        let interface = IfIndex(index);
        self.tell(node, Input::Interface { interface, state: None });
        let state = self.nodes[node].interfaces.iter_mut().find(|(i, _)| *i == interface).expect("it has it");
        state.1.addresses = vec![addr];
        let state = Some(state.1.clone());
        self.learn_routes();
        self.tell(node, Input::Interface { interface, state });
    }

    /// A node dies: it forwards nothing either, and what its plane held does not matter any more.
    pub fn kill(&mut self, node: usize) {
        self.mute(node);
        self.nodes[node].env.held.clear();
        for link in &mut self.links {
            link.up &= link.a.0 != node && link.b.0 != node;
        }
    }

    /// The engine of a node starts anew, knowing nothing; what its plane holds stays.
    pub fn restart(&mut self, node: usize) {
        let n = &mut self.nodes[node];
        let seed = 1_000 + node as u64;
        n.born = n.disk;
        n.engine = Some(Rsvp::new(n.config.clone(), seed));
        for (index, state) in n.interfaces.clone() {
            self.tell(node, Input::Interface { interface: index, state: Some(state) });
        }
    }

    /// A node's first address.
    pub fn addr(&self, node: usize) -> IpAddr {
        self.nodes[node].interfaces[0].1.addresses[0]
    }

    pub fn interface(&self, node: usize, index: u32) -> Interface {
        self.nodes[node].interfaces.iter().find(|(i, _)| i.0 == index).expect("it has it").1.clone()
    }

    pub fn engine(&self, node: usize) -> &Rsvp {
        self.nodes[node].engine.as_ref().expect("it speaks RSVP")
    }

    /// Hands one input to a node and carries out what it says.
    pub fn tell(&mut self, node: usize, input: Input<'_>) {
        let now = self.now;
        let Node { engine: Some(engine), env, .. } = &mut self.nodes[node] else { return };
        engine.handle(now, env, input);
        let (mut said, mut reserve) = (VecDeque::new(), None);
        while let Some(output) = engine.poll() {
            said.push_back(output);
        }
        for output in said {
            match output {
                Output::Send(datagram) => self.send(node, datagram),
                Output::Upcall { app, upcall } => self.nodes[node].upcalls.push((now, app, upcall)),
                Output::Event(event) => self.nodes[node].events.push((now, event)),
                Output::ReserveSequences { upto } => reserve = Some(upto),
            }
        }
        if let Some(upto) = reserve {
            if self.nodes[node].full {
                return self.tell(node, Input::SequencesFailed);
            }
            let node_state = &mut self.nodes[node];
            let from = node_state.born;
            node_state.disk = node_state.disk.max(upto).max(from + (1 << 20));
            let upto = node_state.disk;
            self.tell(node, Input::SequencesReserved { from, upto });
        }
        self.nodes[node].env.date_reports(now);
    }

    /// Puts a datagram of a node on the link that it belongs on.
    pub fn send(&mut self, from: usize, datagram: Datagram) {
        let oif = match datagram.oif {
            Some(oif) => oif,
            None => match self.way(from, datagram.dst) {
                Some(RouteDecision::Out { oif, .. }) => oif,
                _ => return,
            },
        };
        let Some((to, iif)) = self.other_end(from, oif) else { return };
        let flight = Flight { from, to, iif, datagram };
        let kind = Message::parse(&flight.datagram.bytes).map_or("malformed", |m| m.kind().name());
        self.log.push((self.now, from, to, kind));
        let soon = self.now + LINK_DELAY;
        match (self.fate)(self.now, &flight) {
            Fate::Deliver => self.fly(soon, flight),
            Fate::Lose => {}
            Fate::Double => {
                self.fly(soon, flight.clone());
                self.fly(soon, flight);
            }
            Fate::Late(by) => self.fly(soon + by, flight),
        }
    }

    fn fly(&mut self, at: Time, flight: Flight) {
        self.turn += 1;
        self.flights.insert((at, self.turn), flight);
    }

    fn other_end(&self, node: usize, index: IfIndex) -> Option<(usize, IfIndex)> {
        let links = self.links.iter().filter(|l| l.up);
        links.flat_map(|l| [(l.a, l.b), (l.b, l.a)]).find(|(near, _)| *near == (node, index)).map(|(_, far)| far)
    }

    fn land(&mut self, flight: Flight) {
        let Flight { to, iif, datagram, .. } = flight;
        let ours = self.nodes[to].interfaces.iter().any(|(_, i)| i.addresses.contains(&datagram.dst));
        let speaks = self.nodes[to].engine.is_some();
        if speaks && (ours || datagram.router_alert) {
            let Datagram { src, dst, ttl, bytes, .. } = datagram;
            return self.tell(to, Input::Message { iif, src, dst, ttl, bytes: &bytes });
        }
        if ours || datagram.ttl <= 1 {
            return;
        }
        self.send(to, Datagram { oif: None, ttl: datagram.ttl - 1, ..datagram });
    }

    /// Lets time pass until `end`, doing all that is due on the way.
    pub fn run_until(&mut self, end: Time) {
        loop {
            let wakes = (0..self.nodes.len()).filter_map(|i| {
                let node = &self.nodes[i];
                let wake = node.engine.as_ref().and_then(Rsvp::wake_at);
                [wake, node.env.next_report()].into_iter().flatten().min().map(|t| (t, i))
            });
            let wake = wakes.min();
            let flight = self.flights.keys().next().map(|(t, _)| *t);
            let next = wake.map(|(t, _)| t).into_iter().chain(flight).min();
            let Some(next) = next.filter(|t| *t <= end) else { break };
            // A report that was held back is late.
            self.now = next.max(self.now);
            if flight == Some(next) {
                let (_, flight) = self.flights.pop_first().expect("it was there");
                self.land(flight);
            } else if let Some((_, node)) = wake {
                match self.nodes[node].env.take_report(next) {
                    Some((handle, result)) => self.tell(node, Input::Installed { handle, result }),
                    None => self.tell(node, Input::Wake),
                }
            }
        }
        self.now = end;
    }

    pub fn run(&mut self, span: Span) {
        self.run_until(self.now + span);
    }

    fn way(&self, node: usize, dst: IpAddr) -> Option<RouteDecision> {
        self.nodes[node].env.routes.get(&dst).copied()
    }

    /// Shortest paths from everywhere to everywhere, over the links that are up.
    fn learn_routes(&mut self) {
        for start in 0..self.nodes.len() {
            let mut first: BTreeMap<usize, IfIndex> = BTreeMap::new();
            let mut queue = VecDeque::from([start]);
            while let Some(node) = queue.pop_front() {
                for link in self.links.iter().filter(|l| l.up) {
                    for (near, far) in [(link.a, link.b), (link.b, link.a)] {
                        if near.0 == node && far.0 != start && !first.contains_key(&far.0) {
                            let by = first.get(&node).copied().unwrap_or(near.1);
                            first.insert(far.0, by);
                            queue.push_back(far.0);
                        }
                    }
                }
            }
            let mut routes = BTreeMap::new();
            for (other, by) in first {
                let source = self.interface(start, by.0).addresses[0];
                let next = self.other_end(start, by).map(|(n, i)| self.interface(n, i.0).addresses[0]);
                for (_, interface) in &self.nodes[other].interfaces {
                    let gateway = next.filter(|next| *next != interface.addresses[0]);
                    routes.insert(interface.addresses[0], RouteDecision::Out { oif: by, gateway, source });
                }
            }
            for (_, interface) in &self.nodes[start].interfaces {
                routes.insert(interface.addresses[0], RouteDecision::Local);
            }
            self.nodes[start].env.routes = routes;
        }
        self.learn_trees();
    }
}
