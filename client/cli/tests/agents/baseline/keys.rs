//! Keys of configuration files, testbeds and scenarios, as the program itself names them when it refuses one that it does not know.

use super::compare;
use crate::bed::{SLUICE, place};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// No file has this key.
const UNKNOWN: &str = "zz";
/// How deep tables may lie in each other.
const DEPTH: usize = 4;

#[test]
fn keys_of_files_stay() {
    let (_, place) = place();
    let file = place.join("file.toml");
    let files: &[(&str, &[&str])] = &[
        ("agent", &["agent", "--config"]),
        ("broker", &["broker", "--config"]),
        ("testbed", &["up"]),
        ("scenario", &["sim", "run"]),
    ];
    let mut now = BTreeSet::new();
    for (name, command) in files {
        let mut found = BTreeSet::new();
        explore(command, &file, &[], &mut found);
        assert!(found.len() > 5, "{name}: {found:?}");
        now.extend(found.into_iter().map(|key| format!("{name} {key}")));
    }
    compare("keys", &now);
}

/// One step into a file: a table of this name, or an array of tables.
#[derive(Clone)]
struct Step {
    key: String,
    array: bool,
}

/// All keys below the tables of `path`.
fn explore(command: &[&str], file: &Path, path: &[Step], found: &mut BTreeSet<String>) {
    let Some(keys) = expected(command, file, path) else { return };
    for key in keys {
        let name: Vec<&str> = path.iter().map(|step| step.key.as_str()).chain([key.as_str()]).collect();
        if !found.insert(name.join(".")) || path.len() + 1 >= DEPTH {
            continue;
        }
        for array in [false, true] {
            let mut below = path.to_vec();
            below.push(Step { key: key.clone(), array });
            explore(command, file, &below, found);
        }
    }
}

/// What the program says it had expected where an unknown key stands; `None`: there can be no table.
fn expected(command: &[&str], file: &Path, path: &[Step]) -> Option<Vec<String>> {
    let mut text = String::new();
    for n in 1..=path.len() {
        let name: Vec<&str> = path[..n].iter().map(|step| step.key.as_str()).collect();
        let name = name.join(".");
        text += &if path[n - 1].array { format!("[[{name}]]\n") } else { format!("[{name}]\n") };
    }
    std::fs::write(file, format!("{text}{UNKNOWN} = 1\n")).unwrap();
    let output = Command::new(SLUICE).args(command).arg(file).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "a file with the key {UNKNOWN} was taken: {text}");
    let (_, rest) = said.split_once(&format!("unknown field `{UNKNOWN}`, expected "))?;
    let rest = rest.lines().next()?;
    Some(rest.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}
