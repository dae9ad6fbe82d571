//! Figures 6 to 8: the loss of controlled load, best effort and background against the load, with recognition and without.

use super::scenario::{MaceLoad, Scenario};
use super::{place, play};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::error::Error;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use sim::mace::{MaceOutcome, Params, SourceTally};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mace-fig6",
    about: "Loss of flows that never signalled, with and without recognition, against the load (Figures 6 to 8)",
    source: "Jamin, Jin: Measurement-based Admission Control for Controlled-load Service (1998), Figures 6, 7 and 8",
    takes: "root, 11 minutes",
    run,
};

/// Loads in all, per cent of the link; 0: no background. The judged one.
const LOADS: [u32; 7] = [0, 50, 75, 100, 115, JUDGED, 150];
const QUICK_LOADS: [u32; 2] = [0, JUDGED];
pub(super) const JUDGED: u32 = 130;
const SEEDS: u64 = 3;
/// The losses that must be shown there, and by how much that of the background may be greater than without recognition.
/// Packets that controlled load does not lose, others must, which is 3.1 points by arithmetic, if what they send is counted in bytes. In
/// the quick form chance and the machine have more weight.
const CL_LOSS: [f64; 2] = [0.01, 0.02];
const BE_LOSS: [std::ops::RangeInclusive<f64>; 2] = [0.20..=0.30, 0.15..=0.35];
const MORE: [f64; 2] = [0.04, 0.06];

/// Losses of a run: of what may be recognised, of what may not, of the background.
#[derive(Clone, Copy, Debug)]
struct Losses {
    listed: f64,
    others: f64,
    background: f64,
}

impl Losses {
    fn of(outcome: &MaceOutcome) -> Losses {
        let (listed, others) = outcome.models.split_at(outcome.models.len() / 2);
        let loss = |models: &[SourceTally]| SourceTally::together(models).map_or(0.0, |tally| tally.loss());
        let (sent, dropped) = outcome.background;
        let background = dropped as f64 / sent.max(1) as f64;
        Losses { listed: loss(listed), others: loss(others), background }
    }
}

/// A load with its runs: the first scenario with and without recognition, one for each seed, and the fourth with it.
struct Point {
    load: MaceLoad,
    with: Vec<MaceOutcome>,
    without: Vec<MaceOutcome>,
    mixed: Option<MaceOutcome>,
}

/// The mean of a number of several runs.
fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

impl Point {
    fn row(&self) -> String {
        match self.load {
            MaceLoad::Together(0) => "no background".into(),
            MaceLoad::Together(percent) => format!("{percent} % in all"),
            MaceLoad::Background(percent) => format!("{percent} % of background"),
        }
    }

    /// A number of each run with recognition, and of each without.
    fn each(&self, of: fn(&MaceOutcome) -> f64) -> [Vec<f64>; 2] {
        [&self.with, &self.without].map(|runs| runs.iter().map(of).collect())
    }

    /// The place on the axis: the load in all, per cent.
    fn x(&self) -> Option<f64> {
        match self.load {
            // The sources alone.
            MaceLoad::Together(0) => Some(31.0),
            MaceLoad::Together(percent) => Some(f64::from(percent)),
            MaceLoad::Background(_) => None,
        }
    }
}

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let together = if options.quick { &QUICK_LOADS[..] } else { &LOADS };
    let mut loads: Vec<MaceLoad> = together.iter().map(|percent| MaceLoad::Together(*percent)).collect();
    if !options.quick {
        loads.push(MaceLoad::Background(JUDGED));
    }
    let points = points(&loads, options)?;
    let mut finding = Finding::default();
    for (table, title) in [
        (
            "6",
            "loss of 20 CBR connections of controlled load and 20 of best effort with MACE, and of all 40 without, %",
        ),
        ("7", "loss of sources of five models with MACE, %"),
        ("8", "loss of the background, %"),
    ] {
        finding.title(table, title);
    }
    points.iter().for_each(|point| cells(&mut finding, point));
    if let Some(judged) = points.iter().find(|point| point.load == MaceLoad::Together(JUDGED)) {
        judge(&mut finding, judged, options.quick);
    }
    draw(&mut finding, &points);
    finding.notes.extend([
        place(options).to_owned(),
        "The load is that of all sources and the background together: the paper's losses are those of that reading. The last \
         row of a whole run has a background of 130 % by itself, as its axis says."
            .to_owned(),
        format!("A run takes {} s; a flow is recognised after 2 % of a constant source's packets.", length_s(options)),
    ]);
    Ok(finding)
}

