//! The clause ledger: `docs/rfc/*.md` has one row per normative sentence, with the test that proves it and the test that
//! provokes its violation. This check holds the tables to the code: every test that is named exists, no row is empty, and
//! the counts at the head of each page are those of its rows.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Columns of a row: section, gist, the test that proves it, the test that provokes its violation.
const COLUMNS: usize = 4;

/// Everything that is wrong, one line each.
pub fn check(root: &Path) -> Vec<String> {
    let pages = source::files(root, &[".md"]).into_iter().filter(|path| path.starts_with("docs/rfc"));
    let functions = functions(root);
    let mut findings = Vec::new();
    for path in pages {
        let name = path.to_string_lossy().into_owned();
        page(&name, &source::read(root, &path), &functions, &mut findings);
    }
    findings
}

/// The names of all functions by the stem of the file (for `mod.rs`, the folder) that they are in.
fn functions(root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in source::files(root, &[".rs"]) {
        let stem = |p: &Path| p.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let mut file = stem(&path);
        if file == "mod" || file == "tests" || file == "main" {
            file = path.parent().map(stem).unwrap_or_default();
        }
        let text = source::read(root, &path);
        let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
        let names = names.filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned);
        all.entry(file).or_default().extend(names);
    }
    all
}

fn page(name: &str, text: &str, functions: &BTreeMap<String, BTreeSet<String>>, findings: &mut Vec<String>) {
    let (mut rows, mut tested, mut not_ours, mut open) = (0, 0, 0, 0);
    for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let is_head = cells.first().is_some_and(|cell| cell.starts_with('-') || *cell == "section");
        if is_head {
            continue;
        }
        let at = format!("{name}:{}", number + 1);
        if cells.len() != COLUMNS || cells.iter().any(|cell| cell.is_empty()) {
            findings.push(format!("{at}: a row has {COLUMNS} cells, none of them empty"));
            continue;
        }
        rows += 1;
        match (cells[2], cells[3]) {
            ("open", _) | (_, "open") => open += 1,
            (proof, _) if proof.starts_with("not ours: ") => not_ours += 1,
            (proof, _) if proof.starts_with("none: ") => {
                findings.push(format!("{at}: a clause without a proving test is \"open\", or \"not ours: \" and why"));
            }
            (proof, violation) => {
                tested += 1;
                for cell in [proof, violation] {
                    references(&at, cell, functions, findings);
                }
            }
        }
    }
    let head = format!("{rows} clauses: {tested} tested, {not_ours} not ours, {open} open");
    if rows > 0 && !text.contains(&head) {
        findings.push(format!("{name}: its head should say \"{head}\""));
    }
}

/// A cell names tests as `file::function`, or says why there is none after `none: `.
fn references(at: &str, cell: &str, functions: &BTreeMap<String, BTreeSet<String>>, findings: &mut Vec<String>) {
    if cell.strip_prefix("none: ").is_some_and(|why| !why.trim().is_empty()) {
        return;
    }
    let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    if names.is_empty() {
        findings.push(format!("{at}: {cell:?} names no test; write `file::function`, or \"none: \" and why"));
    }
    for test in names {
        let known = test.rsplit_once("::").is_some_and(|(path, function)| {
            let file = path.rsplit("::").next().unwrap_or(path);
            functions.get(file).is_some_and(|names| names.contains(function))
        });
        if !known {
            findings.push(format!("{at}: there is no test `{test}`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(rows: &str) -> Vec<String> {
        let known = BTreeMap::from([("soft_state".to_owned(), BTreeSet::from(["it_expires".to_owned()]))]);
        let mut findings = Vec::new();
        page("p.md", rows, &known, &mut findings);
        findings
    }

    #[test]
    fn a_true_page_passes() {
        let page = "3 clauses: 1 tested, 1 not ours, 1 open\n\
                    | section | gist | proved by | violated by |\n|---|---|---|---|\n\
                    | 3.7 | expires after L | `soft_state::it_expires` | none: the same test runs past L |\n\
                    | 2.8 | UDP hosts | not ours: no UDP encapsulation | - |\n\
                    | 3.5 | blockade | open | open |\n";
        assert_eq!(findings(page), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_there_is_found() {
        let page =
            "| 3.7 | expires | `soft_state::it_lives` | `tear::x` |\n| 1 | short |\n| 3 | no test | fine | fine |\n";
        let found = findings(page).join("\n");
        for part in
            ["no test `soft_state::it_lives`", "no test `tear::x`", "4 cells", "names no test", "its head should"]
        {
            assert!(found.contains(part), "{part} in {found}");
        }
    }
}
