//! `sluice profile`: RSVP and Boomerang side by side, message by message and step by step, as *Profiling resource
//! reservation protocols* (IFIP 2001) did it: its Tables 1 to 9 and its Figures 2 to 6 with this machine's figures.
//!
//! | file | what |
//! |---|---|
//! | `published` | the document's numbers |
//! | `sample` | medians and their confidence |
//! | `transit` | a node in this process, between neighbours made of messages |
//! | `steps` | Tables 3 to 8: the steps of a message |
//! | `load` | Table 9, Figures 5 and 6: session load |
//! | `line` `boundary` `tester` | a node on real packets in namespaces, stamps around it, and who talks to it |
//! | `packets` | Tables 1 and 2, Figures 2 to 4, signalling load |
//! | `blackbox` | `sluice profile bench`: any node, by the words of RFC 4883 |
//! | `report` `charts` | tables, figures, JSON |

pub mod blackbox;
pub mod boundary;
pub mod charts;
pub mod line;
pub mod load;
pub mod packets;
pub mod published;
pub mod report;
pub mod sample;
pub mod steps;
pub mod tester;
pub mod transit;

use crate::error::Error;
use crate::patience::Patience;
use crate::progress::Progress;
use linux::tsc::Calibration;
use load::Load;
use published::row;
use report::{AtLoad, Figure, Machine, Numbered, Ratio, Report};
use sample::Estimate;
use std::time::{Duration, Instant};
use steps::{Kind, Pair, Profile};
use terms::probe::Step;
use tester::Part;
use transit::Protocol;
use wire::MessageType;

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Few samples, few sessions: for tests.
    pub quick: bool,
    /// Show how far it is.
    pub progress: bool,
}

impl Options {
    /// Samples of each figure: 300, as in the document.
    pub fn repetitions(&self) -> usize {
        if self.quick { 30 } else { 300 }
    }

    fn sizes(&self) -> &'static [u32] {
        if self.quick { &load::QUICK } else { &load::FULL }
    }
}

/// Profiles everything.
///
/// # Errors
/// The user stopped it, or a measurement is void.
pub fn run(options: &Options, patience: &Patience) -> Result<Report, Error> {
    let (begun, before) = (Instant::now(), load_average());
    let mut progress = if options.progress { Progress::new(Duration::from_secs(60)) } else { Progress::silent() };
    // Without the right to go first, other work is merely seen more often.
    let _allowed = linux::process::go_first();
    let calibration = Calibration::measure();
    let repetitions = options.repetitions();
    let mut tables = Report::blank();
    let mut say = |line: String| progress.say(&line);
    let mut few = |protocol: Protocol| {
        say(format!("{}, step by step", protocol.name()));
        let mut pair = Pair::new(protocol, calibration, steps::BATCH as u32);
        pair.grow(steps::BATCH as u32, patience)?;
        pair.profile(repetitions, patience)
    };
    fill_rsvp(&mut tables, &few(Protocol::Rsvp)?);
    fill_boomerang(&mut tables, &few(Protocol::Boomerang)?);
    let sizes = options.sizes();
    let mut many = |protocol| load::run(protocol, calibration, sizes, repetitions, patience, &mut say);
    let (loads, echoes) = (many(Protocol::Rsvp)?, many(Protocol::Boomerang)?);
    fill_growth(&mut tables, &loads);
    let mut found = Found { tables, ..Found::default() };
    match packets::Bed::start() {
        Ok(mut bed) => {
            on_packets(options, Protocol::Rsvp, &mut bed, &mut found, patience, &mut say)?;
            match on_packets(options, Protocol::Boomerang, &mut bed, &mut found, patience, &mut say) {
                // What RSVP showed is not lost for it.
                Err(error) if !matches!(error, Error::Interrupted) => {
                    found.skipped.push(format!("Table 2, Figures 3 and 4: {error}"));
                }
                done => done?,
            }
        }
        Err(Error::Testbed(why)) => {
            let what = "Tables 1 and 2, Figures 2 to 4 and the signalling load need real packets";
            found.skipped.push(format!("{what}: {why}"));
        }
        Err(error) => return Err(error),
    }
    found.figures.extend([charts::lookup(&loads, &echoes), charts::maintenance(&loads, &echoes)]);
    let Found { tables, signalling_load, mut figures, skipped, wire } = found;
    figures.sort_by_key(|figure| figure.figure);
    let session_load = [session_load(&loads, Protocol::Rsvp), session_load(&echoes, Protocol::Boomerang)].concat();
    let mut ratios = ratios(&loads, &echoes);
    ratios.extend(on_the_wire(&wire));
    Ok(Report {
        quick: options.quick,
        repetitions,
        machine: machine(calibration, before),
        wall_s: begun.elapsed().as_secs_f64(),
        tables,
        session_load,
        signalling_load,
        ratios,
        figures,
        skipped,
    })
}

/// What has been found so far.
#[derive(Default)]
struct Found {
    tables: Vec<Numbered>,
    signalling_load: Vec<(String, f64, Estimate)>,
    figures: Vec<Figure>,
    skipped: Vec<String>,
    /// Medians at checkpoint 1, unloaded, us.
    wire: Vec<(Part, f64)>,
}