pub(super) fn length_s(options: &RunOptions) -> u64 {
    Scenario::One.params(MaceLoad::Together(JUDGED), true, options.quick).duration.as_millis() / 1_000
}

/// The seeds at a load. Sources of constant intervals keep the phases that chance gives them, so that which of them lose
/// most is chance: where it is judged, several runs count.
fn seeds(load: MaceLoad, quick: bool) -> u64 {
    if load == MaceLoad::Together(JUDGED) && !quick { SEEDS } else { 1 }
}

/// Plays all loads of a kind side by side; the quick form plays all runs so.
fn points(loads: &[MaceLoad], options: &RunOptions) -> Result<Vec<Point>, Error> {
    let quick = options.quick;
    let params = |recognised| -> Vec<Params> {
        let of = |load: &MaceLoad| {
            let load = *load;
            (1..=seeds(load, quick)).map(move |seed| Scenario::One.seeded(load, recognised, quick, seed))
        };
        loads.iter().flat_map(of).collect()
    };
    let (with, without) = (params(true), params(false));
    let (with, without, mixed) = if quick {
        let runs = with.len();
        let mut all = play(&[with, without].concat(), options, "Figure 6")?;
        let without = all.split_off(runs);
        (all, without, Vec::new())
    } else {
        let with = play(&with, options, "Figure 6, with MACE")?;
        let without = play(&without, options, "Figure 6, without")?;
        let mixed: Vec<Params> = loads.iter().map(|load| Scenario::Four.params(*load, true, quick)).collect();
        (with, without, play(&mixed, options, "Figure 7")?)
    };
    let (mut with, mut without, mut mixed) = (with.into_iter(), without.into_iter(), mixed.into_iter());
    let point = |load: &MaceLoad| {
        let runs = seeds(*load, quick) as usize;
        Point {
            load: *load,
            with: with.by_ref().take(runs).collect(),
            without: without.by_ref().take(runs).collect(),
            mixed: mixed.next(),
        }
    };
    Ok(loads.iter().map(point).collect())
}

/// The loss of all sources of a run.
fn of_all(outcome: &MaceOutcome) -> f64 {
    SourceTally::together(&outcome.models).map_or(0.0, |tally| tally.loss())
}

fn listed(outcome: &MaceOutcome) -> f64 {
    Losses::of(outcome).listed
}

fn others(outcome: &MaceOutcome) -> f64 {
    Losses::of(outcome).others
}

fn background(outcome: &MaceOutcome) -> f64 {
    Losses::of(outcome).background
}

/// The share of what may be recognised that arrives within a quarter of its ideal spacing.
fn near(outcome: &MaceOutcome) -> f64 {
    let listed = &outcome.models[..outcome.models.len() / 2];
    SourceTally::together(listed).map_or(0.0, |tally| tally.arrived.near_share())
}

fn cells(finding: &mut Finding, point: &Point) {
    let row = point.row();
    let percents = |of| point.each(of).map(|all| all.iter().map(|share| 100.0 * share).collect::<Vec<f64>>());
    // What the text says: up to 30 % without, at worst just over 1 % with.
    let worst = (point.load == MaceLoad::Together(150)).then_some(());
    finding.cell("6", &row, "CL", worst.map(|()| 1.0), &percents(listed)[0]);
    finding.cell("6", &row, "BE", None, &percents(others)[0]);
    finding.cell("6", &row, "BE without MACE", worst.map(|()| 30.0), &percents(of_all)[1]);
    let [with, without] = percents(background);
    finding.cell("8", &row, "with MACE", None, &with);
    finding.cell("8", &row, "without MACE", None, &without);
    let Some(mixed) = &point.mixed else { return };
    finding.cell("8", &row, "with MACE, five models", None, &[100.0 * Losses::of(mixed).background]);
    let judged = point.load == MaceLoad::Together(JUDGED);
    // Section 5.2: just under 1 %, and 20 % and 24 % of best effort.
    for (ms, name, published) in [(40, "64 kbit/s", 24.0), (10, "256 kbit/s", 20.0)] {
        let loss = |places: &[usize]| {
            let all = SourceTally::together(places.iter().filter_map(|n| mixed.models.get(*n)));
            100.0 * all.map_or(0.0, |tally| tally.loss())
        };
        let [listed, others] = Scenario::Four.places(ms);
        finding.cell("7", &row, &format!("CL, {name}"), judged.then_some(1.0), &[loss(&listed)]);
        finding.cell("7", &row, &format!("BE, {name}"), judged.then_some(published), &[loss(&others)]);
    }
}

