//! What an experiment found: cells beside what was published, figures, notes; as text, CSV, JSON.

use super::statistics::{self, Distance};
use super::tables;
use crate::error::Error;
use crate::figure::Chart;
use linux::error::SystemError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A cell of a table: what a document published there, and what was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The table's number in the document: `A.2`.
    pub table: String,
    /// The row: `C1`.
    pub row: String,
    /// The column: `total`.
    pub column: String,
    /// What was published; null where the document has no such number.
    pub published: Option<f64>,
    /// The mean over the seeds.
    pub measured: f64,
    /// Half the width of its 95 % confidence interval; null of a single seed.
    pub ci95: Option<f64>,
}

impl Cell {
    /// How far it is from what was published, as a fraction.
    pub fn error(&self) -> Option<f64> {
        statistics::relative(self.published?, self.measured)
    }
}

/// A table's title, for people.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Title {
    /// Which table.
    pub table: String,
    /// What it shows, with the unit.
    pub title: String,
}

/// A figure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Its file's name, without the ending.
    pub name: String,
    /// What is to be seen.
    pub caption: String,
    /// The picture, while it has not been written.
    #[serde(skip)]
    pub chart: Option<Chart>,
}

/// Everything.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Finding {
    /// Which experiment.
    pub experiment: String,
    /// What it shows.
    pub about: String,
    /// The document it is held against.
    pub source: String,
    /// Whether it is the quick form.
    pub quick: bool,
    /// How long it took, seconds.
    pub wall_s: f64,
    /// Titles of the tables.
    pub titles: Vec<Title>,
    /// The cells, table by table, row by row.
    pub cells: Vec<Cell>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// What should be known of this run: seeds, speed, parameters.
    pub notes: Vec<String>,
    /// What was to be shown and was not.
    pub shortfalls: Vec<String>,
    /// Single numbers, which stand beside the cells in the line for scripts.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
}

/// The line for scripts: its names are promised.
#[derive(Serialize)]
struct Line<'a> {
    experiment: &'a str,
    wall_s: f64,
    #[serde(flatten)]
    values: &'a BTreeMap<String, f64>,
    cells: &'a [Cell],
}

impl Finding {
    /// Says what a table shows.
    pub fn title(&mut self, table: &str, title: impl Into<String>) {
        self.titles.push(Title { table: table.into(), title: title.into() });
    }

    /// Adds the mean over the seeds' samples as a cell; none without a sample.
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

    /// Adds a figure.
    pub fn figure(&mut self, name: &str, caption: &str, chart: Chart) {
        self.figures.push(Figure { name: name.into(), caption: caption.into(), chart: Some(chart) });
    }

    /// The tables' names, in order.
    pub fn tables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.table.as_str()) {
                names.push(&cell.table);
            }
        }
        names
    }

    /// A table's cells.
    pub fn of(&self, table: &str) -> Vec<&Cell> {
        self.cells.iter().filter(|cell| cell.table == table).collect()
    }

    /// What a cell measured.
    pub fn measured(&self, table: &str, row: &str, column: &str) -> Option<f64> {
        let cell = self.cells.iter().find(|cell| cell.table == table && cell.row == row && cell.column == column);
        cell.map(|cell| cell.measured)
    }

    /// How far a table is from what was published.
    pub fn distance(&self, table: &str) -> Option<Distance> {
        let pairs = self.of(table).into_iter().map(|cell| (cell.published.unwrap_or(0.0), cell.measured));
        statistics::distance(&pairs.collect::<Vec<_>>())
    }

    /// For people: every table beside what was published, the notes, the shortfalls.
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

    /// The line for scripts.
    pub fn json(&self) -> String {
        // Rounded to what is meant: nobody reads the sixteenth digit of a second.
        let wall_s = (self.wall_s * 1e3).round() / 1e3;
        serde_json::to_string(&Line { experiment: &self.experiment, wall_s, values: &self.values, cells: &self.cells })
            .unwrap_or_else(|_| unreachable!("cells are text and numbers"))
    }

    /// The cells as CSV.
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
                put(folder, &format!("{}.svg", figure.name), chart.svg().as_bytes())?;
                put(folder, &format!("{}.png", figure.name), &chart.png())?;
            }
        }
        Ok(())
    }

    /// Reads what an earlier run wrote into a folder; `None` if there is nothing that can be read.
    pub fn read(folder: &Path) -> Option<Finding> {
        serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
    }
}

/// Where a finding is kept as a whole.
const FILE: &str = "finding.json";

/// Writes a file of the folder.
///
/// # Errors
/// It cannot be written.
pub fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let path = folder.join(name);
    fs::write(&path, bytes).map_err(|error| SystemError::because(format!("write {}", path.display()), error).into())
}

/// A field of CSV (RFC 4180).
pub fn quoted(word: &str) -> String {
    if word.contains([',', '"', '\n', '\r']) { format!("\"{}\"", word.replace('"', "\"\"")) } else { word.to_string() }
}

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
