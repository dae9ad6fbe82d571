//! The baseline: names that scripts, files and other programs rely on, as the build before the house was rebuilt had them.
//!
//! Each file in `kept/` is a sorted list with one name a line. A name that is in a list and not in the program fails the test, unless
//! `kept/exceptions.txt` has its line with the sentence of `CHANGELOG.md` that tells users. A name that is new is no failure; add it
//! with `SLUICE_KEEP=1`, which writes the lists anew.

mod commands;
mod documents;
mod keys;
mod state;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder of the lists.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/baseline/kept")
}

/// Holds what the program has now against the list `name`.
fn compare(name: &str, now: &BTreeSet<String>) {
    assert!(!now.is_empty(), "nothing was found for {name}: the test looks in the wrong place");
    let file = kept().join(format!("{name}.txt"));
    let before: BTreeSet<String> =
        std::fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect();
    if std::env::var_os("SLUICE_KEEP").is_some() {
        let all: Vec<&str> = before.union(now).map(String::as_str).collect();
        std::fs::write(&file, all.join("\n") + "\n").unwrap();
        return;
    }
    let excused = exceptions(name);
    let gone: Vec<&String> = before.difference(now).filter(|line| !excused.contains(*line)).collect();
    assert!(gone.is_empty(), "{name}: the baseline has what the program has no longer: {gone:#?}");
    assert!(!before.is_empty(), "{} is empty", file.display());
}

/// Names of the list `name` that went on purpose. Each line is `LIST<tab>NAME<tab>SENTENCE`; the changelog must have the sentence.
fn exceptions(name: &str) -> BTreeSet<String> {
    let changelog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CHANGELOG.md");
    let changelog = std::fs::read_to_string(changelog).unwrap();
    // Lines of Markdown wrap: a sentence may stand on two.
    let changelog = changelog.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = std::fs::read_to_string(kept().join("exceptions.txt")).unwrap_or_default();
    let rows = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    rows.filter(|row| row[0] == name)
        .map(|row| {
            assert!(changelog.contains(row[2]), "CHANGELOG.md does not say: {}", row[2]);
            row[1].to_owned()
        })
        .collect()
}
