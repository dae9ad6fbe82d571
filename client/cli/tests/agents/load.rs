//! `sluice torture load`: its check finds what is lost.

use crate::bed::{SLUICE, skipped};
use std::process::{Command, Output};

fn torture(more: &[&str]) -> (Output, serde_json::Value) {
    let mut command = Command::new(SLUICE);
    let output = command.args(["torture", "load", "--quick", "--silent", "--json"]).args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default();
    let found = serde_json::from_str(last);
    let found = found.unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    (output, found)
}

/// Floods of every type at up to ten times what an agent takes, with keys on the links and without: nothing that was established
/// or acknowledged is lost.
#[test]
fn nothing_is_lost_under_floods() {
    if skipped() {
        return;
    }
    let (output, found) = torture(&["--short"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((&found["established_lost"], &found["acknowledged_lost"]), (&0.into(), &0.into()), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}

/// The check can fail: a reservation that ends and a booking that is cancelled behind its back are found.
#[test]
fn a_loss_is_found() {
    if skipped() {
        return;
    }
    let (output, found) = torture(&["--plant-loss"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for what in ["established_lost", "acknowledged_lost"] {
        assert!(found[what].as_u64().is_some_and(|lost| lost >= 1), "{text}");
    }
    assert_eq!(output.status.code(), Some(1));
}