/// Between two messages of the tables and of the traffic load.
const GAP: Duration = Duration::from_millis(1);

/// What needs real packets: Tables 1 and 2, Figures 2 to 4, the signalling load.
fn on_packets(
    options: &Options,
    protocol: Protocol,
    bed: &mut packets::Bed,
    found: &mut Found,
    patience: &Patience,
    say: &mut dyn FnMut(String),
) -> Result<(), Error> {
    let repetitions = options.repetitions();
    let (levels, intensities): (&[u64], &[u64]) = match options.quick {
        true => (&packets::TRAFFIC_QUICK, &packets::INTENSITY_QUICK),
        false => (&packets::TRAFFIC, &packets::INTENSITY),
    };
    let reserving = match protocol {
        Protocol::Rsvp => Part::Rsvp(MessageType::Resv),
        Protocol::Boomerang => Part::Reserve,
    };
    let mut points = Vec::new();
    for &mbps in levels {
        say(format!("{} on real packets, {mbps} Mb/s of background traffic", protocol.name()));
        let times = bed.lives(protocol, repetitions, GAP, mbps, patience)?;
        if mbps == 0 {
            fill_packets(found, &times);
        }
        if let (Some(one), two) = times.estimates(reserving) {
            points.push((mbps as f64, one.mean, two.map(|two| two.mean)));
        }
        if (protocol, mbps) == (Protocol::Boomerang, packets::LEVELS_AT) {
            let of_it = times.parts.iter().find(|(part, ..)| *part == reserving);
            let values = of_it.map_or(&[][..], |(_, one, _)| &one.values);
            found.figures.push(charts::scatter("Boomerang reservation", mbps as f64, values));
        }
    }
    let (figure, what) = match protocol {
        Protocol::Rsvp => (2, "RSVP Resv message"),
        Protocol::Boomerang => (3, "Boomerang reservation"),
    };
    found.figures.push(charts::traffic(figure, what, &points));
    for &rate in intensities {
        say(format!("{} on real packets, {rate} messages a second", protocol.name()));
        let gap = Duration::from_secs_f64(1.0 / rate as f64);
        let times = bed.lives(protocol, repetitions / protocol.life().len(), gap, 0, patience)?;
        if let (Some(one), _) = times.estimates(reserving) {
            found.signalling_load.push((format!("{}, checkpoint 1", reserving.name()), rate as f64, one));
        }
    }
    Ok(())
}

/// Tables 1 and 2.
fn fill_packets(found: &mut Found, times: &packets::Times) {
    for (part, ..) in &times.parts {
        let (table, row) = match part {
            Part::Rsvp(MessageType::Path) => (1, row::PATH),
            Part::Rsvp(MessageType::Resv) => (1, row::RESV),
            Part::Rsvp(MessageType::ResvTear) => (1, row::RESV_TEAR),
            Part::Rsvp(_) => (1, row::PATH_TEAR),
            Part::Reserve => (2, row::BOOMERANG),
            Part::Release => (2, row::BOOMERANG_TEAR),
        };
        let (one, two) = times.estimates(*part);
        found.wire.extend(one.map(|one| (*part, one.median)));
        if table == 2 && two.is_none() {
            let why = "what the fast path sends on in the driver (XDP) never comes to the hooks of checkpoint 2";
            found.tables[1].missing = Some(why.into());
        }
        Report::set(&mut found.tables, table, row, "1", one);
        Report::set(&mut found.tables, table, row, "2", two);
    }
}

/// Tables 3, 4, 6 and 7.
fn fill_rsvp(tables: &mut [Numbered], profiles: &[Profile]) {
    let us = |kind: Kind, step: Step| {
        let found = profiles.iter().find(|profile| profile.kind == kind)?;
        found.step(step).map(|estimate| estimate.scaled(1e-3))
    };
    let mut set = |table, row, column: &str, here| Report::set(tables, table, row, column, here);
    let path = [Step::FindSession, Step::CreateSession, Step::CreatePsb, Step::Route, Step::PathRefresh];
    for step in path {
        set(3, row::PATH, step.name(), us(Kind::Path, step));
    }
    // Among the senders of a session that is there: of a new one there is nothing to search.
    set(3, row::PATH, Step::FindPsb.name(), us(Kind::SecondPath, Step::FindPsb));
    for step in [Step::FindSession, Step::CheckStyles, Step::ManageReservation, Step::ResvRefresh] {
        set(4, row::RESV, step.name(), us(Kind::Resv, step));
    }
    for step in [Step::FindSession, Step::FindPsb] {
        set(6, row::PATH_TEAR, step.name(), us(Kind::PathTear, step));
    }
    set(6, row::PATH_TEAR, "tear PSB, path refresh", us(Kind::PathTear, Step::TearPsb));
    let both = [Step::FindSession, Step::FindRsb].map(|step| us(Kind::ResvTear, step));
    if let [Some(session), Some(rsb)] = both {
        let sum = Estimate {
            median: session.median + rsb.median,
            low: session.low + rsb.low,
            high: session.high + rsb.high,
            mean: session.mean + rsb.mean,
            ..session
        };
        set(7, row::RESV_TEAR, "find session block and RSB", Some(sum));
    }
    set(7, row::RESV_TEAR, Step::TearReservation.name(), us(Kind::ResvTear, Step::TearReservation));
    set(7, row::RESV_TEAR, Step::ResvRefresh.name(), us(Kind::ResvTear, Step::ResvRefresh));
}

