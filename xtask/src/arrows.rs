//! Layers and purity: the table of arrows in ARCHITECTURE.md against every `Cargo.toml`, and what engines must not name.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One row of the table: a crate, what of ours it may use, what from outside.
struct Row {
    ours: BTreeSet<String>,
    outside: Option<BTreeSet<String>>,
}

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let table = read_table(&source::read(root, Path::new("ARCHITECTURE.md")));
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for manifest in source::files(root, &["Cargo.toml"]) {
        let folder = manifest.parent().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
        if folder.is_empty() || folder.starts_with("fuzz") {
            continue;
        }
        seen.insert(folder.clone());
        let Some(row) = table.get(&folder) else {
            findings.push(format!("{folder}: not in the table of arrows in ARCHITECTURE.md"));
            continue;
        };
        check_manifest(&folder, &source::read(root, &manifest), row, &mut findings);
        if folder.starts_with("engine/") {
            check_engine(root, &folder, &mut findings);
        }
    }
    for folder in table.keys().filter(|folder| !seen.contains(*folder)) {
        findings.push(format!("{folder}: in the table of arrows, but there is no such crate"));
    }
    check_products(&table, &mut findings);
    check_words(root, &mut findings);
    findings
}

/// The crates of `lab`, which nothing that ships may need; the command line alone offers them.
const LAB: [&str; 4] = ["figures", "bed", "profile", "experiments"];

/// No row of the table may let a product crate use the laboratory.
fn check_products(table: &BTreeMap<String, Row>, findings: &mut Vec<String>) {
    let products = table.iter().filter(|(folder, _)| !folder.starts_with("lab/") && *folder != "client/cli");
    for (folder, row) in products {
        for of_lab in LAB.iter().filter(|name| row.ours.contains(**name)) {
            findings.push(format!("{folder}: may use `{of_lab}`, but products are free of the laboratory"));
        }
    }
}

/// Rows `| \`engine/wire\` | \`terms\` | \`libm\` |` under the heading `## Arrows`. A dash is nothing; `any` is no limit.
fn read_table(text: &str) -> BTreeMap<String, Row> {
    let section = text.split("\n## Arrows").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap_or("");
    let mut table = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if cells.len() < 3 {
            continue;
        }
        let words =
            |cell: &str| -> BTreeSet<String> { cell.split('`').skip(1).step_by(2).map(str::to_string).collect() };
        let outside = if cells[2].starts_with("any") { None } else { Some(words(cells[2])) };
        for folder in words(cells[0]) {
            table.insert(folder, Row { ours: words(cells[1]), outside: outside.clone() });
        }
    }
    table
}

fn check_manifest(folder: &str, manifest: &str, row: &Row, findings: &mut Vec<String>) {
    const OURS: &[&str] = &[
        "terms",
        "wire",
        "wheel",
        "traffic",
        "admit",
        "mace",
        "rsvp",
        "boomerang",
        "commit",
        "topology",
        "booking",
        "control",
        "node",
        "sim",
        "linux",
        "store",
        "trust",
        "documents",
        "rsvp_client",
        "rpc",
        "metrics",
        "copy",
        "agent_service",
        "broker_service",
        "bench",
        "figures",
        "bed",
        "profile",
        "experiments",
    ];
    let mut inside = false;
    for line in manifest.lines() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line == "[dependencies]" || (line.starts_with("[target.") && line.ends_with(".dependencies]"));
            continue;
        }
        let Some((name, _)) = line.split_once('=') else { continue };
        let name = name.trim().trim_end_matches(".workspace");
        if !inside || line.starts_with('#') {
            continue;
        }
        if OURS.contains(&name) {
            if !row.ours.contains(name) {
                findings.push(format!("{folder}: uses `{name}`, which the table of arrows does not allow"));
            }
        } else if row.outside.as_ref().is_some_and(|outside| !outside.contains(name)) {
            findings.push(format!("{folder}: depends on `{name}`, which the table of arrows does not list"));
        }
    }
}

fn check_engine(root: &Path, folder: &str, findings: &mut Vec<String>) {
    let lib = source::read(root, &Path::new(folder).join("src/lib.rs"));
    for must in ["#![no_std]", "#![forbid(unsafe_code)]"] {
        if !lib.lines().any(|line| line.trim() == must) {
            findings.push(format!("{folder}/src/lib.rs: an engine says {must}"));
        }
    }
    if lib.lines().any(|line| line.trim_start().starts_with("extern crate std")) {
        findings.push(format!("{folder}/src/lib.rs: an engine never links std"));
    }
}

/// The folders that may have unsafe code.
const UNSAFE: [&str; 5] = ["driver/linux/", "client/c/", "client/rsvp/", "client/rapi/", "client/scrapi/"];

/// Words that belong in one place only.
fn check_words(root: &Path, findings: &mut Vec<String>) {
    for path in source::files(root, &[".rs"]) {
        let name = path.to_string_lossy().into_owned();
        if name.starts_with("xtask/") || name.starts_with("fuzz/") {
            continue;
        }
        let bench = name.contains("/benches/") || name.contains("/examples/");
        let unsafe_allowed = UNSAFE.iter().any(|folder| name.starts_with(folder));
        // A counting allocator cannot be written without unsafe; tests may hold one.
        let unsafe_allowed = unsafe_allowed || name.contains("/tests/") || bench;
        let clock_allowed = name.starts_with("bench/")
            || name.starts_with("driver/linux/")
            // A database on another machine is waited for, and no longer than patience lasts.
            || name.starts_with("driver/store/src/postgres/")
            || ["service/", "lab/", "client/", "api/"].iter().any(|folder| name.starts_with(folder))
            || bench
            || name.contains("/tests/");
        for (number, line) in source::read(root, &path).lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let mut complain = |what: &str| findings.push(format!("{name}:{}: {what}", number + 1));
            if !unsafe_allowed
                && (code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl"))
            {
                complain("unsafe code lives in driver/linux and the C libraries only");
            }
            if code.contains("SystemTime::now") && name != "driver/linux/src/clock.rs" {
                complain("the wall clock is read in driver/linux/src/clock.rs alone");
            }
            if !clock_allowed && code.contains("Instant::now") {
                complain("time is handed in; engines and the simulator have no clock");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_laboratory_is_for_the_command_line_alone() {
        let table = "## Arrows\n| `service/agent` | `bed` | any |\n| `lab/profile` | `bed` | any |\n| `client/cli` | `bed` | any |\n";
        let mut findings = Vec::new();
        check_products(&read_table(&format!("\n{table}")), &mut findings);
        assert_eq!(findings, ["service/agent: may use `bed`, but products are free of the laboratory"]);
    }
}
