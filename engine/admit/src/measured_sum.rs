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
use crate::reading::{CounterReading, CounterSampler};
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

/// Admission by measured use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredSum<E> {
    terms: SumTerms,
    estimator: E,
    declared: Rate,
    flows: usize,
    sampler: CounterSampler,
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
        let sampler = CounterSampler::new(terms.period);
        Ok(MeasuredSum { terms, estimator, declared: Rate::ZERO, flows: 0, sampler, doubt: 0, silent: 0 })
    }

    /// Admits a flow of this declared rate, if it fits.
    ///
    /// # Errors
    /// [`Denied`]; then the sum is unchanged.
    pub fn ask(&mut self, rate: Rate) -> Result<(), Denied> {
        self.would(rate)?;
        self.enter(rate);
        Ok(())
    }

    /// Decides about a flow of this declared rate; nothing changes.
    ///
    /// # Errors
    /// [`Denied`], with the rate that is free.
    pub fn would(&self, rate: Rate) -> Result<(), Denied> {
        if rate == Rate::ZERO {
            return Err(Misuse::ZeroRate.into());
        }
        if self.flows >= self.terms.most_flows {
            return Err(Denied::Limit { what: "flows of a sum", limit: self.terms.most_flows });
        }
        let free = self.free();
        if rate > free { Err(Denied::Capacity { asked: rate, free }) } else { Ok(()) }
    }

    /// Counts a flow of this declared rate, whether or not it fits.
    pub fn enter(&mut self, rate: Rate) {
        self.declared = self.declared.saturating_add(rate);
        self.flows += 1;
        self.estimator.admitted(rate);
    }

    /// Removes a flow of this declared rate. Its use leaves the estimate with the samples.
    pub fn leave(&mut self, rate: Rate) {
        debug_assert!(self.flows > 0 && rate <= self.declared, "who leaves was in");
        self.estimator.left(rate, self.declared);
        self.declared = self.declared.saturating_sub(rate);
        self.flows = self.flows.saturating_sub(1);
    }

    /// Takes a reading of the counter of all bytes that these flows have sent so far. The bytes are counted
    /// at the entry of the queue, so the samples are arrival rates. Read it once a period.
    pub fn read(&mut self, now: Time, counter: Bytes) -> CounterReading {
        let reading = self.sampler.read(now, counter);
        self.take(reading);
        reading
    }

    /// Takes what one reading of the counter gave, where another sampler has made it.
    pub fn take(&mut self, reading: CounterReading) {
        let rate = match reading {
            CounterReading::Backwards | CounterReading::Gap => return self.distrust(),
            CounterReading::First | CounterReading::TooSoon | CounterReading::Missed => return,
            CounterReading::Sample(rate) => rate,
        };
        self.estimator.sample(rate);
        self.doubt = self.doubt.saturating_sub(1);
        self.silent = if rate == Rate::ZERO && self.flows > 0 { self.silent.saturating_add(1) } else { 0 };
        if self.silent >= self.estimator.memory() {
            self.distrust();
        }
    }

    /// Says that all flows so far were adopted from an earlier run: the estimate is what they declare, until a window
    /// is full.
    pub fn adopted(&mut self) {
        self.estimator.restart(self.declared);
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
