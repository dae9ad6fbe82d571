//! The plan: classes and flows of each interface, and the operations that change them.
//!
//! One closed enum, [`PlanOp`], reaches every data plane. Operations are *desired state*: `Class` and `Flow` add or
//! change in place, so that repeating one changes nothing, and a plane may be brought to a [`Plan`] by difference
//! from whatever it finds. The plan separates *flow -> (bucket, class)*: many flows may share a class, each
//! policed by a bucket of its own, or several by one bucket that holds them to a rate together (RFC 2205's shared
//! styles); what exceeds the bucket is best effort.
//!
//! At an *edge* ([`crate::edge`]) flows are policed and marked where they enter the network; behind it a class of the
//! whole aggregate serves them by their code point, and no node there knows a single flow (RFC 2475).
//!
//! A packet belongs to the flow that names it most closely: its five-tuple; else its sender, from any port, to its
//! destination and port; else its addresses and protocol alone; else any sender to its destination and port; else any
//! sender to its destination; else the prefixes that it lies in, the closest first ([`crate::shapes`]).

use crate::edge::{EdgeAt, EdgeRule, MultiField};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::ports::Preemption;
use terms::{Bytes, Dscp, FlowKey, FlowSpec, IfIndex, Rate, ServiceCurve, Session, Span, Tspec};

/// A class of one interface. The numbers below [`ClassId::FIRST_OWN`] are the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub u16);

impl ClassId {
    /// The link itself; parent of all.
    pub const LINK: ClassId = ClassId(1);
    /// Best effort: whatever no flow entry names, and what exceeds a flow's bucket.
    pub const BEST_EFFORT: ClassId = ClassId(2);
    /// Signalling (RSVP), ARP and neighbour discovery: small, and never starved.
    pub const CONTROL: ClassId = ClassId(3);
    /// All controlled-load flows of the interface share this one; its rate is the sum that the ledger granted.
    pub const CONTROLLED_LOAD: ClassId = ClassId(4);
    /// Premium foreground flows, by their code point ([`Dscp::EF`]), where nothing closer is known of a packet.
    pub const PREMIUM: ClassId = ClassId(5);
    /// Premium background flows, by their code point (AF1x).
    pub const BACKGROUND: ClassId = ClassId(6);
    /// The first of the classes that belong to one guaranteed flow each.
    pub const FIRST_OWN: ClassId = ClassId(16);

    /// The class that serves this code point, if there is one beside best effort.
    pub fn of_code_point(dscp: Dscp) -> Option<ClassId> {
        match dscp {
            Dscp::EF => Some(ClassId::PREMIUM),
            Dscp::AF11 | Dscp::AF12 | Dscp::AF13 => Some(ClassId::BACKGROUND),
            _ => None,
        }
    }
}

/// How a class is served. All rates are wire rates: link overhead included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassSpec {
    /// What it is guaranteed (HFSC's real-time curve; HTB takes `m2` as `rate`, and a burst from `m1 * d`).
    pub real_time: Option<ServiceCurve>,
    /// Its share of what nobody was guaranteed, in proportion to its siblings' (HFSC's link-sharing curve).
    pub link_share: Rate,
    /// The most it may ever have; `None`: the link.
    pub upper_limit: Option<Rate>,
    /// Order among classes that borrow, 0 first (HTB's `prio`; strict-priority planes use it alone).
    pub priority: u8,
    /// Its queue.
    pub queue: QueueSpec,
}

/// Limits of a FIFO; a packet that would exceed either is dropped at the tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSpec {
    /// At most so many packets.
    pub packets: u32,
    /// At most so many bytes.
    pub bytes: Bytes,
}

/// A token bucket: what conforms goes to the flow's class, the rest to best effort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketSpec {
    /// Fill rate, IP bytes.
    pub rate: Rate,
    /// Depth.
    pub depth: Bytes,
    /// A shorter packet counts as this long (RFC 2210's `m`), bytes.
    pub min_unit: u32,
}

/// A bucket that several flows of an interface draw from, by a number that nothing else on the interface has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BucketId(pub u64);

/// What the plane keeps beside a flow so that an agent which lost its memory can re-claim it: asked and promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// The RSVP session (or the like).
    pub session: Session,
    /// What was admitted.
    pub flowspec: FlowSpec,
    /// What the sender said it sends.
    pub sender_tspec: Tspec,
    /// What the ledger counts for it on this interface, overhead included.
    pub admitted: Rate,
    /// How long it lives unrefreshed.
    pub lifetime: Span,
    /// How it stands against other reservations (RFC 3181).
    pub priority: Preemption,
}

/// One flow's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSpecEntry {
    /// The class of its conforming packets.
    pub class: ClassId,
    /// Its policer.
    pub bucket: BucketSpec,
    /// Whose bucket it is: `None`, its own; otherwise all flows of the interface that name the same one are policed
    /// together. They name the same class and the same numbers, too; while they are being changed one after another,
    /// the bucket has the newest.
    pub shared: Option<BucketId>,
    /// For adoption.
    pub record: FlowRecord,
}

/// An interface's root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// The link's rate, in wire bytes.
    pub rate: Rate,
    /// Bytes that the link adds to each IP packet (14 for Ethernet as the kernel counts it).
    pub overhead: u32,
    /// The MTU, bytes of IP packet.
    pub mtu: u32,
}

