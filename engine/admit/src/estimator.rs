//! Estimators of the rate that a group of flows uses. They are the exchangeable part of a measured sum.

use terms::Rate;

/// Estimates the rate that admitted flows use together, from one sample each sampling period. Its memory is
/// fixed.
pub trait UseEstimator {
    /// Takes a sample: the rate of all flows together over the last sampling period.
    fn sample(&mut self, rate: Rate);

    /// Takes note of a flow that has just been admitted with this declared rate. No sample has seen it yet.
    fn admitted(&mut self, declared: Rate);

    /// Takes note of a flow that has just left; it was `declared` of the sum `of` of declared rates, its own included.
    /// By default its use leaves the estimate with the samples alone.
    fn left(&mut self, declared: Rate, of: Rate) {
        let _ = (declared, of);
    }

    /// The estimated rate of all flows.
    fn estimate(&self) -> Rate;

    /// The number of samples after which no older sample counts any more.
    fn memory(&self) -> u32;

    /// Forgets every sample and starts from the rate `from`.
    fn restart(&mut self, from: Rate);
}

/// The moving time window of Jamin, Danzig, Shenker and Zhang (1997) as Jamin and Jin (1998, section 3) use it. Three
/// updates: a sample above the estimate becomes the estimate at once; an admission adds the declared rate; at the end
/// of a window the highest sample of that window becomes the estimate, which is the only way down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeWindow {
    window: u32,
    taken: u32,
    highest: Rate,
    estimate: Rate,
}

impl TimeWindow {
    /// A window of so many samples; zero counts as one.
    pub const fn new(window: u32) -> TimeWindow {
        let window = if window == 0 { 1 } else { window };
        TimeWindow { window, taken: 0, highest: Rate::ZERO, estimate: Rate::ZERO }
    }
}

impl UseEstimator for TimeWindow {
    fn sample(&mut self, rate: Rate) {
        self.highest = self.highest.max(rate);
        self.estimate = self.estimate.max(rate);
        self.taken += 1;
        if self.taken >= self.window {
            self.estimate = self.highest;
            self.highest = Rate::ZERO;
            self.taken = 0;
        }
    }

    fn admitted(&mut self, declared: Rate) {
        self.estimate = self.estimate.saturating_add(declared);
    }

    fn estimate(&self) -> Rate {
        self.estimate
    }

    fn memory(&self) -> u32 {
        // A sample may stand until the end of the window after its own.
        self.window.saturating_mul(2)
    }

    fn restart(&mut self, from: Rate) {
        *self = TimeWindow { taken: 0, highest: Rate::ZERO, estimate: from, window: self.window };
    }
}

/// The same window, where a flow that leaves takes its share of the estimate with it: as much of it as the flow had of the
/// sum of declared rates. The seed's window keeps that share until its end, and makes up for it by a target above one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DepartureWindow(TimeWindow);

impl DepartureWindow {
    /// A window of so many samples; zero counts as one.
    pub const fn new(window: u32) -> DepartureWindow {
        DepartureWindow(TimeWindow::new(window))
    }
}

impl UseEstimator for DepartureWindow {
    fn sample(&mut self, rate: Rate) {
        self.0.sample(rate);
    }

    fn admitted(&mut self, declared: Rate) {
        self.0.admitted(declared);
    }

    fn left(&mut self, declared: Rate, of: Rate) {
        let part = |rate: Rate| if of == Rate::ZERO { Rate::ZERO } else { rate.share(declared.as_bps(), of.as_bps()) };
        let TimeWindow { estimate, highest, .. } = &mut self.0;
        *estimate = estimate.saturating_sub(part(*estimate));
        *highest = highest.saturating_sub(part(*highest));
    }

    fn estimate(&self) -> Rate {
        self.0.estimate()
    }

    fn memory(&self) -> u32 {
        self.0.memory()
    }

    fn restart(&mut self, from: Rate) {
        self.0.restart(from);
    }
}

/// An exponential average of the samples: estimate += (sample - estimate) / 2^shift. Follows the mean rather than the
/// peaks, so it admits more and promises less; for comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExponentialAverage {
    shift: u32,
    /// The estimate with `shift` more bits, so that rounding does not hold it back.
    scaled: u128,
}

impl ExponentialAverage {
    /// A weight of 2^-shift for each new sample; a shift above 32 counts as 32.
    pub const fn new(shift: u32) -> ExponentialAverage {
        ExponentialAverage { shift: if shift > 32 { 32 } else { shift }, scaled: 0 }
    }
}

impl UseEstimator for ExponentialAverage {
    fn sample(&mut self, rate: Rate) {
        self.scaled = self.scaled - (self.scaled >> self.shift) + u128::from(rate.as_bps());
    }

    fn admitted(&mut self, declared: Rate) {
        self.scaled += u128::from(declared.as_bps()) << self.shift;
    }

    fn estimate(&self) -> Rate {
        Rate::from_bps(u64::try_from(self.scaled >> self.shift).unwrap_or(u64::MAX))
    }

    fn memory(&self) -> u32 {
        // What is left of a sample after 8 time constants is below 0.04 %.
        8 << self.shift.min(28)
    }

    fn restart(&mut self, from: Rate) {
        self.scaled = u128::from(from.as_bps()) << self.shift;
    }
}