/// Tables 5 and 8.
fn fill_boomerang(tables: &mut [Numbered], profiles: &[Profile]) {
    let us = |kind: Kind, step: Step| {
        let found = profiles.iter().find(|profile| profile.kind == kind)?;
        found.step(step).map(|estimate| estimate.scaled(1e-3))
    };
    for step in [Step::BoomerangFind, Step::BoomerangCreate, Step::BoomerangManage] {
        Report::set(tables, 5, row::BOOMERANG, step.name(), us(Kind::Reserve, step));
    }
    for step in [Step::BoomerangFind, Step::BoomerangManage, Step::BoomerangRemove] {
        Report::set(tables, 8, row::BOOMERANG_TEAR, step.name(), us(Kind::Release, step));
    }
    let given_back = "giving the capacity back is part of tearing the session block here".to_string();
    if let Some(table) = tables.iter_mut().find(|t| t.table == 8 && t.cells.iter().any(|cell| cell.here.is_none())) {
        table.missing = Some(given_back);
    }
}

/// Engine against engine.
fn ratios(rsvp: &[Load], boomerang: &[Load]) -> Vec<Ratio> {
    let of = |(of_rsvp, of_boomerang): (Kind, Kind), what: &str, (one, other): (&Load, &Load)| {
        let (rsvp, boomerang) = (one.whole(of_rsvp)?.median / 1e3, other.whole(of_boomerang)?.median / 1e3);
        let what = format!("engine : engine, {what}, {} sessions", one.sessions);
        Some(Ratio { what, boomerang_us: boomerang, rsvp_us: rsvp })
    };
    let ends = [(rsvp.first(), boomerang.first()), (rsvp.last(), boomerang.last())];
    let ends = ends.into_iter().filter_map(|(one, other)| one.zip(other));
    let all = ends.flat_map(|at| {
        [of((Kind::Resv, Kind::Reserve), "new", at), of((Kind::ResvAgain, Kind::ReserveAgain), "refresh", at)]
    });
    all.flatten().collect()
}

/// Whole nodes: RSVP over sockets and the plane, Boomerang in the kernel's fast path.
fn on_the_wire(medians: &[(Part, f64)]) -> Option<Ratio> {
    let of = |part: Part| medians.iter().find(|(p, _)| *p == part).map(|(_, us)| *us);
    let rsvp_us = of(Part::Rsvp(MessageType::Resv))?;
    Some(Ratio { what: "fast path : sockets, checkpoint 1".into(), boomerang_us: of(Part::Reserve)?, rsvp_us })
}

/// Table 9.
fn fill_growth(tables: &mut [Numbered], loads: &[Load]) {
    let (Some(first), Some(last)) = (loads.first(), loads.last()) else { return };
    for (name, kind, step) in load::GROWING {
        let (Some(few), Some(many)) = (first.step(kind, step), last.step(kind, step)) else { continue };
        let more = f64::from(last.sessions - first.sessions) * 1e3;
        let median = load::per_session(loads, kind, step);
        // What the ends' intervals leave open.
        let (low, high) = ((many.low - few.high) / more, (many.high - few.low) / more);
        let here = Estimate { median, low: low.min(median), high: high.max(median), mean: median, ..many };
        Report::set(tables, 9, name, "per session", Some(here));
    }
}

fn session_load(loads: &[Load], protocol: Protocol) -> Vec<AtLoad> {
    let named = [
        (Kind::Reserve, "new"),
        (Kind::ReserveAgain, "refresh"),
        (Kind::Release, "release"),
        (Kind::Path, "Path, new"),
        (Kind::Resv, "Resv, new"),
        (Kind::ResvTear, "ResvTear"),
        (Kind::PathTear, "PathTear"),
        (Kind::PathAgain, "Path, refresh"),
        (Kind::ResvAgain, "Resv, refresh"),
    ];
    let mut rows = Vec::new();
    for (kind, what) in named {
        for load in loads {
            let Some(ns) = load.whole(kind) else { continue };
            rows.push(AtLoad { protocol: protocol.name(), sessions: load.sessions, what: what.into(), ns });
        }
    }
    rows
}

fn machine(calibration: Calibration, before: f64) -> Machine {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Machine {
        processor: model.map_or("unknown processor".into(), |(_, name)| name.trim().to_string()),
        processors: cpu.lines().filter(|line| line.starts_with("processor")).count(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string(),
        load: (before, load_average()),
        empty_step_ns: calibration.empty * calibration.ns_per_tick,
    }
}

/// Load average of the last minute.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}
