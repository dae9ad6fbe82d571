//! The network of RFC 2963, appendix A: ten pairs of LANs with ten workstations each across one bottleneck of 70 Mbit/s with
//! a RIO of three precedences; a trTCM in each customer router, and a shaper in C6 to C10. The single rate forms, srTCM and
//! srRAS, and workstations that do not listen to losses, which the RFC does not simulate, are variants of it.
//!
//! Values that the RFC does not give (thresholds, K, MIR, timers) are parameters. The defaults are those that
//! fit its tables best.

use crate::map::address;
use crate::rng::Rng;
use crate::scenario::{
    EgressSpec, LinkConditioner, LinkId, NO_LIMIT, NodeId, Queue, RtoSpec, Scenario, SendPattern, SimLinkSpec,
    SimNodeSpec, SourceSpec, Tcp, TcpSpec, af1,
};
use terms::{Bytes, FlowKey, Rate, Span, Time, Wild};
use traffic::dropper::{Coupling, RedCurve};
use traffic::port::SchedulerKind;
use traffic::tree::{DropperSpec, MeterKind, MeterSpec, QueueUnit, RasSpec, ShaperSpec};

/// Number of customer routers on each side.
pub const ROUTERS: usize = 10;
/// Number of workstations of each LAN.
pub const WORKSTATIONS: usize = 10;

/// The shaper of C6 to C10.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shaping {
    /// None.
    None,
    /// trRAS (section 2.5).
    TrRas,
    /// G-trRAS (section 3.5).
    Green,
    /// srRAS (section 2.2), and an srTCM in every customer router.
    SrRas,
    /// G-srRAS (section 3), and an srTCM in every customer router.
    SrGreen,
}

impl Shaping {
    /// True for the single rate forms.
    pub const fn is_single_rate(self) -> bool {
        matches!(self, Shaping::SrRas | Shaping::SrGreen)
    }
}

/// The thresholds CIR_th, PIR_th and MIR_th.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Thresholds {
    /// In percent of CBS.
    OfCbs([u32; 3]),
    /// The same for every CBS.
    Fixed([Bytes; 3]),
}

/// The parameters that the tables vary, and those that the RFC leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// CBS of every meter; PBS, or an srTCM's EBS, is twice that.
    pub cbs: Bytes,
    /// The shaper of C6 to C10.
    pub shaping: Shaping,
    /// K, the time constant of the shapers' average rate.
    pub k: Span,
    /// Thresholds of the shapers.
    pub thresholds: Thresholds,
    /// MIR of the shapers.
    pub mir: Rate,
    /// The coupling of RIO's averages.
    pub coupling: Coupling,
    /// Rate of the LANs: 10 Mbit/s in the RFC.
    pub lan: Rate,
    /// Every workstation's TCP.
    pub tcp: Tcp,
    /// True: workstations send UDP at a constant rate instead, those of a router twice its CIR together.
    pub unresponsive: bool,
    /// Connections start at random times, uniformly within this span from the beginning.
    pub start_spread: Span,
    /// The time before the measured window.
    pub warm_up: Span,
    /// Simulated time, warm-up included.
    pub duration: Span,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Default for Params {
    /// Tables A.2 and A.3: CBS of 3 KB, trRAS, 102 s of which the first two are not measured.
    fn default() -> Params {
        let rto = RtoSpec {
            initial: Span::from_secs(3),
            floor: Span::from_millis(1_700),
            ceiling: Span::from_secs(64),
            tick: Span::from_millis(200),
        };
        Params {
            cbs: Bytes::new(3_000),
            shaping: Shaping::TrRas,
            k: Span::from_millis(500),
            thresholds: Thresholds::OfCbs([150, 300, 600]),
            mir: Rate::from_mbps(34),
            coupling: Coupling::Coupled,
            lan: Rate::from_mbps(10),
            tcp: Tcp { window: Bytes::new(65_536), initial_window: 1, limited_transmit: false, rto, ..Tcp::default() },
            unresponsive: false,
            start_spread: Span::from_secs(1),
            warm_up: Span::from_secs(2),
            duration: Span::from_secs(102),
            seed: 1,
        }
    }
}

/// The scenario, and its parts that the tables' rows refer to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rfc2963 {
    /// The scenario. Play it until [`Scenario::measured`] ends.
    pub scenario: Scenario,
    /// The customer routers C1 to C10.
    pub customers: Vec<Customer>,
    /// The link from ER1 (side 0) to ER2.
    pub bottleneck: LinkId,
}

/// A customer router on the sending side. Its connections have the group of its position: 0 for C1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Customer {
    /// The router.
    pub node: NodeId,
    /// Its link to ER1. The router is side 0, which has its marker.
    pub uplink: LinkId,
    /// CIR of its marker.
    pub cir: Rate,
    /// True if it has a shaper.
    pub shaped: bool,
}

/// CIR of C1 to C10 (table A.1), by position; PIR is twice that.
pub fn cir(customer: usize) -> Rate {
    Rate::from_mbps(2 * (customer as u64 % 5 + 1))
}

/// Builds the network.
pub fn rfc2963(params: &Params) -> Rfc2963 {
    let mut built = Builder { scenario: Scenario::default(), params };
    let (er1, er2) = (built.node("ER1"), built.node("ER2"));
    let bottleneck = built.link(er1, er2, Rate::from_mbps(70), Span::from_millis(10));
    for side in 0..2 {
        built.scenario.egress.push(EgressSpec {
            link: bottleneck,
            side,
            conditioner: None,
            queue: rio(params.coupling),
        });
    }
    let customers = (0..ROUTERS).map(|n| built.customer(n, er1, er2)).collect();
    let Builder { mut scenario, .. } = built;
    scenario.seed = params.seed;
    scenario.queue = Queue::UNLIMITED;
    scenario.measured = (Time::ZERO + params.warm_up, Time::ZERO + params.duration);
    let mut chance = Rng::new(params.seed, 1 << 40);
    for connection in &mut scenario.connections {
        connection.start = Time::from_nanos(chance.below(params.start_spread.as_nanos()));
    }
    Rfc2963 { scenario, customers, bottleneck }
}

