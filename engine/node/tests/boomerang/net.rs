//! The net of the stories: machines on wires, packets as bytes, time in steps of a millisecond a wire.

use boomerang::{
    AppId, ApplicationCall, BoomerangUpcall, Event, FailureReason, HalfView, Output as Said, SessionRequest,
};
use node::io::{Event as NodeEvent, Input, InterfaceState, Output, PlanId, Reservable};
use node::{Config, Node};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::IpAddr;
use terms::ports::{MulticastTree, Route, RouteDecision};
use terms::{Fault, FlowKey, IfIndex, Rate, Span, Time};
use traffic::plan::LinkSpec;
use wire::boomerang::{ProbePacket, Rates, Selector, answered, forwarded};

/// What a machine knows of ways.
#[derive(Clone, Debug, Default)]
pub struct Table {
    own: Vec<IpAddr>,
    ways: BTreeMap<IpAddr, u32>,
    trees: BTreeMap<IpAddr, MulticastTree>,
}

impl Route for Table {
    fn route(&mut self, dst: IpAddr, _: Option<IpAddr>, _: Option<IfIndex>) -> RouteDecision {
        if self.own.contains(&dst) {
            return RouteDecision::Local;
        }
        if dst.is_multicast() {
            return self.trees.get(&dst).map_or(RouteDecision::None, |tree| RouteDecision::Tree(*tree));
        }
        let source = self.own.iter().find(|own| own.is_ipv4() == dst.is_ipv4());
        let way = self.ways.get(&dst).zip(source);
        way.map_or(RouteDecision::None, |(oif, source)| RouteDecision::Out {
            oif: IfIndex(*oif),
            gateway: None,
            source: *source,
        })
    }
}

pub enum Kind {
    /// Runs the node.
    Aware(Box<Node<Table>>),
    /// An unmodified host or router; whether it answers ping.
    Plain { pings: bool },
}

pub struct Machine {
    pub kind: Kind,
    table: Table,
    config: boomerang::Config,
    plans: VecDeque<PlanId>,
    pub failing_plans: bool,
}

/// When, in which order, to whom, on which interface, what.
type Coming = (Time, u64, usize, u32, Vec<u8>);

/// What may happen to a packet on a wire: what comes out of it.
pub type Meddler = Box<dyn FnMut(&[u8]) -> Vec<Vec<u8>>>;

#[derive(Default)]
pub struct Net {
    pub now: Time,
    pub machines: Vec<Machine>,
    wires: BTreeMap<(usize, u32), (usize, u32)>,
    meddlers: BTreeMap<(usize, u32), Meddler>,
    coming: BinaryHeap<Reverse<Coming>>,
    count: u64,
    pub events: Vec<(usize, Event)>,
    pub upcalls: Vec<(usize, BoomerangUpcall)>,
    pub dropped: Vec<(usize, FailureReason)>,
    /// Packets that plain hosts heard.
    pub heard: Vec<(usize, Vec<u8>)>,
    /// Every packet on every wire.
    pub sent: usize,
    tape: Tape,
}

/// What machine 1 heard: when, on which interface, what.
pub type Heard = Vec<(Time, u32, Vec<u8>)>;

/// The same while a net is played. Whoever plays a story finds it afterwards in [`tapes`].
#[derive(Default)]
struct Tape(Heard);

