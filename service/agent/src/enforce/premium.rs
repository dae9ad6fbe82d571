//! Premium flows as the plane counts them: what conformed and what was dropped, as rates; and in words.

use super::Usage;
use crate::news::Names;
use control::Tc;
use control::edges::PartId;
use linux::gauge::Gauge;
use linux::plane::KernelPlane;
use std::collections::BTreeMap;
use std::time::Duration;
use terms::{Amount, Dscp, Rate, Span, Time};
use traffic::edge::Side;

/// The interval between reads of the rules' counters, and the most rules in one read. With more rules, each
/// is read less often.
const LOOK_EVERY: Span = Span::from_secs(1);
const AT_ONCE: usize = 256;

/// The counters of a rule as rates, bits: what conformed, what was dropped.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    passed: Gauge,
    dropped: Gauge,
}

/// The measured use of the premium flows of this node.
#[derive(Debug, Default)]
pub struct PremiumMeter {
    seen: BTreeMap<PartId, Seen>,
    /// Up to which part the counters were read last.
    looked: Option<PartId>,
    next: Time,
}

impl PremiumMeter {
    /// The time of the next look, if there is anything to see.
    pub fn wake_at(&self, tc: &Tc) -> Option<Time> {
        tc.edges().premium_flows(None).next().map(|_| self.next)
    }

    /// Reads the counters of those whose turn it is, if it is time.
    pub fn look(&mut self, now: Time, tc: &Tc, plane: &KernelPlane) {
        if now < self.next {
            return;
        }
        self.next = now + LOOK_EVERY;
        let turn: Vec<_> = tc.edges().premium_flows(self.looked).take(AT_ONCE).collect();
        let at = Duration::from_nanos(now.as_nanos());
        for (part, flow) in &turn {
            let Ok(Some(counters)) = plane.rule_counters(flow.at, &flow.fields) else { continue };
            let seen = self.seen.entry(*part).or_default();
            seen.passed.look(at, counters.bytes.saturating_mul(8));
            seen.dropped.look(at, counters.over_bytes.saturating_mul(8));
        }
        // Fewer: the last has been read, and the first is next. With all in one read each is read each time.
        self.looked = turn.last().map(|(part, _)| *part).filter(|_| turn.len() == AT_ONCE);
    }

    /// Forgets a part that has gone.
    pub fn forget(&mut self, part: PartId) {
        self.seen.remove(&part);
    }

    /// The measured use of a part; `None`: it has not been seen for long enough.
    pub fn measured(&self, part: PartId) -> Option<Usage> {
        let Seen { passed, dropped } = self.seen.get(&part)?;
        let (passed, dropped) = (passed.seen()?, dropped.seen());
        let interval = Span::from_nanos(u64::try_from(passed.span.as_nanos()).unwrap_or(u64::MAX));
        let of = |bps: u64| Amount::network(Rate::from_bps(bps));
        let refused = dropped.map(|seen| of(seen.rate));
        Some(Usage { amount: of(passed.rate), refused, unreserved: None, interval })
    }
}

/// The rule of a part, for people.
pub fn means(tc: &Tc, names: &Names, part: PartId) -> Option<String> {
    let flow = tc.edges().premium_flow(part)?;
    let place = names.get(&flow.at.interface).map_or("?", String::as_str);
    let side = if flow.at.side == Side::Ingress { "ingress" } else { "egress" };
    let mark = if flow.rule.mark == Dscp::EF { "EF" } else { "AF11" };
    let (rate, depth) = (flow.rule.bucket.rate.as_bps(), flow.rule.bucket.depth.get());
    Some(format!("{mark} at the {side} of {place}, {rate} bit/s, bucket {depth} B"))
}
