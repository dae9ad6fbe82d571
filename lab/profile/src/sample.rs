//! Medians of repetitions, and their confidence intervals.

use serde::Serialize;

/// A median with its 95 % confidence interval. The interval is by order statistics and assumes no
/// distribution of the samples, which on a machine with other work is never normal.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The mean, for what is plotted as a mean.
    pub mean: f64,
    /// The number of samples.
    pub n: usize,
    /// The number of executions in a sample, which is their mean.
    pub batch: usize,
    /// The number of samples dropped because the thread was switched away meanwhile.
    pub discarded: usize,
}

impl Estimate {
    /// Converts the estimate to another unit.
    pub fn scaled(self, by: f64) -> Estimate {
        Estimate { median: self.median * by, low: self.low * by, high: self.high * by, mean: self.mean * by, ..self }
    }
}

/// Samples of one quantity.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    /// The samples.
    pub values: Vec<f64>,
    /// The number of dropped samples.
    pub discarded: usize,
}

impl Samples {
    /// Adds a sample, or counts it as dropped.
    pub fn add(&mut self, value: f64, dropped: bool) {
        match dropped {
            true => self.discarded += 1,
            false => self.values.push(value),
        }
    }

    /// Returns median and interval; `None` without a sample. Each sample is a mean of `batch` executions.
    pub fn estimate(&self, batch: usize) -> Option<Estimate> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let median = bench::order::median(&sorted)?;
        // Ranks between which the median lies with 95 %: the binomial distribution by the normal one.
        let reach = 0.5 * 1.96 * (n as f64).sqrt();
        let low = (n as f64 / 2.0 - reach).floor().max(0.0) as usize;
        let high = ((n as f64 / 2.0 + reach).ceil() as usize).min(n - 1);
        let mean = sorted.iter().sum::<f64>() / n as f64;
        Some(Estimate { median, low: sorted[low], high: sorted[high], mean, n, batch, discarded: self.discarded })
    }
}

/// Returns the slope of a line through points, by least squares; zero for fewer than two.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n));
    let above: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let below: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    if below > 0.0 { above / below } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_interval() {
        let samples = Samples { values: (1..=300).rev().map(f64::from).collect(), discarded: 2 };
        let found = samples.estimate(64).unwrap();
        // 150 -+ 17 ranks: the textbook's interval for 300.
        assert_eq!((found.median, found.low, found.high), (150.5, 134.0, 168.0));
        assert_eq!((found.n, found.batch, found.discarded, found.mean), (300, 64, 2, 150.5));
        assert_eq!(Samples::default().estimate(1), None);
        let one = Samples { values: vec![7.0], discarded: 0 }.estimate(1).unwrap();
        assert_eq!((one.low, one.median, one.high), (7.0, 7.0, 7.0));
    }

    #[test]
    fn a_slope() {
        assert!((slope(&[(0.0, 1.0), (10.0, 3.0), (20.0, 5.0)]) - 0.2).abs() < 1e-12);
        assert_eq!(slope(&[(1.0, 1.0)]), 0.0);
    }
}