/// One change to a data plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanOp {
    /// Make the interface ours, with this root.
    Link {
        /// Where.
        oif: IfIndex,
        /// What.
        spec: LinkSpec,
    },
    /// Give the interface back as it was found.
    DropLink {
        /// Where.
        oif: IfIndex,
    },
    /// Add the class, or change it in place.
    Class {
        /// Where.
        oif: IfIndex,
        /// Which.
        class: ClassId,
        /// What.
        spec: ClassSpec,
    },
    /// Remove the class; its flows must have gone.
    DropClass {
        /// Where.
        oif: IfIndex,
        /// Which.
        class: ClassId,
    },
    /// Add the flow, or change it in place (its counters and its bucket's level stay).
    Flow {
        /// Where.
        oif: IfIndex,
        /// Which packets.
        flow: FlowKey,
        /// What happens to them.
        entry: FlowSpecEntry,
    },
    /// Remove the flow: its packets are best effort from now on.
    DropFlow {
        /// Where.
        oif: IfIndex,
        /// Which packets.
        flow: FlowKey,
    },
    /// Make this side of the interface an edge: premium code points that no rule gives are wiped.
    Edge {
        /// Where.
        at: EdgeAt,
    },
    /// Make it an ordinary interface again; its rules go too.
    DropEdge {
        /// Where.
        at: EdgeAt,
    },
    /// Add the rule, or change it in place (its counters and its bucket's level stay).
    Rule {
        /// Where: an edge.
        at: EdgeAt,
        /// Which packets.
        fields: MultiField,
        /// What happens to them.
        rule: EdgeRule,
    },
    /// Remove the rule: its packets are anybody's from now on.
    DropRule {
        /// Where.
        at: EdgeAt,
        /// Which packets.
        fields: MultiField,
    },
}

impl PlanOp {
    /// The interface that it changes.
    pub fn oif(&self) -> IfIndex {
        match *self {
            PlanOp::Link { oif, .. }
            | PlanOp::DropLink { oif }
            | PlanOp::Class { oif, .. }
            | PlanOp::DropClass { oif, .. }
            | PlanOp::Flow { oif, .. }
            | PlanOp::DropFlow { oif, .. } => oif,
            PlanOp::Edge { at } | PlanOp::DropEdge { at } | PlanOp::Rule { at, .. } | PlanOp::DropRule { at, .. } => {
                at.interface
            }
        }
    }
}

/// The whole desired state of one interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkPlan {
    /// The root.
    pub link: LinkSpec,
    /// Every class but the root.
    pub classes: BTreeMap<ClassId, ClassSpec>,
    /// Every flow.
    pub flows: BTreeMap<FlowKey, FlowSpecEntry>,
}

/// The whole desired state of a node's data plane.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// By outgoing interface.
    pub links: BTreeMap<IfIndex, LinkPlan>,
    /// Every edge with its rules.
    pub edges: BTreeMap<EdgeAt, EdgePlan>,
}

/// The rules of an edge.
pub type EdgePlan = BTreeMap<MultiField, EdgeRule>;

impl Plan {
    /// Applies one operation. One that names an interface without a root, or no edge, changes nothing.
    pub fn apply(&mut self, op: &PlanOp) {
        match *op {
            PlanOp::Link { oif, spec } => {
                let fresh = LinkPlan { link: spec, classes: BTreeMap::new(), flows: BTreeMap::new() };
                self.links.entry(oif).or_insert(fresh).link = spec;
            }
            PlanOp::DropLink { oif } => {
                self.links.remove(&oif);
            }
            PlanOp::Class { oif, class, spec } => {
                if let Some(link) = self.links.get_mut(&oif) {
                    link.classes.insert(class, spec);
                }
            }
            PlanOp::DropClass { oif, class } => {
                if let Some(link) = self.links.get_mut(&oif) {
                    link.classes.remove(&class);
                }
            }
            PlanOp::Flow { oif, flow, entry } => {
                if let Some(link) = self.links.get_mut(&oif) {
                    link.flows.insert(flow, entry);
                }
            }
            PlanOp::DropFlow { oif, flow } => {
                if let Some(link) = self.links.get_mut(&oif) {
                    link.flows.remove(&flow);
                }
            }
            PlanOp::Edge { at } => {
                self.edges.entry(at).or_default();
            }
            PlanOp::DropEdge { at } => {
                self.edges.remove(&at);
            }
            PlanOp::Rule { at, fields, rule } => {
                if let Some(edge) = self.edges.get_mut(&at) {
                    edge.insert(fields, rule);
                }
            }
            PlanOp::DropRule { at, fields } => {
                if let Some(edge) = self.edges.get_mut(&at) {
                    edge.remove(&fields);
                }
            }
        }
    }

    /// The operations that build this plan from nothing: roots, then classes, then flows; then edges and their rules.
    pub fn ops(&self) -> Vec<PlanOp> {
        let mut ops = Vec::new();
        for (&oif, link) in &self.links {
            ops.push(PlanOp::Link { oif, spec: link.link });
            ops.extend(link.classes.iter().map(|(&class, &spec)| PlanOp::Class { oif, class, spec }));
            ops.extend(link.flows.iter().map(|(&flow, &entry)| PlanOp::Flow { oif, flow, entry }));
        }
        for (&at, rules) in &self.edges {
            ops.push(PlanOp::Edge { at });
            ops.extend(rules.iter().map(|(&fields, &rule)| PlanOp::Rule { at, fields, rule }));
        }
        ops
    }
}

/// What a plane measures of one class, flow or rule since it was installed; of flows that share a bucket, of them all
/// together. Bytes are IP bytes for flows, wire bytes for
/// classes (as the kernel counts them).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets sent (class) or conforming (flow, rule).
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped (class, rule) or in excess of the bucket (flow).
    pub over_packets: u64,
    /// Their bytes; zero where the plane cannot know.
    pub over_bytes: u64,
}
