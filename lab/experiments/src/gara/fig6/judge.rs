//! The criterion: while every contended resource is reserved, each second from the third after a change brings
//! at least 99 % of min(unloaded rate, reservation). For a greedy sender it is the mean of these seconds, and 8/9.

use super::{Form, PHASES, Phase, Second};
use crate::experiment::Finding;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};

/// Seconds after a change that are not counted.
const SETTLES: u32 = 2;

/// The rates in one phase, Mb/s.
struct Got {
    mean: f64,
    least: f64,
    flood: f64,
}

fn got(seconds: &[Second], phase: &Phase) -> Option<Got> {
    let of = |second: &&Second| second.phase == phase.number && (second.number >= SETTLES || phase.number == 1);
    let counted: Vec<&Second> = seconds.iter().filter(of).collect();
    let count = counted.len() as f64;
    if counted.is_empty() {
        return None;
    }
    Some(Got {
        mean: counted.iter().map(|second| second.tcp_mbps).sum::<f64>() / count,
        least: counted.iter().map(|second| second.tcp_mbps).fold(f64::INFINITY, f64::min),
        flood: counted.iter().map(|second| second.flood_mbps).sum::<f64>() / count,
    })
}

/// Fills in cells, figure, notes and shortfalls.
pub(super) fn fill(finding: &mut Finding, seconds: &[Second], form: &Form, quick: bool) {
    let unloaded = got(seconds, &PHASES[0]).map_or(0.0, |found| found.mean);
    let kept = unloaded.min(form.reserved.as_bps() as f64 / 1e6);
    finding.title("6", "The seven phases of section 5.4, Mb/s of IP (means from the third second of each)");
    finding.notes.push("the seed prints a curve and no numbers: its words are beside the measured phases".into());
    finding.notes.push(format!("unloaded rate {unloaded:.2} Mb/s, {} expected", form.unloaded));
    let (mut least, mut mean) = (f64::INFINITY, f64::INFINITY);
    for phase in &PHASES {
        let Some(found) = got(seconds, phase) else { continue };
        let row = format!("{} {}", phase.number, phase.what);
        finding.cell("6", &row, "begins_s_in_seed", None, &[f64::from(phase.begins)]);
        finding.cell("6", &row, "tcp_mbps", None, &[found.mean]);
        finding.cell("6", &row, "least_second_mbps", None, &[found.least]);
        finding.cell("6", &row, "flood_mbps", None, &[found.flood]);
        let of_kept = found.least / kept.max(f64::MIN_POSITIVE);
        finding.cell("6", &row, "least_share", None, &[of_kept]);
        if phase.is_kept() && phase.number > 1 {
            least = least.min(of_kept);
            mean = mean.min(found.mean / kept.max(f64::MIN_POSITIVE));
        }
        finding.notes.push(format!("phase {}: seed: {}", phase.number, words(phase.number)));
        finding.shortfalls.extend(shortfall(phase, &found, kept, form));
    }
    finding.value("foreground_min_share", least);
    finding.value("foreground_mean_share", mean);
    if unloaded < 0.97 * form.unloaded.as_bps() as f64 / 1e6 {
        let expected = form.unloaded;
        finding
            .shortfalls
            .push(format!("alone the flow has {unloaded:.1} Mb/s of {expected}: this machine is too busy"));
    }
    finding.figure("figure-6", "Figure 6 of the paper", chart(seconds, quick));
}

/// Returns the difference from the seed's description, if there is one.
fn shortfall(phase: &Phase, found: &Got, kept: f64, form: &Form) -> Option<String> {
    let (number, what) = (phase.number, phase.what);
    let (judged, has) = match form.each_second {
        true => ("the lowest counted second", found.least),
        false => ("the mean", found.mean),
    };
    if phase.is_kept() && phase.number > 1 && has < form.share * kept {
        let percent = has / kept * 100.0;
        return Some(format!("phase {number} ({what}): {judged} has {percent:.1} % of {kept:.1} Mb/s"));
    }
    // Where something that is needed is not reserved, the seed's curve is far below.
    if !phase.is_kept() && found.mean > 0.9 * kept {
        return Some(format!("phase {number} ({what}): {:.1} Mb/s, as if nothing were contended for", found.mean));
    }
    None
}

