//! The experiments of seed 002 on real packets, in their quick forms, as a user runs them.
//!
//! Those with greedy senders are played nightly, whole (`make gara`): under a load of the processors such a sender has what
//! the scheduler of the machine gives it, and on a busy one that is less than the bound of the experiment.

use crate::alone;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn run(name: &str) -> (Output, PathBuf) {
    let out = std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id()));
    let words = ["lab", "run", name, "--quick", "--json", "--silent", "--out"];
    let ran = Command::new(env!("CARGO_BIN_EXE_sluice")).args(words).arg(&out).output();
    (ran.expect("sluice runs"), out)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The number of runs in which a bound may be missed, less one. Other work on the machine takes processors from the
/// senders, which have reserved none; what is wrong in Sluice is wrong in each run.
const TRIES: usize = 3;

/// The line for scripts of a run that has shown what it must; `None`: a testbed is not possible here.
pub(crate) fn shown(name: &str, files: &[&str]) -> Option<Value> {
    for left in (0..TRIES).rev() {
        let (ran, out) = run(name);
        let complaint = text(&ran.stderr);
        if complaint.contains("a testbed needs root") {
            bench::skipped(complaint.trim());
            return None;
        }
        if !ran.status.success() && complaint.contains("NOT SHOWN") && left > 0 {
            eprintln!("{name}: {complaint}{left} more");
            continue;
        }
        assert!(ran.status.success(), "{name}, in each of {TRIES} runs: {}{complaint}", text(&ran.stdout));
        for file in files {
            let path = out.join(name).join(file);
            assert!(path.metadata().is_ok_and(|file| file.len() > 100), "{}", path.display());
        }
        let _ = std::fs::remove_dir_all(out);
        return serde_json::from_str(text(&ran.stdout).lines().last().expect("a line")).ok();
    }
    unreachable!("the last run has failed or is shown")
}

pub(crate) fn value(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("{name} is not in {line}"))
}

fn column(line: &Value, column: &str) -> Vec<f64> {
    let cells = line["cells"].as_array().expect("cells").iter().filter(|cell| cell["column"] == column);
    cells.map(|cell| value(cell, "measured")).collect()
}

/// One after the other: each is about who gets how much of one machine.
#[test]
fn a_bulk_transfer_follows_the_book_and_a_deadline_is_kept_or_refused() {
    let _alone = alone();
    let Some(line) = shown("gara-fig4", &["tables.txt", "cells.csv", "figure-4.svg", "figure-4.png"]) else { return };
    assert!(value(&line, "foreground_min_share") >= 0.99 && value(&line, "background_share") >= 0.95, "{line}");
    assert_eq!(column(&line, "grant"), [40.5, 4.5, 40.5, 31.5, 40.5, 22.5, 40.5], "0.9 x 45 - foreground");
    let line = shown("deadline", &["tables.txt"]).expect("root as before");
    assert!(value(&line, "took_s") <= value(&line, "deadline_s"), "{line}");
}

#[test]
fn premium_flows_cross_three_domains() {
    let _alone = alone();
    let Some(line) = shown("gara-fig5", &["tables.txt", "figure-5.svg"]) else { return };
    assert!(value(&line, "foreground_min_share") >= 0.99 && value(&line, "background_share") >= 0.95, "{line}");
    assert!(value(&line, "foreground_delivered_share") >= 0.99, "{line}");
    assert_eq!(column(&line, "grant"), [24.3, 6.3, 24.3, 15.3, 24.3], "0.9 x 27 - foreground");
}

#[test]
fn a_domain_that_lies_has_what_is_booked_at_the_next() {
    let _alone = alone();
    let Some(line) = shown("gara-sla", &["tables.txt"]) else { return };
    let carried = column(&line, "carried");
    assert!(carried[0] == 0.0 && carried[1] > 9.5 && carried[2] > 19.0, "{line}");
    assert!(value(&line, "most_over_agreed_mbps") < 0.5, "{line}");
}

#[test]
fn network_and_processor_are_reserved_together() {
    let _alone = alone();
    let files = ["tables.txt", "cells.csv", "figure-6.svg", "figure-6.png"];
    let Some(line) = shown("gara-fig6", &files) else { return };
    let mbps = column(&line, "tcp_mbps");
    let [alone, flood, _, load, both, processor, nothing] = mbps[..] else { panic!("{line}") };
    assert!(both >= 0.99 * alone, "both reserved: {line}");
    for without in [flood, load, processor, nothing] {
        assert!(without < 0.75 * both, "something is not reserved: {line}");
    }
}
