//! What a story is made of: nodes, links, traffic, and what happens when. Types only; their text form belongs to a
//! client.

mod queue;
mod tcp;

pub use queue::{Conditioner, EgressReport, EgressSpec, NO_LIMIT, Queue, QueueSpec, Tally, af1};
pub use tcp::{Growth, RtoSpec, Tcp, TcpId, TcpReport, TcpSpec};

use crate::rng::Probability;
use node::io::AppId;
use terms::{FlowKey, FlowSpec, Rate, Rspec, SenderTemplate, Session, Span, Time, Tspec};
use traffic::port::SchedulerKind;

/// A node, by its position in [`Scenario::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub usize);

/// A link, by its position in [`Scenario::links`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub usize);

/// A traffic source, by its position in [`Scenario::sources`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceId(pub usize);

/// A recorded stream: when each packet goes, from the start of the source, and its length in IP bytes; times never decrease.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Offset and length.
    pub packets: Vec<(Span, u32)>,
}

/// A trace, by its position in [`Scenario::traces`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TraceId(pub usize);

/// A direction of a link that is captured, where packets leave the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureSpec {
    /// Which link.
    pub link: LinkId,
    /// Which end sends.
    pub side: usize,
    /// Bytes kept of each packet.
    pub snap: u32,
    /// At most so many packets.
    pub packets: usize,
}

/// A whole story.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scenario {
    /// Chance: the same seed tells the same story.
    pub seed: u64,
    /// Hosts and routers.
    pub nodes: Vec<SimNodeSpec>,
    /// What connects them.
    pub links: Vec<SimLinkSpec>,
    /// What stands in directions of links; those not named have [`Scenario::queue`] and no conditioner.
    pub egress: Vec<EgressSpec>,
    /// What stands in all other directions.
    pub queue: Queue,
    /// Data traffic without congestion control.
    pub sources: Vec<SourceSpec>,
    /// What [`SendPattern::Trace`] replays.
    pub traces: Vec<Trace>,
    /// Data traffic with congestion control.
    pub connections: Vec<TcpSpec>,
    /// Directions of links of which every packet is kept as bytes.
    pub captures: Vec<CaptureSpec>,
    /// What happens besides, in any order.
    pub script: Vec<(Time, ScenarioAction)>,
    /// What sinks measure: packets sent from the first instant on, and before the second.
    pub measured: (Time, Time),
}

/// A host or router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimNodeSpec {
    /// Name.
    pub name: String,
    /// Whether it runs RSVP and traffic control; if not, it only forwards.
    pub agent: bool,
    /// R, the refresh period.
    pub refresh: Span,
    /// K, how many refreshes may be lost.
    pub keep: u32,
    /// How long the data plane takes to carry out a batch.
    pub plane_delay: Span,
}

impl SimNodeSpec {
    /// A node that runs Sluice with refresh period `refresh`, on a plane that takes 100 microseconds.
    pub fn new(name: &str, refresh: Span) -> SimNodeSpec {
        SimNodeSpec { name: name.into(), agent: true, refresh, keep: 3, plane_delay: Span::from_micros(100) }
    }
}

/// A duplex link: two ports, the same in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimLinkSpec {
    /// What it connects.
    pub ends: [NodeId; 2],
    /// Rate, in wire bytes.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Span,
    /// Bytes added to each IP packet.
    pub overhead: u32,
    /// MTU, bytes of IP packet.
    pub mtu: u32,
    /// Which scheduler its ports run.
    pub scheduler: SchedulerKind,
    /// What reservations never get.
    pub kept_back: Rate,
}

impl SimLinkSpec {
    /// Ethernet of that rate.
    pub fn ethernet(a: NodeId, b: NodeId, rate: Rate, delay: Span, scheduler: SchedulerKind) -> SimLinkSpec {
        let kept_back = rate.share(1, 10);
        SimLinkSpec { ends: [a, b], rate, delay, overhead: 14, mtu: 1500, scheduler, kept_back }
    }

    /// `C` (bytes) and `D` (microseconds) of its ports (RFC 2212 section 3.1). HFSC serves a packet at most the
    /// transmission time of a full packet after its deadline, whatever the rate: that is `D`. Its deadlines are those
    /// of whole packets, and the next hop sees a packet only when its last bit has come: that is `C`, one packet of
    /// the flow at its own rate, for which the MTU stands. The other schedulers export no bound.
    pub fn error_terms(&self) -> Option<(u32, u32)> {
        let full = terms::Bytes::new(u64::from(self.mtu) + u64::from(self.overhead));
        let d = self.rate.span_for(full).as_nanos().div_ceil(1_000) + 1;
        match self.scheduler {
            SchedulerKind::Hfsc => u32::try_from(d).ok().map(|d| (self.mtu, d)),
            SchedulerKind::Htb | SchedulerKind::Priority => None,
        }
    }
}

/// A source of data packets; the sink is wherever their destination is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceSpec {
    /// Where it sits.
    pub node: NodeId,
    /// The five-tuple of its packets.
    pub flow: FlowKey,
    /// Length of each packet, bytes of IP packet.
    pub packet: u32,
    /// When it sends.
    pub pattern: SendPattern,
    /// First instant.
    pub from: Time,
    /// Last instant, excluded.
    pub until: Time,
}

