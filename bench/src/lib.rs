//! The frame of every benchmark: which to run, how often, and one JSON line per figure. And the word of a test that could not run.
//! [`order`] has the medians and percentiles of all measurements.
//!
//! `make -s bench BENCH=pattern` passes the pattern as the first argument; a benchmark asks [`Bench::wants`] before it
//! sets up. What two contenders are to be compared is run alternately ([`Bench::pair`]), because machines drift.
#![forbid(unsafe_code)]

pub mod certificates;
pub mod order;

pub mod postgres;
pub mod slapd;

use std::time::Instant;

/// One run of a benchmark binary.
#[derive(Clone, Debug)]
pub struct Bench {
    pattern: Option<String>,
}

impl Bench {
    /// Reads the pattern from the arguments; cargo's own `--bench` flag is passed over.
    pub fn from_args() -> Bench {
        Bench { pattern: std::env::args().skip(1).find(|arg| !arg.starts_with('-')) }
    }

    /// True if the figure of this name was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| name.contains(pattern.as_str()))
    }

    /// Prints one figure, if it was asked for: `{"bench":"name","value":1.23,"unit":"ns","n":7}`.
    pub fn report(&self, name: &str, value: f64, unit: &str, n: usize) {
        if self.wants(name) {
            let digits = if value.abs() >= 1000.0 { 0 } else { 3 };
            println!("{{\"bench\":\"{name}\",\"value\":{value:.digits$},\"unit\":\"{unit}\",\"n\":{n}}}");
        }
    }

    /// Prints the reference that another figure is measured beside, if either was asked for.
    pub fn report_beside(&self, of: &str, name: &str, value: f64, unit: &str, n: usize) {
        let wanted = self.wants(of) || self.wants(name);
        if wanted {
            Bench { pattern: None }.report(name, value, unit, n);
        }
    }

    /// Times `work`, which does `operations` operations, `n` times after one warm-up, and reports the median in ns per operation.
    pub fn time(&self, name: &str, n: usize, operations: u64, mut work: impl FnMut()) {
        if !self.wants(name) {
            return;
        }
        work();
        let mut runs: Vec<f64> = (0..n).map(|_| nanos(&mut work) / operations as f64).collect();
        self.report(name, median(&mut runs), "ns", n);
    }

    /// Times two contenders alternately, `n` times each after one warm-up each, and returns the medians of ours, theirs and of the
    /// ratio ours / theirs, pair by pair (ns for the first two).
    pub fn pair(&self, n: usize, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> (f64, f64, f64) {
        ours();
        theirs();
        let pairs: Vec<(f64, f64)> = (0..n).map(|_| (nanos(&mut ours), nanos(&mut theirs))).collect();
        let mut own: Vec<f64> = pairs.iter().map(|p| p.0).collect();
        let mut other: Vec<f64> = pairs.iter().map(|p| p.1).collect();
        let mut ratio: Vec<f64> = pairs.iter().map(|p| p.0 / p.1).collect();
        (median(&mut own), median(&mut other), median(&mut ratio))
    }
}

/// Says that a test could not run here, and why: past the capture of a test's output, so that it does not count as passed.
/// The name of the test, which is that of its thread, stands behind: `cargo xtask suite` counts tests, not reasons.
pub fn skipped(why: impl std::fmt::Display) {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").map(|name| format!(" [{name}]")).unwrap_or_default();
    // A lost word is all that can go wrong, and there is nobody to tell.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("SKIPPED: {why}{test}\n").as_bytes());
}

/// How long `work` takes, ns.
pub fn nanos(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

/// The median; sorts. Zero for nothing.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    order::median(values).unwrap_or(0.0)
}

/// The smallest value that a share `p` of all does not exceed; sorts. Zero for nothing.
pub fn percentile(values: &mut [f64], p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    order::nearest_rank(values, p).unwrap_or(0.0)
}

/// A small generator for workloads, so that every run does the same work (PCG, 64 bits of state, 32 of output).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// From a seed.
    pub fn new(seed: u64) -> Draw {
        let mut draw = Draw(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
        draw.next_u32();
        draw
    }

    /// Uniform.
    pub fn next_u32(&mut self) -> u32 {
        let old = self.0;
        self.0 = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = (((old >> 18) ^ old) >> 27) as u32;
        word.rotate_right((old >> 59) as u32)
    }

    /// Uniform.
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(percentile(&mut (0..=100).map(f64::from).collect::<Vec<_>>(), 0.99), 99.0);
        assert_eq!(median(&mut []), 0.0);
    }

    #[test]
    fn draws_repeat() {
        let (mut a, mut b) = (Draw::new(1), Draw::new(1));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&a.unit())));
    }
}
