//! Commands, options and exit statuses.

use super::compare;
use crate::bed::{SLUICE, place};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// Each command, and each of its options and arguments, from the man pages that the program writes of itself.
#[test]
fn commands_and_options_stay() {
    let (_, place) = place();
    let pages = place.join("man");
    std::fs::create_dir(&pages).unwrap();
    assert!(Command::new(SLUICE).arg("man").arg(&pages).status().unwrap().success());
    let mut now = BTreeSet::new();
    for page in std::fs::read_dir(&pages).unwrap() {
        let page = page.unwrap();
        let name = page.file_name().into_string().unwrap();
        let command = name.trim_end_matches(".1").to_owned();
        let text = std::fs::read_to_string(page.path()).unwrap();
        now.extend(options(&text).into_iter().map(|option| format!("{command} {option}")));
        now.insert(command);
    }
    compare("commands", &now);
}

/// The lines after `.TP` of a page: `\fB\-w\fR, \fB\-\-window\fR \fI<FROM..UNTIL>\fR`, without what only troff reads.
fn options(page: &str) -> Vec<String> {
    let mut lines = page.lines();
    let mut found = Vec::new();
    let mut inside = false;
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix(".SH ") {
            // The groups of options have headings of their own.
            let others = ["NAME", "SYNOPSIS", "DESCRIPTION", "SUBCOMMANDS", "EXAMPLES", "VERSION", "AUTHORS"];
            inside = !others.contains(&title.trim_matches('"'));
        }
        if inside && line == ".TP" {
            let text = lines.next().unwrap_or_default();
            let plain = ["\\fB", "\\fI", "\\fR"].iter().fold(text.to_owned(), |text, mark| text.replace(mark, ""));
            found.push(plain.replace("\\-", "-"));
        }
    }
    found
}

/// 0 done, 1 refused, 2 arguments that make no sense, 3 the world is not as needed.
#[test]
fn exit_statuses_stay() {
    let calls: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["nonsense"],
        &["status"],
        &["status", "--nonsense"],
        &["reserve"],
        &["reserve", "net/eth1=3mbit"],
        &["reserve", "net/eth1=3mbit", "--for", "1h"],
        &["reserve", "net/eth1=3mbit", "--for", "never"],
        &["list"],
        &["cancel"],
        &["rsvp", "show"],
        &["rsvp", "decode", "/nonexistent"],
        &["boomerang", "status"],
        &["sim", "run", "/nonexistent"],
        &["plane", "check", "/nonexistent"],
        &["agent", "--config", "/nonexistent"],
        &["broker", "--config", "/nonexistent"],
        &["up", "/nonexistent"],
        &["completions", "bash"],
        &["lab", "run", "nonsense"],
        &["copy"],
        &["run"],
    ];
    let now = calls.iter().map(|arguments| {
        let mut command = Command::new(SLUICE);
        command.args(*arguments).env("SLUICE_SOCKET", "/nonexistent/agent.sock");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().unwrap().code();
        format!("{}: {}", arguments.join(" "), status.map_or("killed".to_owned(), |code| code.to_string()))
    });
    compare("statuses", &now.collect());
}