struct Builder<'a> {
    scenario: Scenario,
    params: &'a Params,
}

impl Builder<'_> {
    fn node(&mut self, name: &str) -> NodeId {
        self.scenario.nodes.push(SimNodeSpec { agent: false, ..SimNodeSpec::new(name, Span::from_secs(30)) });
        NodeId(self.scenario.nodes.len() - 1)
    }

    /// Adds a link. Its rate is that of IP packets.
    fn link(&mut self, a: NodeId, b: NodeId, rate: Rate, delay: Span) -> LinkId {
        let link = SimLinkSpec::ethernet(a, b, rate, delay, SchedulerKind::Htb);
        self.scenario.links.push(SimLinkSpec { overhead: 0, kept_back: Rate::ZERO, ..link });
        LinkId(self.scenario.links.len() - 1)
    }

    /// A workstation's packets of 1,000 bytes at a constant rate, from its link to the other's.
    fn constant(&self, node: NodeId, (out, back): (LinkId, LinkId), rate: Rate) -> SourceSpec {
        let flow = FlowKey {
            src: address(out, 0),
            dst: address(back, 1),
            protocol: 17,
            src_port: 1_024,
            dst_port: 5_001,
            wild: Wild::NONE,
        };
        let pattern = SendPattern::Cbr { rate, jitter_percent: 100 };
        let (from, until) = (Time::ZERO, Time::ZERO + self.params.duration);
        SourceSpec { node, flow, packet: 1_000, pattern, from, until }
    }

    /// Adds the routers C and C' of a position, with their workstations and connections.
    fn customer(&mut self, n: usize, er1: NodeId, er2: NodeId) -> Customer {
        let (near, far) = (self.node(&format!("C{}", n + 1)), self.node(&format!("C{}'", n + 1)));
        let (access, delay) = (Rate::from_mbps(34), Span::from_micros(2_500));
        let uplink = self.link(near, er1, access, delay);
        self.link(er2, far, access, delay);
        let shaped = n >= ROUTERS / 2 && self.params.shaping != Shaping::None;
        let conditioner = Some(conditioner(self.params, cir(n), shaped, Bytes::new(1 << 40)));
        self.scenario.egress.push(EgressSpec { link: uplink, side: 0, conditioner, queue: Queue::UNLIMITED });
        for w in 0..WORKSTATIONS {
            let sender = self.node(&format!("W{}.{}", n + 1, w + 1));
            let receiver = self.node(&format!("W{}.{}'", n + 1, w + 1));
            let out = self.link(sender, near, self.params.lan, Span::from_millis(1));
            let back = self.link(far, receiver, self.params.lan, Span::from_millis(1));
            if self.params.unresponsive {
                let source = self.constant(sender, (out, back), cir(n).share(2, WORKSTATIONS as u64));
                self.scenario.sources.push(source);
                continue;
            }
            let greedy = TcpSpec::greedy(sender, receiver, (1_024, 5_001));
            self.scenario.connections.push(TcpSpec { group: n as u32, tcp: self.params.tcp, ..greedy });
        }
        Customer { node: near, uplink, cir: cir(n), shaped }
    }
}

/// The conditioner of a customer router: its meter, and before it the shaper, if it has one, with a buffer of this length.
pub fn conditioner(params: &Params, cir: Rate, shaped: bool, buffer: Bytes) -> LinkConditioner {
    let Params { cbs, k, mir, shaping, thresholds, .. } = *params;
    let pir = Rate::from_bps(2 * cir.as_bps());
    let pbs = Bytes::new(2 * cbs.get());
    let thresholds = match thresholds {
        Thresholds::OfCbs(percent) => percent.map(|p| Bytes::new(cbs.get() * u64::from(p) / 100)),
        Thresholds::Fixed(bytes) => bytes,
    };
    let ras = RasSpec { buffer, k, green: matches!(shaping, Shaping::Green | Shaping::SrGreen) };
    let [cir_th, _, mir_th] = thresholds;
    let (shaper, kind) = if shaping.is_single_rate() {
        let shaper = ShaperSpec::SrRas { rates: [cir, mir], thresholds: [cir_th, mir_th], ras };
        (shaper, MeterKind::SrTcm { cir, cbs, ebs: pbs })
    } else {
        let shaper = ShaperSpec::TrRas { rates: [cir, pir, mir], thresholds, ras };
        (shaper, MeterKind::TrTcm { cir, cbs, pir, pbs })
    };
    LinkConditioner { shaper: shaped.then_some(shaper), meter: Some(MeterSpec { kind, aware: false }), marker: af1() }
}

/// The queue of ER1 and ER2: thresholds in packets and probabilities of section A.1, a weight of 0.002.
pub fn rio(coupling: Coupling) -> Queue {
    let curve = |min, max_p| RedCurve { min, max: 2 * min, max_p, gentle: false };
    let dropper = DropperSpec {
        curves: [curve(400, 1_311), curve(200, 3_277), curve(100, 6_554)],
        weight: 8_589_935,
        slot: Rate::from_mbps(70).span_for(Bytes::new(1_500)),
        coupling,
        unit: QueueUnit::Packets,
    };
    Queue::Rio { dropper, marker: af1(), queue: NO_LIMIT }
}
