//! The description of a run: nodes, links, traffic, and a script of actions. These are types only; their text
//! form belongs to a client.

mod mace;
mod queue;
mod tcp;

pub use mace::{MaceReport, MaceSample, MaceSpec, PoolSpec, QueueCounts, ROOM};
pub use queue::{EgressReport, EgressSpec, LinkConditioner, NO_LIMIT, Queue, QueueSpec, Tally, af1};
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

/// A recorded stream: for each packet the time since the start of the source and its length in IP bytes.
/// Times never decrease.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// Time and length of each packet.
    pub packets: Vec<(Span, u32)>,
}

/// A trace, by its position in [`Scenario::traces`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TraceId(pub usize);

/// A capture of one direction of a link, at the sending node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureSpec {
    /// The link.
    pub link: LinkId,
    /// The sending end: 0 or 1.
    pub side: usize,
    /// Maximum number of bytes kept of each packet.
    pub snap: u32,
    /// Maximum number of packets kept.
    pub packets: usize,
}

/// The description of a whole run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scenario {
    /// The seed of all random numbers. The same seed gives the same run.
    pub seed: u64,
    /// Hosts and routers.
    pub nodes: Vec<SimNodeSpec>,
    /// The links between the nodes.
    pub links: Vec<SimLinkSpec>,
    /// Conditioners and queues of single directions. All others have [`Scenario::queue`] and no conditioner.
    pub egress: Vec<EgressSpec>,
    /// The queue of all other directions.
    pub queue: Queue,
    /// Data traffic without congestion control.
    pub sources: Vec<SourceSpec>,
    /// The recorded streams for [`SendPattern::Trace`].
    pub traces: Vec<Trace>,
    /// A pool of flows that are replaced as they end.
    pub pool: Option<Box<PoolSpec>>,
    /// Data traffic with congestion control.
    pub connections: Vec<TcpSpec>,
    /// Directions of links whose packets are captured.
    pub captures: Vec<CaptureSpec>,
    /// The timed actions of the run, in any order.
    pub script: Vec<(Time, ScenarioAction)>,
    /// The measured window: sinks count packets sent from the first instant on and before the second.
    pub measured: (Time, Time),
}

/// A host or router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimNodeSpec {
    /// Name.
    pub name: String,
    /// True if it runs RSVP and traffic control. If not, it only forwards.
    pub agent: bool,
    /// R, the refresh period.
    pub refresh: Span,
    /// K of the state lifetime (RFC 2205 section 3.7).
    pub keep: u32,
    /// The time that the data plane takes to carry out a batch.
    pub plane_delay: Span,
}

impl SimNodeSpec {
    /// A node with an agent, refresh period `refresh`, and a plane delay of 100 microseconds.
    pub fn new(name: &str, refresh: Span) -> SimNodeSpec {
        SimNodeSpec { name: name.into(), agent: true, refresh, keep: 3, plane_delay: Span::from_micros(100) }
    }
}

/// A duplex link: two ports, the same in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimLinkSpec {
    /// The nodes at its ends.
    pub ends: [NodeId; 2],
    /// Rate, in wire bytes.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Span,
    /// Bytes added to each IP packet.
    pub overhead: u32,
    /// MTU, bytes of IP packet.
    pub mtu: u32,
    /// The scheduler of its ports.
    pub scheduler: SchedulerKind,
    /// The rate that reservations never get.
    pub kept_back: Rate,
}

impl SimLinkSpec {
    /// An Ethernet link of rate `rate`.
    pub fn ethernet(a: NodeId, b: NodeId, rate: Rate, delay: Span, scheduler: SchedulerKind) -> SimLinkSpec {
        let kept_back = rate.share(1, 10);
        SimLinkSpec { ends: [a, b], rate, delay, overhead: 14, mtu: 1500, scheduler, kept_back }
    }

    /// `C` (bytes) and `D` (microseconds) of its ports (RFC 2212 section 3.1). `D`: HFSC serves a packet at
    /// most one full packet's transmission time after its deadline, whatever the rate. `C`: deadlines are
    /// those of whole packets, and the next hop sees a packet only when its last bit has come. That is one
    /// packet of the flow at its own rate, for which the MTU stands. The other schedulers export no bound.
    pub fn error_terms(&self) -> Option<(u32, u32)> {
        let full = terms::Bytes::new(u64::from(self.mtu) + u64::from(self.overhead));
        let d = self.rate.span_for(full).as_nanos().div_ceil(1_000) + 1;
        match self.scheduler {
            SchedulerKind::Hfsc => u32::try_from(d).ok().map(|d| (self.mtu, d)),
            SchedulerKind::Htb | SchedulerKind::Wf2q | SchedulerKind::Drr | SchedulerKind::Priority => None,
        }
    }
}