fn judge(finding: &mut Finding, point: &Point, quick: bool) {
    let at_load = |of| point.each(of).map(|all| mean(&all));
    let ([cl_loss, _], [be_loss, _], [spacing, _]) = (at_load(listed), at_load(others), at_load(near));
    let [lost, before] = at_load(background);
    for (name, value) in [
        ("cl_loss", cl_loss),
        ("be_loss", be_loss),
        ("spacing_share", spacing),
        ("background_loss", lost),
        ("background_loss_without", before),
        ("background_loss_more", lost - before),
    ] {
        finding.value(name, value);
    }
    let at = usize::from(quick);
    let percent = |share: f64| 100.0 * share;
    if cl_loss > CL_LOSS[at] {
        finding.shortfalls.push(format!("at {JUDGED} % controlled load lost {:.2} %", percent(cl_loss)));
    }
    if !BE_LOSS[at].contains(&be_loss) {
        let (from, to) = (percent(*BE_LOSS[at].start()), percent(*BE_LOSS[at].end()));
        let lost = percent(be_loss);
        finding.shortfalls.push(format!("at {JUDGED} % best effort lost {lost:.1} %, not {from:.0} to {to:.0} %"));
    }
    if lost - before > MORE[at] {
        let (lost, before) = (percent(lost), percent(before));
        finding
            .shortfalls
            .push(format!("at {JUDGED} % the background lost {lost:.2} %, and {before:.2} % without MACE"));
    }
}

fn draw(finding: &mut Finding, points: &[Point]) {
    let line = |name: &str, color, mark, value: &dyn Fn(&Point) -> Option<f64>| ChartLine {
        name: name.into(),
        color,
        mark,
        points: points.iter().filter_map(|point| Some((point.x()?, 100.0 * value(point)?))).collect(),
    };
    let six = vec![
        line("BE without MACE", Rgb::GREY, Mark::Circle, &|point| Some(mean(&point.each(of_all)[1]))),
        line("BE with MACE", Rgb::RED, Mark::Circle, &|point| Some(mean(&point.each(others)[0]))),
        line("CL with MACE", Rgb::BLUE, Mark::Circle, &|point| Some(mean(&point.each(listed)[0]))),
    ];
    finding.figure("mace-fig6", "Figure 6: constant sources", chart("Loss of constant sources", six));
    let eight = vec![
        line("without MACE", Rgb::GREY, Mark::Circle, &|point| Some(mean(&point.each(background)[1]))),
        line("with MACE, CBR", Rgb::RED, Mark::Circle, &|point| Some(mean(&point.each(background)[0]))),
        line("with MACE, five models", Rgb::GREEN, Mark::Circle, &|point| {
            Some(Losses::of(point.mixed.as_ref()?).background)
        }),
    ];
    finding.figure("mace-fig8", "Figure 8: the background", chart("Loss of the background", eight));
    if points.iter().any(|point| point.mixed.is_some()) {
        let seven = vec![
            line("BE with MACE", Rgb::RED, Mark::Circle, &|point| Some(Losses::of(point.mixed.as_ref()?).others)),
            line("CL with MACE", Rgb::BLUE, Mark::Circle, &|point| Some(Losses::of(point.mixed.as_ref()?).listed)),
        ];
        finding.figure("mace-fig7", "Figure 7: sources of five models", chart("Loss of sources of five models", seven));
    }
}

fn chart(title: &str, lines: Vec<ChartLine>) -> Chart {
    Chart {
        title: title.into(),
        subtitle: "10 Mb/s; 20 sources that may be recognised, 20 that may not, 20 of background".into(),
        x: Axis { label: "Load in all (% of the link)".into(), reach: 150.0 },
        y: Axis { label: "Packets lost (%)".into(), reach: 40.0 },
        lines,
        landmark: None,
    }
}
