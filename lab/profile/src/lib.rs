//! `sluice profile`: RSVP and Boomerang side by side, message by message and step by step, as in *Profiling
//! resource reservation protocols* (IFIP 2001): its Tables 1 to 9 and its Figures 2 to 6 as this machine
//! measures them.
//!
//! | file | what |
//! |---|---|
//! | `published` | the document's numbers |
//! | `sample` | medians and their confidence |
//! | `transit` | a node in this process, between neighbours made of messages |
//! | `steps` | Tables 3 to 8: the steps of a message |
//! | `load` | Table 9, Figures 5 and 6: session load |
//! | `line` `boundary` `tester` | a node on real packets in namespaces, time stamps, and the tester |
//! | `packets` `real` | Tables 1 and 2, Figures 2 to 4, signalling load |
//! | `fast` | Boomerang's fast path by test run |
//! | `ratio` | Boomerang : RSVP |
//! | `blackbox` `ends` | `sluice profile bench`: any node, with the terms of RFC 4883 |
//! | `report` `charts` | tables, figures, JSON |
#![forbid(unsafe_code)]

pub mod blackbox;
pub mod boundary;
pub mod charts;
pub mod ends;
pub mod fast;
pub mod line;
pub mod load;
pub mod packets;
pub mod published;
pub mod ratio;
pub mod real;
pub mod report;
pub mod sample;
pub mod steps;
pub mod tester;
pub mod transit;

use bed::error::Error;
use bed::patience::Patience;
use figures::progress::Progress;
use linux::tsc::Calibration;
use load::SessionCost;
use published::row;
use real::{Extent, RealFindings};
use report::{AtLoad, Machine, Numbered, ProfileReport};
use sample::Estimate;
use std::time::{Duration, Instant};
use steps::{Kind, Pair, StepMedians};
use terms::probe::ProbePoint;
use transit::Protocol;

/// The options of a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProfileOptions {
    /// Few samples, few sessions: for tests.
    pub quick: bool,
    /// True to show progress.
    pub progress: bool,
}

impl ProfileOptions {
    /// Returns the number of samples for each figure: 300, as in the document.
    pub fn repetitions(&self) -> usize {
        if self.quick { 30 } else { 300 }
    }

    fn sizes(&self) -> &'static [u32] {
        if self.quick { &load::QUICK } else { &load::FULL }
    }

    fn extent(&self) -> Extent {
        let repetitions = self.repetitions();
        match self.quick {
            true => Extent { repetitions, traffic: &packets::TRAFFIC_QUICK, intensity: &packets::INTENSITY_QUICK },
            false => Extent { repetitions, traffic: &packets::TRAFFIC, intensity: &packets::INTENSITY },
        }
    }
}

