//! The results of an experiment: measured cells beside published ones, figures and notes, as text, CSV and
//! JSON.

use super::statistics::{self, Distance};
use super::tables;
use bed::error::Error;
use bed::results::{put, put_files};
use figures::Chart;
use figures::csv::quoted;
use linux::error::SystemError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A cell of a table: the published value and the measured one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The table's number in the document: `A.2`.
    pub table: String,
    /// The row: `C1`.
    pub row: String,
    /// The column: `total`.
    pub column: String,
    /// The published value; null where the document has none.
    pub published: Option<f64>,
    /// The mean over the seeds.
    pub measured: f64,
    /// Half the width of its 95 % confidence interval; null of a single seed.
    pub ci95: Option<f64>,
}

impl Cell {
    /// Returns the relative error against the published value.
    pub fn error(&self) -> Option<f64> {
        statistics::relative(self.published?, self.measured)
    }
}

/// A table's title, for people.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Title {
    /// The table's number.
    pub table: String,
    /// The table's subject, with the unit.
    pub title: String,
}

/// A figure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// The name of its file, without the ending.
    pub name: String,
    /// A caption of the figure.
    pub caption: String,
    /// The chart, until it is written.
    #[serde(skip)]
    pub chart: Option<Chart>,
}

/// All results of an experiment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Finding {
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's subject.
    pub about: String,
    /// The document with the published values.
    pub source: String,
    /// True for the quick form.
    pub quick: bool,
    /// The length of the run, seconds.
    pub wall_s: f64,
    /// Titles of the tables.
    pub titles: Vec<Title>,
    /// The cells, table by table, row by row.
    pub cells: Vec<Cell>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Remarks that a reader of this run must know: seeds, speed, parameters.
    pub notes: Vec<String>,
    /// Expected results that did not appear, in words.
    pub shortfalls: Vec<String>,
    /// Single numbers, beside the cells in the line for scripts.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
    /// Lists and objects, beside them.
    #[serde(default)]
    pub details: BTreeMap<String, Value>,
}

/// The line for scripts, with names that stay the same.
#[derive(Serialize)]
struct Line<'a> {
    experiment: &'a str,
    wall_s: f64,
    #[serde(flatten)]
    values: &'a BTreeMap<String, f64>,
    #[serde(flatten)]
    details: &'a BTreeMap<String, Value>,
    cells: &'a [Cell],
}

impl Finding {
    /// Sets the title of a table.
    pub fn title(&mut self, table: &str, title: impl Into<String>) {
        self.titles.push(Title { table: table.into(), title: title.into() });
    }

    /// Adds the mean over the seeds' samples as a cell. Without samples it adds none.
    pub fn cell(&mut self, table: &str, row: &str, column: &str, published: Option<f64>, samples: &[f64]) {
        if let Some(found) = statistics::mean(samples) {
            let (table, row, column) = (table.to_string(), row.to_string(), column.to_string());
            self.cells.push(Cell { table, row, column, published, measured: found.mean, ci95: found.ci95 });
        }
    }

    /// Adds a single number.
    pub fn value(&mut self, name: &str, value: f64) {
        self.values.insert(name.into(), value);
    }

    /// Adds a list or an object.
    pub fn detail(&mut self, name: &str, value: Value) {
        self.details.insert(name.into(), value);
    }

    /// Adds a figure.
    pub fn figure(&mut self, name: &str, caption: &str, chart: Chart) {
        self.figures.push(Figure { name: name.into(), caption: caption.into(), chart: Some(chart) });
    }

