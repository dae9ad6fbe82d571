//! Behaviour aggregates (RFC 2475 section 2.3): all packets of an edge that are premium in one service. At the border
//! to another domain a rule of an aggregate is the committed access rate of seed 002 (section 4.2): it enforces the
//! agreement with that domain, whatever the domain's own edges mark.

use super::{EdgeRule, MultiField};
use crate::bucket::TokenBucket;
use crate::spec::Counters;
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
#[derive(Clone, Copy, Debug)]
pub(super) struct AggregateEntry {
    pub(super) rule: EdgeRule,
    tokens: TokenBucket,
    pub(super) counters: Counters,
}

/// The result for a packet of an aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Charged {
    /// It is within the agreed rate.
    Conforms,
    /// It exceeds the agreed rate.
    Exceeds,
    /// Nothing is agreed: it is no premium packet.
    Unagreed,
}

impl AggregateEntry {
    pub(super) fn new(rule: EdgeRule, now: Time) -> AggregateEntry {
        AggregateEntry { rule, tokens: TokenBucket::new(&rule.bucket, now), counters: Counters::default() }
    }

    pub(super) fn change(&mut self, rule: EdgeRule, now: Time) {
        self.tokens.change(&rule.bucket, now);
        self.rule = rule;
    }

    /// Charges a packet, and counts it.
    pub(super) fn charge(&mut self, now: Time, packet: &PacketMeta) -> Charged {
        let conforms = self.rule.bucket.rate > Rate::ZERO && self.tokens.take(now, packet.len);
        let counters = &mut self.counters;
        let (packets, bytes) = match conforms {
            true => (&mut counters.packets, &mut counters.bytes),
            false => (&mut counters.over_packets, &mut counters.over_bytes),
        };
        *packets += 1;
        *bytes += u64::from(packet.len);
        match conforms {
            true => Charged::Conforms,
            false if self.rule.bucket.rate == Rate::ZERO => Charged::Unagreed,
            false => Charged::Exceeds,
        }
    }
}
