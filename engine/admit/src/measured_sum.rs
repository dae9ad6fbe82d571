//! Measured sum: a flow is admitted if its declared rate plus the measured use stays below a target share of
//! the allocation, `v * mu > r + b` (Jamin, Danzig, Shenker, Zhang 1997; Jamin and Jin 1998, section 3,
//! equation 1).
//!
//! The allocation is a [`Grant`](crate::Grant) with a statistical inside. The ledger sees the grant alone, so
//! exact promises are never touched. A measurement can be wrong. If it is *visibly* wrong (the counter runs
//! backwards, a reading was missed, a whole window reads zero while flows are in) the declared rates count
//! until the estimator remembers only good samples.

use crate::denied::Denied;
use crate::estimator::UseEstimator;
use terms::{Bytes, Misuse, Rate, Span, Time};

/// Settings of a measured sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SumTerms {
    /// mu: the rate allocated to all flows together.
    pub allocated: Rate,
    /// v: the target utilisation, a ratio; above one it relies on bursts that do not coincide.
    pub target: (u32, u32),
    /// Time between two readings of the counter.
    pub period: Span,
    /// Maximum number of flows.
    pub most_flows: usize,
}

/// The use of one reading of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CounterReading {
    /// The first reading: there is no earlier one to compare.
    First,
    /// The sampling period is not over (or time did not move). The reading is ignored.
    TooSoon,
    /// A sample of the flows' rate.
    Sample(Rate),
    /// The counter ran backwards: it was reset, or wrapped. There is no sample, and declared rates count for
    /// a while.
    Backwards,
    /// More than two periods since the last reading, so peaks may be missed. Declared rates count for a
    /// while.
    Gap,
}

/// Admission by measured use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredSum<E> {
    terms: SumTerms,
    estimator: E,
    declared: Rate,
    flows: usize,
    last: Option<(Time, Bytes)>,
    /// Good samples still needed before the estimate is trusted again.
    doubt: u32,
    /// Samples of zero in a row while there were flows.
    silent: u32,
}

impl<E: UseEstimator> MeasuredSum<E> {
    /// A sum without flows.
    ///
    /// # Errors
    /// [`Misuse::ZeroRate`] for a target of zero or a period of zero.
    pub fn new(terms: SumTerms, estimator: E) -> Result<MeasuredSum<E>, Misuse> {
        if terms.target.0 == 0 || terms.target.1 == 0 || terms.period == Span::ZERO {
            return Err(Misuse::ZeroRate);
        }
        Ok(MeasuredSum { terms, estimator, declared: Rate::ZERO, flows: 0, last: None, doubt: 0, silent: 0 })
    }

    /// Admits a flow of this declared rate, if it fits.
    ///
    /// # Errors
    /// [`Denied`]; then the sum is unchanged.
    pub fn ask(&mut self, rate: Rate) -> Result<(), Denied> {
        if rate == Rate::ZERO {
            return Err(Misuse::ZeroRate.into());
        }
        if self.flows >= self.terms.most_flows {
            return Err(Denied::Limit { what: "flows of a sum", limit: self.terms.most_flows });
        }
        let free = self.free();
        if rate > free {
            return Err(Denied::Capacity { asked: rate, free });
        }
        self.declared = self.declared.saturating_add(rate);
        self.flows += 1;
        self.estimator.admitted(rate);
        Ok(())
    }

    /// Removes a flow of this declared rate. Its use leaves the estimate with the samples.
    pub fn leave(&mut self, rate: Rate) {
        debug_assert!(self.flows > 0 && rate <= self.declared, "who leaves was in");
        self.declared = self.declared.saturating_sub(rate);
        self.flows = self.flows.saturating_sub(1);
    }

    /// Takes a reading of the counter of all bytes that these flows have sent so far. The bytes are counted
    /// at the entry of the queue, so the samples are arrival rates. Read it once a period.
    pub fn read(&mut self, now: Time, counter: Bytes) -> CounterReading {
        let Some((then, before)) = self.last else {
            self.last = Some((now, counter));
            return CounterReading::First;
        };
        let span = now.since(then);
        if now <= then || span < self.terms.period {
            return CounterReading::TooSoon;
        }
        self.last = Some((now, counter));
        if counter < before {
            self.distrust();
            return CounterReading::Backwards;
        }
        if span.as_nanos() / 2 > self.terms.period.as_nanos() {
            self.distrust();
            return CounterReading::Gap;
        }
        let rate = used(counter.saturating_sub(before), span);
        self.estimator.sample(rate);
        self.doubt = self.doubt.saturating_sub(1);
        self.silent = if rate == Rate::ZERO && self.flows > 0 { self.silent.saturating_add(1) } else { 0 };
        if self.silent >= self.estimator.memory() {
            self.distrust();
        }
        CounterReading::Sample(rate)
    }

    /// The rate that the flows count as: the estimate, or the declared sum if that is larger and the
    /// measurement is in doubt.
    pub fn usage(&self) -> Rate {
        if self.doubt > 0 { self.declared.max(self.estimator.estimate()) } else { self.estimator.estimate() }
    }

    /// True while the declared rates count because the measurement is in doubt.
    pub fn in_doubt(&self) -> bool {
        self.doubt > 0
    }

    /// The largest rate that a new flow may declare: the largest r with `v * mu > r + b`.
    pub fn free(&self) -> Rate {
        let (n, d) = (u128::from(self.terms.target.0), u128::from(self.terms.target.1));
        // r + b <= ceil(n mu / d) - 1 is the same as d (r + b) < n mu.
        let most = (n * u128::from(self.terms.allocated.as_bps())).div_ceil(d).saturating_sub(1);
        let most = Rate::from_bps(u64::try_from(most).unwrap_or(u64::MAX));
        most.saturating_sub(self.usage()).min(self.terms.allocated)
    }

    /// Changes the allocation after the grant was resized. Admitted flows stay.
    pub fn allocate(&mut self, allocated: Rate) {
        self.terms.allocated = allocated;
    }

    /// The sum of the declared rates.
    pub fn declared(&self) -> Rate {
        self.declared
    }

    /// The number of admitted flows.
    pub fn flows(&self) -> usize {
        self.flows
    }

    fn distrust(&mut self) {
        self.estimator.restart(self.declared);
        self.doubt = self.estimator.memory();
        self.silent = 0;
    }
}

/// The rate of these bytes in that time. It is demand, so it is rounded up.
fn used(bytes: Bytes, span: Span) -> Rate {
    let bit_nanos = u128::from(bytes.get()) * 8 * u128::from(Span::NANOS_PER_SEC);
    let rate = bit_nanos.div_ceil(u128::from(span.as_nanos().max(1)));
    Rate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))
}
