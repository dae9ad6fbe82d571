//! Premium flows as the plane counts them: what conformed and what was dropped, as rates; and in words.

use super::Usage;
use crate::news::Names;
use control::Tc;
use control::edges::PartId;
use linux::gauge::Gauge;
use linux::plane::KernelPlane;
use std::collections::BTreeMap;
use std::time::Duration;
use terms::book::ResourceKind;
use terms::{Dscp, Span, Time};
use traffic::conditioner::MeterKind;
use traffic::edge::{ColorCounters, EdgeAt, EdgeMeter, EdgeRule, RedPackets, Side};
use traffic::plan::Counters;

/// The interval between reads of the rules' counters, and the most rules in one read. With more rules, each
/// is read less often.
const LOOK_EVERY: Span = Span::from_secs(1);
const AT_ONCE: usize = 256;

/// The counters of a rule as rates, bits: what conformed, what was dropped.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    passed: Gauge,
    dropped: Gauge,
    /// The packets of each colour, as a meter counted them.
    colors: Option<ColorCounters>,
}

/// The measured use of the premium flows of this node, and of its agreements.
#[derive(Debug, Default)]
pub struct PremiumMeter {
    seen: BTreeMap<PartId, Seen>,
    /// Each aggregate of an agreement, by resource; true: that of background.
    agreed: BTreeMap<(String, bool), Seen>,
    /// Up to which part the counters were read last.
    looked: Option<PartId>,
    next: Time,
}

impl PremiumMeter {
    /// The time of the next look, if there is anything to see.
    pub fn wake_at(&self, tc: &Tc) -> Option<Time> {
        let flows = tc.edges().premium_flows(None).next().is_some();
        (flows || tc.edges().agreements().next().is_some()).then_some(self.next)
    }

    /// Reads the counters of those whose turn it is, if it is time; true if it was.
    pub fn look(&mut self, now: Time, tc: &Tc, plane: &KernelPlane) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + LOOK_EVERY;
        let turn: Vec<_> = tc.edges().premium_flows(self.looked).take(AT_ONCE).collect();
        let at = Duration::from_nanos(now.as_nanos());
        for (part, flow) in &turn {
            let Ok(Some(counters)) = plane.rule_counters(flow.at, &flow.fields) else { continue };
            let colors = plane.rule_colors(flow.at, &flow.fields).unwrap_or_default();
            self.seen.entry(*part).or_default().look(at, &counters, colors);
        }
        for (sla, background) in tc.edges().agreements() {
            let Some((edge, fields, _)) = tc.edges().agreed(sla, background) else { continue };
            let Ok(Some(counters)) = plane.rule_counters(edge, &fields) else { continue };
            let colors = plane.rule_colors(edge, &fields).unwrap_or_default();
            self.agreed.entry((sla.to_owned(), background)).or_default().look(at, &counters, colors);
        }
        // Fewer: the last has been read, and the first is next. With all in one read each is read each time.
        self.looked = turn.last().map(|(part, _)| *part).filter(|_| turn.len() == AT_ONCE);
        true
    }

    /// Forgets a part that has gone.
    pub fn forget(&mut self, part: PartId) {
        self.seen.remove(&part);
    }

    /// The measured use of a part; `None`: it has not been seen for long enough.
    pub fn measured(&self, part: PartId) -> Option<Usage> {
        self.seen.get(&part)?.usage(ResourceKind::Network)
    }

    /// The packets of a part by colour; `None`: it has no meter.
    pub fn colors(&self, part: PartId) -> Option<ColorCounters> {
        self.seen.get(&part)?.colors
    }

    /// The packets of an agreement by colour; `None`: it has no meter.
    pub fn agreed_colors(&self, sla: &str, background: bool) -> Option<ColorCounters> {
        self.agreed.get(&(sla.to_owned(), background))?.colors
    }

    /// The measured use of an agreement, of all its bookings together; `background`: of AF1x.
    pub fn agreed(&self, sla: &str, background: bool) -> Option<Usage> {
        self.agreed.get(&(sla.to_owned(), background))?.usage(ResourceKind::Sla)
    }
}

impl Seen {
    fn look(&mut self, at: Duration, counters: &Counters, colors: Option<ColorCounters>) {
        self.colors = colors;
        self.passed.look(at, counters.bytes.saturating_mul(8));
        self.dropped.look(at, counters.over_bytes.saturating_mul(8));
    }

    fn usage(&self, kind: ResourceKind) -> Option<Usage> {
        let (passed, dropped) = (self.passed.seen()?, self.dropped.seen());
        let interval = Span::from_nanos(u64::try_from(passed.span.as_nanos()).unwrap_or(u64::MAX));
        let refused = dropped.map(|seen| kind.amount(seen.rate));
        Some(Usage { amount: kind.amount(passed.rate), refused, unreserved: None, interval })
    }
}

/// The rule of a part, for people.
pub fn means(tc: &Tc, names: &Names, part: PartId) -> Option<String> {
    let flow = tc.edges().premium_flow(part)?;
    let mark = match (flow.rule.mark, flow.rule.meter) {
        (Dscp::EF, _) => "EF",
        (_, None) => "AF11",
        (_, Some(_)) => "AF1x",
    };
    let whose = flow.fields.group.map_or(String::new(), |group| format!(" for control group {}", group.id));
    Some(rule(names, &format!("{mark}{whose}"), flow.at, &flow.rule))
}

/// The rule of an agreement, for people; `background`: that of AF1x.
pub fn agreed(tc: &Tc, names: &Names, sla: &str, background: bool) -> Option<String> {
    let (at, _, of_all) = tc.edges().agreed(sla, background)?;
    let peer = sla.strip_prefix("sla/").unwrap_or(sla);
    let mark = if background { "AF1x" } else { "EF" };
    Some(rule(names, &format!("{mark} of all {peer}"), at, &of_all))
}

fn rule(names: &Names, what: &str, at: EdgeAt, rule: &EdgeRule) -> String {
    let place = names.get(&at.interface).map_or("?", String::as_str);
    let side = if at.side == Side::Ingress { "ingress" } else { "egress" };
    let (rate, depth) = (rule.bucket.rate.as_bps(), rule.bucket.depth.get());
    match rule.meter {
        None => format!("{what} at the {side} of {place}, {rate} bit/s, bucket {depth} B"),
        Some(meter) => format!("{what} at the {side} of {place}, {}", metered(&meter)),
    }
}

fn metered(meter: &EdgeMeter) -> String {
    let form = match meter.kind() {
        MeterKind::SrTcm { cir, cbs, ebs } => {
            format!("srTCM, CIR {} bit/s, CBS {} B, EBS {} B", cir.as_bps(), cbs.get(), ebs.get())
        }
        MeterKind::TrTcm { cir, cbs, pir, pbs } => {
            let (cir, pir) = (cir.as_bps(), pir.as_bps());
            format!("trTCM, CIR {cir} bit/s, CBS {} B, PIR {pir} bit/s, PBS {} B", cbs.get(), pbs.get())
        }
        MeterKind::Rfc4115 { cir, cbs, eir, ebs } => {
            let (cir, eir) = (cir.as_bps(), eir.as_bps());
            format!("RFC 4115, CIR {cir} bit/s, CBS {} B, EIR {eir} bit/s, EBS {} B", cbs.get(), ebs.get())
        }
        MeterKind::TswTcm { .. } => String::new(), // no edge has it
    };
    let aware = if meter.is_aware() { ", colour-aware" } else { "" };
    let red = if meter.red() == RedPackets::Marked { "AF13" } else { "in excess" };
    format!("{form}{aware}, red {red}")
}
