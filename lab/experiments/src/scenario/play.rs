//! Plays a scenario, every point of its sweep with every seed, and reads its results.

use super::file::{GroupMember, ScenarioFile};
use super::outcome::{PointOutcome, Raw, ScenarioOutcome, readings};
use super::sweep::GridPoint;
use crate::experiment::sweep::{ExperimentSweep, RunFailed};
use bed::error::Error;
use bed::patience::Patience;
use serde::{Deserialize, Serialize};
use sim::World;
use sim::experiment::set_up_time;
use sim::mace::{QueueCounts, RuleTerms};
use sim::scenario::{EgressSpec, MaceReport, Scenario, ScenarioAction, SendPattern, SimReservation, SourceId, TcpId};
use std::path::PathBuf;
use terms::Span;

/// The time that a point is played on after the measured window, so that the last packets arrive.
const COOL_DOWN: Span = Span::from_millis(500);
/// The applications of a source: its sender has the first number, its receiver the next.
const APPS_PER_SOURCE: u64 = 2;

/// The options of a run.
#[derive(Debug)]
pub struct PlayOptions {
    /// The file of finished runs, from which an interrupted sweep continues.
    pub kept: Option<PathBuf>,
    /// True to show progress.
    pub progress: bool,
    /// The means by which the user stops the run.
    pub patience: Patience,
    /// The number of threads; `None`: one per core.
    pub threads: Option<usize>,
}

impl PlayOptions {
    /// Returns options without progress and without a file.
    pub fn plain() -> PlayOptions {
        PlayOptions { kept: None, progress: false, patience: Patience::endless(), threads: None }
    }
}

/// One run: a point with a seed.
struct Run {
    point: GridPoint,
    seed: u64,
}

/// The results of a run.
#[derive(Serialize, Deserialize)]
struct Played {
    readings: Vec<Raw>,
    events: u64,
    packets: u64,
}

/// Plays every point of the sweep.
///
/// # Errors
/// A scenario is invalid, or a law did not hold, which is our own fault: the seed in the message reproduces
/// it.
pub fn play(file: &ScenarioFile, options: &PlayOptions) -> Result<ScenarioOutcome, Error> {
    let points = file.sweep.points();
    let seeds = file.sweep.seeds;
    let runs: Vec<Run> = points
        .iter()
        .flat_map(|point| (0..seeds).map(|n| Run { point: point.clone(), seed: file.scenario.seed.wrapping_add(n) }))
        .collect();
    let sweep = ExperimentSweep {
        fingerprint: format!("{} {:016x}", env!("CARGO_PKG_VERSION"), hash(&file.text)),
        kept: options.kept.clone(),
        progress: options.progress,
        patience: &options.patience,
        threads: options.threads,
    };
    let key = |run: &Run| {
        let values: String =
            file.sweep.values(&run.point).map(|(field, value)| format!("{field} = {value}, ")).collect();
        format!("{values}seed {}", run.seed)
    };
    let played = sweep.play(&runs, key, |run| one(file, run))?;
    let mut outcome = ScenarioOutcome { name: file.name.clone(), seeds, points: Vec::new(), events: 0, packets: 0 };
    outcome.events = played.iter().map(|run| run.events).sum();
    outcome.packets = played.iter().map(|run| run.packets).sum();
    for (point, runs) in points.iter().zip(played.chunks(seeds as usize)) {
        let at = file.sweep.values(point).map(|(field, value)| (field.to_string(), value.to_string()));
        let raw: Vec<&[Raw]> = runs.iter().map(|run| run.readings.as_slice()).collect();
        outcome.points.push(PointOutcome { at: at.collect(), readings: readings(&raw) });
    }
    Ok(outcome)
}

/// Computes FNV-1a, which is the same in every version of the program.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn one(file: &ScenarioFile, run: &Run) -> Result<Played, RunFailed> {
    let (file, reserved) = file.sweep.at(file, &run.point).map_err(|mistake| RunFailed(mistake.to_string()))?;
    let (_, world) = played(&file, reserved, run.seed)?;
    Ok(Played { readings: read(&file, &world, reserved), events: world.events(), packets: world.packets() })
}

