//! The plan: classes and flows of each interface, and the operations that change them.
//!
//! One closed enum, [`PlanOp`], reaches every data plane. Operations are *desired state*: `Class` and `Flow`
//! add or change in place, so a repeated one changes nothing, and a plane can be brought to a [`Plan`] by
//! difference from any state. The plan separates *flow -> (bucket, class)*: many flows may share a class,
//! each policed by a bucket of its own, or several by one bucket for their joint rate (RFC 2205's shared
//! styles); the excess over the bucket is best effort.
//!
//! At an *edge* ([`crate::edge`]) flows are policed and marked as they enter the network; behind it a class
//! of the whole aggregate serves them by their code point, and no node there knows a single flow (RFC 2475).
//!
//! A packet belongs to the most specific flow: its five-tuple; else its sender, from any port, to its destination and
//! port; else its addresses and protocol alone; else any sender to its destination and port; else any sender to its
//! destination; else the prefixes that contain it, the most specific first ([`crate::shapes`]).

use crate::conditioner::ConditionerSpec;
use crate::edge::{EdgeAt, EdgeRule, MultiField};
use crate::scheduler::SchedulerKind;
pub use crate::spec::{BucketSpec, Counters, QueueSpec};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::{Dscp, FlowKey, IfIndex, Rate, ServiceCurve};

/// A class of one interface. The numbers below [`ClassId::FIRST_OWN`] are the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub u16);

impl ClassId {
    /// The link itself; parent of all.
    pub const LINK: ClassId = ClassId(1);
    /// Best effort: packets without a flow entry, and the excess over a flow's bucket.
    pub const BEST_EFFORT: ClassId = ClassId(2);
    /// Signalling (RSVP), ARP and neighbour discovery: small, and never starved.
    pub const CONTROL: ClassId = ClassId(3);
    /// All controlled-load flows of the interface share this one; its rate is the sum that the ledger granted.
    pub const CONTROLLED_LOAD: ClassId = ClassId(4);
    /// Premium foreground flows, by their code point ([`Dscp::EF`]), if no flow entry matches the packet.
    pub const PREMIUM: ClassId = ClassId(5);
    /// Premium background flows, by their code point (AF1x).
    pub const BACKGROUND: ClassId = ClassId(6);
    /// Flows that never signalled and were admitted by what is measured (MACE). They have a class of their own, so that
    /// nothing else is measured with them.
    pub const MEASURED: ClassId = ClassId(7);
    /// The first of the classes that belong to one guaranteed flow each.
    pub const FIRST_OWN: ClassId = ClassId(16);

    /// The class for this code point, if there is one beside best effort.
    pub fn of_code_point(dscp: Dscp) -> Option<ClassId> {
        match dscp {
            Dscp::EF => Some(ClassId::PREMIUM),
            Dscp::AF11 | Dscp::AF12 | Dscp::AF13 => Some(ClassId::BACKGROUND),
            _ => None,
        }
    }
}

/// The service of a class. All rates are wire rates: link overhead included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassSpec {
    /// The guarantee (HFSC's real-time curve; HTB takes `m2` as `rate`, and a burst from `m1 * d`).
    pub real_time: Option<ServiceCurve>,
    /// Its share of bandwidth without a guarantee, in proportion to its siblings' (HFSC's link-sharing curve).
    pub link_share: Rate,
    /// The largest rate of the class; `None`: the link's.
    pub upper_limit: Option<Rate>,
    /// The order among classes that borrow, 0 first (HTB's `prio`; strict-priority planes use it alone).
    pub priority: u8,
    /// The limits of its queue.
    pub queue: QueueSpec,
}

/// The number of a bucket that several flows of an interface share; unique on the interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BucketId(pub u64);

/// Bytes that the plane keeps beside a flow for its owner, who wrote them and alone reads them: an agent without memory
/// knows from them what it had promised. The plane does not read them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OwnerRecord(pub [u8; OwnerRecord::LEN]);

impl OwnerRecord {
    /// The length, bytes.
    pub const LEN: usize = 127;
    /// A record with nothing in it.
    pub const EMPTY: OwnerRecord = OwnerRecord([0; OwnerRecord::LEN]);
}

