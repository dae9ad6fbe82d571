//! The results of a profile: the nine tables beside the published ones, the loads, the ratio; as text and as
//! JSON.

use super::published::{ENTRIES, TITLES};
use super::sample::Estimate;
use bed::error::Error;
use bed::results::{put, put_files};
use figures::Chart;
use linux::error::SystemError;
use rpc::table::{Align, TextTable};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// The published values of a cell, microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Seed {
    /// The median, where it was stated.
    pub median: Option<f64>,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

/// A cell: the published values and the one measured here, microseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TableCell {
    /// Its row.
    pub row: String,
    /// Its column.
    pub column: String,
    /// The published values.
    pub seed: Option<Seed>,
    /// The measured value; null if the measurement failed.
    pub here: Option<Estimate>,
}

/// A table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Numbered {
    /// Its number in the document.
    pub table: u8,
    /// Its title.
    pub title: String,
    /// The unit, `us` or `us/session`.
    pub unit: &'static str,
    /// A remark that a reader needs.
    pub note: Option<String>,
    /// Its cells.
    pub cells: Vec<TableCell>,
}

/// A row of the loads: medians at one number of sessions, ns.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AtLoad {
    /// The protocol's name.
    pub protocol: &'static str,
    /// The number of sessions.
    pub sessions: u32,
    /// The subject: a whole message.
    pub what: String,
    /// The figure, nanoseconds.
    pub ns: Estimate,
}

/// A ratio of both protocols.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProtocolRatio {
    /// The subject of the comparison.
    pub what: String,
    /// Boomerang, microseconds.
    pub boomerang_us: f64,
    /// RSVP, microseconds.
    pub rsvp_us: f64,
}

/// A figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NumberedFigure {
    /// Its number in the document.
    pub figure: u8,
    /// Its file's name, without the ending.
    pub name: &'static str,
    /// The values of each line.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
    /// The picture.
    #[serde(skip)]
    pub chart: Chart,
}

impl NumberedFigure {
    /// Creates a figure from a chart.
    pub fn of(figure: u8, name: &'static str, chart: Chart) -> NumberedFigure {
        let lines = chart.lines.iter().map(|line| (line.name.clone(), line.points.clone())).collect();
        NumberedFigure { figure, name, lines, chart }
    }
}

/// The machine.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Machine {
    /// The processor.
    pub processor: String,
    /// The number of processors.
    pub processors: usize,
    /// The kernel's version.
    pub kernel: String,
    /// The load average of the last minute at the begin and at the end.
    pub load: (f64, f64),
    /// The time of an empty step, which is subtracted, ns.
    pub empty_step_ns: f64,
}

/// All results of a profile.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ProfileReport {
    /// True for the quick form.
    pub quick: bool,
    /// Samples of each figure.
    pub repetitions: usize,
    /// The machine.
    pub machine: Machine,
    /// The length of the run, seconds.
    pub wall_s: f64,
    /// Tables 1 to 9.
    pub tables: Vec<Numbered>,
    /// The times of whole messages at each session load, engine alone.
    pub session_load: Vec<AtLoad>,
    /// Message time against signalling load (section 6.2): messages a second, microseconds.
    pub signalling_load: Vec<(String, f64, Estimate)>,
    /// The ratios of Boomerang to RSVP.
    pub ratios: Vec<ProtocolRatio>,
    /// Figures 2 to 6.
    pub figures: Vec<NumberedFigure>,
    /// The measurements that failed, with the reason.
    pub skipped: Vec<String>,
}

