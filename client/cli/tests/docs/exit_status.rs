//! `docs/exit-status.md` and `sluice --help`, against the sources that end the program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sources that end with 1 by themselves, and the commands that do so.
const WITH_ONE: [(&str, &[&str]); 14] = [
    ("book/may.rs", &["sluice may"]),
    ("book/mod.rs", &["sluice enquire"]),
    ("boomerang/mod.rs", &["sluice boomerang reserve"]),
    ("directory.rs", &["sluice directory"]),
    ("doctor.rs", &["sluice doctor"]),
    ("doctor/disk.rs", &["sluice doctor"]),
    ("health.rs", &["sluice health"]),
    ("lab.rs", &["sluice lab run", "sluice demo"]),
    ("plane.rs", &["sluice plane agree"]),
    ("rsvp/receive.rs", &["sluice rsvp receive"]),
    ("rsvp/statics.rs", &["sluice rsvp static"]),
    ("slurm/controller.rs", &["sluice slurm hook"]),
    ("topology.rs", &["sluice topology"]),
    ("torture.rs", &["sluice torture"]),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// The first cells of the tables of the page, in their order.
fn cells(page: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    rows.map(str::to_owned).collect()
}

#[test]
fn exit_statuses_are_those_of_the_page() {
    let page = std::fs::read_to_string(super::root().join("docs/exit-status.md")).unwrap();
    let cells = cells(&page);
    let said: BTreeSet<u8> = cells.iter().filter_map(|cell| cell.parse().ok()).collect();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let complaints = std::fs::read_to_string(here.join("complain.rs")).unwrap();
    let numbers = |text: &str, mark: &str| -> BTreeSet<u8> {
        text.split(mark)
            .skip(1)
            .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
            .collect()
    };
    let mut given = numbers(&complaints, "code: ");
    given.extend(numbers(&complaints, "INTERRUPTED: u8 = "));
    given.insert(0);
    assert_eq!(said, given, "docs/exit-status.md and complain.rs");
    let help = Command::new(env!("CARGO_BIN_EXE_sluice")).arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let (_, help) = help.split_once("Exit status:").unwrap();
    let helped = help.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect::<BTreeSet<u8>>();
    assert_eq!(helped, given, "sluice --help");

    let mut all = Vec::new();
    sources(&here, &mut all);
    let mut with_one = BTreeSet::new();
    for path in all {
        let name = path.strip_prefix(&here).unwrap().to_str().unwrap().to_owned();
        for ends in std::fs::read_to_string(&path).unwrap().split("ExitCode::from(").skip(1) {
            match ends.split(')').next().unwrap() {
                "1" => _ = with_one.insert(name.clone()),
                "INTERRUPTED" | "complaint.exit_code(" => {}
                // The status of the command that it ran.
                "u8::try_from(code" => assert_eq!(name, "run.rs"),
                other => panic!("{name} ends with {other}, which docs/exit-status.md does not know"),
            }
        }
    }
    assert_eq!(with_one, WITH_ONE.iter().map(|(name, _)| (*name).to_owned()).collect());
    for command in WITH_ONE.iter().flat_map(|(_, commands)| *commands) {
        assert!(cells.iter().any(|cell| cell.contains(&format!("`{command}`"))), "{command} is not on the page");
        let there = Command::new(env!("CARGO_BIN_EXE_sluice")).args(command.split(' ').skip(1)).arg("--help").output();
        assert!(there.unwrap().status.success(), "there is no {command}");
    }
}
