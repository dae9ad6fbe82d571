//! The web server of seed 000 under cross traffic, in its quick form, as a user runs it.

use crate::alone;
use crate::gara::{shown, value};

#[test]
fn reserved_transfers_keep_their_rate_and_others_do_not() {
    let _alone = alone();
    if std::process::Command::new("nginx").arg("-v").output().is_err() {
        return bench::skipped("nginx is not installed: apt install nginx-light");
    }
    let Some(line) = shown("web-flood", &["tables.txt", "cells.csv", "web-flood.svg", "web-flood.png"]) else { return };
    assert!(value(&line, "reserved_min_share") >= 0.75, "{line}");
    assert!(value(&line, "unreserved_min_share") < 0.5, "{line}");
    assert_eq!(value(&line, "refused"), 0.0, "{line}");
}
