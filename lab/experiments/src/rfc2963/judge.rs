//! The criteria of the run: cells near the published ones, and every ordering from which the RFC draws a
//! conclusion.

use super::LARGE;
use super::published::{COLUMNS, of_red};
use super::variants::{SINGLE_RATE, UNRESPONSIVE};
use crate::experiment::Finding;

/// The tolerance for cells of tables A.2, A.3, A.4 and A.7 in the full form.
const NEAR: f64 = 0.10;
/// The tolerance for totals of tables A.5 and A.6.
const TOTALS: f64 = 0.15;
/// The tolerance for one seed, which scatters more than the mean of three.
const QUICK: f64 = 0.20;
/// The tolerance for red traffic, as a share of the total.
const RED: f64 = 0.06;
/// At a small CBS a single rate shaper costs at most this: an srTCM lets CBS and EBS pass together, so there is little to
/// gain.
const NO_HARM: f64 = 0.03;
/// A shaper changes what arrives of traffic that does not listen to losses by this at most.
const NO_GAIN: f64 = 0.05;
/// At a large CBS the green shaper costs, or gains, at most this.
const ABOUT_EQUAL: f64 = 0.12;

/// Cells of the full form that are known to be further off (docs/measured/experiments.md), each with its own
/// tolerance. Any other miss is new.
const KNOWN: [(&str, &str, &str, f64); 2] = [("A.2", "C4", "yellow", 0.15), ("A.7", "3", "6_Mbps_unsh", 0.12)];

/// Returns the criteria that did not hold, in words.
pub fn shortfalls(finding: &Finding, quick: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for table in ["A.2", "A.3", "A.4", "A.7"] {
        cells(finding, table, if quick { QUICK } else { NEAR }, |_| true, &mut wrong);
    }
    for table in ["A.2", "A.3", "A.5", "A.6"] {
        reds(finding, table, &mut wrong);
    }
    for table in ["A.5", "A.6"] {
        cells(finding, table, if quick { QUICK } else { TOTALS }, |column| column == "total", &mut wrong);
    }
    for (unshaped, shaped) in [("A.2", "A.3"), ("A.5", "A.6")] {
        for place in 1..=5 {
            let total = |table: &str, n: usize| finding.measured(table, &format!("C{n}"), "total").unwrap_or(0.0);
            if total(shaped, place + 5) <= total(unshaped, place) {
                wrong.push(format!(
                    "C{} (shaped) does not beat C{place} at 3 KB in tables {unshaped}/{shaped}",
                    place + 5
                ));
            }
        }
    }
    crossovers(finding, &mut wrong);
    variants(finding, &mut wrong);
    wrong
}

/// Checks the single rate shapers, which must not harm at a small CBS, and traffic that does not listen to losses, which a
/// shaper does not help (section 4).
fn variants(finding: &Finding, wrong: &mut Vec<String>) {
    let gain = |table: &str, row: &str, pair: usize| {
        let of = |n: usize| finding.measured(table, row, COLUMNS[2 * pair + n].0);
        Some(of(1)? / of(0)? - 1.0)
    };
    for pair in 0..2 {
        for table in SINGLE_RATE.map(super::shaped) {
            let found = gain(table, "3", pair).unwrap_or(0.0);
            if found < -NO_HARM {
                let (column, percent) = (COLUMNS[2 * pair + 1].0, found * 100.0);
                wrong.push(format!("{table} at 3 KB: {column} is {percent:+.1} % of unshaped"));
            }
        }
        for row in ["trRAS", "G-trRAS", "srRAS", "G-srRAS"] {
            let found = gain(UNRESPONSIVE, row, pair).unwrap_or(0.0);
            if found.abs() > NO_GAIN {
                let (column, percent) = (COLUMNS[2 * pair + 1].0, found * 100.0);
                wrong.push(format!("unresponsive traffic behind {row}: {column} is {percent:+.1} % of unshaped"));
            }
        }
    }
}

/// Checks red traffic. It is a rest of three rounded numbers and may be nearly nothing, so it is held against the total.
fn reds(finding: &Finding, table: &str, wrong: &mut Vec<String>) {
    for cell in finding.of(&of_red(table)) {
        let (published, measured) = (cell.published.unwrap_or(0.0), cell.measured);
        let total = finding.measured(table, &cell.row, "total").unwrap_or(0.0);
        if (measured - published).abs() > RED * total {
            wrong.push(format!(
                "table {table}, {}, red: {measured:.2} where {published} is what the table leaves; within {:.0} % of the total",
                cell.row,
                RED * 100.0
            ));
        }
    }
}

fn cells(finding: &Finding, table: &str, within: f64, which: impl Fn(&str) -> bool, wrong: &mut Vec<String>) {
    for cell in finding.of(table).into_iter().filter(|cell| which(&cell.column)) {
        let error = cell.error().unwrap_or(0.0);
        let of = |known: &&(&str, &str, &str, f64)| (known.0, known.1, known.2) == (table, &*cell.row, &*cell.column);
        let within = KNOWN.iter().find(of).map_or(within, |known| known.3.max(within));
        if error.abs() > within {
            let (published, measured) = (cell.published.unwrap_or(0.0), cell.measured);
            let far = format!("{measured:.2} where {published} was published ({:+.1} %)", error * 100.0);
            wrong.push(format!(
                "table {table}, {}, {}: {far}; within {:.0} % is asked",
                cell.row,
                cell.column,
                within * 100.0
            ));
        }
    }
}

