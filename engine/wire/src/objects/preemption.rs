//! PREEMPTION_PRI: RFC 3181 section 2, a policy element of POLICY_DATA (RFC 2750 section 2).

use super::policy::{Element, PolicyData};
use crate::iana::policy;

/// The rule for combining the priorities of merged reservations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MergeStrategy {
    /// The priority of the highest QoS (1).
    HighestQos,
    /// The highest priority (2).
    HighestPriority,
    /// An error if they differ (3).
    Error,
    /// Another value, as sent.
    Other(u8),
}

/// PREEMPTION_PRI: the priority in pre-emption. Larger numbers are stronger.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PreemptionPriority {
    /// Flags as sent; 0x01: modified on the way, 0x02: not to be modified.
    pub flags: u8,
    /// Merging strategy.
    pub strategy: MergeStrategy,
    /// Error code: 0 none, 1 pre-emption (the flow was displaced), 2 heterogeneous.
    pub error: u8,
    /// Preemption Priority: of a new flow, against the defending priority of admitted flows.
    pub preemption: u16,
    /// Defending Priority: of an admitted flow, against the preemption priority of new flows.
    pub defending: u16,
}

impl PreemptionPriority {
    /// Reads the element; `None` if it is of another type, or of another length than the RFC gives it.
    pub fn read(element: &Element<'_>) -> Option<PreemptionPriority> {
        let &[flags, strategy, error, _, p0, p1, d0, d1] = element.data else { return None };
        (element.kind == policy::PREEMPTION_PRI).then(|| PreemptionPriority {
            flags,
            strategy: match strategy {
                1 => MergeStrategy::HighestQos,
                2 => MergeStrategy::HighestPriority,
                3 => MergeStrategy::Error,
                other => MergeStrategy::Other(other),
            },
            error,
            preemption: u16::from_be_bytes([p0, p1]),
            defending: u16::from_be_bytes([d0, d1]),
        })
    }

    /// The element, its header included.
    pub fn bytes(&self) -> [u8; 12] {
        let strategy = match self.strategy {
            MergeStrategy::HighestQos => 1,
            MergeStrategy::HighestPriority => 2,
            MergeStrategy::Error => 3,
            MergeStrategy::Other(other) => other,
        };
        let [k0, k1] = policy::PREEMPTION_PRI.to_be_bytes();
        let ([p0, p1], [d0, d1]) = (self.preemption.to_be_bytes(), self.defending.to_be_bytes());
        [0, 12, k0, k1, self.flags, strategy, self.error, 0, p0, p1, d0, d1]
    }
}

impl PolicyData<'_> {
    /// The first PREEMPTION_PRI element.
    pub fn preemption(&self) -> Option<PreemptionPriority> {
        { self.elements }.find_map(|e| PreemptionPriority::read(&e))
    }
}
