//! Figure 4 of seed 002: a bulk transfer in the background, a flood, and three foreground flows that come and go.
//!
//! All bookings go through the edge's socket; the bulk transfer is `sluice copy`, which follows the agent's
//! callbacks. Once a second the classes of the premium interface and the foreground sender's count are read.
//! The foreground flows are UDP, so that the offered rate is exact, or greedy TCP, as the seed's.

use super::booking::Book;
use super::foreground::ForegroundSource;
use super::garnet::{Garnet, interrupt};
use super::meter::{self, MeterReading, Second, until};
use super::timeline::{FIGURE_4, Foreground, Schedule, Timeline};
use crate::experiment::{Experiment, Finding, RunOptions};
use bed::cbr::Cbr;
use bed::error::Error;
use bed::program::RunningProgram;
use documents::book::{BindingDoc, FlowDoc, PartDoc};
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use terms::Rate;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gara-fig4",
    about: "A bulk transfer uses what foreground reservations leave of a premium channel, under a flood",
    source: "Foster, Roy, Sander, Winkler: End-to-End Quality of Service for High-End Applications (2000), Figure 4",
    takes: "root, 3.5 minutes",
    run: |options| run(options, &LOCAL),
};

/// The same with greedy foreground flows.
pub const GREEDY_EXPERIMENT: Experiment = Experiment {
    name: "gara-fig4-greedy",
    about: "The same with foreground flows of greedy TCP, as ttcp is: they send whatever the socket accepts",
    run: |options| run(options, &LOCAL_GREEDY),
    ..EXPERIMENT
};

/// A form of the experiment.
pub(super) struct Form {
    /// The number of its figure.
    pub table: &'static str,
    /// The network, for the chart.
    pub network: &'static str,
    /// True if the foreground flows are greedy.
    pub greedy: bool,
    /// Its flows and times.
    pub of: &'static Schedule,
}

const LOCAL: Form = Form { table: "4", network: "45 Mb/s premium of 100", greedy: false, of: &FIGURE_4 };
const LOCAL_GREEDY: Form = Form { greedy: true, ..LOCAL };

/// The longest round trip that is stated, milliseconds. The bed's is below one, but a sender that the machine
/// held up catches up, and the edge must not count that as excess.
const RTT_MS: f64 = 250.0;
/// The size of the bulk file, bytes: more than can pass.
const FILE: u64 = 8 << 30;
/// The time limit for the bulk transfer to begin.
const BEGIN: Duration = Duration::from_secs(15);
/// The criteria: the least shares of foreground and background.
const FOREGROUND_SHARE: f64 = 0.99;
const BACKGROUND_SHARE: f64 = 0.95;
/// The least mean of a greedy foreground flow, as a share of its reservation: the seed's flows sent 32 of 36, 8 of 9
/// and 16 of 18 Mb/s. TCP goes below what the edge lets pass whenever the edge drops a packet.
const GREEDY_SHARE: f64 = 8.0 / 9.0;
/// The same in the quick form, whose flows last 8 to 10 s: one retransmission timeout costs a tenth of them.
const GREEDY_QUICK_SHARE: f64 = 0.8;

/// The measurements of a run.
pub(super) struct Run {
    timeline: Timeline,
    form: &'static Form,
    seconds: Vec<Second>,
    /// The rate granted to the bulk transfer at the end of each second, Mb/s; 0: none.
    granted: Vec<f64>,
    /// The IP bytes of foreground that were offered (of TCP: received), and those that came to the receiver.
    bytes: (u64, u64),
}

fn run(options: &RunOptions, form: &'static Form) -> Result<Finding, Error> {
    let garnet = Garnet::up()?;
    let played = play(&garnet, form, options)?;
    Ok(judge(&played))
}

/// A foreground flow in progress.
struct Active {
    handle: String,
    flow: usize,
}

