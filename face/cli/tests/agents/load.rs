//! Floods of every message at a path of real agents, in the short form of `sluice torture load`: judged by losses alone.

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

#[test]
fn floods_take_nothing_from_those_who_have_a_promise() {
    if skipped() {
        return;
    }
    let (output, found) = torture(&[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((&found["established_lost"], &found["acknowledged_lost"]), (&0.into(), &0.into()), "{text}");
    assert!(output.status.success(), "{text}");
}

/// The check can fail: a reservation that ends and a booking that is cancelled behind its back are found.
#[test]
fn a_loss_is_found() {
    if skipped() {
        return;
    }
    let (output, found) = torture(&["--plant-loss"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((&found["established_lost"], &found["acknowledged_lost"]), (&1.into(), &1.into()), "{text}");
    assert_eq!(output.status.code(), Some(1));
}