/// Plays a scenario with one seed to its end, and checks the simulator's laws.
///
/// # Errors
/// The scenario cannot be played, or a law did not hold.
pub fn played(file: &ScenarioFile, reserved: bool, seed: u64) -> Result<(Scenario, World), RunFailed> {
    let scenario = with_reservations(file, reserved, seed);
    let mut world = World::new(&scenario).map_err(|wrong| RunFailed(wrong.what))?;
    world.run_until(scenario.measured.1 + COOL_DOWN);
    world.check().map_err(|broken| {
        let at = broken.at.as_nanos() as f64 / 1e9;
        RunFailed(format!(
            "at {at} s a law did not hold: {}; seed {seed} reproduces it; please report this",
            broken.law
        ))
    })?;
    Ok((scenario, world))
}

fn with_reservations(file: &ScenarioFile, reserved: bool, seed: u64) -> Scenario {
    let mut scenario = Scenario { seed, ..file.scenario.clone() };
    for reservation in file.reservations.iter().filter(|_| reserved) {
        let app = node::io::AppId(reservation.source.0 as u64 * APPS_PER_SOURCE);
        let receiver = node::io::AppId(app.0 + 1);
        let (session, template, tspec) = (reservation.session, reservation.template, reservation.tspec);
        let ask = SimReservation::Exactly(reservation.flowspec);
        let receive = ScenarioAction::Receive { node: reservation.receiver, app: receiver, session, ask };
        scenario.script.push((reservation.at, receive));
        let send = ScenarioAction::Send { node: reservation.sender, app, session, template, tspec };
        scenario.script.push((reservation.at, send));
    }
    scenario
}

fn read(file: &ScenarioFile, world: &World, reserved: bool) -> Vec<Raw> {
    let mut all = Vec::new();
    for (n, named) in file.sources.iter().enumerate() {
        all.push(source(file, world, SourceId(n), named, reserved));
    }
    for (n, named) in file.connections.iter().enumerate() {
        all.push(connection(file, world, TcpId(n), named));
    }
    for n in 0..file.groups.len() {
        all.push(group(file, world, n));
    }
    for egress in &file.scenario.egress {
        all.push(link(file, world, egress));
    }
    for egress in &file.scenario.egress {
        all.extend(world.mace(egress.link, egress.side).map(|report| mace(&way(file, egress), &report)));
    }
    all
}

fn source(file: &ScenarioFile, world: &World, id: SourceId, named: &GroupMember, reserved: bool) -> Raw {
    let report = world.flow(id);
    let frames = matches!(file.scenario.sources[id.0].pattern, SendPattern::Video { packets, .. } if packets > 1);
    let reservation = file.reservations.iter().find(|r| reserved && r.source == id);
    let setup = reservation.and_then(|r| set_up_time(world, r.receiver)).map(ms);
    Raw::new("source", &named.name)
        .with("received Mb/s", report.throughput().as_bps() as f64 / 1e6)
        .with("loss %", report.loss_ppm() as f64 / 1e4)
        .with("mean delay ms", ms(report.delay_mean()))
        .with("longest delay ms", ms(report.delay_max))
        .with("frames/s", frames.then_some(report.frames_per_kilosecond() as f64 / 1e3))
        .with("damaged", frames.then_some(report.frames_damaged as f64))
        .with("set-up ms", setup)
}

fn connection(file: &ScenarioFile, world: &World, id: TcpId, named: &GroupMember) -> Raw {
    let report = world.tcp(id);
    let took = report.finished.map(|at| at.since(file.scenario.connections[id.0].start));
    Raw::new("tcp", &named.name)
        .with("goodput Mb/s", mbps(report.goodput.get(), window_s(file)))
        .with("segments", report.sent as f64)
        .with("sent again", report.retransmitted as f64)
        .with("recoveries", report.recoveries as f64)
        .with("timeouts", report.timeouts as f64)
        .with("mean round trip ms", (report.rtt_samples > 0).then(|| ms(report.rtt_mean)))
        .with("finished after s", took.map(|span| ms(span) / 1e3))
}

