//! The parallel FFT of seed 000 under cross traffic, in its quick form, as a user runs it.

use crate::alone;
use crate::gara::{shown, value};
use std::process::Command;

#[test]
fn an_fft_keeps_its_time_with_ten_megabits_reserved() {
    let _alone = alone();
    if ["mpirun", "mpicc"].iter().any(|name| Command::new(name).arg("--version").output().is_err()) {
        return bench::skipped(
            "OpenMPI is not installed: apt install openmpi-bin libopenmpi-dev libfftw3-dev libfftw3-mpi-dev",
        );
    }
    let Some(line) = shown("fft", &["tables.txt", "cells.csv", "fft.svg", "fft.png"]) else { return };
    assert!(value(&line, "share_10mbit") >= 0.7, "{line}");
    assert!(value(&line, "share_none") < value(&line, "share_10mbit"), "{line}");
}
