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

use crate::classes::{Premium, PremiumDemand};
use crate::io::PlanId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::book::{BoundFlow, Handle, PacketShape, burst};
use terms::ports::{Route, RouteDecision};
use terms::{Dscp, Fault, IfIndex, Rate, Span, Time};
use traffic::edge::{EdgeAt, EdgeRule, MultiField, Side};
use traffic::plan::{BucketSpec, EdgePlan, Plan, PlanOp};

/// A part of a reservation: its handle, and its number from 0.
pub type PartId = (Handle, usize);

/// The interval after which edges that could not be made or removed are tried again; for those that could not
/// be removed it doubles up to the longest.
pub const EDGES_AGAIN: Span = Span::from_secs(1);
pub(crate) const LONGEST: Span = Span::from_secs(64);

pub(crate) const TAKEN: Fault =
    Fault { what: "another reservation has the same packets: bind it to others, or give that one back", code: 0 };
pub(crate) const RESTING: Fault = Fault { what: "the plane failed a moment ago and is tried again soon", code: 0 };

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
        let mark = if background { Dscp::AF11 } else { Dscp::EF };
        PremiumFlow { oif, at, fields: MultiField::from(*flow), rule: EdgeRule { bucket, mark } }
    }

    pub(crate) fn key(&self) -> (EdgeAt, MultiField) {
        (self.at, self.fields)
    }

    /// True if one rule is changed into the other in place.
    pub(crate) fn replaces(&self, other: &PremiumFlow) -> bool {
        self.key() == other.key() && self.oif == other.oif
    }

    pub(crate) fn is_background(&self) -> bool {
        self.rule.mark != Dscp::EF
    }
}

/// The load of one class of an interface by one part: interface, background, load.
pub(crate) type Counted = (IfIndex, bool, PremiumDemand);

/// A part: what the plane has, what it is to have.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) has: Option<PremiumFlow>,
    pub(crate) wants: Option<PremiumFlow>,
    /// Its load in the sums.
    pub(crate) counted: [Option<Counted>; 2],
}

/// The aim of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The part has this flow afterwards.
    Part(PartId, Option<PremiumFlow>),
    /// An edge that exists whatever is booked, in this round of making them.
    Standing(u64),
    /// A rule or an edge that is no longer used is removed.
    Tidy,
}

/// The edges of a node: their rules, and the load of the classes behind them.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    pub(crate) parts: BTreeMap<PartId, Part>,
    /// The part of each rule that is in force or on its way.
    pub(crate) rules: BTreeMap<(EdgeAt, MultiField), PartId>,
    /// Parts that wait until the classes of an interface carry them.
    pub(crate) waiting: BTreeMap<IfIndex, BTreeSet<PartId>>,
    /// The sums of all parts.
    pub(crate) load: BTreeMap<IfIndex, Premium>,
    /// The load of the classes when they were found. They do not shrink below it before every earlier booking
    /// has been ordered again.
    pub(crate) floor: BTreeMap<IfIndex, Premium>,
    /// Rules and edges of an earlier run that no booking has asked for again.
    pub(crate) found: BTreeMap<(EdgeAt, MultiField), EdgeRule>,
    pub(crate) found_edges: BTreeSet<EdgeAt>,
    pub(crate) standing: Standing,
    pub(crate) batches: BTreeMap<PlanId, (Purpose, Vec<PlanOp>)>,
    pub(crate) leftovers: Leftovers,
    /// The state of the plane, edges alone.
    pub(crate) plane: Plan,
}

/// Rules and edges that could not be removed, and the time of the next attempt.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    pub(crate) ops: Vec<PlanOp>,
    pub(crate) again: Option<Time>,
    pub(crate) wait: Span,
}

/// The edges that exist whatever is booked, and their progress.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    pub(crate) edges: BTreeSet<EdgeAt>,
    pub(crate) trusted: BTreeSet<IfIndex>,
    /// The number of times that they were made; answers to an earlier round do not count.
    pub(crate) round: u64,
    /// Batches without an answer.
    pub(crate) open: usize,
    pub(crate) failed: bool,
    /// True after the first failure, so that a lasting one is told once.
    pub(crate) told: bool,
    pub(crate) again: Option<Time>,
    /// True if all of it is in force.
    pub(crate) stands: bool,
}

impl Edges {
    /// True if a part has a rule at this edge, or will have.
    pub(crate) fn is_used(&self, at: EdgeAt) -> bool {
        let mut from = self.rules.range((at, MultiField::default())..);
        from.next().is_some_and(|((of, _), _)| *of == at)
    }

    /// True if an edge must not go.
    pub(crate) fn stays(&self, at: EdgeAt) -> bool {
        let found = self.found.range((at, MultiField::default())..).next().is_some_and(|((of, _), _)| *of == at);
        found || self.standing.edges.contains(&at) || self.is_used(at)
    }

    /// The edges in the plane.
    pub(crate) fn confirmed(&self) -> &BTreeMap<EdgeAt, EdgePlan> {
        &self.plane.edges
    }

    /// True if no part waits for the plane.
    pub(crate) fn is_idle(&self) -> bool {
        let under_way = |(purpose, _): &(Purpose, _)| matches!(purpose, Purpose::Part(..));
        self.waiting.is_empty() && !self.batches.values().any(under_way)
    }
}