fn group(file: &ScenarioFile, world: &World, number: usize) -> Raw {
    let mine = |named: &&GroupMember| named.group == Some(number as u32);
    let (mut members, mut goodput, mut timeouts) = (0, 0.0, 0);
    for (n, _) in file.connections.iter().enumerate().filter(|(_, named)| mine(named)) {
        let report = world.tcp(TcpId(n));
        members += 1;
        goodput += mbps(report.goodput.get(), window_s(file));
        timeouts += report.timeouts;
    }
    for (n, _) in file.sources.iter().enumerate().filter(|(_, named)| mine(named)) {
        members += 1;
        goodput += world.flow(SourceId(n)).throughput().as_bps() as f64 / 1e6;
    }
    Raw::new("group", &file.groups[number])
        .with("flows", f64::from(members))
        .with("goodput Mb/s", goodput)
        .with("timeouts", timeouts as f64)
}

/// Reads a direction with its own queue or conditioner: offered traffic by colour, and drops.
fn link(file: &ScenarioFile, world: &World, egress: &EgressSpec) -> Raw {
    let report = world.egress(egress.link, egress.side);
    let seconds = window_s(file);
    let total = report.total();
    let coloured = report.offered[1].packets + report.offered[2].packets > 0;
    let color = |n: usize| coloured.then(|| mbps(report.offered[n].bytes, seconds));
    let dropped = report.dropped.iter().map(|tally| tally.packets).sum::<u64>() + report.refused.packets;
    let dropped_of = |n: usize| coloured.then_some(report.dropped[n].packets as f64);
    Raw::new("link", &way(file, egress))
        .with("offered Mb/s", mbps(total.bytes, seconds))
        .with("green Mb/s", color(0))
        .with("yellow Mb/s", color(1))
        .with("red Mb/s", color(2))
        .with("dropped", dropped as f64)
        .with("green dropped", dropped_of(0))
        .with("yellow dropped", dropped_of(1))
        .with("red dropped", dropped_of(2))
}

/// Reads a direction that recognises flows: who asked, who was admitted, and what each level lost.
fn mace(way: &str, report: &MaceReport) -> Raw {
    let lost = |level: usize| {
        let QueueCounts { offered, dropped, .. } = report.levels[level];
        (offered > 0).then(|| 100.0 * dropped as f64 / offered as f64)
    };
    let all = |raw: Raw, (terms, (admits, _)): &(RuleTerms, (u64, u64))| {
        raw.with(&format!("{terms} would admit"), *admits as f64)
    };
    let raw = Raw::new("mace", way)
        .with("asked", report.asked as f64)
        .with("admitted", report.admitted as f64)
        .with("refused", report.refused as f64)
        .with("silent", report.silent as f64)
        .with("mean flows", report.mean_flows)
        .with("most flows", report.most_flows as f64)
        .with("CL lost %", lost(0))
        .with("BE lost %", lost(1))
        .with("used %", report.utilisation)
        .with("estimate Mb/s", report.estimate.as_bps() as f64 / 1e6);
    report.shadows.iter().fold(raw, all)
}

/// The name of a direction of a link.
fn way(file: &ScenarioFile, egress: &EgressSpec) -> String {
    let ends = file.scenario.links[egress.link.0].ends.map(|end| file.scenario.nodes[end.0].name.as_str());
    let (from, to) = if egress.side == 0 { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
    format!("{from}>{to}")
}

fn window_s(file: &ScenarioFile) -> f64 {
    let (from, until) = file.scenario.measured;
    until.since(from).as_nanos() as f64 / 1e9
}

fn mbps(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9)
}

fn ms(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}
