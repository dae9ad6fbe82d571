//! The reasons for which a port refuses an operation.

use crate::conditioner::ConditionerFault;
use crate::plan::ClassId;
use terms::{Fault, IfIndex};

/// The reason for which an operation was refused. The port is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortRefused {
    /// The operation is for another interface.
    OtherInterface(IfIndex),
    /// The interface is not ours yet (no [`PlanOp::Link`]).
    NoLink,
    /// The root is not a class.
    Root,
    /// There is no such class.
    UnknownClass(ClassId),
    /// The class still has flows.
    FlowsRemain(ClassId),
    /// The limit of flows is reached.
    Flows,
    /// The limit of classes is reached.
    Classes,
    /// The part of a class's conditioner, or its queue, that cannot work, and why.
    Conditioner(&'static str, ConditionerFault),
    /// This side of the interface is not an edge.
    NoEdge,
    /// No packet can match: the addresses are of two families.
    Impossible,
    /// The rule has a meter that edges cannot have.
    Meter,
    /// The limit of rules is reached.
    Rules,
    /// The limit of kinds of wildcards at once is reached.
    Kinds,
}

impl From<PortRefused> for Fault {
    fn from(refused: PortRefused) -> Fault {
        let what = match refused {
            PortRefused::OtherInterface(_) => "operation for another interface",
            PortRefused::NoLink => "the interface has no root",
            PortRefused::Root => "the root is no class",
            PortRefused::UnknownClass(_) => "no such class",
            PortRefused::FlowsRemain(_) => "the class still has flows",
            PortRefused::Flows => "the limit of flows is reached",
            PortRefused::Classes => "the limit of classes is reached",
            PortRefused::Conditioner(..) => "a conditioner that cannot work",
            PortRefused::NoEdge => "the interface is no edge",
            PortRefused::Impossible => "a rule's addresses are of two families",
            PortRefused::Meter => "only rules of AF1x have meters, and a code point has six bits",
            PortRefused::Rules => "the limit of rules is reached",
            PortRefused::Kinds => "rules have too many kinds of wildcards at once",
        };
        Fault { what, code: 0 }
    }
}
