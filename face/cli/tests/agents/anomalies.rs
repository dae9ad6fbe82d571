//! The agent while system calls fail (FAULTS.md D3, D4, K9, O4): the n-th write, fsync, open, rename, descriptor, netlink message,
//! at its start and while it runs. Afterwards all is as it was acknowledged, without a hand.

use crate::bed::{SLUICE, skipped};
use std::process::{Command, Output};

fn torture(more: &[&str]) -> Option<(Output, String)> {
    if skipped() {
        return None;
    }
    let output = Command::new(SLUICE).args(["torture", "anomalies", "--silent", "--json"]).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output, text))
}

#[test]
fn whatever_call_fails_nothing_is_lost_and_nobody_is_needed() {
    let faults = std::env::var("SLUICE_ANOMALIES").unwrap_or_else(|_| "30".to_owned());
    let Some((output, text)) = torture(&["--faults", &faults]) else { return };
    let last = text.lines().last().unwrap_or_default();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && last.ends_with(r#","lost":0,"stuck":0}"#), "{text}{errors}");
    assert!(!last.starts_with(r#"{"faults":0,"#), "nothing struck: {text}");
}

/// The checker can fail: something is held to be acknowledged that no journal has.
#[test]
fn a_loss_is_found() {
    let Some((output, text)) = torture(&["--faults", "1", "--plant"]) else { return };
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("was acknowledged and is not there") && text.contains(r#""lost":1,"#), "{text}");
}
