//! The criteria of `ras-live`: the orderings from which the appendix draws its conclusions, and a bottleneck that is full.

use super::{Both, CustomerResult, LARGE, SMALL, words};
use crate::experiment::Finding;
use sim::scenarios::rfc2963::{ROUTERS, Shaping};

/// The goodput of all connections, Mb/s: the bottleneck is full. 70 Mb/s of IP packets are 68.1 of data.
const FULL: f64 = 60.0;
/// With a large bucket a shaper costs, or gains, at most this, as the appendix has it.
const ABOUT_EQUAL: f64 = 0.12;
/// A cell is near the published one within this share of it, or within this many Mb/s: red is often next to nothing.
const NEAR: f64 = 0.20;
const NEAR_MBPS: f64 = 0.1;

/// The gain of the shaped customers over those without a shaper and with the same rates, in goodput.
fn gain(customers: &[CustomerResult]) -> f64 {
    let sum = |half: &[CustomerResult]| half.iter().map(|customer| customer.goodput).sum::<f64>();
    let (unshaped, shaped) = customers.split_at(ROUTERS / 2);
    sum(shaped) / sum(unshaped) - 1.0
}

/// Adds the single numbers to the finding, and returns the criteria that did not hold, in words.
pub(super) fn shortfalls(finding: &mut Finding, all: &[Both]) -> Vec<String> {
    let mut wrong = Vec::new();
    for Both { run, live, simulated } in all {
        let name = words(run);
        let floor_ms = run.floor.as_nanos() / 1_000_000;
        let shaper = if run.shaping == Shaping::Green { "g_tr_ras" } else { "tr_ras" };
        let key = format!("gain_{shaper}_{}kb_{floor_ms}ms", run.kilobytes);
        finding.value(&key, gain(live));
        finding.value(&format!("{key}_simulated"), gain(simulated));
        let goodput: f64 = live.iter().map(|customer| customer.goodput).sum();
        if goodput < FULL {
            wrong.push(format!("{name}: the bottleneck carried {goodput:.1} Mb/s of data and was not full"));
        }
        if run.kilobytes == SMALL {
            for place in 0..ROUTERS / 2 {
                let (unshaped, shaped) = (&live[place], &live[place + ROUTERS / 2]);
                if shaped.total <= unshaped.total || shaped.green <= unshaped.green {
                    wrong.push(format!("{name}: C{} (shaped) does not beat C{}", place + 6, place + 1));
                }
            }
        }
        if run.kilobytes >= LARGE && gain(live).abs() > ABOUT_EQUAL {
            let percent = gain(live) * 100.0;
            wrong.push(format!("{name}: shaped customers gain {percent:+.1} %, and should gain about nothing"));
        }
    }
    let near = |simulated: bool| {
        let of = finding.cells.iter().filter(|cell| cell.table.ends_with("simulated") == simulated);
        let near = |published: f64, measured: f64| (measured - published).abs() <= (NEAR * published).max(NEAR_MBPS);
        let all: Vec<bool> = of.filter_map(|cell| Some(near(cell.published?, cell.measured))).collect();
        all.iter().filter(|near| **near).count() as f64 / all.len().max(1) as f64
    };
    let shares = [("cells_near", near(false)), ("cells_near_simulated", near(true))];
    shares.into_iter().for_each(|(name, share)| finding.value(name, share));
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::LiveRun;
    use super::*;
    use terms::Span;

    fn customers(shaped: f64) -> Vec<CustomerResult> {
        let one = |factor: f64| CustomerResult {
            green: 4.0 * factor,
            yellow: 1.0,
            total: 6.5 * factor,
            goodput: 6.0 * factor,
        };
        (0..ROUTERS).map(|n| one(if n < ROUTERS / 2 { 1.0 } else { shaped })).collect()
    }

    fn found(kilobytes: u64, shaped: f64) -> Vec<String> {
        let run = LiveRun { shaping: Shaping::TrRas, kilobytes, floor: Span::from_millis(200) };
        let both = Both { run, live: customers(shaped), simulated: customers(1.2) };
        let mut finding = Finding::default();
        let wrong = shortfalls(&mut finding, &[both]);
        let key = format!("gain_tr_ras_{kilobytes}kb_200ms");
        assert!((finding.values[&key] - (shaped - 1.0)).abs() < 1e-9, "{:?}", finding.values);
        wrong
    }

    #[test]
    fn a_shaper_has_to_gain_with_a_small_bucket_and_nothing_with_a_large_one() {
        assert_eq!(found(SMALL, 1.2), [""; 0]);
        assert_eq!(found(LARGE, 1.05), [""; 0]);
        assert_eq!(found(SMALL, 0.99).len(), 6, "five pairs, and the link is not full");
        assert!(found(LARGE, 1.2).iter().any(|line| line.contains("+20.0 %")));
    }
}
