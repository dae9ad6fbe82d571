//! Premium flows: a booked part of an interface is a rule at the edge where its packets come in, and its share
//! of the class of its code point where they leave (seed 002, sections 4.1 and 4.2).
//!
//! The edge drops packets above the reserved rate (of a flow with an open field they only lose the mark) and
//! marks the rest: EF for foreground, AF11 for background. The class where they leave is guaranteed the rates
//! of its flows, link headers for packets of the stated size included. The policed rate is IP bytes, and a
//! packet shorter than stated counts as that long. Nodes downstream know the class alone.
//!
//! A class carries at each instant the larger of what a rule lets through and what it is to let through: an
//! increase is in force at the class before the rule is changed, and a reduction at the rule before the class.
//! So no more is marked than the class can carry, whatever fails on the way.

mod orders;
mod sla;
mod standing;

use crate::classes::{Premium, PremiumDemand};
use crate::io::PlanId;
use crate::link::Link;
use crate::outbox::Outbox;
use crate::plane::Plane;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::book::{BoundFlow, PacketShape, burst};
use terms::ports::{Route, RouteDecision};
use terms::{Dscp, Fault, IfIndex, Rate, SenderGroup, Span, Time};
use traffic::edge::{BehaviourAggregate, EdgeAt, EdgeMeter, EdgeRule, MultiField, Side};
use traffic::plan::{BucketSpec, EdgePlan, Plan, PlanOp};

pub use crate::io::PartId;
pub use sla::{SlaPlace, SlaShare};

/// The interval after which edges that could not be made or removed are tried again; for those that could not
/// be removed it doubles up to the longest.
pub const EDGES_AGAIN: Span = Span::from_secs(1);
const LONGEST: Span = Span::from_secs(64);

const TAKEN: Fault =
    Fault { what: "another reservation has the same packets: bind it to others, or give that one back", code: 0 };
const RESTING: Fault = Fault { what: "the plane failed a moment ago and is tried again soon", code: 0 };

/// A premium flow in the plane: its rule, where the rule is, and the interface whose class carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PremiumFlow {
    /// The interface by which its packets leave.
    pub oif: IfIndex,
    /// The edge with its rule.
    pub at: EdgeAt,
    /// Its packets.
    pub fields: MultiField,
    /// Its bucket and code point.
    pub rule: EdgeRule,
}

impl PremiumFlow {
    /// The flow of a booked rate, in IP bytes, that leaves by `oif`. The way back to its source decides at
    /// which edge its rule is: at the interface by which it comes in, or at the way out of `oif` itself for
    /// flows of this host and for flows whose source is open.
    pub fn booked(
        route: &mut impl Route,
        oif: IfIndex,
        flow: &BoundFlow,
        rate: Rate,
        shape: PacketShape,
        background: bool,
    ) -> PremiumFlow {
        let at = match flow.src.map(|src| route.route(src, None, None)) {
            Some(RouteDecision::Out { oif: iif, .. }) if iif != oif => EdgeAt { interface: iif, side: Side::Ingress },
            _ => EdgeAt { interface: oif, side: Side::Egress },
        };
        let depth = burst(rate, shape.rtt, flow.is_tcp());
        let bucket = BucketSpec { rate, depth, min_unit: shape.packet };
        PremiumFlow { oif, at, fields: MultiField::from(*flow), rule: rule(bucket, shape, background) }
    }

    /// The flow of a booked rate, in IP bytes, of a control group of this host: its rule is at the way out of `oif`.
    /// The bucket is as deep as that of a TCP flow, because most of what a group sends may be TCP.
    pub fn of_group(oif: IfIndex, group: SenderGroup, rate: Rate, shape: PacketShape, background: bool) -> PremiumFlow {
        let bucket = BucketSpec { rate, depth: burst(rate, shape.rtt, true), min_unit: shape.packet };
        let (at, fields) = (EdgeAt { interface: oif, side: Side::Egress }, MultiField::of_group(group));
        PremiumFlow { oif, at, fields, rule: rule(bucket, shape, background) }
    }

    fn key(&self) -> (EdgeAt, MultiField) {
        (self.at, self.fields)
    }

    /// True if one rule is changed into the other in place.
    fn replaces(&self, other: &PremiumFlow) -> bool {
        self.key() == other.key() && self.oif == other.oif
    }

    fn is_background(&self) -> bool {
        self.rule.mark != Dscp::EF
    }
}

/// The rule of a bucket, or of the meter in its place. EF has no meter.
fn rule(bucket: BucketSpec, shape: PacketShape, background: bool) -> EdgeRule {
    let mark = if background { Dscp::AF11 } else { Dscp::EF };
    let meter = shape.meter.filter(|_| background).and_then(|terms| EdgeMeter::booked(&terms, &bucket));
    EdgeRule { meter, ..EdgeRule::of_bucket(bucket, mark) }
}

/// The load of one class of an interface by one part: interface, background, load.
type Counted = (IfIndex, bool, PremiumDemand);

/// A part: what the plane has, what it is to have.
#[derive(Debug, Default)]
struct Part {
    has: Option<PremiumFlow>,
    wants: Option<PremiumFlow>,
    /// Its load in the sums.
    counted: [Option<Counted>; 2],
}