    /// Returns the tables' names, in order.
    pub fn tables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.table.as_str()) {
                names.push(&cell.table);
            }
        }
        names
    }

    /// Returns a table's cells.
    pub fn of(&self, table: &str) -> Vec<&Cell> {
        self.cells.iter().filter(|cell| cell.table == table).collect()
    }

    /// Returns the measured value of a cell.
    pub fn measured(&self, table: &str, row: &str, column: &str) -> Option<f64> {
        let cell = self.cells.iter().find(|cell| cell.table == table && cell.row == row && cell.column == column);
        cell.map(|cell| cell.measured)
    }

    /// Returns a table's distance from the published values.
    pub fn distance(&self, table: &str) -> Option<Distance> {
        let pairs = self.of(table).into_iter().map(|cell| (cell.published.unwrap_or(0.0), cell.measured));
        statistics::distance(&pairs.collect::<Vec<_>>())
    }

    /// Formats the results for people: every table beside the published one, notes, shortfalls.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.about, self.source);
        for table in self.tables() {
            let _ = write!(text, "\n{}", tables::text(self, table));
        }
        let blank = if self.notes.is_empty() { "" } else { "\n" };
        text.push_str(blank);
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        let _ = writeln!(text, "{:.1} s", self.wall_s);
        text
    }

    /// Formats the line for scripts.
    pub fn json(&self) -> String {
        // Rounded to milliseconds, because further digits of a second have no use.
        let wall_s = (self.wall_s * 1e3).round() / 1e3;
        let Finding { experiment, values, details, cells, .. } = self;
        serde_json::to_string(&Line { experiment, wall_s, values, details, cells })
            .unwrap_or_else(|_| unreachable!("cells are text and numbers"))
    }

    /// Formats the cells as CSV.
    pub fn csv(&self) -> String {
        let mut text = String::from("table,row,column,published,measured,ci95\n");
        let or_empty = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        for cell in &self.cells {
            let (published, ci95) = (or_empty(cell.published), or_empty(cell.ci95));
            let [table, row, column] = [&cell.table, &cell.row, &cell.column].map(|word| quoted(word));
            let _ = writeln!(text, "{table},{row},{column},{published},{},{ci95}", cell.measured);
        }
        text
    }

    /// Writes text, CSV, JSON and figures into a folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder)
            .map_err(|error| SystemError::because(format!("make {}", folder.display()), error))?;
        let whole =
            serde_json::to_string_pretty(self).unwrap_or_else(|_| unreachable!("a finding is text and numbers"));
        put(folder, "tables.txt", self.text().as_bytes())?;
        put(folder, "cells.csv", self.csv().as_bytes())?;
        put(folder, FILE, whole.as_bytes())?;
        for figure in &self.figures {
            if let Some(chart) = &figure.chart {
                put_files(folder, &chart.files(&figure.name))?;
            }
        }
        Ok(())
    }

    /// Reads the results of an earlier run from a folder; `None` if there are none, or they cannot be read.
    pub fn read(folder: &Path) -> Option<Finding> {
        serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
    }
}

/// The file that holds all results of an experiment.
const FILE: &str = "finding.json";

#[cfg(test)]
mod tests {
    use super::*;

    fn finding() -> Finding {
        let mut finding = Finding { experiment: "trial".into(), wall_s: 1.23456, ..Finding::default() };
        finding.title("A.2", "throughput, Mb/s");
        finding.cell("A.2", "C1", "total", Some(2.0), &[2.2, 2.2]);
        finding.cell("A.2", "C1", "green", Some(1.0), &[1.0]);
        finding.cell("A.2", "C2, shaped", "total", None, &[4.0]);
        finding.cell("A.2", "C9", "total", Some(1.0), &[]);
        finding
    }

    #[test]
    fn the_line_for_scripts() {
        let line: serde_json::Value = serde_json::from_str(&finding().json()).unwrap();
        assert_eq!((&line["experiment"], &line["wall_s"]), (&"trial".into(), &1.235.into()));
        let first = &line["cells"][0];
        assert_eq!(first["published"].as_f64(), Some(2.0));
        assert!(first["ci95"].as_f64().unwrap() < 1e-9 && line["cells"][1]["ci95"].is_null());
        assert_eq!(line["cells"].as_array().unwrap().len(), 3, "no sample, no cell");
        assert!(!finding().json().contains('\n'));
    }

    #[test]
    fn csv_and_distance() {
        let csv = finding().csv();
        assert!(csv.contains("\nA.2,C1,green,1,1,\n") && csv.contains("\"C2, shaped\",total,,4,\n"), "{csv}");
        let distance = finding().distance("A.2").unwrap();
        assert!((distance.worst - 0.1).abs() < 1e-9 && distance.worst_at == 0);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let folder = std::env::temp_dir().join(format!("sluice-finding-{}", std::process::id()));
        finding().write(&folder).unwrap();
        assert_eq!(Finding::read(&folder), Some(finding()));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Finding::read(&folder), None);
    }
}
