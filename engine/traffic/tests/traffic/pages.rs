//! The pages in `docs/traffic` show the golden tables themselves: `<!-- golden: name -->` is followed by the table.

use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The table of this name, beside the tests that hold it.
fn golden(name: &str) -> PathBuf {
    let file = format!("{name}.txt");
    let mut places = ["tests/golden", "../wheel/tests/golden"].map(|place| folder(place).join(&file)).into_iter();
    places.find(|path| path.is_file()).unwrap_or_else(|| panic!("no golden table {name}"))
}

/// The page as it should be: after each mark, the table in a fence.
fn rendered(page: &str) -> String {
    let mut out = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        let Some(name) = line.strip_prefix("<!-- golden: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let table = std::fs::read_to_string(golden(name)).expect("the table is there");
        out += &format!("```text\n{table}```\n");
        // What was there before.
        if lines.next_if(|l| l.starts_with("```")).is_some() {
            let _ = lines.by_ref().take_while(|l| !l.starts_with("```")).count();
        }
    }
    out
}

#[test]
fn pages_show_the_golden_tables() {
    let mut marks = 0;
    for entry in std::fs::read_dir(folder("../../docs/traffic")).expect("docs/traffic is there") {
        let path = entry.expect("readable").path();
        if path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let page = std::fs::read_to_string(&path).expect("text");
        let expected = rendered(&page);
        marks += expected.matches("<!-- golden: ").count();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &expected).expect("writable");
        } else {
            assert_eq!(page, expected, "{} shows an old table; run again with UPDATE_GOLDEN=1", path.display());
        }
    }
    assert!(marks >= 9, "{marks} tables shown");
}
