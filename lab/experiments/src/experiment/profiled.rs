//! `sluice profile` as an experiment: the nine tables and the five figures of *Profiling resource reservation protocols*
//! (IFIP 2001), each value beside the published one, so that they are in `sluice lab report` too.

use super::{Cell, Experiment, Finding, RunOptions};
use bed::error::Error;
use profile::ProfileOptions;
use profile::report::{NumberedFigure, ProfileReport};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "profile",
    about: "RSVP and Boomerang, message by message and step by step: nine tables, five figures",
    source: "Profiling resource reservation protocols (IFIP 2001), Tables 1 to 9, Figures 2 to 6; 400 MHz processors",
    takes: "5 minutes; root for Tables 1 and 2, Figures 2 to 4",
    run,
};

/// A Resv and a Boomerang reservation at the published checkpoints, microseconds: Tables 1 and 2.
const PUBLISHED: [(&str, f64, f64); 2] = [("1", 42.0, 815.0), ("2", 24.0, 787.0)];

fn run(options: &RunOptions) -> Result<Finding, Error> {
    let wanted = ProfileOptions { quick: options.quick, progress: options.progress };
    Ok(finding_of(&profile::run(&wanted, &options.patience)?))
}

/// The report's values as cells.
fn finding_of(report: &ProfileReport) -> Finding {
    let mut finding = Finding::default();
    for table in &report.tables {
        let number = table.table.to_string();
        finding.title(&number, format!("{} ({})", table.title, table.unit));
        for cell in &table.cells {
            let Some(here) = &cell.here else { continue };
            finding.cells.push(Cell {
                table: number.clone(),
                row: cell.row.clone(),
                column: cell.column.clone(),
                published: cell.seed.map(|seed| seed.median.unwrap_or((seed.low + seed.high) / 2.0)),
                measured: here.median,
                ci95: Some((here.high - here.low) / 2.0),
            });
        }
        finding.notes.extend(table.note.iter().map(|note| format!("Table {number}: {note}")));
    }
    ratios(report, &mut finding);
    for NumberedFigure { figure, name, chart, .. } in &report.figures {
        finding.figure(name, &format!("Figure {figure} of the paper"), chart.clone());
    }
    let machine = &report.machine;
    finding.notes.push(format!(
        "{}, {} processors, Linux {}; load {:.2} before, {:.2} after; {} samples a figure",
        machine.processor, machine.processors, machine.kernel, machine.load.0, machine.load.1, report.repetitions
    ));
    finding.notes.extend(report.skipped.iter().map(|why| format!("SKIPPED: {why}")));
    finding
}

/// RSVP's time over Boomerang's, of one reservation. Only what is measured at the same place of both, on real packets, is
/// held against the published ratio of that place.
fn ratios(report: &ProfileReport, finding: &mut Finding) {
    let table = "ratio";
    finding.title(table, "RSVP's time over Boomerang's, a reservation");
    for ratio in &report.ratios {
        // "fast path through veth : socket, checkpoint 1" is the one that is like for like with the paper's kernel module.
        let alike = ratio.what.contains("through veth");
        let published = PUBLISHED.iter().find(|(at, ..)| alike && ratio.what.ends_with(&format!("checkpoint {at}")));
        let published = published.map(|(_, boomerang, rsvp)| rsvp / boomerang);
        let measured = ratio.rsvp_us / ratio.boomerang_us;
        finding.cell(table, &ratio.what, "times", published, &[measured]);
        if alike && measured <= 1.0 {
            finding.shortfalls.push(format!("{}: Boomerang is not the faster ({measured:.2} times)", ratio.what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use profile::report::{Machine, ProtocolRatio};
    use profile::sample::Estimate;

    fn report() -> ProfileReport {
        let here = Estimate { median: 0.05, low: 0.04, high: 0.06, mean: 0.05, n: 300, batch: 64, discarded: 1 };
        let mut tables = ProfileReport::blank();
        for cell in tables.iter_mut().filter(|table| table.table > 2).flat_map(|table| &mut table.cells) {
            cell.here = Some(here);
        }
        let processor = "some".to_owned();
        ProfileReport {
            quick: true,
            repetitions: 300,
            machine: Machine { processor, processors: 2, kernel: "6".into(), load: (0.1, 0.2), empty_step_ns: 1.0 },
            wall_s: 1.0,
            tables,
            session_load: Vec::new(),
            signalling_load: Vec::new(),
            ratios: [("through veth", 10.0), ("by test run", 300.0)]
                .map(|(how, rsvp_us)| ProtocolRatio {
                    what: format!("fast path {how} : socket, checkpoint 1"),
                    boomerang_us: 1.0,
                    rsvp_us,
                })
                .to_vec(),
            figures: Vec::new(),
            skipped: vec!["real packets: no root".into()],
        }
    }

    #[test]
    fn the_tables_stand_beside_the_published_ones() {
        let finding = finding_of(&report());
        let cells = |table: &str| finding.of(table).iter().filter(|cell| cell.published.is_some()).count();
        let tables = ["1", "2", "3", "4", "5", "6", "7", "8", "9"].map(cells);
        assert_eq!(tables, [0, 0, 6, 4, 3, 3, 3, 3, 5], "what was not measured has no cell");
        let styles = finding.of("4").into_iter().find(|cell| cell.column == "check styles").unwrap();
        assert_eq!((styles.measured, styles.ci95.map(|half| (half * 1e3).round())), (0.05, Some(10.0)));
        let ratios: Vec<_> = finding.of("ratio").iter().map(|cell| (cell.measured, cell.published)).collect();
        assert_eq!(ratios, [(10.0, Some(815.0 / 42.0)), (300.0, None)], "like for like alone has a published one");
        assert!(finding.notes.iter().any(|note| note.contains("no root")) && finding.shortfalls.is_empty());
        let mut slow = report();
        slow.ratios[0].rsvp_us = 0.9;
        assert_eq!(finding_of(&slow).shortfalls.len(), 1);
    }
}