/// A source of data packets. Its sink is at their destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceSpec {
    /// The node that sends.
    pub node: NodeId,
    /// The five-tuple of its packets.
    pub flow: FlowKey,
    /// Length of each packet, bytes of IP packet.
    pub packet: u32,
    /// The pattern of sending times.
    pub pattern: SendPattern,
    /// The first instant of sending.
    pub from: Time,
    /// The end of sending, excluded.
    pub until: Time,
}

/// The pattern of a source's sending times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendPattern {
    /// A constant bit rate of IP bytes. Each packet is late by a random part of an interval, up to
    /// `jitter_percent`, so that sources do not lock into each other's phase.
    Cbr {
        /// Rate; zero sends nothing.
        rate: Rate,
        /// Maximum lateness, percent of an interval.
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
        /// The part of the interval over which they are spread, percent; 0 sends them at once.
        spread_percent: u32,
    },
    /// A whole bucket at once, then the rate: the worst that a token bucket (r, b) lets through.
    Greedy {
        /// Rate after the burst.
        rate: Rate,
        /// Packets of the burst.
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

/// An action at an instant of the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScenarioAction {
    /// An application announces what it sends.
    Send {
        /// The sender's node.
        node: NodeId,
        /// The application.
        app: AppId,
        /// The session.
        session: Session,
        /// The sender's address and port.
        template: SenderTemplate,
        /// The sender's traffic.
        tspec: Tspec,
    },
    /// An application stops sending.
    Unsend {
        /// The sender's node.
        node: NodeId,
        /// The application.
        app: AppId,
        /// The session.
        session: Session,
        /// The sender's address and port.
        template: SenderTemplate,
    },
    /// An application receives. It asks for a reservation as soon as a Path tells it of a sender.
    Receive {
        /// The receiver's node.
        node: NodeId,
        /// The application.
        app: AppId,
        /// The session.
        session: Session,
        /// The reservation that it asks for.
        ask: SimReservation,
    },
    /// An application gives up all that it has.
    Release {
        /// The application's node.
        node: NodeId,
        /// The application.
        app: AppId,
    },
    /// An application reserves or releases by Boomerang.
    Boomerang {
        /// The application's node.
        node: NodeId,
        /// The call.
        call: boomerang::ApplicationCall,
    },
    /// A caller calls the bookings of a node.
    Book {
        /// The node.
        node: NodeId,
        /// The caller's name.
        who: String,
        /// The call.
        call: booking::Call,
    },
    /// The agent dies; its data plane stays as it is.
    Crash(NodeId),
    /// The agent starts again and adopts the state of its data plane.
    Restart(NodeId),
    /// The agent stops in order and gives its interfaces back.
    Stop(NodeId),
    /// The next batches fail on this node's data plane.
    FailPlane {
        /// The node.
        node: NodeId,
        /// The number of batches.
        batches: u32,
    },
    /// A link goes down, and packets on it are lost.
    LinkDown(LinkId),
    /// A link comes back.
    LinkUp(LinkId),
    /// Sets how messages fare on a link from now on.
    Impair(LinkId, Impairment),
    /// Sets how data packets fare on a link from now on.
    ImpairData(LinkId, Impairment),
    /// A node loses power: its agent, the content of its data plane, and all its links.
    NodeDown(NodeId),
    /// A node has power again.
    NodeUp(NodeId),
    /// All links between these nodes and the others go down.
    Partition(Vec<NodeId>),
    /// All links that a partition took down come back.
    Heal,
    /// The node's calendar clock steps. Timers do not use it.
    ClockStep {
        /// The node.
        node: NodeId,
        /// The step, ns: forward if positive, backward if negative.
        by_nanos: i64,
    },
}

/// The reservation that a receiver asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimReservation {
    /// Nothing: it only listens.
    Nothing,
    /// Controlled load for the sender's Tspec.
    ControlledLoad,
    /// Guaranteed service at this rate.
    Guaranteed(Rate),
    /// Exactly this.
    Exactly(FlowSpec),
}

impl SimReservation {
    /// The request for a sender with the Tspec `sender`.
    pub fn flowspec(&self, sender: &Tspec) -> Option<FlowSpec> {
        match *self {
            SimReservation::Nothing => None,
            SimReservation::ControlledLoad => Some(FlowSpec::ControlledLoad(*sender)),
            SimReservation::Guaranteed(rate) => Some(FlowSpec::Guaranteed(*sender, Rspec { R: rate, S: Span::ZERO })),
            SimReservation::Exactly(flowspec) => Some(flowspec),
        }
    }
}

/// Faults of packets on a link: of signalling by [`ScenarioAction::Impair`], of data by
/// [`ScenarioAction::ImpairData`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Impairment {
    /// The probability that a packet is lost.
    pub loss: Probability,
    /// The probability that a packet is delivered twice.
    pub duplicate: Probability,
    /// The probability that a packet is delivered late, so that later ones overtake it.
    pub reorder: Probability,
    /// Maximum extra delay of a late packet.
    pub late: Span,
}