/// Plays the schedule: the bulk transfer, the flood, and the foreground flows.
pub(super) fn play(garnet: &Garnet, form: &'static Form, options: &RunOptions) -> Result<Run, Error> {
    let timeline = Timeline { of: form.of, by: if options.quick { 3 } else { 1 } };
    let (bulk_until, flood_at) = (timeline.at(form.of.bulk_until), timeline.at(form.of.flood.1));
    let mut book = garnet.book()?;
    let mut meter = garnet.meter()?;
    let mut source = ForegroundSource::new(garnet, form.greedy)?;
    let mut flood: Option<Cbr> = None;
    let _receiver = garnet.receiver()?;
    let mut bulk = garnet.copy(&garnet.file("bulk.dat", FILE)?, &["--rtt", &format!("{RTT_MS}ms")])?;
    let handle = begun(&mut book, &mut bulk, options)?;
    let begin = Instant::now();
    let (mut readings, mut granted): (Vec<MeterReading>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut active: Option<Active> = None;
    for second in 0..=timeline.at(form.of.end) {
        options.patience.wait(until(begin, second))?;
        readings.push(meter.read(|| source.bytes())?);
        if second > 0 {
            let now = book.show(&handle)?.parts[0].now;
            granted.push(if second > bulk_until { 0.0 } else { now / 1e6 });
        }
        if options.progress {
            eprint!("\r{second} of {} s ", timeline.at(form.of.end));
        }
        if second == flood_at {
            flood = Some(garnet.flood(Rate::from_mbps(form.of.flood.0))?);
        }
        if second == bulk_until {
            interrupt(&mut bulk)?;
        } else if second < bulk_until && !bulk.is_running() {
            return Err(Error::Void(format!("the bulk transfer ended in second {second}: {}", last_words(&mut bulk))));
        }
        change(garnet, &mut book, &mut source, &mut active, timeline, second)?;
    }
    if options.progress {
        eprintln!();
    }
    drop(flood);
    let bytes = (source.bytes(), source.delivered());
    Ok(Run { timeline, form, seconds: meter::seconds(&readings), granted, bytes })
}

/// Ends a foreground flow when its time is over, and begins the next at its start.
fn change(
    garnet: &Garnet,
    book: &mut Book,
    source: &mut ForegroundSource<'_>,
    active: &mut Option<Active>,
    timeline: Timeline,
    second: u32,
) -> Result<(), Error> {
    let due = timeline.foreground(second);
    if let Some(over) = active.take_if(|active| due.is_none_or(|(flow, _)| flow != active.flow)) {
        source.end();
        book.cancel(&over.handle)?;
    }
    let Some((flow, wanted)) = due.filter(|_| active.is_none()) else { return Ok(()) };
    let part = part(garnet, &wanted, source.packet(), source.prepare()?);
    let doc = book.reserve(part, &format!("foreground {flow}"))?;
    source.begin(Rate::from_mbps(wanted.sent));
    *active = Some(Active { handle: doc.handle, flow });
    Ok(())
}

fn part(garnet: &Garnet, wanted: &Foreground, packet: u32, flow: FlowDoc) -> PartDoc {
    PartDoc {
        resource: garnet.resource(),
        rate: Some(wanted.reserved * 1_000_000),
        packet_bytes: Some(packet),
        rtt_ms: Some(RTT_MS),
        binding: Some(BindingDoc::Flow(flow)),
        ..PartDoc::default()
    }
}

/// Waits until the bulk transfer has a reservation in force.
fn begun(book: &mut Book, bulk: &mut RunningProgram, options: &RunOptions) -> Result<String, Error> {
    let limit = Instant::now() + BEGIN;
    loop {
        options.patience.wait(Duration::from_millis(20))?;
        let found = book.list()?.into_iter().find(|doc| doc.parts.iter().any(|part| part.background.is_some()));
        if let Some(doc) = found.filter(|doc| doc.parts[0].enforced == "in_force") {
            return Ok(doc.handle);
        }
        if !bulk.is_running() || Instant::now() > limit {
            return Err(Error::Void(format!("the bulk transfer did not begin: {}", last_words(bulk))));
        }
    }
}

/// Returns the text that a program wrote on standard error.
fn last_words(running: &mut RunningProgram) -> String {
    running.stop();
    running.ended().errors.trim().to_owned()
}

/// Compares a run with the seed.
pub(super) fn judge(run: &Run) -> Finding {
    let mut finding = Finding::default();
    let shares = Shares::of(run);
    finding
        .title(run.form.table, "what leaves the premium interface, Mb/s of IP bytes, mean of the seconds that count");
    for (from, until) in run.timeline.phases() {
        row(run, &mut finding, from, until);
    }
    finding.value("foreground_min_share", shares.foreground);
    finding.value("foreground_mean_share", shares.foreground_mean);
    finding.value("foreground_delivered_share", run.bytes.1 as f64 / run.bytes.0.max(1) as f64);
    finding.value("background_share", shares.background);
    finding.value("background_min_share", shares.background_least);
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    finding.notes.push(format!(
        "foreground: at least {} of {} in each counted second, at least {} of its reservation in each phase; \
         background: at least {} of its grant in each phase, at least {} in each counted second",
        percent(shares.foreground),
        if run.form.greedy { "its reservation" } else { "min(offered, reserved)" },
        percent(shares.foreground_mean),
        percent(shares.background),
        percent(shares.background_least)
    ));
    if !run.form.greedy && shares.foreground < FOREGROUND_SHARE {
        finding.shortfalls.push(format!("a foreground flow had {} of its due in a second", percent(shares.foreground)));
    }
    let least = if run.timeline.by > 1 { GREEDY_QUICK_SHARE } else { GREEDY_SHARE };
    if run.form.greedy && shares.foreground_mean < least {
        let mean = percent(shares.foreground_mean);
        finding.shortfalls.push(format!("a greedy foreground flow had {mean} of its reservation in the mean"));
    }
    if shares.background < BACKGROUND_SHARE {
        finding.shortfalls.push(format!("the bulk flow had {} of its grant in a phase", percent(shares.background)));
    }
    let wrong = (0..run.granted.len())
        .find(|&n| counts_grant(run, n) && (run.granted[n] - run.timeline.grant(n as u32)).abs() > 0.01);
    if let Some(n) = wrong {
        let (is, due) = (run.granted[n], run.timeline.grant(n as u32));
        finding.shortfalls.push(format!("in second {n} the bulk flow was granted {is:.2} Mb/s, not {due:.2}"));
    }
    let name = format!("figure-{}", run.form.table);
    finding.figure(&name, "Foreground, background and best effort at the premium interface", chart(run));
    finding
}

/// True if the grant at the end of a second also holds in the next, so that it can be checked.
fn counts_grant(run: &Run, n: usize) -> bool {
    let second = n as u32;
    run.timeline.grant(second) > 0.0 && run.timeline.grant(second) == run.timeline.grant(second + 1)
}

/// The measured shares.
struct Shares {
    /// The least share in a counted second: of min(offered, reserved), or greedy of the reservation.
    foreground: f64,
    /// The least share of a flow's reservation, over its counted seconds.
    foreground_mean: f64,
    /// The least share of a phase, over its counted seconds.
    background: f64,
    /// The least share in a counted second.
    background_least: f64,
}

impl Shares {
    fn of(run: &Run) -> Shares {
        let worst = f64::INFINITY;
        let mut shares =
            Shares { foreground: worst, foreground_mean: worst, background: worst, background_least: worst };
        let mut phases: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        let mut flows: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (n, second) in run.seconds.iter().enumerate() {
            let at = n as u32;
            if let Some((number, flow)) = run.timeline.foreground(at).filter(|_| run.timeline.counts_foreground(at)) {
                let reserved = flow.reserved as f64;
                let due = if run.form.greedy { reserved } else { second.offered.min(reserved) };
                let whole = flows.entry(number).or_default();
                whole.0 += second.foreground * second.length;
                whole.1 += reserved * second.length;
                shares.foreground = shares.foreground.min(second.foreground / due.max(1e-9));
            }
            if run.timeline.counts_background(at) {
                let grant = run.timeline.grant(at);
                shares.background_least = shares.background_least.min(second.background / grant);
                let began = run.timeline.phases().iter().map(|phase| phase.0).filter(|from| *from <= at).max();
                let phase = phases.entry(began.unwrap_or(0)).or_default();
                phase.0 += second.background * second.length;
                phase.1 += grant * second.length;
            }
        }
        let least = |of: &mut dyn Iterator<Item = &(f64, f64)>| of.map(|(had, due)| had / due).fold(worst, f64::min);
        shares.background = least(&mut phases.values());
        shares.foreground_mean = least(&mut flows.values());
        shares
    }
}

fn row(run: &Run, finding: &mut Finding, from: u32, until: u32) {
    let (table, name) = (run.form.table, format!("{from}-{until} s"));
    let flow = run.timeline.foreground(from).map(|(_, flow)| flow);
    let grant = run.timeline.grant(from);
    let counted = |n: &u32| *n > from;
    let mean = |of: fn(&Second) -> f64| {
        let values: Vec<f64> =
            (from..until).filter(counted).filter_map(|n| run.seconds.get(n as usize)).map(of).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    let granted: Vec<f64> = (from..until)
        .filter(|n| counts_grant(run, *n as usize))
        .filter_map(|n| run.granted.get(n as usize).copied())
        .collect();
    // The seed prints the first grant only; the others follow from it and from the foreground's reservations.
    let printed = (grant > 0.0 && flow.is_none()).then_some(grant);
    finding.cell(table, &name, "grant", printed, &granted[..granted.len().min(1)]);
    finding.cell(table, &name, "background", None, &[mean(|second| second.background)]);
    finding.cell(table, &name, "foreground", flow.map(|flow| flow.sent as f64), &[mean(|second| second.foreground)]);
    if run.form.greedy {
        finding.cell(table, &name, "received", None, &[mean(|second| second.offered)]);
    }
    let alone = (from >= run.timeline.at(run.form.of.bulk_until)).then_some(run.form.of.flood.0 as f64);
    finding.cell(table, &name, "best effort", alone, &[mean(|second| second.best_effort)]);
}

fn chart(run: &Run) -> Chart {
    let points = |of: &dyn Fn(usize, &Second) -> f64| {
        run.seconds.iter().enumerate().map(|(n, second)| (n as f64 + 0.5, of(n, second))).collect::<Vec<_>>()
    };
    let line = |name: &str, color, mark, points| ChartLine { name: name.into(), color, mark, points };
    let Form { table, network, greedy, of } = run.form;
    let all = |one: &dyn Fn(&Foreground) -> String| of.flows.iter().map(one).collect::<Vec<_>>().join(", ");
    let flows = match greedy {
        true => format!("greedy TCP (reserved, Mb/s): {}", all(&|flow| flow.reserved.to_string())),
        false => {
            format!("foreground (reserved/sent, Mb/s): {}", all(&|flow| format!("{}/{}", flow.reserved, flow.sent)))
        }
    };
    Chart {
        title: format!("GARA, Figure {table}: premium flows under a flood"),
        subtitle: format!("{network}; {flows}; flood {}; read each second", of.flood.0),
        x: Axis { label: "Time (s)".into(), reach: run.seconds.len() as f64 },
        y: Axis { label: "Bandwidth (Mb/s)".into(), reach: 90.0 },
        lines: vec![
            line("best effort", Rgb::GREY, Mark::Solid, points(&|_, second| second.best_effort)),
            line("its grant", Rgb::GREEN, Mark::None, points(&|n, _| run.timeline.grant(n as u32))),
            line("background (sluice copy)", Rgb::GREEN, Mark::Solid, points(&|_, second| second.background)),
            line("foreground", Rgb::BLUE, Mark::Solid, points(&|_, second| second.foreground)),
        ],
        landmark: None,
    }
}