impl ProfileReport {
    /// Returns the nine tables without measured values.
    pub fn blank() -> Vec<Numbered> {
        let cells = |table: u8| {
            let of = ENTRIES.iter().filter(move |entry| entry.table == table);
            of.map(|entry| {
                let (low, high) = entry.value.interval;
                let seed = Some(Seed { median: entry.value.median, low, high });
                TableCell { row: entry.row.into(), column: entry.column.into(), seed, here: None }
            })
        };
        let one = |(title, table): (&&str, u8)| {
            let unit = if table == 9 { "us/session" } else { "us" };
            Numbered { table, title: (*title).into(), unit, note: None, cells: cells(table).collect() }
        };
        TITLES.iter().zip(1..).map(one).collect()
    }

    /// Puts a measured value into its cell.
    pub fn set(tables: &mut [Numbered], table: u8, row: &str, column: &str, here: Option<Estimate>) {
        let found = tables.iter_mut().find(|t| t.table == table);
        let cell = found.and_then(|t| t.cells.iter_mut().find(|c| c.row == row && c.column == column));
        match cell {
            Some(cell) => cell.here = here,
            None => unreachable!("table {table} has no cell {row}, {column}"),
        }
    }

    /// Formats the results for people.
    pub fn text(&self) -> String {
        let Machine { processor, processors, kernel, load, empty_step_ns } = &self.machine;
        let mut text = format!(
            "RSVP and Boomerang, step by step; beside them the published figures of 2001 (400 MHz)\n{processor}, \
             {processors} processors, Linux {kernel}; load {:.2} before, {:.2} after; {} samples a figure; an empty step's \
             {empty_step_ns:.1} ns are taken off\n",
            load.0, load.1, self.repetitions
        );
        for table in &self.tables {
            let _ = write!(text, "\nTable {}: {} ({})\n{}", table.table, table.title, table.unit, table.grid());
            if let Some(note) = &table.note {
                let _ = writeln!(text, "{note}");
            }
        }
        let _ = write!(
            text,
            "\nMessages with so many sessions there: engines alone, the fast path by test run (ns, median)\n{}",
            self.loads()
        );
        if !self.signalling_load.is_empty() {
            let _ = write!(text, "\nMessage time against signalling load (us)\n{}", self.signalling());
        }
        let _ = write!(text, "\nBoomerang : RSVP, a reservation\n{}", self.ratio());
        for skipped in &self.skipped {
            let _ = writeln!(text, "SKIPPED: {skipped}");
        }
        let _ = writeln!(text, "{:.1} s", self.wall_s);
        text
    }

    fn loads(&self) -> TextTable {
        let mut columns: Vec<u32> = self.session_load.iter().map(|row| row.sessions).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut head = vec![("protocol".to_string(), Align::Left), ("message".to_string(), Align::Left)];
        head.extend(columns.iter().map(|sessions| (sessions.to_string(), Align::Right)));
        let mut grid = TextTable::new(&head);
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for row in &self.session_load {
            let name = (row.protocol, row.what.as_str());
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let at = |sessions: &u32| {
                let of = |r: &&AtLoad| (r.protocol, r.what.as_str(), r.sessions) == (name.0, name.1, *sessions);
                self.session_load.iter().find(of).map_or("-".into(), |r| format!("{:.0}", r.ns.median))
            };
            grid.row([name.0.to_string(), name.1.to_string()].into_iter().chain(columns.iter().map(at)));
        }
        grid
    }

    fn signalling(&self) -> TextTable {
        let right = Align::Right;
        let mut grid =
            TextTable::new(&[("message", Align::Left), ("a second", right), ("median", right), ("95 %", right)]);
        for (what, rate, found) in &self.signalling_load {
            let [median, interval] = [digits(found.median), interval(found.low, found.high)];
            grid.row([what.clone(), format!("{rate:.0}"), median, interval]);
        }
        grid
    }

    fn ratio(&self) -> TextTable {
        let right = Align::Right;
        let head = [("", Align::Left), ("Boomerang us", right), ("RSVP us", right), ("1 :", right)];
        let mut grid = TextTable::new(&head);
        grid.row(["published, checkpoint 2".into(), "24".into(), "787".into(), format!("{:.1}", 787.0 / 24.0)]);
        for ProtocolRatio { what, boomerang_us, rsvp_us } in &self.ratios {
            let ratio = format!("{:.1}", rsvp_us / boomerang_us);
            grid.row([what.clone(), digits(*boomerang_us), digits(*rsvp_us), ratio]);
        }
        grid
    }