/// The aim of a batch.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The part has this flow afterwards.
    Part(PartId, Option<PremiumFlow>),
    /// An edge that exists whatever is booked, in this round of making them.
    Standing(u64),
    /// An agreement's aggregates at this edge are what is booked.
    Sla(EdgeAt),
    /// A rule or an edge that is no longer used is removed.
    Tidy,
}

/// The edges of a node: their rules, and the load of the classes behind them.
#[derive(Debug, Default)]
pub struct EdgeState {
    parts: BTreeMap<PartId, Part>,
    /// The part of each rule that is in force or on its way.
    rules: BTreeMap<(EdgeAt, MultiField), PartId>,
    /// Parts that wait until the classes of an interface carry them.
    waiting: BTreeMap<IfIndex, BTreeSet<PartId>>,
    /// The sums of all parts.
    load: BTreeMap<IfIndex, Premium>,
    /// The last load that each interface's classes were told.
    told: BTreeMap<IfIndex, Premium>,
    /// The load of the classes when they were found. They do not shrink below it before every earlier booking
    /// has been ordered again.
    floor: BTreeMap<IfIndex, Premium>,
    /// Rules and edges of an earlier run that no booking has asked for again.
    found: BTreeMap<(EdgeAt, MultiField), EdgeRule>,
    found_edges: BTreeSet<EdgeAt>,
    standing: Standing,
    agreements: sla::Agreements,
    batches: BTreeMap<PlanId, (Purpose, Vec<PlanOp>)>,
    leftovers: Leftovers,
    /// The state of the plane, edges alone.
    plane: Plan,
}

/// The edges, with the parts that change with them: an order needs room in the classes of its interface first.
///
/// Drain [`Tc::poll`](crate::Tc::poll) after each call.
#[derive(Debug)]
pub struct EdgeTurn<'a> {
    pub(crate) edges: &'a mut EdgeState,
    pub(crate) links: &'a mut BTreeMap<IfIndex, Link>,
    pub(crate) plane: &'a mut Plane,
    pub(crate) out: &'a mut Outbox,
}

/// Rules and edges that could not be removed, and the time of the next attempt.
#[derive(Debug, Default)]
struct Leftovers {
    ops: Vec<PlanOp>,
    again: Option<Time>,
    wait: Span,
}

/// The edges that exist whatever is booked, and their progress.
#[derive(Debug, Default)]
struct Standing {
    edges: BTreeSet<EdgeAt>,
    trusted: BTreeSet<IfIndex>,
    /// The number of times that they were made; answers to an earlier round do not count.
    round: u64,
    /// Batches without an answer.
    open: usize,
    failed: bool,
    /// True after the first failure, so that a lasting one is told once.
    told: bool,
    again: Option<Time>,
    /// True if all of it is in force.
    stands: bool,
}

impl EdgeState {
    /// The flow that the plane has for a part.
    pub fn premium_flow(&self, id: PartId) -> Option<&PremiumFlow> {
        self.parts.get(&id)?.has.as_ref()
    }

    /// All flows that the plane has, in the order of their parts, from after one of them on.
    pub fn premium_flows(&self, after: Option<PartId>) -> impl Iterator<Item = (PartId, &PremiumFlow)> {
        let from = after.map_or(core::ops::Bound::Unbounded, core::ops::Bound::Excluded);
        let parts = self.parts.range((from, core::ops::Bound::Unbounded));
        parts.filter_map(|(id, part)| Some((*id, part.has.as_ref()?)))
    }

    /// The time at which something at the edges is tried again.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        [self.standing.again, self.leftovers.again, self.agreements.wake_at()].into_iter().flatten().min()
    }

    /// The load of an interface's premium classes, even if the interface is not there.
    pub(crate) fn told(&self, oif: IfIndex) -> Premium {
        self.told.get(&oif).copied().unwrap_or_default()
    }

    /// True if a part has a rule at this edge, or will have.
    fn is_used(&self, at: EdgeAt) -> bool {
        let mut from = self.rules.range((at, MultiField::default())..);
        from.next().is_some_and(|((of, _), _)| *of == at)
    }

    /// True if an edge must not go.
    fn stays(&self, at: EdgeAt) -> bool {
        let found = self.found.range((at, MultiField::default())..).next().is_some_and(|((of, _), _)| *of == at);
        found || self.standing.edges.contains(&at) || self.is_used(at)
    }

    /// The edges in the plane.
    pub(crate) fn confirmed(&self) -> &BTreeMap<EdgeAt, EdgePlan> {
        &self.plane.edges
    }

    /// True if every order has been answered.
    pub fn is_idle(&self) -> bool {
        let under_way = |(purpose, _): &(Purpose, _)| matches!(purpose, Purpose::Part(..));
        self.waiting.is_empty() && !self.agreements.is_busy() && !self.batches.values().any(under_way)
    }

    /// The aggregates of all agreements: the name of the resource; true: that of background.
    pub fn agreements(&self) -> impl Iterator<Item = (&str, bool)> {
        self.agreements.names().flat_map(|name| [(name, false), (name, true)])
    }

    /// The edge and the rule of an agreement's aggregate that the plane has; `background`: that of AF1x.
    pub fn agreed(&self, sla: &str, background: bool) -> Option<(EdgeAt, MultiField, EdgeRule)> {
        let at = self.agreements.at(sla)?;
        let aggregate = if background { BehaviourAggregate::Af1 } else { BehaviourAggregate::Ef };
        let fields = aggregate.fields();
        Some((at, fields, *self.plane.edges.get(&at)?.get(&fields)?))
    }
}