/// When a source sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendPattern {
    /// At a constant bit rate of IP bytes. Each packet is late by chance, by up to `jitter_percent` of an interval, so
    /// that sources do not lock into each other's phase.
    Cbr {
        /// Rate; zero sends nothing.
        rate: Rate,
        /// At most how late.
        jitter_percent: u32,
    },
    /// CBR while on; the lengths of on and off times are uniform between half and one and a half of these.
    OnOff {
        /// Rate while on.
        rate: Rate,
        /// Mean on time.
        on: Span,
        /// Mean off time.
        off: Span,
    },
    /// Frames of several packets each at a constant frame rate.
    Video {
        /// Time from one frame to the next.
        interval: Span,
        /// Packets of a frame.
        packets: u32,
        /// Over how much of the interval they are spread, in percent; 0 sends them at once.
        spread_percent: u32,
    },
    /// At once a whole bucket, then at the rate: the worst that a token bucket (r, b) lets through.
    Greedy {
        /// Rate after the burst.
        rate: Rate,
        /// Packets at once.
        burst: u32,
    },
    /// CBR while on; on and off times are exponential.
    Exponential {
        /// Rate while on.
        rate: Rate,
        /// Mean on time.
        on: Span,
        /// Mean off time.
        off: Span,
    },
    /// CBR while on; on and off times are Pareto.
    Pareto {
        /// Rate while on.
        rate: Rate,
        /// Mean on time.
        on: Span,
        /// Mean off time.
        off: Span,
        /// Shape, in thousandths; above 1,000, so that there is a mean.
        shape_milli: u32,
    },
    /// Exponential times between packets, at this mean rate of IP bytes.
    Poisson {
        /// Mean rate.
        rate: Rate,
    },
    /// A recorded stream, from the start of the source; the source's packet length means nothing.
    Trace(TraceId),
}

/// Something that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScenarioAction {
    /// An application says what it sends.
    Send {
        /// Where.
        node: NodeId,
        /// Who.
        app: AppId,
        /// To where.
        session: Session,
        /// From which address and port.
        template: SenderTemplate,
        /// How much.
        tspec: Tspec,
    },
    /// It stops.
    Unsend {
        /// Where.
        node: NodeId,
        /// Who.
        app: AppId,
        /// To where.
        session: Session,
        /// From which address and port.
        template: SenderTemplate,
    },
    /// An application receives, and asks for a reservation as soon as a Path tells it of a sender.
    Receive {
        /// Where.
        node: NodeId,
        /// Who.
        app: AppId,
        /// The session.
        session: Session,
        /// What it asks for.
        ask: SimReservation,
    },
    /// It gives up what it has.
    Release {
        /// Where.
        node: NodeId,
        /// Who.
        app: AppId,
    },
    /// An application reserves or releases by Boomerang.
    Boomerang {
        /// Where.
        node: NodeId,
        /// What.
        call: boomerang::ApplicationCall,
    },
    /// Somebody calls the book of a node.
    Book {
        /// Where.
        node: NodeId,
        /// Who.
        who: String,
        /// What.
        call: booking::Call,
    },
    /// The agent dies; its data plane stays as it is.
    Crash(NodeId),
    /// The agent starts again and finds what is in its data plane.
    Restart(NodeId),
    /// The agent stops in order: interfaces are given back.
    Stop(NodeId),
    /// The next batches fail on this node's plane.
    FailPlane {
        /// Where.
        node: NodeId,
        /// How many.
        batches: u32,
    },
    /// A link goes, with what is on it.
    LinkDown(LinkId),
    /// It comes back.
    LinkUp(LinkId),
    /// From now on messages fare like this on the link.
    Impair(LinkId, Impairment),
    /// From now on data packets fare like this on the link.
    ImpairData(LinkId, Impairment),
    /// The whole node loses power: agent, what its data plane holds, and all its links.
    NodeDown(NodeId),
    /// It has power again.
    NodeUp(NodeId),
    /// All links between these nodes and the others go.
    Partition(Vec<NodeId>),
    /// All links that a partition took come back.
    Heal,
    /// The node's calendar clock steps by so many nanoseconds. Timers know nothing of it.
    ClockStep {
        /// Where.
        node: NodeId,
        /// Forward, or backward.
        by_nanos: i64,
    },
}

/// What a receiver asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimReservation {
    /// Nothing: it only listens.
    Nothing,
    /// Controlled load for what the sender says it sends.
    ControlledLoad,
    /// Guaranteed service at this rate.
    Guaranteed(Rate),
    /// Exactly this.
    Exactly(FlowSpec),
}

impl SimReservation {
    /// The request for a sender of that Tspec.
    pub fn flowspec(&self, sender: &Tspec) -> Option<FlowSpec> {
        match *self {
            SimReservation::Nothing => None,
            SimReservation::ControlledLoad => Some(FlowSpec::ControlledLoad(*sender)),
            SimReservation::Guaranteed(rate) => Some(FlowSpec::Guaranteed(*sender, Rspec { R: rate, S: Span::ZERO })),
            SimReservation::Exactly(flowspec) => Some(flowspec),
        }
    }
}

/// How packets fare on a link: signalling by [`ScenarioAction::Impair`], data by [`ScenarioAction::ImpairData`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Impairment {
    /// Lost.
    pub loss: Probability,
    /// Delivered twice.
    pub duplicate: Probability,
    /// Delivered late, so that later ones overtake it.
    pub reorder: Probability,
    /// How late at most.
    pub late: Span,
}
