//! The agent under load, killed 200 times at random instants (`SLUICE_CRASHES` for more): nothing that it acknowledged is
//! lost, nothing is given away twice, nothing is there by half, and the kernel comes to what the book says.

use crate::bed::{SLUICE, skipped};
use std::process::Command;

#[test]
fn what_was_acknowledged_survives_kill_9() {
    if skipped() {
        return;
    }
    let cycles = std::env::var("SLUICE_CRASHES").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(200);
    let mut command = Command::new(SLUICE);
    command.args(["torture", "crash", "--silent", "--json", "--cycles"]).arg(cycles.to_string());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let expected = format!(r#"{{"cycles":{cycles},"lost":0,"overbooked":0,"half":0,"diverged":0}}"#);
    assert_eq!(last, expected, "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
}
