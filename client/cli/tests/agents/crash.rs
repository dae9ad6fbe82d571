//! The agent under load, killed 200 times at random instants (`SLUICE_CRASHES` for more): nothing that it acknowledged is
//! lost, nothing is given away twice, nothing is there by half, and the kernel comes to what the book says. The same for a
//! broker over three agents, some of which are killed, stopped or cut off at writes of their journals
//! (`SLUICE_CRASHES_OF_SEVERAL` for more cycles).

use crate::bed::{SLUICE, skipped};
use serde_json::Value;
use std::process::{Command, Output};

#[test]
fn what_was_acknowledged_survives_kill_9() {
    if skipped() {
        return;
    }
    let cycles = std::env::var("SLUICE_CRASHES").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(100);
    let mut command = Command::new(SLUICE);
    command.args(["torture", "crash", "--silent", "--json", "--cycles"]).arg(cycles.to_string());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let expected = format!(r#"{{"cycles":{cycles},"lost":0,"overbooked":0,"half":0,"diverged":0}}"#);
    assert_eq!(last, expected, "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
}

/// The last line of a run of three agents.
fn several(more: &[&str]) -> Option<(Output, Value)> {
    if skipped() {
        return None;
    }
    let mut command = Command::new(SLUICE);
    let output = command.args(["torture", "crash", "--agents", "3", "--silent", "--json"]).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = serde_json::from_str(text.lines().last().unwrap_or_default());
    Some((output.clone(), report.unwrap_or_else(|_| panic!("{output:?}"))))
}

#[test]
fn what_a_broker_over_three_agents_acknowledged_survives() {
    let cycles = std::env::var("SLUICE_CRASHES_OF_SEVERAL").unwrap_or_else(|_| "8".to_owned());
    let Some((output, report)) = several(&["--cycles", &cycles]) else { return };
    for name in ["lost", "overbooked", "half", "diverged", "stuck"] {
        assert_eq!(report[name], 0, "{name}: {output:?}");
    }
    assert!(output.status.success());
    let struck = |name: &str| report[name].as_u64().unwrap();
    assert!(struck("acknowledged") > 0 && struck("at_writes") > 0, "{report}");
    assert!(
        struck("kills") > 0 && struck("kills") + struck("stops") + struck("partitions") >= struck("cycles"),
        "{report}"
    );
}

/// Each of the five checks finds what is spoiled on purpose.
#[test]
fn what_is_spoiled_at_one_of_three_agents_is_found() {
    for spoiled in ["lost", "overbooked", "half", "diverged", "stuck"] {
        let Some((output, report)) = several(&["--cycles", "3", "--plant", spoiled]) else { return };
        assert!(report[spoiled].as_u64().unwrap() > 0, "{spoiled}: {output:?}");
        assert_eq!(output.status.code(), Some(1), "{spoiled}");
    }
}