thread_local! {
    static TAPES: RefCell<Vec<Heard>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Tape {
    fn drop(&mut self) {
        let whole = std::mem::take(&mut self.0);
        if !whole.is_empty() {
            TAPES.with(|tapes| tapes.borrow_mut().push(whole));
        }
    }
}

/// The tapes of the nets that ended in this thread.
pub fn tapes() -> Vec<Heard> {
    TAPES.with(RefCell::take)
}

pub const MBIT: u32 = 1_000_000;
pub const START: Time = Time::from_nanos(1_000_000_000);

/// The address of a machine.
pub fn address(n: usize) -> IpAddr {
    IpAddr::from([10, 0, n as u8, 1])
}

/// Its IPv6 address.
pub fn address6(n: usize) -> IpAddr {
    format!("2001:db8:{n}::1").parse().unwrap()
}

impl Net {
    /// Machines in a line, each wired to the next: `a` runs the node, `h` is a host that answers ping, `u` a router or host that
    /// knows nothing. Each interface towards the next is 2, towards the last 1.
    pub fn line(kinds: &str) -> Net {
        Net::line_with(kinds, &boomerang::Config::default())
    }

    pub fn line_with(kinds: &str, config: &boomerang::Config) -> Net {
        let mut net = Net { now: START, ..Net::default() };
        for kind in kinds.chars() {
            net.add(kind, config.clone());
        }
        for n in 1..net.machines.len() {
            net.wire((n - 1, 2), (n, 1));
        }
        net.find_ways();
        net
    }

    pub fn add(&mut self, kind: char, config: boomerang::Config) -> usize {
        let n = self.machines.len();
        let table = Table { own: vec![address(n), address6(n)], ..Table::default() };
        let kind = if kind == 'a' {
            Kind::Aware(Box::new(make(n, &table, &config)))
        } else {
            Kind::Plain { pings: kind == 'h' }
        };
        self.machines.push(Machine { kind, table, config, plans: VecDeque::new(), failing_plans: false });
        n
    }

    pub fn wire(&mut self, a: (usize, u32), b: (usize, u32)) {
        for (from, to) in [(a, b), (b, a)] {
            self.wires.insert(from, to);
            self.open(from.0, from.1, 10);
        }
    }

    /// An interface of so many Mbit/s, one of which is kept back.
    pub fn open(&mut self, n: usize, oif: u32, mbit: u64) {
        let rate = Rate::from_mbps(mbit);
        let spec = LinkSpec { rate, overhead: 14, mtu: 1_500, scheduler: traffic::scheduler::SchedulerKind::Htb };
        let kept_back = Rate::from_mbps(1);
        let link = Reservable {
            spec,
            signalled_share: rate,
            kept_back,
            assumed_holding: None,
            guaranteed: None,
            measured: Rate::ZERO,
        };
        let state = InterfaceState {
            index: IfIndex(oif),
            name: format!("eth{oif}"),
            addresses: vec![address(n)],
            mtu: 1_500,
            rsvp: false,
            link: Some(link),
        };
        self.tell(n, Input::Interface(state));
    }

    /// Shortest ways from everyone to everyone.
    pub fn find_ways(&mut self) {
        let count = self.machines.len();
        for dst in 0..count {
            let mut next: BTreeMap<usize, u32> = BTreeMap::new();
            let mut queue = VecDeque::from([dst]);
            while let Some(at) = queue.pop_front() {
                for ((from, oif), (to, _)) in self.wires.clone() {
                    if to == at && from != dst && !next.contains_key(&from) {
                        next.insert(from, oif);
                        queue.push_back(from);
                    }
                }
            }
            for (from, oif) in next {
                self.set_way(from, dst, oif);
            }
        }
    }

    /// Sends what goes from a machine to another out of that interface.
    pub fn set_way(&mut self, from: usize, dst: usize, oif: u32) {
        for address in [address(dst), address6(dst)] {
            self.machines[from].table.ways.insert(address, oif);
        }
        self.tell_table(from);
    }

    pub fn set_tree(&mut self, n: usize, group: IpAddr, tree: MulticastTree) {
        self.machines[n].table.trees.insert(group, tree);
        self.tell_table(n);
    }

    fn tell_table(&mut self, n: usize) {
        let table = self.machines[n].table.clone();
        if let Kind::Aware(node) = &mut self.machines[n].kind {
            *node.route_mut() = table;
        }
    }

    pub fn meddle(&mut self, from: (usize, u32), with: impl FnMut(&[u8]) -> Vec<Vec<u8>> + 'static) {
        self.meddlers.insert(from, Box::new(with));
    }

    pub fn leave_alone(&mut self, from: (usize, u32)) {
        self.meddlers.remove(&from);
    }

    pub fn node(&self, n: usize) -> &Node<Table> {
        match &self.machines[n].kind {
            Kind::Aware(node) => node,
            Kind::Plain { .. } => panic!("machine {n} runs no node"),
        }
    }

    /// Somebody else has so many Mbit/s of packets of 128 bytes on an interface.
    pub fn load(&mut self, n: usize, oif: u32, mbit: u64) {
        let now = self.now;
        let Kind::Aware(node) = &mut self.machines[n].kind else { return };
        let wire = Rate::from_mbps(mbit).with_overhead(14, 128);
        node.ledger_mut(IfIndex(oif)).unwrap().open(now, wire).unwrap();
    }

    /// The node dies and comes back with nothing.
    pub fn restart(&mut self, n: usize) {
        let machine = &mut self.machines[n];
        machine.plans.clear();
        machine.kind = Kind::Aware(Box::new(make(n, &machine.table, &machine.config)));
        let interfaces: Vec<u32> = self.wires.keys().filter(|(m, _)| *m == n).map(|(_, oif)| *oif).collect();
        interfaces.into_iter().for_each(|oif| self.open(n, oif, 10));
    }

    pub fn tell(&mut self, n: usize, input: Input<'_>) {
        let now = self.now;
        let Kind::Aware(node) = &mut self.machines[n].kind else { return };
        node.handle(now, input);
        self.drain(n, None);
    }

    /// Takes what a node says, carries its plans out, and hands back what became of the packet that it was told.
    fn drain(&mut self, n: usize, packet: Option<&[u8]>) {
        loop {
            let Kind::Aware(node) = &mut self.machines[n].kind else { return };
            let Some(output) = node.poll() else { break };
            match output {
                Output::Plan { id, .. } => self.machines[n].plans.push_back(id),
                Output::Event(NodeEvent::Boomerang(event)) => self.events.push((n, event)),
                Output::Boomerang(said) => self.said(n, said, packet),
                _ => {}
            }
        }
        while let Some(id) = self.machines[n].plans.pop_front() {
            let failing = self.machines[n].failing_plans;
            let result = if failing { Err(Fault { what: "the plane said no", code: 16 }) } else { Ok(()) };
            let now = self.now;
            let Kind::Aware(node) = &mut self.machines[n].kind else { return };
            node.handle(now, Input::PlanDone { id, result });
            self.drain(n, None);
        }
    }

    fn said(&mut self, n: usize, said: Said, told: Option<&[u8]>) {
        match said {
            Said::Pass { oif, .. } => {
                let packet = told.expect("a packet was told").to_vec();
                self.put(n, oif.0, &packet);
            }
            Said::Send { oif, packet, .. } => self.put(n, oif.0, &packet),
            Said::Upcall { upcall, .. } => self.upcalls.push((n, upcall)),
            Said::Dropped(why) => self.dropped.push((n, why)),
            Said::Deliver => self.heard.push((n, told.expect("a packet was told").to_vec())),
            Said::Event(_) => unreachable!("the node says events"),
        }
    }

    /// A packet goes onto a wire.
    pub fn put(&mut self, n: usize, oif: u32, packet: &[u8]) {
        let Some((to, iif)) = self.wires.get(&(n, oif)).copied() else { return };
        let packets = match self.meddlers.get_mut(&(n, oif)) {
            Some(meddler) => meddler(packet),
            None => vec![packet.to_vec()],
        };
        for packet in packets {
            self.count += 1;
            self.sent += 1;
            self.coming.push(Reverse((self.now + Span::from_millis(1), self.count, to, iif, packet)));
        }
    }

    /// A packet starts at a plain host.
    pub fn start(&mut self, n: usize, packet: &[u8]) {
        let probe = ProbePacket::parse(packet).unwrap();
        let oif = self.machines[n].table.ways[&probe.dst];
        self.put(n, oif, packet);
    }

    fn arrive(&mut self, n: usize, iif: u32, mut packet: Vec<u8>) {
        if let Kind::Aware(node) = &mut self.machines[n].kind {
            let (len, now) = (packet.len(), self.now);
            if n == 1 {
                self.tape.0.push((now, iif, packet.clone()));
            }
            node.handle(now, Input::Echo { iif: Some(IfIndex(iif)), packet: &mut packet });
            assert_eq!(packet.len(), len);
            return self.drain(n, Some(&packet));
        }
        let dst = wire::ip::Packet::parse(&packet).unwrap().dst();
        let table = &self.machines[n].table;
        if !table.own.contains(&dst) && !dst.is_multicast() {
            let oif = table.ways.get(&dst).copied();
            if forwarded(&mut packet)
                && let Some(oif) = oif
            {
                self.put(n, oif, &packet);
            }
            return;
        }
        self.heard.push((n, packet.clone()));
        let Kind::Plain { pings: true } = self.machines[n].kind else { return };
        if !dst.is_multicast() && answered(&mut packet) {
            let dst = ProbePacket::parse(&packet).unwrap().dst;
            if let Some(oif) = self.machines[n].table.ways.get(&dst).copied() {
                self.put(n, oif, &packet);
            }
        }
    }

    /// Plays for so long.
    pub fn run(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let wakes = (0..self.machines.len()).filter_map(|n| match &self.machines[n].kind {
                Kind::Aware(node) => node.wake_at().map(|at| (at, n)),
                Kind::Plain { .. } => None,
            });
            let wake = wakes.min();
            let packet = self.coming.peek().map(|Reverse((at, ..))| *at);
            match (packet, wake) {
                (Some(at), wake) if at <= until && wake.is_none_or(|(wake, _)| at <= wake) => {
                    let Some(Reverse((at, _, to, iif, packet))) = self.coming.pop() else { return };
                    self.now = self.now.max(at);
                    self.arrive(to, iif, packet);
                }
                (_, Some((at, n))) if at <= until => {
                    self.now = self.now.max(at);
                    self.tell(n, Input::Wake);
                }
                _ => break,
            }
        }
        self.now = until;
    }

    pub fn run_ms(&mut self, millis: u64) {
        self.run(Span::from_millis(millis));
    }

    pub fn reserve(&mut self, n: usize, asked: SessionRequest) {
        self.tell(n, Input::Boomerang(ApplicationCall::Reserve { app: AppId(1), asked }));
    }

    pub fn release(&mut self, n: usize) {
        self.tell(n, Input::Boomerang(ApplicationCall::Release { app: AppId(1) }));
    }

    pub fn halves(&self, n: usize) -> Vec<HalfView> {
        self.node(n).boomerang().halves().collect()
    }

    /// What Boomerang has on an interface, bit/s; the ledger must have as many slots.
    pub fn held(&self, n: usize, oif: u32) -> u64 {
        let halves = self.halves(n);
        let there: Vec<_> = halves.iter().filter(|half| half.oif.0 == oif && half.rate > Rate::ZERO).collect();
        let slots = self.node(n).reservations().filter(|view| view.oif.0 == oif).count();
        assert_eq!(slots, there.len(), "the ledger of machine {n} and its session blocks");
        there.iter().map(|half| half.rate.as_bps()).sum()
    }

    pub fn said_of(&self, n: usize) -> Vec<BoomerangUpcall> {
        self.upcalls.iter().filter(|(m, _)| *m == n).map(|(_, upcall)| *upcall).collect()
    }
}