impl core::fmt::Debug for OwnerRecord {
    /// The bytes as hexadecimal digits, without the zeros at the end.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let end = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.0[..end].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One flow's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSpecEntry {
    /// The class of its conforming packets.
    pub class: ClassId,
    /// Its policer.
    pub bucket: BucketSpec,
    /// The shared bucket; `None`: the flow has its own. All flows of the interface with the same shared
    /// bucket are policed together. They have the same class and numbers, too; while they are changed one
    /// after another, the bucket has the newest.
    pub shared: Option<BucketId>,
    /// The owner's record.
    pub record: OwnerRecord,
}

/// An interface's root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// The link's rate, in wire bytes.
    pub rate: Rate,
    /// The bytes that the link adds to each IP packet (14 for Ethernet as the kernel counts it).
    pub overhead: u32,
    /// The MTU, bytes of IP packet.
    pub mtu: u32,
    /// The scheduler of its classes.
    pub scheduler: SchedulerKind,
}

/// One change to a data plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanOp {
    /// Makes the interface ours, with this root.
    Link {
        /// The interface.
        oif: IfIndex,
        /// The root.
        spec: LinkSpec,
    },
    /// Releases the interface and restores its old state.
    DropLink {
        /// The interface.
        oif: IfIndex,
    },
    /// Adds the class, or changes it in place.
    Class {
        /// The interface.
        oif: IfIndex,
        /// The class.
        class: ClassId,
        /// Its specification.
        spec: ClassSpec,
    },
    /// Removes the class; its flows must be gone.
    DropClass {
        /// The interface.
        oif: IfIndex,
        /// The class.
        class: ClassId,
    },
    /// Gives the class a conditioner, or changes it in place (see [`crate::path::PacketPath::change_leaf`]).
    Condition {
        /// The interface.
        oif: IfIndex,
        /// The class.
        class: ClassId,
        /// The conditioner.
        spec: ConditionerSpec,
    },
    /// Removes the class's conditioner; the packets in its shaper pass on.
    DropCondition {
        /// The interface.
        oif: IfIndex,
        /// The class.
        class: ClassId,
    },
    /// Adds the flow, or changes it in place (its counters and its bucket's level stay).
    Flow {
        /// The interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
        /// Its entry.
        entry: FlowSpecEntry,
    },
    /// Removes the flow: its packets are best effort from now on.
    DropFlow {
        /// The interface.
        oif: IfIndex,
        /// The flow.
        flow: FlowKey,
    },
    /// Makes this side of the interface an edge: premium code points without a rule are wiped.
    Edge {
        /// The edge.
        at: EdgeAt,
    },
    /// Makes it an ordinary interface again; its rules go too.
    DropEdge {
        /// The edge.
        at: EdgeAt,
    },
    /// Adds the rule, or changes it in place (its counters and its bucket's level stay).
    Rule {
        /// The edge.
        at: EdgeAt,
        /// The packets of the rule.
        fields: MultiField,
        /// The rule.
        rule: EdgeRule,
    },
    /// Removes the rule: its packets are ordinary from now on.
    DropRule {
        /// The edge.
        at: EdgeAt,
        /// The packets of the rule.
        fields: MultiField,
    },
}

