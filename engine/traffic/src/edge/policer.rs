//! The policer of a rule: one token bucket, or a three-colour meter with the marker of AF1x.

use super::{BehaviourAggregate, EdgeRule};
use crate::bucket::TokenBucket;
use crate::conditioner::{Meter, MeterKind, MeterSpec, check_meter};
use crate::meter::{AfClass, BadProfile, Color, Marker};
use crate::path::Tally;
use crate::spec::Counters;
use terms::{Dscp, PacketMeta, Rate, Time};

/// AF11, AF12, AF13 (RFC 2597 section 6).
const AF1: Marker = match AfClass::new(1) {
    Some(class) => Marker::af(class),
    None => panic!("AF1x is a class"),
};

/// The treatment of red packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum RedPackets {
    /// They are the rule's excess: dropped; of a rule with an open field they lose the mark.
    #[default]
    Excess,
    /// They go on as AF13.
    Marked,
}

/// The meter of a rule: green packets go on as AF11, yellow ones as AF12.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdgeMeter {
    spec: MeterSpec,
    red: RedPackets,
}

/// The reason against a meter at an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadEdgeMeter {
    /// The profile.
    Profile(BadProfile),
    /// Edges have the meters of RFC 2697, RFC 2698 and RFC 4115; the one of RFC 2859 marks by chance.
    Kind,
}

impl core::fmt::Display for BadEdgeMeter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BadEdgeMeter::Profile(profile) => profile.fmt(f),
            BadEdgeMeter::Kind => f.write_str("an edge has no time sliding window meter"),
        }
    }
}

impl core::error::Error for BadEdgeMeter {}

impl EdgeMeter {
    /// A meter.
    ///
    /// # Errors
    /// [`BadEdgeMeter`]: the meter cannot work, or no edge has this kind.
    pub fn new(spec: MeterSpec, red: RedPackets) -> Result<EdgeMeter, BadEdgeMeter> {
        if matches!(spec.kind, MeterKind::TswTcm { .. }) {
            return Err(BadEdgeMeter::Kind);
        }
        check_meter(&spec.kind).map_err(BadEdgeMeter::Profile)?;
        Ok(EdgeMeter { spec, red })
    }

    /// The kind, with its rates and bursts.
    pub fn kind(&self) -> MeterKind {
        self.spec.kind
    }

    /// True if the incoming colour, read from the code point, is never improved.
    pub fn is_aware(&self) -> bool {
        self.spec.aware
    }

    /// The treatment of red packets.
    pub fn red(&self) -> RedPackets {
        self.red
    }
}

/// The packets of a rule with a meter by colour, in IP bytes.
pub type ColorCounters = [Tally; 3];

/// A policer at work.
#[derive(Clone, Debug)]
pub(super) struct Policer {
    rule: EdgeRule,
    tokens: TokenBucket,
    meter: Option<Meter>,
    counters: Counters,
    colors: ColorCounters,
}

impl Policer {
    pub(super) fn new(rule: EdgeRule, now: Time) -> Policer {
        let tokens = TokenBucket::new(&rule.bucket, now);
        let meter = meter(&rule, now);
        Policer { rule, tokens, meter, counters: Counters::default(), colors: ColorCounters::default() }
    }

    /// Changes the rule in place. Credit stays, up to the new bursts, if the policer is of the same kind; else it starts
    /// full.
    pub(super) fn change(&mut self, rule: EdgeRule, now: Time) {
        match (&mut self.meter, &rule.meter) {
            (Some(meter), Some(new)) => {
                let changed = meter.change(&new.spec, now);
                debug_assert!(changed.is_ok(), "the profile was checked");
            }
            _ => self.meter = meter(&rule, now),
        }
        self.tokens.change(&rule.bucket, now);
        self.rule = rule;
    }

    pub(super) fn rule(&self) -> EdgeRule {
        self.rule
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// The packets by colour; `None`: the rule has no meter.
    pub(super) fn colors(&self) -> Option<ColorCounters> {
        self.meter.as_ref().map(|_| self.colors)
    }

    /// Charges a packet that comes with this code point, and counts it. Returns the code point of its colour, or the rule's;
    /// `None`: it is in excess.
    pub(super) fn charge(&mut self, now: Time, packet: &PacketMeta, came: Dscp) -> Option<Dscp> {
        let given = match &mut self.meter {
            None => self.tokens.take(now, packet.len).then_some(self.rule.mark),
            Some(meter) => {
                let before = if meter.aware() { AF1.color_of(came) } else { Color::Green };
                let len = packet.len.max(self.rule.bucket.min_unit);
                // None of an edge's meters draws a number.
                let color = meter.color(now, len, before, || 0);
                self.colors[color as usize].add(packet.len);
                let red = self.rule.meter.map_or(RedPackets::Excess, |meter| meter.red);
                (color != Color::Red || red == RedPackets::Marked).then(|| AF1.mark(color))
            }
        };
        self.count(packet, given.is_some());
        given
    }

    /// As [`Policer::charge`] of an aggregate; where nothing is agreed every packet is in excess.
    pub(super) fn charge_agreed(&mut self, now: Time, packet: &PacketMeta, came: Dscp) -> Option<Dscp> {
        if self.rule.bucket.rate == Rate::ZERO {
            self.count(packet, false);
            return None;
        }
        // A bucket alone keeps the packet's own code point.
        let given = self.charge(now, packet, came)?;
        Some(if self.meter.is_some() { given } else { came })
    }

    fn count(&mut self, packet: &PacketMeta, conforms: bool) {
        let counters = &mut self.counters;
        let (packets, bytes) = match conforms {
            true => (&mut counters.packets, &mut counters.bytes),
            false => (&mut counters.over_packets, &mut counters.over_bytes),
        };
        *packets += 1;
        *bytes += u64::from(packet.len);
    }
}

fn meter(rule: &EdgeRule, now: Time) -> Option<Meter> {
    let made = rule.meter.map(|meter| Meter::new(&meter.spec, now));
    made.and_then(|made| {
        debug_assert!(made.is_ok(), "the profile was checked");
        made.ok()
    })
}

impl EdgeRule {
    /// True if edges can have the rule: a meter gives the code points of AF1x, so it is no rule of EF.
    pub fn is_possible(&self) -> bool {
        let background = BehaviourAggregate::of(self.mark) == Some(BehaviourAggregate::Af1);
        self.mark.0 <= 63 && (self.meter.is_none() || background)
    }
}
