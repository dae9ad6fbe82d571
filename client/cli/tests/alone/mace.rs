//! Flows that never signalled, by real sockets through a bottleneck whose agent recognises them: the quick form, as a user
//! runs it.

use crate::alone;
use crate::gara::{shown, value};

#[test]
fn recognised_flows_lose_little_where_others_lose_a_quarter() {
    let _alone = alone();
    let files = ["tables.txt", "cells.csv", "mace-fig6.svg", "mace-fig6.png", "mace-fig8.svg"];
    let Some(line) = shown("mace-fig6", &files) else { return };
    assert!(value(&line, "cl_loss") <= 0.02, "{line}");
    assert!((0.15..=0.35).contains(&value(&line, "be_loss")), "{line}");
    assert!(value(&line, "spacing_share") > 0.5 && value(&line, "background_loss_more") < 0.06, "{line}");
    // Without background the link has room for all.
    let cells = line["cells"].as_array().expect("cells");
    for cell in cells.iter().filter(|cell| cell["row"] == "no background") {
        assert!(value(cell, "measured") <= 1.0, "{line}");
    }
}

#[test]
fn programs_that_never_signal_lose_nothing_once_recognised_while_hundreds_ask() {
    let _alone = alone();
    let Some(line) = shown("mace-applications", &["tables.txt", "cells.csv"]) else { return };
    assert!(value(&line, "lost_recognised") <= 0.01 && value(&line, "lost_beside_calls") <= 0.01, "{line}");
    assert!(value(&line, "lost_plain") >= 0.1 && value(&line, "asked_per_minute") >= 1_900.0, "{line}");
}
