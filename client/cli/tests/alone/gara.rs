//! The experiments of seed 002 on real packets, in their quick forms, as a user runs them.

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

/// The line for scripts of a run that has shown what it must; `None`: not here.
fn shown(name: &str, files: &[&str]) -> Option<Value> {
    let (ran, out) = run(name);
    let complaint = text(&ran.stderr);
    if complaint.contains("a testbed needs root") {
        bench::skipped(complaint.trim());
        return None;
    }
    told(&ran);
    for file in files {
        let path = out.join(name).join(file);
        assert!(path.metadata().is_ok_and(|file| file.len() > 100), "{}", path.display());
    }
    let _ = std::fs::remove_dir_all(out);
    serde_json::from_str(text(&ran.stdout).lines().last().expect("a line")).ok()
}

/// What the experiment itself holds against its published bounds: all of them on a machine that does nothing else. Here
/// other work may be under way, so that a bound which is missed is said loudly, and what follows in a test is what
/// must hold all the same.
fn told(ran: &Output) {
    let complaint = text(&ran.stderr);
    assert!(ran.status.success() || complaint.contains("NOT SHOWN"), "{}{complaint}", text(&ran.stdout));
    complaint.lines().filter(|line| line.contains("NOT SHOWN")).for_each(bench::skipped);
}

/// One after the other: both are about who gets how much of one machine.
#[test]
fn a_bulk_transfer_follows_the_book_and_a_deadline_is_kept_or_refused() {
    let _alone = alone();
    let Some(line) = shown("gara-fig4", &["tables.txt", "cells.csv", "figure-4.svg", "figure-4.png"]) else { return };
    let value = |line: &Value, name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} is not in {line}"));
    // Without its reservation a foreground flow of 32 Mb/s would have a third of this.
    assert!(value(&line, "foreground_min_share") >= 0.9 && value(&line, "background_share") >= 0.85, "{line}");
    let cells = line["cells"].as_array().expect("cells");
    let grants = cells.iter().filter(|cell| cell["column"] == "grant").map(|cell| value(cell, "measured"));
    assert_eq!(grants.collect::<Vec<_>>(), [40.5, 4.5, 40.5, 31.5, 40.5, 22.5, 40.5], "0.9 x 45 - foreground");
    let line = shown("deadline", &["tables.txt"]).expect("root as before");
    assert!(value(&line, "took_s") <= value(&line, "deadline_s"), "{line}");
}

/// The machine of the test must be quiet enough that the flow has what it offers while nothing contends with it.
#[test]
fn network_and_processor_are_reserved_together() {
    let _alone = alone();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if load > 2.0 * cores as f64 {
        bench::skipped(format!("a load of {load} on {cores} cores: what a flow gets here says nothing"));
        return;
    }
    let (ran, out) = run("gara-fig6");
    let (said, complaint) = (text(&ran.stdout), text(&ran.stderr));
    if complaint.contains("a testbed needs root") || complaint.contains("this machine is too busy") {
        bench::skipped(complaint.trim());
        return;
    }
    told(&ran);
    for file in ["tables.txt", "cells.csv", "figure-6.svg", "figure-6.png"] {
        let path = out.join("gara-fig6").join(file);
        assert!(path.metadata().is_ok_and(|file| file.len() > 100), "{}", path.display());
    }
    let _ = std::fs::remove_dir_all(out);
    let line: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    let rows = line["cells"].as_array().expect("cells").iter().filter(|cell| cell["column"] == "tcp_mbps");
    let mbps: Vec<f64> = rows.filter_map(|cell| cell["measured"].as_f64()).collect();
    let [alone, flood, _, load, both, processor, nothing] = mbps[..] else { panic!("{line}") };
    assert!(both >= 0.8 * alone, "both reserved: {line}");
    for without in [flood, load, processor, nothing] {
        assert!(without < 0.75 * both, "something is not reserved: {line}");
    }
}

/// Whoever measures has the machine for itself.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