fn make(n: usize, table: &Table, config: &boomerang::Config) -> Node<Table> {
    let config = Config { boomerang: config.clone(), seed: 7 + n as u64, ..Config::default() };
    Node::new(config, table.clone())
}

pub fn flow(from: usize, to: usize, port: u16) -> FlowKey {
    FlowKey {
        src: address(from),
        dst: address(to),
        protocol: 17,
        src_port: port,
        dst_port: port,
        wild: terms::Wild::NONE,
    }
}

pub fn rates(forward: u32, reverse: u32) -> Rates {
    Rates { forward, reverse }
}

/// From the first machine to `far_end`: so many Mbit/s each way, refreshed every 3 s.
pub fn ask(far_end: usize, forward: u32, reverse: u32) -> SessionRequest {
    asked_of(&flow(0, far_end, 5_004), vec![rates(forward * MBIT, reverse * MBIT)])
}

pub fn asked_of(flow: &FlowKey, rates: Vec<Rates>) -> SessionRequest {
    let family = wire::boomerang::Family::of(flow.dst);
    SessionRequest {
        far_end: flow.dst,
        source: None,
        classifier: Selector::of(flow),
        mask: Selector::exact(family),
        rates,
        at_least: Rates::default(),
        refresh: 3,
        no_echo: false,
        uid: None,
        auth: None,
        count: true,
        ttl: 64,
        router_alert: false,
    }
}
