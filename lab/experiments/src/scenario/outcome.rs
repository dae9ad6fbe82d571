//! The results of a scenario: readings of each point, as tables, CSV, JSON and figures.

use crate::experiment::statistics;
use bed::error::Error;
use bed::results::{put, put_files};
use figures::csv::quoted;
use figures::{Axis, Chart, ChartLine, Mark, Rgb};
use linux::error::SystemError;
use rpc::table::{Align, TextTable};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;

/// All results of a scenario.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScenarioOutcome {
    /// The scenario's name.
    pub name: String,
    /// The number of independent runs of each point.
    pub seeds: u64,
    /// The points, in order.
    pub points: Vec<PointOutcome>,
    /// The number of events played in all runs.
    pub events: u64,
    /// The number of data packets sent by sources and connections in all runs.
    pub packets: u64,
}

/// A point of the sweep.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PointOutcome {
    /// The swept fields and their values, as written in the file.
    pub at: Vec<(String, String)>,
    /// The readings at this point.
    pub readings: Vec<SeedMeans>,
}

/// The readings of one source, connection, group, link or recognising queue: means over the seeds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SeedMeans {
    /// The kind: `source`, `tcp`, `group`, `link`, `mace`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The values.
    pub values: Vec<OutcomeValue>,
}

/// A value of a reading. A value that no run has is left out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OutcomeValue {
    /// The value's name, with its unit.
    pub what: String,
    /// The mean over the seeds.
    pub mean: f64,
    /// Half the width of its 95 % confidence interval; null for a single run.
    pub ci95: Option<f64>,
}

/// The readings of one source, connection, group or link in one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Raw {
    /// As in [`SeedMeans`].
    pub kind: String,
    /// As in [`SeedMeans`].
    pub name: String,
    /// The values; null for a missing one.
    pub values: Vec<(String, Option<f64>)>,
}

impl Raw {
    /// Creates a reading without values.
    pub fn new(kind: &str, name: &str) -> Raw {
        Raw { kind: kind.into(), name: name.into(), values: Vec::new() }
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, what: &str, value: impl Into<Option<f64>>) -> Raw {
        self.values.push((what.into(), value.into()));
        self
    }
}

impl SeedMeans {
    /// Returns the mean of a value.
    pub fn get(&self, what: &str) -> Option<f64> {
        self.values.iter().find(|value| value.what == what).map(|value| value.mean)
    }
}

/// Computes means over the runs of one point, which all have the same readings.
pub fn readings(runs: &[&[Raw]]) -> Vec<SeedMeans> {
    let Some(first) = runs.first() else { return Vec::new() };
    let reading = |(n, raw): (usize, &Raw)| {
        let value = |(place, (what, _)): (usize, &(String, Option<f64>))| {
            let samples: Vec<f64> = runs.iter().filter_map(|run| run.get(n)?.values.get(place)?.1).collect();
            let found = statistics::mean(&samples)?;
            Some(OutcomeValue { what: what.clone(), mean: found.mean, ci95: found.ci95 })
        };
        let values = raw.values.iter().enumerate().filter_map(value).collect();
        SeedMeans { kind: raw.kind.clone(), name: raw.name.clone(), values }
    };
    first.iter().enumerate().map(reading).collect()
}

/// The kinds, each with the value and the axis of its figure.
const KINDS: [(&str, &str, &str); 5] = [
    ("source", "received Mb/s", "Received (Mb/s)"),
    ("tcp", "goodput Mb/s", "Goodput (Mb/s)"),
    ("group", "goodput Mb/s", "Goodput and received (Mb/s)"),
    ("link", "offered Mb/s", "Offered to the link (Mb/s)"),
    ("mace", "mean flows", "Flows admitted by measurement"),
];
/// The number of connections above which only groups are shown, if there are groups.
const MANY: usize = 40;
/// The largest number of lines in a figure.
const LINES: usize = 8;
const COLORS: [Rgb; 5] = [Rgb::BLUE, Rgb::RED, Rgb::GREEN, Rgb::AMBER, Rgb::GREY];

impl std::fmt::Display for ScenarioOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.name)?;
        for (kind, ..) in KINDS {
            let readings = || self.of(kind).map(|(_, reading)| reading);
            let per_point = readings().count() / self.points.len().max(1);
            if per_point == 0 {
                continue;
            }
            if per_point > MANY && kind != "group" && self.of("group").next().is_some() {
                writeln!(f, "\n{per_point} of kind {kind}: by group below, each in the CSV and JSON")?;
                continue;
            }
            write!(f, "\n{}", self.table(kind))?;
        }
        Ok(())
    }
}

