//! Behaviour aggregates (RFC 2475 section 2.3): all packets of an edge that are premium in one service. At the border
//! to another domain a rule of an aggregate is the committed access rate of seed 002 (section 4.2): it enforces the
//! agreement with that domain, whatever the domain's own edges mark.

use super::policer::Policer;
use super::{EdgeRule, MultiField};
use terms::{Dscp, PacketMeta, Rate, Time};

/// A premium service, by its code points.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BehaviourAggregate {
    /// EF (RFC 3246): premium foreground.
    Ef,
    /// AF11, AF12, AF13 (RFC 2597): premium background.
    Af1,
}

impl BehaviourAggregate {
    /// Both of them.
    pub const ALL: [BehaviourAggregate; 2] = [BehaviourAggregate::Ef, BehaviourAggregate::Af1];

    /// The aggregate of a code point; `None`: it is not premium.
    pub fn of(dscp: Dscp) -> Option<BehaviourAggregate> {
        match dscp {
            Dscp::EF => Some(BehaviourAggregate::Ef),
            Dscp::AF11 | Dscp::AF12 | Dscp::AF13 => Some(BehaviourAggregate::Af1),
            _ => None,
        }
    }

    /// The code point that stands for it.
    pub fn code_point(self) -> Dscp {
        match self {
            BehaviourAggregate::Ef => Dscp::EF,
            BehaviourAggregate::Af1 => Dscp::AF11,
        }
    }

    /// The element of all its packets.
    pub fn fields(self) -> MultiField {
        MultiField { aggregate: Some(self), ..MultiField::default() }
    }
}

/// An aggregate's rule at an edge.
#[derive(Clone, Debug)]
pub(super) struct AggregateEntry {
    pub(super) policer: Policer,
}

/// The result for a packet of an aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Charged {
    /// It is within the agreed rate, and goes on with this code point.
    Conforms(Dscp),
    /// It exceeds the agreed rate.
    Exceeds,
    /// Nothing is agreed: it is no premium packet.
    Unagreed,
}

impl AggregateEntry {
    pub(super) fn new(rule: EdgeRule, now: Time) -> AggregateEntry {
        AggregateEntry { policer: Policer::new(rule, now) }
    }

    /// Charges a packet that is to go on with this code point, and counts it.
    pub(super) fn charge(&mut self, now: Time, packet: &PacketMeta, mark: Dscp) -> Charged {
        match self.policer.charge_agreed(now, packet, mark) {
            Some(mark) => Charged::Conforms(mark),
            None if self.policer.rule().bucket.rate == Rate::ZERO => Charged::Unagreed,
            None => Charged::Exceeds,
        }
    }
}
