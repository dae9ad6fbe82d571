//! Rate adaptive shapers before the kernel's TCP: the quick form, as a user runs it.

use crate::alone;
use crate::gara::{shown, value};

#[test]
fn shaped_connections_of_the_kernel_beat_unshaped_ones_where_buckets_are_small() {
    let _alone = alone();
    let Some(line) = shown("ras-live", &["tables.txt", "cells.csv"]) else { return };
    let (small, large) = (value(&line, "gain_tr_ras_3kb_200ms"), value(&line, "gain_tr_ras_100kb_200ms"));
    assert!(small > 0.1 && large < small, "{line}");
    assert!(value(&line, "gain_tr_ras_3kb_200ms_simulated") > 0.1, "{line}");
}