impl ScenarioOutcome {
    /// Returns the readings of a kind, with their points.
    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a PointOutcome, &'a SeedMeans)> {
        let readings = self.points.iter().flat_map(|point| point.readings.iter().map(move |reading| (point, reading)));
        readings.filter(move |(_, reading)| reading.kind == kind)
    }

    fn table(&self, kind: &str) -> TextTable {
        let mut columns: Vec<&str> = Vec::new();
        for (_, reading) in self.of(kind) {
            for value in
                reading.values.iter().filter(|value| !columns.contains(&value.what.as_str())).collect::<Vec<_>>()
            {
                columns.push(&value.what);
            }
        }
        let fields = self.points.first().map_or(&[][..], |point| &point.at);
        let mut head: Vec<(&str, Align)> = fields.iter().map(|(field, _)| (field.as_str(), Align::Right)).collect();
        head.push((kind, Align::Left));
        head.extend(columns.iter().map(|column| (*column, Align::Right)));
        let mut table = TextTable::new(&head);
        for (point, reading) in self.of(kind) {
            let mut row: Vec<String> = point.at.iter().map(|(_, value)| bare(value).to_string()).collect();
            row.push(reading.name.clone());
            row.extend(columns.iter().map(|column| {
                let value = reading.values.iter().find(|value| value.what == *column);
                value.map_or("-".to_string(), shown)
            }));
            table.row(row);
        }
        table
    }

    /// Formats every value in a row of its own.
    pub fn csv(&self) -> String {
        let fields = self.points.first().map_or(&[][..], |point| &point.at);
        let head = fields.iter().map(|(field, _)| quoted(field));
        let head: Vec<String> = head.chain(["kind,name,value,mean,ci95".to_string()]).collect();
        let mut text = head.join(",") + "\n";
        for point in &self.points {
            let at: String = point.at.iter().map(|(_, value)| quoted(bare(value)) + ",").collect();
            for reading in &point.readings {
                for value in &reading.values {
                    let ci95 = value.ci95.map(|half| half.to_string()).unwrap_or_default();
                    let (kind, name, what) = (&reading.kind, quoted(&reading.name), quoted(&value.what));
                    let _ = writeln!(text, "{at}{kind},{name},{what},{},{ci95}", value.mean);
                }
            }
        }
        text
    }

    /// Formats the results as a line for scripts.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| unreachable!("an outcome is text and numbers"))
    }

    /// Draws a figure for each kind: against the first swept field with numbers, or by position without a
    /// sweep.
    pub fn charts(&self) -> Vec<(String, Chart)> {
        let kinds =
            KINDS.iter().filter_map(|(kind, what, label)| Some((kind.to_string(), self.chart(kind, what, label)?)));
        kinds.collect()
    }

    fn chart(&self, kind: &str, what: &str, label: &str) -> Option<Chart> {
        self.of(kind).next()?;
        let fields = self.points.first().map_or(&[][..], |point| &point.at);
        let numeric = |n: usize| self.points.iter().all(|point| number(&point.at[n].1).is_some());
        let axis = (0..fields.len()).find(|&n| numeric(n));
        let mut lines: Vec<ChartLine> = Vec::new();
        for (point, reading) in self.of(kind) {
            let Some(y) = reading.get(what) else { continue };
            let others = point.at.iter().enumerate().filter(|(n, _)| Some(*n) != axis);
            let others: String = others.map(|(_, (field, value))| format!(", {field} {}", bare(value))).collect();
            let (name, x) = match axis {
                Some(n) => (format!("{}{others}", reading.name), number(&point.at[n].1)?),
                None => {
                    (format!("{kind}s{others}"), 1.0 + lines.iter().map(|line| line.points.len()).sum::<usize>() as f64)
                }
            };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((x, y)),
                None => {
                    let color = COLORS[lines.len() % COLORS.len()];
                    let mark = if axis.is_some() { Mark::Circle } else { Mark::Alone };
                    lines.push(ChartLine { name, color, mark, points: vec![(x, y)] });
                }
            }
        }
        let left_out = lines.len().saturating_sub(LINES);
        lines.truncate(LINES);
        let more = if left_out > 0 { format!("; {left_out} more in the CSV") } else { String::new() };
        let along = axis.map_or(format!("{kind}, by its place"), |n| fields[n].0.clone());
        Some(Chart {
            title: self.name.clone(),
            subtitle: format!("simulated; {} seed(s){more}", self.seeds),
            x: Axis { label: along, reach: 0.0 },
            y: Axis { label: label.to_string(), reach: 0.0 },
            lines,
            landmark: None,
        })
    }

    /// Writes tables, CSV, JSON and figures into a folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        std::fs::create_dir_all(folder)
            .map_err(|error| SystemError::because(format!("make {}", folder.display()), error))?;
        put(folder, "tables.txt", self.to_string().as_bytes())?;
        put(folder, "values.csv", self.csv().as_bytes())?;
        put(folder, "outcome.json", self.json().as_bytes())?;
        for (name, chart) in self.charts() {
            put_files(folder, &chart.files(&name))?;
        }
        Ok(())
    }
}

fn shown(value: &OutcomeValue) -> String {
    let digits = if value.mean.abs() >= 100.0 || value.mean.fract() == 0.0 && value.ci95.is_none() { 0 } else { 3 };
    match value.ci95 {
        Some(half) => format!("{:.digits$} ±{half:.digits$}", value.mean),
        None => format!("{:.digits$}", value.mean),
    }
}

/// Returns a value without its quotes.
fn bare(value: &str) -> &str {
    value.trim_matches(['"', '\''])
}

/// Reads a value as a number: rates in Mb/s, sizes in kB, times in ms.
fn number(value: &str) -> Option<f64> {
    let text = bare(value);
    let rate = || documents::units::parse_rate(text).ok().map(|rate| rate.as_bps() as f64 / 1e6);
    let size = || documents::units::parse_bytes(text).ok().map(|size| size.get() as f64 / 1e3);
    let span = || documents::units::parse_span(text).ok().map(|span| span.as_nanos() as f64 / 1e6);
    text.parse().ok().or_else(rate).or_else(size).or_else(span)
}