impl PlanOp {
    /// The interface that the operation changes.
    pub fn oif(&self) -> IfIndex {
        match *self {
            PlanOp::Link { oif, .. }
            | PlanOp::DropLink { oif }
            | PlanOp::Class { oif, .. }
            | PlanOp::DropClass { oif, .. }
            | PlanOp::Condition { oif, .. }
            | PlanOp::DropCondition { oif, .. }
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
    /// The conditioners of classes that have one.
    pub conditioners: BTreeMap<ClassId, ConditionerSpec>,
    /// Every flow.
    pub flows: BTreeMap<FlowKey, FlowSpecEntry>,
}

impl LinkPlan {
    /// An interface with this root and nothing else.
    pub fn new(link: LinkSpec) -> LinkPlan {
        LinkPlan { link, classes: BTreeMap::new(), conditioners: BTreeMap::new(), flows: BTreeMap::new() }
    }
}

/// The whole desired state of a node's data plane.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The state of each outgoing interface.
    pub links: BTreeMap<IfIndex, LinkPlan>,
    /// Every edge with its rules.
    pub edges: BTreeMap<EdgeAt, EdgePlan>,
}

/// The rules of an edge.
pub type EdgePlan = BTreeMap<MultiField, EdgeRule>;

impl Plan {
    /// Applies one operation. An operation for an interface without a root, or for no edge, changes nothing.
    pub fn apply(&mut self, op: &PlanOp) {
        match *op {
            PlanOp::Link { oif, spec } => {
                self.links.entry(oif).or_insert_with(|| LinkPlan::new(spec)).link = spec;
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
                    link.conditioners.remove(&class);
                }
            }
            PlanOp::Condition { oif, class, spec } => {
                if let Some(link) = self.links.get_mut(&oif).filter(|link| link.classes.contains_key(&class)) {
                    link.conditioners.insert(class, spec);
                }
            }
            PlanOp::DropCondition { oif, class } => {
                if let Some(link) = self.links.get_mut(&oif) {
                    link.conditioners.remove(&class);
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

    /// The operations that lead back to this plan from the one after `op`, in order.
    pub fn undo(&self, op: &PlanOp) -> Vec<PlanOp> {
        let oif = op.oif();
        let link = self.links.get(&oif);
        let one = |op: PlanOp| alloc::vec![op];
        let alone = |links, edges| Plan { links, edges }.ops();
        match *op {
            PlanOp::Link { .. } => match link {
                Some(had) => one(PlanOp::Link { oif, spec: had.link }),
                None => one(PlanOp::DropLink { oif }),
            },
            PlanOp::DropLink { .. } => {
                let had = link.map(|had| (oif, had.clone()));
                alone(had.into_iter().collect(), BTreeMap::new())
            }
            PlanOp::Class { class, .. } | PlanOp::DropClass { class, .. } => {
                let Some(spec) = link.and_then(|link| link.classes.get(&class)) else {
                    return one(PlanOp::DropClass { oif, class });
                };
                let conditioner = link.and_then(|link| link.conditioners.get(&class));
                let again = conditioner.map(|spec| PlanOp::Condition { oif, class, spec: *spec });
                core::iter::once(PlanOp::Class { oif, class, spec: *spec }).chain(again).collect()
            }
            PlanOp::Condition { class, .. } | PlanOp::DropCondition { class, .. } => {
                match link.and_then(|link| link.conditioners.get(&class)) {
                    Some(&spec) => one(PlanOp::Condition { oif, class, spec }),
                    None => one(PlanOp::DropCondition { oif, class }),
                }
            }
            PlanOp::Flow { flow, .. } | PlanOp::DropFlow { flow, .. } => {
                match link.and_then(|link| link.flows.get(&flow)) {
                    Some(&entry) => one(PlanOp::Flow { oif, flow, entry }),
                    None => one(PlanOp::DropFlow { oif, flow }),
                }
            }
            PlanOp::Edge { at } | PlanOp::DropEdge { at } => match self.edges.get(&at) {
                Some(had) => alone(BTreeMap::new(), [(at, had.clone())].into_iter().collect()),
                None => one(PlanOp::DropEdge { at }),
            },
            PlanOp::Rule { at, fields, .. } | PlanOp::DropRule { at, fields } => {
                match self.edges.get(&at).and_then(|edge| edge.get(&fields)) {
                    Some(&rule) => one(PlanOp::Rule { at, fields, rule }),
                    None => one(PlanOp::DropRule { at, fields }),
                }
            }
        }
    }

    /// The operations that build this plan from nothing: roots, then classes and their conditioners, then flows; then edges and their rules.
    pub fn ops(&self) -> Vec<PlanOp> {
        let mut ops = Vec::new();
        for (&oif, link) in &self.links {
            ops.push(PlanOp::Link { oif, spec: link.link });
            ops.extend(link.classes.iter().map(|(&class, &spec)| PlanOp::Class { oif, class, spec }));
            let conditioned = link.conditioners.iter();
            ops.extend(conditioned.map(|(&class, &spec)| PlanOp::Condition { oif, class, spec }));
            ops.extend(link.flows.iter().map(|(&flow, &entry)| PlanOp::Flow { oif, flow, entry }));
        }
        for (&at, rules) in &self.edges {
            ops.push(PlanOp::Edge { at });
            ops.extend(rules.iter().map(|(&fields, &rule)| PlanOp::Rule { at, fields, rule }));
        }
        ops
    }
}
