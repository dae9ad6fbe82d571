//! The interface of every data plane: the kernel's, the simulator's and the user-space one.

use crate::edge::{EdgeAt, MultiField};
use crate::plan::{ClassId, Counters, Plan, PlanOp};
use alloc::collections::BTreeMap;
use terms::{Fault, FlowKey, IfIndex, Time};

/// A data plane of one node.
pub trait DataPlane {
    /// Carries out a batch in its order, as a whole or not at all. Every change is in force on return, and was read back
    /// where another program could have changed it.
    ///
    /// # Errors
    /// The first fault; the plane is as it was before, but for packets that were lost on the way.
    fn apply(&mut self, now: Time, ops: &[PlanOp]) -> Result<(), Fault>;

    /// The plan in the plane, read anew.
    ///
    /// # Errors
    /// The plane does not answer.
    fn read(&mut self) -> Result<Plan, Fault>;

    /// All counters.
    ///
    /// # Errors
    /// The plane does not answer.
    fn counters(&mut self) -> Result<PlaneCounters, Fault>;
}

/// The counters of a plane, read together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlaneCounters {
    /// Per class; over: dropped by its queue. Bytes include the link header.
    pub classes: BTreeMap<(IfIndex, ClassId), Counters>,
    /// Per flow; over: in excess of its bucket. IP bytes.
    pub flows: BTreeMap<(IfIndex, FlowKey), Counters>,
    /// Per rule of an edge; over: dropped. IP bytes.
    pub rules: BTreeMap<(EdgeAt, MultiField), Counters>,
    /// Per edge: packets that lost a premium code point because no rule gave it to them. IP bytes.
    pub stripped: BTreeMap<EdgeAt, Counters>,
}
