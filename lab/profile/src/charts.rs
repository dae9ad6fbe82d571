//! Figures 2 to 6 of *Profiling resource reservation protocols*.

use super::load::SessionCost;
use super::published::MAINTENANCE_US;
use super::report::NumberedFigure;
use super::steps::Kind;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use terms::probe::ProbePoint;

fn thousand(sessions: u32) -> f64 {
    f64::from(sessions) / 1e3
}

fn axis(label: &str) -> Axis {
    Axis { label: label.into(), reach: 0.0 }
}

fn line(name: &str, color: Rgb, mark: Mark, points: Vec<(f64, f64)>) -> ChartLine {
    ChartLine { name: name.into(), color, mark, points }
}

/// Draws Figure 5: the time to find a session block, against the number of sessions.
pub fn lookup(rsvp: &[SessionCost], boomerang: &[SessionCost]) -> NumberedFigure {
    let of = |loads: &[SessionCost], kind, step| {
        let at = |load: &SessionCost| Some((thousand(load.sessions), load.step(kind, step)?.median));
        loads.iter().filter_map(at).collect::<Vec<_>>()
    };
    let lines = vec![
        line("RSVP", Rgb::RED, Mark::Square, of(rsvp, Kind::ResvTear, ProbePoint::FindSession)),
        line("Boomerang", Rgb::BLUE, Mark::Circle, of(boomerang, Kind::Release, ProbePoint::BoomerangFind)),
    ];
    let chart = Chart {
        title: "Session lookup processing time".into(),
        subtitle: "Median of finding a random session block; published: 1.7 to 2.7 us, without visible growth".into(),
        x: axis("Sessions (thousands)"),
        y: axis("Find session block (ns)"),
        lines,
        landmark: None,
    };
    NumberedFigure::of(5, "figure-5-session-lookup", chart)
}

/// Draws Figure 6: the share of a processor that soft state takes.
pub fn maintenance(rsvp: &[SessionCost], boomerang: &[SessionCost], fast: &[SessionCost]) -> NumberedFigure {
    // Microseconds in a second, as per cent of it.
    let share = |load: &SessionCost| Some((thousand(load.sessions), load.maintenance?.median / 1e4));
    let rsvp: Vec<(f64, f64)> = rsvp.iter().filter_map(share).collect();
    let most = rsvp.iter().map(|point| point.1).fold(0.1, f64::max);
    let reach = rsvp.iter().map(|point| point.0).fold(0.0, f64::max);
    // The published line is so steep that only its beginning fits.
    let published = |share: f64| share * 1e4 / MAINTENANCE_US / 1e3;
    let end = published(most).min(reach);
    let mut lines = vec![
        line("ISI RSVP (2001)", Rgb::GREY, Mark::None, vec![(0.0, 0.0), (end, most)]),
        line("RSVP", Rgb::RED, Mark::Square, rsvp),
        line("Boomerang", Rgb::BLUE, Mark::Circle, boomerang.iter().filter_map(share).collect()),
    ];
    if !fast.is_empty() {
        let sweeps = fast.iter().filter_map(share).collect();
        lines.push(line("fast path", Rgb::GREEN, Mark::Circle, sweeps));
    }
    let chart = Chart {
        title: "Session maintenance processor utilization".into(),
        subtitle: "Alarms, refreshes sent and sweeps in a second, R = 30 s; in 2001 about 10 us for each session"
            .into(),
        x: axis("Sessions (thousands)"),
        y: axis("Share of one processor (%)"),
        lines,
        landmark: None,
    };
    NumberedFigure::of(6, "figure-6-session-maintenance", chart)
}

/// Draws Figures 2 and 3: message processing time against background traffic; points are (Mb/s, mean at
/// checkpoint 1, at 2), us.
pub fn traffic(figure: u8, what: &str, points: &[(f64, f64, Option<f64>)]) -> NumberedFigure {
    let mut lines = vec![line(
        "1: into and out of the interface",
        Rgb::RED,
        Mark::Square,
        points.iter().map(|p| (p.0, p.1)).collect(),
    )];
    let second: Vec<_> = points.iter().filter_map(|p| Some((p.0, p.2?))).collect();
    if !second.is_empty() {
        lines.push(line("2: past the interface's hooks", Rgb::BLUE, Mark::Circle, second));
    }
    let chart = Chart {
        title: format!("{what} against background traffic"),
        subtitle: "Mean; UDP of 512-byte packets at a constant rate through the same node, one machine".into(),
        x: axis("Background traffic (Mb/s)"),
        y: axis("Processing time (us)"),
        lines,
        landmark: None,
    };
    let name = if figure == 2 { "figure-2-rsvp-traffic" } else { "figure-3-boomerang-traffic" };
    NumberedFigure::of(figure, name, chart)
}

/// Draws Figure 4: a point for every message.
pub fn scatter(what: &str, mbps: f64, values: &[f64]) -> NumberedFigure {
    let points = values.iter().enumerate().map(|(n, us)| (n as f64, *us)).collect();
    let chart = Chart {
        title: format!("{what} at {mbps:.0} Mb/s of background traffic"),
        subtitle: "Each message: interrupted by packets of the background traffic, or not".into(),
        x: axis("Message"),
        y: axis("Processing time (us)"),
        lines: vec![line("checkpoint 1", Rgb::BLUE, Mark::Alone, points)],
        landmark: None,
    };
    NumberedFigure::of(4, "figure-4-levels", chart)
}