/// Checks that shaped flows beat unshaped ones at 3 KB, and that at a large CBS trRAS falls below and G-trRAS
/// is about equal.
fn crossovers(finding: &Finding, wrong: &mut Vec<String>) {
    for (table, green) in [("A.4", false), ("A.7", true)] {
        for (unshaped, shaped) in [(COLUMNS[0].0, COLUMNS[1].0), (COLUMNS[2].0, COLUMNS[3].0)] {
            for cell in finding.of(table).into_iter().filter(|cell| cell.column == shaped) {
                let Some(other) = finding.measured(table, &cell.row, unshaped) else { continue };
                let kilobytes: u64 = cell.row.parse().unwrap_or(0);
                let gain = cell.measured / other - 1.0;
                let holds = match (kilobytes, green) {
                    (3, _) => gain > 0.0,
                    (LARGE.., false) => gain < 0.0,
                    (LARGE.., true) => gain.abs() <= ABOUT_EQUAL,
                    _ => true,
                };
                if !holds {
                    let (row, percent) = (&cell.row, gain * 100.0);
                    wrong.push(format!("table {table} at {row} KB: {shaped} is {percent:+.1} % of {unshaped}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfc2963::published::{A2, A3, A4, A5, A6, A7, Goodput, Throughput, red};

    /// The published tables, with one cell changed.
    fn published(change: (&str, &str, &str, f64)) -> Finding {
        let mut finding = Finding::default();
        let mut put = |table: &str, row: String, column: &str, value: f64| {
            let (t, r, c, changed) = change;
            let measured = if (t, r, c) == (table, row.as_str(), column) { changed } else { value };
            finding.cell(table, &row, column, Some(value), &[measured]);
        };
        let tables: [(&str, &Throughput, usize); 4] =
            [("A.2", &A2, 1), ("A.3", &A3, 6), ("A.5", &A5, 1), ("A.6", &A6, 6)];
        for (table, rows, first) in tables {
            for (n, row) in rows.iter().enumerate() {
                for (column, value) in ["green", "yellow", "total"].into_iter().zip(row) {
                    put(table, format!("C{}", first + n), column, *value);
                }
                put(&of_red(table), format!("C{}", first + n), "red", red(*row));
            }
        }
        let tables: [(&str, &Goodput); 2] = [("A.4", &A4), ("A.7", &A7)];
        for (table, rows) in tables {
            for (kilobytes, row) in rows {
                for ((column, _), value) in COLUMNS.into_iter().zip(row) {
                    put(table, kilobytes.to_string(), column, *value);
                }
            }
        }
        finding
    }

    #[test]
    fn the_tables_themselves_pass_and_each_deviation_is_named() {
        assert_eq!(shortfalls(&published(("", "", "", 0.0)), false), [""; 0]);
        let cases = [
            (("A.2", "C2", "yellow", 1.5), "table A.2, C2, yellow: 1.50 where 1.8 was published (-16.7 %)"),
            (("A.2", "C4", "yellow", A2[3][1] * 0.84), "table A.2, C4, yellow"),
            (("A.7", "3", "6_Mbps_unsh", A7[0].1[2] * 1.13), "table A.7, 3, 6_Mbps_unsh"),
            (("A.2", "C3", "yellow", A2[2][1] * 0.869), "table A.2, C3, yellow"),
            (("A.6", "C8", "total", 7.0), "table A.6, C8, total"),
            (("A.3 red", "C6", "red", 0.3), "table A.3, C6, red: 0.30 where 0.02 is what the table leaves"),
            (("A.2 red", "C1", "red", 0.0), "table A.2, C1, red"),
            (("A.3", "C10", "total", 9.9), "C10 (shaped) does not beat C5"),
            (("A.4", "200", "6_Mbps_sh", 7.08), "6_Mbps_sh is +0.1 % of 6_Mbps_unsh"),
            (("A.7", "400", "2_Mbps_sh", 2.4), "table A.7 at 400 KB: 2_Mbps_sh is -16.1 %"),
        ];
        for (change, said) in cases {
            let found = shortfalls(&published(change), false);
            assert!(found.iter().any(|line| line.contains(said)), "{change:?}: {found:?}");
        }
        // What is known to miss is allowed by name, so far and no further.
        for known in [("A.2", "C4", "yellow", A2[3][1] * 0.869), ("A.7", "3", "6_Mbps_unsh", A7[0].1[2] * 1.106)] {
            assert_eq!(shortfalls(&published(known), false), [""; 0]);
        }
        // Yellow of A.6 is not asked for: the study before ours did not reach it either.
        assert_eq!(shortfalls(&published(("A.6", "C8", "yellow", 2.8)), false), [""; 0]);
    }
}
