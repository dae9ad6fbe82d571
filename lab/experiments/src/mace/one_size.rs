//! Figure 5: what the spacing of flows looks like beside a background whose packets all have the same length. The histogram has
//! peaks and valleys; lengths drawn at random make it smooth (Figure 9).

use super::loss::JUDGED;
use super::scenario::{MaceLoad, Scenario};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use serde_json::json;
use sim::mace::{GapHistogram, Params, SourceTally};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mace-fig5",
    about: "Spacing of flows beside background packets of one length, and of random lengths (Figure 5)",
    source: "Jamin, Jin: Measurement-based Admission Control for Controlled-load Service (1998), Figure 5",
    takes: "seconds",
    run,
};

const SEEDS: u64 = 5;
/// By how much rougher the histogram must be beside packets of one length.
const ROUGHER: f64 = 2.0;
/// The rows: are all packets of the background of one length?
const ROWS: [(&str, bool); 2] = [("one length", true), ("random lengths", false)];

/// The ways of a histogram up and down over twice its highest value: 1 of a single bell, more by each valley.
fn roughness(percents: &[f64]) -> f64 {
    let ends = percents.first().copied().unwrap_or(0.0) + percents.last().copied().unwrap_or(0.0);
    let ways: f64 = percents.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
    let highest = percents.iter().copied().fold(0.0, f64::max);
    if highest > 0.0 { (ways + ends) / (2.0 * highest) } else { 1.0 }
}

/// The gaps where they arrive of the sources that may not be recognised, and of those that may.
fn gaps(params: &Params) -> [GapHistogram; 2] {
    let outcome = sim::mace::run(params);
    let (listed, others) = outcome.models.split_at(outcome.models.len() / 2);
    let of = |models: &[SourceTally]| {
        let tally = SourceTally::together(models);
        tally.map_or_else(|| GapHistogram::of(params.models[0].0.interval), |tally| tally.arrived)
    };
    [of(others), of(listed)]
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let seeds = options.seeds.unwrap_or(if options.quick { 1 } else { SEEDS });
    let mut finding = Finding::default();
    finding.title(
        "5",
        "gaps of constant sources of 64 kbit/s in tenths of a millisecond: ways of their histogram over a bell's",
    );
    let (mut lines, mut histograms, mut rough) = (Vec::new(), serde_json::Map::new(), Vec::new());
    for ((row, fixed), color) in ROWS.into_iter().zip([Rgb::RED, Rgb::GREY]) {
        let mut of_level = [Vec::new(), Vec::new()];
        for seed in 1..=seeds {
            options.patience.check()?;
            // The whole length also in the quick form: a histogram of few gaps is rough by chance.
            let params = Scenario::One.seeded(MaceLoad::Together(JUDGED), true, false, seed);
            let found = gaps(&Params { fixed_sizes: fixed, ..params });
            for (all, gaps) in of_level.iter_mut().zip(found) {
                all.push(gaps);
            }
        }
        for (name, all) in ["BE", "CL"].into_iter().zip(&of_level) {
            let ways: Vec<f64> = all.iter().map(|gaps| roughness(&gaps.tenths())).collect();
            if name == "BE" {
                rough.push(ways.iter().sum::<f64>() / ways.len().max(1) as f64);
            }
            finding.cell("5", row, name, None, &ways);
        }
        let Some(percents) = of_level[0].first().map(GapHistogram::tenths) else { continue };
        let points = percents.iter().enumerate().map(|(tenth, percent)| (tenth as f64 / 10.0, *percent)).collect();
        histograms.insert(row.into(), json!(percents));
        lines.push(ChartLine { name: row.into(), color, mark: Mark::Solid, points });
    }
    if let [one, random] = rough[..] {
        finding.value("roughness_one_length", one);
        finding.value("roughness_random", random);
        if one < ROUGHER * random {
            finding
                .shortfalls
                .push(format!("beside packets of one length the ways are {one:.2}, beside random ones {random:.2}"));
        }
    }
    finding.detail("histograms", histograms.into());
    finding.notes.extend([
        format!("On the simulator, {JUDGED} % in all, {seeds} seed(s); the histogram is that of best effort and the first seed."),
        "The paper prints no numbers of Figure 5: sharp peaks and valleys, where a bell is expected. The way of a histogram up \
         and down, over twice its highest value, is 1 of a single bell and grows by each valley."
            .to_owned(),
    ]);
    let chart = Chart {
        title: "Spacing beside background packets of one length".into(),
        subtitle: format!("best effort, constant sources of 64 kbit/s; {JUDGED} % of 10 Mb/s"),
        x: Axis { label: "Time between two packets of a flow (ms)".into(), reach: 80.0 },
        y: Axis { label: "Packets in each tenth of a millisecond (%)".into(), reach: 0.0 },
        lines,
        landmark: None,
    };
    finding.figure("mace-fig5", "Figure 5: background packets of one length, and of random lengths", chart);
    Ok(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_has_the_ways_of_a_bell_and_each_valley_adds_to_them() {
        assert_eq!(roughness(&[0.0, 10.0, 40.0, 40.0, 10.0, 0.0]), 1.0);
        assert_eq!(roughness(&[0.0, 25.0, 0.0, 50.0, 0.0, 25.0, 0.0]), 2.0);
        assert_eq!((roughness(&[]), roughness(&[0.0; 4])), (1.0, 1.0));
        // A histogram that is cut off at an end comes from zero all the same.
        assert_eq!(roughness(&[10.0, 10.0]), 1.0);
    }
}
