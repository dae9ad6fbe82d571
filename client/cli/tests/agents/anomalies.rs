//! Agent and broker while system calls fail (FAULTS.md D3, D4, K9, O4): the n-th write, fsync, open, rename, descriptor, netlink message,
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
    let faults = std::env::var("SLUICE_ANOMALIES").unwrap_or_else(|_| "26".to_owned());
    let Some((output, text)) = torture(&["--faults", &faults, "--jobs", "2"]) else { return };
    let last = text.lines().last().unwrap_or_default();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && last.ends_with(r#","lost":0,"stuck":0}"#), "{text}{errors}");
    assert!(!last.starts_with(r#"{"faults":0,"#), "nothing struck: {text}");
}

/// The checker can fail. An older copy of its journal is put under the agent, and an agent gives its half of a reservation back
/// behind the broker's back: what was acknowledged is really gone.
#[test]
fn a_loss_is_found() {
    let Some((output, text)) = torture(&["--plant"]) else { return };
    assert_eq!(output.status.code(), Some(1), "{text}");
    let has = |who: &str, what: &str| text.lines().any(|line| line.starts_with(who) && line.contains(what));
    assert!(has("agent with something taken away", "was acknowledged and is not there"), "{text}");
    assert!(has("broker with something taken away", "is broken with"), "{text}");
    assert!(has("broker with something taken away", "1 of 2 members are booked"), "{text}");
    assert!(text.ends_with("{\"faults\":0,\"lost\":3,\"stuck\":0}\n"), "{text}");
}