/// Measures all tables and figures.
///
/// # Errors
/// The user stops the run, or a measurement is void.
pub fn run(options: &ProfileOptions, patience: &Patience) -> Result<ProfileReport, Error> {
    let (begun, before) = (Instant::now(), load_average());
    let mut progress = if options.progress { Progress::new(Duration::from_secs(60)) } else { Progress::silent() };
    // Without the right to go first, other work is merely seen more often.
    let _allowed = linux::process::go_first();
    let calibration = Calibration::measure();
    let repetitions = options.repetitions();
    let mut found = RealFindings { tables: ProfileReport::blank(), ..RealFindings::default() };
    let mut say = |line: String| progress.say(&line);
    let mut few = |protocol: Protocol| {
        say(format!("{}, step by step", protocol.name()));
        let mut pair = Pair::new(protocol, calibration, steps::BATCH as u32);
        pair.grow(steps::BATCH as u32, patience)?;
        pair.profile(repetitions, patience)
    };
    fill_rsvp(&mut found.tables, &few(Protocol::Rsvp)?);
    fill_boomerang(&mut found.tables, &few(Protocol::Boomerang)?);
    let sizes = options.sizes();
    let mut many = |protocol| load::run(protocol, calibration, sizes, repetitions, patience, &mut say);
    let (loads, echoes) = (many(Protocol::Rsvp)?, many(Protocol::Boomerang)?);
    fill_growth(&mut found.tables, &loads);
    let fast = match fast::run(sizes, repetitions, patience, &mut say) {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(why) => {
            found.skipped.push(format!("the fast path by test run: {why}"));
            Vec::new()
        }
        Ok(fast) => fast,
    };
    real::run(&options.extent(), &fast, &mut found, patience, &mut say)?;
    found.figures.extend([charts::lookup(&loads, &echoes), charts::maintenance(&loads, &echoes, &fast)]);
    found.figures.sort_by_key(|figure| figure.figure);
    let mut ratios = ratio::engines(&loads, &echoes);
    ratios.extend(ratio::nodes(&found.unloaded, &fast));
    let named = [(&loads, "RSVP"), (&echoes, "Boomerang"), (&fast, "Boomerang, fast path")];
    let session_load = named.into_iter().flat_map(|(loads, name)| session_load(loads, name)).collect();
    let RealFindings { tables, signalling_load, figures, skipped, .. } = found;
    Ok(ProfileReport {
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

/// Fills in Tables 3, 4, 6 and 7.
fn fill_rsvp(tables: &mut [Numbered], profiles: &[StepMedians]) {
    let us = |kind: Kind, step: ProbePoint| {
        let found = profiles.iter().find(|profile| profile.kind == kind)?;
        found.step(step).map(|estimate| estimate.scaled(1e-3))
    };
    let mut set = |table, row, column: &str, here| ProfileReport::set(tables, table, row, column, here);
    let path = [
        ProbePoint::FindSession,
        ProbePoint::CreateSession,
        ProbePoint::CreatePsb,
        ProbePoint::Route,
        ProbePoint::PathRefresh,
    ];
    for step in path {
        set(3, row::PATH, step.name(), us(Kind::Path, step));
    }
    // Among the senders of a session that is there: of a new one there is nothing to search.
    set(3, row::PATH, ProbePoint::FindPsb.name(), us(Kind::SecondPath, ProbePoint::FindPsb));
    for step in
        [ProbePoint::FindSession, ProbePoint::CheckStyles, ProbePoint::ManageReservation, ProbePoint::ResvRefresh]
    {
        set(4, row::RESV, step.name(), us(Kind::Resv, step));
    }
    for step in [ProbePoint::FindSession, ProbePoint::FindPsb] {
        set(6, row::PATH_TEAR, step.name(), us(Kind::PathTear, step));
    }
    set(6, row::PATH_TEAR, "tear PSB, path refresh", us(Kind::PathTear, ProbePoint::TearPsb));
    let both = [ProbePoint::FindSession, ProbePoint::FindRsb].map(|step| us(Kind::ResvTear, step));
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
    set(7, row::RESV_TEAR, ProbePoint::TearReservation.name(), us(Kind::ResvTear, ProbePoint::TearReservation));
    set(7, row::RESV_TEAR, ProbePoint::ResvRefresh.name(), us(Kind::ResvTear, ProbePoint::ResvRefresh));
}

/// Fills in Tables 5 and 8.
fn fill_boomerang(tables: &mut [Numbered], profiles: &[StepMedians]) {
    let us = |kind: Kind, step: ProbePoint| {
        let found = profiles.iter().find(|profile| profile.kind == kind)?;
        found.step(step).map(|estimate| estimate.scaled(1e-3))
    };
    for step in [ProbePoint::BoomerangFind, ProbePoint::BoomerangCreate, ProbePoint::BoomerangManage] {
        ProfileReport::set(tables, 5, row::BOOMERANG, step.name(), us(Kind::Reserve, step));
    }
    for step in [ProbePoint::BoomerangFind, ProbePoint::BoomerangManage, ProbePoint::BoomerangRemove] {
        ProfileReport::set(tables, 8, row::BOOMERANG_TEAR, step.name(), us(Kind::Release, step));
    }
}

/// Fills in Table 9.
fn fill_growth(tables: &mut [Numbered], loads: &[SessionCost]) {
    let (Some(first), Some(last)) = (loads.first(), loads.last()) else { return };
    for (name, kind, step) in load::GROWING {
        let (Some(few), Some(many)) = (first.step(kind, step), last.step(kind, step)) else { continue };
        let more = f64::from(last.sessions - first.sessions) * 1e3;
        let median = load::per_session(loads, kind, step);
        // What the ends' intervals leave open.
        let (low, high) = ((many.low - few.high) / more, (many.high - few.low) / more);
        let here = Estimate { median, low: low.min(median), high: high.max(median), mean: median, ..many };
        ProfileReport::set(tables, 9, name, "per session", Some(here));
    }
}

fn session_load(loads: &[SessionCost], protocol: &'static str) -> Vec<AtLoad> {
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
            rows.push(AtLoad { protocol, sessions: load.sessions, what: what.into(), ns });
        }
        // Tears come first in a round: they alone find everything cold.
        let warm = |load: &SessionCost| load.profiles.iter().find(|p| p.kind == kind)?.warm;
        for load in loads.iter().filter(|_| matches!(kind, Kind::ResvTear | Kind::Release)) {
            let Some(ns) = warm(load) else { continue };
            let what = format!("{what}, in the cache");
            rows.push(AtLoad { protocol, sessions: load.sessions, what, ns });
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

/// Returns the load average of the last minute.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}