/// Summarises section 5.4 of the seed.
fn words(number: u32) -> &'static str {
    match number {
        1 => "without congestion and without a reservation",
        2 => "drops precipitously, the generator takes most of the bandwidth",
        3 => "increases dramatically",
        4 => "significantly affected by contention for the processor",
        5 => "increases at once, some variation remains",
        6 => "drops precipitously once again",
        _ => "little further impact",
    }
}

fn chart(seconds: &[Second], quick: bool) -> Chart {
    let line = |name: &str, color, value: fn(&Second) -> f64| ChartLine {
        name: name.into(),
        color,
        mark: Mark::Solid,
        points: seconds.iter().map(|second| (second.at, value(second))).collect(),
    };
    let form = if quick { "short form" } else { "the seed's times" };
    Chart {
        title: "GARA, Figure 6: seven phases of reservations".into(),
        subtitle: format!("100 Mb/s between two routers; {form}; a second each point"),
        x: Axis { label: "Time (s)".into(), reach: 0.0 },
        y: Axis { label: "Bandwidth (Mb/s of IP)".into(), reach: 100.0 },
        lines: vec![
            line("competing UDP", Rgb::RED, |second| second.flood_mbps),
            line("TCP, worked on by the receiver", Rgb::BLUE, |second| second.tcp_mbps),
        ],
        landmark: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GREEDY, PACED};
    use super::*;

    fn seconds(value: impl Fn(&Phase, u32) -> f64) -> Vec<Second> {
        let of = |phase: &Phase| {
            let one = |number| Second {
                phase: phase.number,
                number,
                at: 0.0,
                tcp_mbps: value(phase, number),
                flood_mbps: 20.0,
            };
            (0..6).map(one).collect::<Vec<_>>()
        };
        PHASES.iter().flat_map(of).collect()
    }

    fn judged(seconds: &[Second], form: &Form) -> Finding {
        let mut finding = Finding::default();
        fill(&mut finding, seconds, form, true);
        finding
    }

    #[test]
    fn what_the_seed_shows_is_no_shortfall() {
        // The first two seconds after a change are not counted.
        let found = judged(
            &seconds(|phase, number| match phase.is_kept() {
                true if phase.number > 1 && number < SETTLES => 10.0,
                true => 60.0,
                false => 20.0,
            }),
            &PACED,
        );
        assert_eq!(found.shortfalls, Vec::<String>::new());
        assert!(found.json().contains("\"foreground_min_share\":1.0"), "{}", found.json());
    }

    #[test]
    fn a_second_that_lacks_and_a_load_that_does_not_matter_are_told() {
        let lacks = judged(
            &seconds(|phase, number| match phase.is_kept() {
                true if phase.number == 5 && number == 4 => 59.0,
                true => 60.0,
                false => 20.0,
            }),
            &PACED,
        );
        assert!(lacks.shortfalls[0].contains("phase 5"), "{:?}", lacks.shortfalls);
        let harmless = judged(&seconds(|_, _| 60.0), &PACED);
        assert_eq!(harmless.shortfalls.len(), 4, "{:?}", harmless.shortfalls);
        assert!(judged(&seconds(|_, _| 30.0), &PACED).shortfalls.last().is_some_and(|last| last.contains("too busy")));
    }

    #[test]
    fn of_a_greedy_sender_the_mean_counts() {
        let saw = |low: f64| {
            seconds(move |phase, number| match phase.is_kept() {
                true if phase.number > 1 => [low, 90.0][number as usize % 2],
                true => 95.5,
                false => 20.0,
            })
        };
        assert_eq!(judged(&saw(75.0), &GREEDY).shortfalls, Vec::<String>::new());
        let lacks = judged(&saw(65.0), &GREEDY).shortfalls;
        assert!(lacks.len() == 2 && lacks[0].contains("the mean has 86.1 % of 90.0"), "{lacks:?}");
    }
}
