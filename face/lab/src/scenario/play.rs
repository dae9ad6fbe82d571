//! Plays a scenario and tabulates what arrived.

use super::file::ScenarioFile;
use api::table::{Align, Table};
use serde::Serialize;
use sim::World;
use sim::experiment::{Failed, set_up_time};
use sim::scenario::{Action, Ask, Pattern, Scenario, SourceId};
use terms::{Rate, Span};

/// How long a point is played on after what is measured, so that the last packets arrive.
const COOL_DOWN: Span = Span::from_millis(500);
/// The application that a source's sender registers as; its receiver has the next number.
const APPS_PER_SOURCE: u64 = 2;

/// What a scenario showed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// What it is about.
    pub name: String,
    /// A row per point and source.
    pub rows: Vec<Row>,
    /// Events played in all.
    pub events: u64,
}

/// One source at one point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The rate that was swept, bit/s; null without a sweep.
    pub swept_bps: Option<u64>,
    /// Whether reservations were made.
    pub reserved: bool,
    /// The source.
    pub source: String,
    /// What arrived, bit/s of IP bytes.
    pub received_bps: u64,
    /// Packets lost, as a fraction.
    pub loss: f64,
    /// Longest delay, ms.
    pub delay_max_ms: f64,
    /// Whole frames a second; null for sources without frames.
    pub fps: Option<f64>,
    /// Frames that arrived in part; null for sources without frames.
    pub damaged_frames: Option<u64>,
    /// From the receiver's call to its confirmation, ms; null without a reservation (or if it was refused).
    pub setup_ms: Option<f64>,
}

/// Plays every point; `seen` is told after each how many are done.
///
/// # Errors
/// The scenario means nothing, or a law did not hold, which is our own fault: the seed reproduces it.
pub fn play(file: &ScenarioFile, mut seen: impl FnMut(usize)) -> Result<Outcome, Failed> {
    let mut outcome = Outcome { name: file.name.clone(), rows: Vec::new(), events: 0 };
    for (done, &(rate, reserved)) in file.points.iter().enumerate() {
        let scenario = point(file, rate, reserved);
        let mut world = World::new(&scenario).map_err(Failed::Unplayable)?;
        world.run_until(scenario.measured.1 + COOL_DOWN);
        world.check().map_err(Failed::Broken)?;
        outcome.events += world.events();
        for number in 0..file.sources.len() {
            outcome.rows.push(row(file, &world, SourceId(number), rate, reserved));
        }
        seen(done + 1);
    }
    Ok(outcome)
}

fn point(file: &ScenarioFile, rate: Option<Rate>, reserved: bool) -> Scenario {
    let mut scenario = file.scenario.clone();
    if let (Some(SourceId(id)), Some(rate)) = (file.swept, rate)
        && let Pattern::Cbr { rate: swept, .. } = &mut scenario.sources[id].pattern
    {
        *swept = rate;
    }
    for reservation in file.reservations.iter().filter(|_| reserved) {
        let app = node::io::AppId(reservation.source.0 as u64 * APPS_PER_SOURCE);
        let receiver = node::io::AppId(app.0 + 1);
        let (session, template, tspec) = (reservation.session, reservation.template, reservation.tspec);
        let ask = Ask::Exactly(reservation.flowspec);
        scenario
            .script
            .push((reservation.at, Action::Receive { node: reservation.receiver, app: receiver, session, ask }));
        scenario
            .script
            .push((reservation.at, Action::Send { node: reservation.sender, app, session, template, tspec }));
    }
    scenario
}

fn row(file: &ScenarioFile, world: &World, source: SourceId, rate: Option<Rate>, reserved: bool) -> Row {
    let report = world.flow(source);
    let frames = matches!(file.scenario.sources[source.0].pattern, Pattern::Video { packets, .. } if packets > 1);
    let reservation = file.reservations.iter().find(|r| reserved && r.source == source);
    let ms = |span: Span| span.as_nanos() as f64 / 1e6;
    Row {
        swept_bps: rate.map(Rate::as_bps),
        reserved,
        source: file.sources[source.0].clone(),
        received_bps: report.throughput().as_bps(),
        loss: report.loss_ppm() as f64 / 1e6,
        delay_max_ms: ms(report.delay_max),
        fps: frames.then_some(report.frames_per_kilosecond() as f64 / 1e3),
        damaged_frames: frames.then_some(report.frames_damaged),
        setup_ms: reservation.and_then(|r| set_up_time(world, r.receiver)).map(ms),
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = Table::new(&[
            ("swept Mb/s", Align::Right),
            ("reserved", Align::Left),
            ("source", Align::Left),
            ("received Mb/s", Align::Right),
            ("loss %", Align::Right),
            ("longest delay ms", Align::Right),
            ("frames/s", Align::Right),
            ("damaged", Align::Right),
            ("set-up ms", Align::Right),
        ]);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
        for row in &self.rows {
            table.row([
                or_dash(row.swept_bps.map(|bps| format!("{:.2}", bps as f64 / 1e6))),
                if row.reserved { "yes" } else { "no" }.to_string(),
                row.source.clone(),
                format!("{:.3}", row.received_bps as f64 / 1e6),
                format!("{:.2}", row.loss * 100.0),
                format!("{:.2}", row.delay_max_ms),
                or_dash(row.fps.map(|fps| format!("{fps:.2}"))),
                or_dash(row.damaged_frames.map(|n| n.to_string())),
                or_dash(row.setup_ms.map(|ms| format!("{ms:.3}"))),
            ]);
        }
        write!(f, "{}\n\n{table}", self.name)
    }
}
