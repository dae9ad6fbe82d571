//! Figures 9 to 13: the spacing of packets where they are generated and where they arrive, at a load of 130 %.

use super::loss::{JUDGED, length_s};
use super::scenario::{MaceLoad, Scenario};
use super::{place, play};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use serde_json::json;
use sim::mace::{GapHistogram, MaceOutcome, SourceTally};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mace-fig9",
    about: "Spacing of packets of flows that never signalled, generation beside arrival, at 130 % (Figures 9 to 13)",
    source: "Jamin, Jin: Measurement-based Admission Control for Controlled-load Service (1998), Figures 9 to 13",
    takes: "root, 4 minutes",
    run,
};

/// The share of controlled load's packets within a quarter of the ideal spacing; the quick form is not judged by it, for
/// other work on the machine delays its few packets.
const NEAR: f64 = 0.99;
const QUICK_NEAR: f64 = 0.90;

/// A figure: its table, its scenario, the interval of its sources, and the shares that the text has (controlled load, best
/// effort; per cent).
struct Spaced {
    table: &'static str,
    title: &'static str,
    scenario: Scenario,
    interval_ms: u64,
    published: [Option<f64>; 2],
}

const FIGURES: [Spaced; 4] = [
    Spaced {
        table: "9",
        title: "constant sources of 64 kbit/s",
        scenario: Scenario::One,
        interval_ms: 40,
        published: [Some(99.0), Some(58.0)],
    },
    Spaced { table: "10, 11", title: "sources POO1", scenario: Scenario::Two, interval_ms: 40, published: [None; 2] },
    Spaced {
        table: "12",
        title: "eight sources of 256 kbit/s, of five models",
        scenario: Scenario::Four,
        interval_ms: 10,
        published: [None; 2],
    },
    Spaced {
        table: "13",
        title: "twelve sources of 64 kbit/s, of five models",
        scenario: Scenario::Four,
        interval_ms: 40,
        published: [None; 2],
    },
];

/// The tallies of a figure: of what is recognised, of what is not, and of the first of them without MACE.
fn tallies(figure: &Spaced, with: &MaceOutcome, without: &MaceOutcome) -> Option<[SourceTally; 3]> {
    let [listed, others] = figure.scenario.places(figure.interval_ms);
    let of = |outcome: &MaceOutcome, places: &[usize]| {
        SourceTally::together(places.iter().filter_map(|n| outcome.models.get(*n)))
    };
    Some([of(with, &listed)?, of(with, &others)?, of(without, &listed)?])
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let scenarios = [Scenario::One, Scenario::Two, Scenario::Four];
    let load = MaceLoad::Together(JUDGED);
    let both = scenarios.iter().flat_map(|one| [true, false].map(|with| one.params(load, with, options.quick)));
    let outcomes = play(&both.collect::<Vec<_>>(), options, "Figures 9 to 13")?;
    let mut finding = Finding::default();
    let mut histograms = serde_json::Map::new();
    for figure in &FIGURES {
        let at = scenarios.iter().position(|scenario| *scenario == figure.scenario).unwrap_or(0);
        let Some(found) = tallies(figure, &outcomes[2 * at], &outcomes[2 * at + 1]) else { continue };
        tell(&mut finding, figure, &found);
        let [listed, others, without] = &found;
        let named = [
            ("CL generated", &listed.generated),
            ("CL arrived", &listed.arrived),
            ("BE arrived", &others.arrived),
            ("without MACE arrived", &without.arrived),
        ];
        let percents = named.map(|(name, gaps)| (name.to_owned(), json!(gaps.percents())));
        histograms.insert(figure.table.into(), serde_json::Value::Object(percents.into_iter().collect()));
        draw(&mut finding, figure, &named);
        if figure.table == "9" {
            judge(&mut finding, &found, options.quick);
        }
    }
    finding.detail("histograms", histograms.into());
    finding.notes.extend([
        place(options).to_owned(),
        format!("Gaps within a flow of less than 80 ms, as the paper counts them, over {} s; \"near\" is within 25 % of the ideal \
                 gap. `histograms` has the per cent of each whole millisecond.", length_s(options)),
        "The lifetimes of the second scenario are those of the random streams: the same with MACE and without.".to_owned(),
    ]);
    Ok(finding)
}

fn tell(finding: &mut Finding, figure: &Spaced, [listed, others, without]: &[SourceTally; 3]) {
    let Spaced { table, title, interval_ms, .. } = figure;
    finding.title(table, format!("{title}: share of gaps near {interval_ms} ms, %; loss, %"));
    let rows =
        [("CL", listed, figure.published[0]), ("BE", others, figure.published[1]), ("without MACE", without, None)];
    for (row, tally, published) in rows {
        finding.cell(table, row, "generated near", None, &[100.0 * tally.generated.near_share()]);
        finding.cell(table, row, "arrived near", published, &[100.0 * tally.arrived.near_share()]);
        finding.cell(
            table,
            row,
            "arrived below half",
            None,
            &[100.0 * tally.arrived.share_below(*interval_ms as usize / 2)],
        );
        finding.cell(table, row, "lost", None, &[100.0 * tally.loss()]);
    }
}

fn judge(finding: &mut Finding, [listed, others, _]: &[SourceTally; 3], quick: bool) {
    let (arrived, generated) = (listed.arrived.near_share(), listed.generated.near_share());
    for (name, value) in [
        ("cl_loss", listed.loss()),
        ("be_loss", others.loss()),
        ("spacing_share", arrived),
        ("spacing_share_generated", generated),
        ("spacing_share_be", others.arrived.near_share()),
    ] {
        finding.value(name, value);
    }
    let wanted = if quick { QUICK_NEAR } else { NEAR };
    if arrived < wanted {
        finding.shortfalls.push(format!(
            "{:.2} % of controlled load's packets are within 25 % of 40 ms where they arrive, {:.2} % where they are generated",
            100.0 * arrived,
            100.0 * generated
        ));
    }
    if others.arrived.near_share() >= arrived {
        finding.shortfalls.push("best effort is spaced as well as controlled load".into());
    }
}

fn draw(finding: &mut Finding, figure: &Spaced, named: &[(&str, &GapHistogram); 4]) {
    let looks = [(Rgb::GREEN, Mark::None), (Rgb::BLUE, Mark::Solid), (Rgb::RED, Mark::Solid), (Rgb::GREY, Mark::Solid)];
    // The sum up to each millisecond: the tails are seen, which a histogram needs a logarithmic axis for.
    let line = |((name, gaps), (color, mark)): (&(&str, &GapHistogram), (Rgb, Mark))| ChartLine {
        name: (*name).into(),
        color,
        mark,
        points: (0..=sim::mace::spacing::LONGEST_GAP_MS).map(|ms| (ms as f64, 100.0 * gaps.share_below(ms))).collect(),
    };
    let chart = Chart {
        title: format!("Spacing of {}", figure.title),
        subtitle: format!("{JUDGED} % of 10 Mb/s; ideal {} ms; gaps below 80 ms", figure.interval_ms),
        x: Axis { label: "Time between two packets of a flow (ms)".into(), reach: 80.0 },
        y: Axis { label: "Packets with at most this (%)".into(), reach: 100.0 },
        lines: named.iter().zip(looks).map(line).collect(),
        landmark: None,
    };
    let name = format!("mace-fig{}", figure.table.replace(", ", "-"));
    finding.figure(&name, &format!("Figure {}: {}", figure.table, figure.title), chart);
}