    /// Formats the results as an object for scripts, on one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| unreachable!("a report is text and numbers"))
    }

    /// Writes text, JSON and figures into a folder.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        std::fs::create_dir_all(folder)
            .map_err(|error| SystemError::because(format!("make {}", folder.display()), error))?;
        put(folder, "tables.txt", self.text().as_bytes())?;
        put(folder, "profile.json", self.json().as_bytes())?;
        for figure in &self.figures {
            put_files(folder, &figure.chart.files(figure.name))?;
        }
        Ok(())
    }
}

impl Numbered {
    fn grid(&self) -> TextTable {
        let right = Align::Right;
        let mut grid = TextTable::new(&[
            ("", Align::Left),
            ("", Align::Left),
            ("published", right),
            ("95 %", right),
            ("here", right),
            ("95 %", right),
            ("n", right),
            ("batch", right),
            ("dropped", right),
            ("faster", right),
        ]);
        for cell in &self.cells {
            let middle = cell.seed.map(|seed| seed.median.unwrap_or((seed.low + seed.high) / 2.0));
            let mut row = vec![cell.row.clone(), cell.column.clone()];
            row.push(cell.seed.and_then(|seed| seed.median).map_or(String::new(), |median| format!("{median}")));
            row.push(cell.seed.map_or(String::new(), |seed| interval(seed.low, seed.high)));
            match &cell.here {
                Some(here) => {
                    row.push(digits(here.median));
                    row.push(interval(here.low, here.high));
                    row.extend([here.n, here.batch, here.discarded].map(|count| count.to_string()));
                    let faster = middle.filter(|_| here.median > 0.0).map(|middle| middle / here.median);
                    row.push(faster.map_or(String::new(), |times| format!("{times:.0} x")));
                }
                None => row.push("-".into()),
            }
            grid.row(row);
        }
        grid
    }
}

fn interval(low: f64, high: f64) -> String {
    if low == high { digits(low) } else { format!("{} - {}", digits(low), digits(high)) }
}

/// Formats a time with its significant digits, from picoseconds to milliseconds.
fn digits(us: f64) -> String {
    match us.abs() {
        0.0 => "0".into(),
        size if size >= 100.0 => format!("{us:.1}"),
        size if size >= 1.0 => format!("{us:.2}"),
        size if size >= 0.001 => format!("{us:.3}"),
        _ => format!("{us:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_tables_with_the_published_numbers() {
        let mut tables = ProfileReport::blank();
        assert_eq!(tables.iter().map(|t| t.table).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
        assert_eq!(tables.iter().map(|t| t.cells.len()).collect::<Vec<_>>(), [8, 4, 6, 4, 3, 3, 3, 3, 5]);
        let here = Estimate { median: 0.05, low: 0.04, high: 0.06, mean: 0.05, n: 300, batch: 64, discarded: 1 };
        ProfileReport::set(&mut tables, 4, "Resv message", "check styles", Some(here));
        let text = tables[3].grid().to_string();
        let line = text.lines().find(|line| line.contains("check styles")).unwrap();
        assert!(line.contains("1.30 - 1.40") && line.contains("0.050  0.040 - 0.060  300     64"), "{line}");
        assert!(line.ends_with("27 x"), "{line}");
        assert!(text.lines().any(|line| line.contains("reservation management") && line.ends_with('-')), "{text}");
    }

    #[test]
    fn digits_that_mean_something() {
        assert_eq!([0.0, 298.04, 2.675, 0.0123, 0.0000012].map(digits), ["0", "298.0", "2.67", "0.012", "1.2e-6"]);
    }
}
