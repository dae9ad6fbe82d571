//! `sluice lab list | run | report`, as a user runs them.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sluice(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).args(words).output().expect("sluice runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("words")
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("sluice-{name}-{}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a name of letters")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn list_names_every_experiment_and_every_trial() {
    let listed = text(&sluice(&["lab", "list"]).stdout);
    let json: Value = serde_json::from_slice(&sluice(&["lab", "list", "--json"]).stdout).expect("JSON");
    let names: Vec<&str> =
        json["experiments"].as_array().expect("a list").iter().filter_map(|e| e["name"].as_str()).collect();
    for name in [
        "video",
        "mace-table2",
        "mace-fig6",
        "mace-fig9",
        "mace-applications",
        "setup-time",
        "excess",
        "kill-router",
        "kill-receiver",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for name in names {
        assert!(listed.contains(name), "{name} is not in {listed}");
    }
}

#[test]
fn a_run_prints_tables_writes_files_and_ends_with_a_line_for_scripts() {
    let out = Folder::new("lab-run");
    let ran = sluice(&["lab", "run", "video", "--quick", "--json", "--out", out.path()]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let said = text(&ran.stdout);
    let line: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!(line["experiment"], "video");
    assert!(line["wall_s"].as_f64().expect("a number") > 0.0);
    let cells = line["cells"].as_array().expect("cells");
    let cell = |row: &str, column: &str| {
        let found = cells.iter().find(|c| c["table"] == "6" && c["row"] == row && c["column"] == column);
        found.expect("a cell")["measured"].as_f64().expect("a number")
    };
    assert!(cell("10", "unreserved") < 6.0 && cell("10", "reserved") > 11.9, "{said}");
    assert!(said.contains("Table 6: Whole frames shown"), "{said}");
    for file in ["tables.txt", "cells.csv", "finding.json", "frame-rate.svg", "frame-rate.png"] {
        assert!(out.0.join("video").join(file).metadata().is_ok_and(|file| file.len() > 100), "{file}");
    }
    let reported = sluice(&["lab", "report", "--out", out.path()]);
    assert!(reported.status.success(), "{}", text(&reported.stderr));
    let page = std::fs::read_to_string(Path::new(text(&reported.stdout).trim())).expect("the page");
    assert!(page.matches("<svg").count() == 4 && page.contains("Table 8:") && page.ends_with("</html>\n"));
}

#[test]
fn measured_sum_admits_more_than_simple_sum_in_every_row() {
    let out = Folder::new("lab-mace");
    let ran = sluice(&["lab", "run", "mace-table2", "--quick", "--json", "--out", out.path()]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let said = text(&ran.stdout);
    let line: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    let cells = line["cells"].as_array().expect("cells");
    let cell = |row: &str, column: &str| {
        let found = cells.iter().find(|c| c["table"] == "2" && c["row"] == row && c["column"] == column);
        found.expect("a cell")["measured"].as_f64().expect("a number")
    };
    for (row, floor) in [("POO1", 50.0), ("POO2", 14.0), ("POO3", 29.0), ("EXP1", 50.0), ("EXP2", 14.0)] {
        assert_eq!(cell(row, "ssac_flows"), floor, "{row}");
        assert!(cell(row, "mbac_flows") > floor && cell(row, "mbac_util") > cell(row, "ssac_util"), "{row}");
    }
    assert!(cell("MIXED", "mbac_flows") > cell("MIXED", "ssac_flows"), "{said}");
}

#[test]
fn the_figures_of_mace_on_the_simulator() {
    let out = Folder::new("lab-mace-figures");
    let run = |name: &str| -> Value {
        let ran = sluice(&["lab", "run", name, "--on", "sim", "--quick", "--json", "--out", out.path()]);
        assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
        serde_json::from_str(text(&ran.stdout).lines().last().expect("a line")).expect("JSON")
    };
    let number = |line: &Value, name: &str| line[name].as_f64().expect("a number");
    let loss = run("mace-fig6");
    assert!(number(&loss, "cl_loss") < 0.02 && number(&loss, "be_loss") > 0.2, "{loss}");
    assert!(number(&loss, "spacing_share") > 0.98, "{loss}");
    let spacing = run("mace-fig9");
    assert!(number(&spacing, "spacing_share") > number(&spacing, "spacing_share_be"), "{spacing}");
    assert_eq!(spacing["histograms"]["12"]["CL arrived"].as_array().expect("a histogram").len(), 80);
    let elsewhere = sluice(&["lab", "run", "video", "--on", "sim"]);
    assert_eq!(elsewhere.status.code(), Some(2));
}

#[test]
fn what_is_not_there_is_said_with_what_to_do() {
    let unknown = sluice(&["lab", "run", "vidoe"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("video"), "it names those that there are");
    let trial = sluice(&["lab", "run", "excess", "--quick"]);
    assert_eq!(trial.status.code(), Some(2));
    assert!(text(&trial.stderr).contains("sluice lab excess --help"));
    let empty = sluice(&["lab", "report", "--out", "/nonexistent/lab"]);
    assert_eq!(empty.status.code(), Some(3));
    assert!(text(&empty.stderr).contains("sluice lab run video") && text(&empty.stderr).contains("--run"));
}

#[test]
fn transactions_under_faults_end_with_a_line_for_scripts() {
    let out = Folder::new("torture-commit");
    std::fs::create_dir_all(out.path()).expect("a folder");
    let record = format!("{}/seeds.jsonl", out.path());
    let run = || sluice(&["torture", "commit", "--seeds", "3", "--silent", "--json", "--record", &record]);
    let line = |ran: &Output| -> Value {
        assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
        serde_json::from_str(text(&ran.stdout).lines().last().expect("a line")).expect("JSON")
    };
    let first = line(&run());
    assert_eq!(first["seeds"], 3);
    for law in ["half", "lost", "overbooked", "stuck"] {
        assert_eq!(first[law], 0, "{first}");
    }
    assert!(first["messages"].as_u64().expect("a count") > 1_000, "{first}");
    // What is recorded is not played again, and counts the same.
    let again = line(&run());
    assert_eq!((&again["messages"], &again["kinds"]), (&first["messages"], &first["kinds"]));
}
