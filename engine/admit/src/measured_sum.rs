//! Measured sum: a flow comes in if what is measured plus what it declares stays below a target share of what is
//! allocated, `v * mu > r + b` (Jamin, Danzig, Shenker, Zhang 1997; Jamin and Jin 1998, section 3, equation 1).
//!
//! What is allocated is a [`Grant`](crate::Grant) with a statistical inside: the ledger sees the grant alone, so nothing that
//! is promised exactly is ever touched. Inside, measuring can be wrong; where it can be *seen* to be wrong (the counter
//! runs backwards, a reading was missed, a whole window reads zero while flows are in) the declared rates count
//! until the estimator remembers only good samples.

use crate::denied::Denied;
use crate::estimator::UseEstimator;
use terms::{Bytes, Misuse, Rate, Span, Time};

/// What a measured sum works with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SumTerms {
    /// mu: what the flows may have together.
    pub allocated: Rate,
    /// v: the target utilisation, a ratio; above one counts on bursts that do not meet.
    pub target: (u32, u32),
    /// How often the counter is read.
    pub period: Span,
    /// Most flows.
    pub most_flows: usize,
}

/// What a reading of the counter was worth.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CounterReading {
    /// The first one: there is nothing to compare it with.
    First,
    /// The sampling period is not over (or time did not move): ignored.
    TooSoon,
    /// A sample.
    Sample(Rate),
    /// The counter ran backwards: it was reset, or wrapped. No sample; declared rates count for a while.
    Backwards,
    /// More than two periods since the last reading: peaks inside went unseen. Declared rates count for a while.
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
    /// Good samples still to come before the estimate is believed again.
    doubt: u32,
    /// Samples of zero in a row, while flows were in.
    silent: u32,
}

impl<E: UseEstimator> MeasuredSum<E> {
    /// Nobody is in.
    ///
    /// # Errors
    /// [`Misuse::ZeroRate`] for a target of nothing or a period of zero.
    pub fn new(terms: SumTerms, estimator: E) -> Result<MeasuredSum<E>, Misuse> {
        if terms.target.0 == 0 || terms.target.1 == 0 || terms.period == Span::ZERO {
            return Err(Misuse::ZeroRate);
        }
        Ok(MeasuredSum { terms, estimator, declared: Rate::ZERO, flows: 0, last: None, doubt: 0, silent: 0 })
    }

    /// May a flow of this declared rate come in? If so it is in.
    ///
    /// # Errors
    /// [`Denied`]; nothing has changed then.
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

    /// A flow of this declared rate went. What it used leaves the estimate with the samples.
    pub fn leave(&mut self, rate: Rate) {
        debug_assert!(self.flows > 0 && rate <= self.declared, "who leaves was in");
        self.declared = self.declared.saturating_sub(rate);
        self.flows = self.flows.saturating_sub(1);
    }

    /// The counter of all bytes that these flows have sent so far (counted where they are queued, not where they are
    /// sent on: that is the rate that arrives), read now. Read it once a period.
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

    /// What the flows are taken to use: the estimate, or what they declared while the measurement is in doubt.
    pub fn usage(&self) -> Rate {
        if self.doubt > 0 { self.declared.max(self.estimator.estimate()) } else { self.estimator.estimate() }
    }

    /// Whether the declared rates count for now.
    pub fn in_doubt(&self) -> bool {
        self.doubt > 0
    }

    /// The most that a flow may declare and still come in: the largest r with `v * mu > r + b`.
    pub fn free(&self) -> Rate {
        let (n, d) = (u128::from(self.terms.target.0), u128::from(self.terms.target.1));
        // r + b <= ceil(n mu / d) - 1 is the same as d (r + b) < n mu.
        let most = (n * u128::from(self.terms.allocated.as_bps())).div_ceil(d).saturating_sub(1);
        let most = Rate::from_bps(u64::try_from(most).unwrap_or(u64::MAX));
        most.saturating_sub(self.usage()).min(self.terms.allocated)
    }

    /// The grant was made larger or smaller. Those who are in stay.
    pub fn allocate(&mut self, allocated: Rate) {
        self.terms.allocated = allocated;
    }

    /// What those who are in have declared together.
    pub fn declared(&self) -> Rate {
        self.declared
    }

    /// How many are in.
    pub fn flows(&self) -> usize {
        self.flows
    }

    fn distrust(&mut self) {
        self.estimator.restart(self.declared);
        self.doubt = self.estimator.memory();
        self.silent = 0;
    }
}

/// The rate that sends these bytes in that time: demand, rounded up.
fn used(bytes: Bytes, span: Span) -> Rate {
    let bit_nanos = u128::from(bytes.get()) * 8 * u128::from(Span::NANOS_PER_SEC);
    let rate = bit_nanos.div_ceil(u128::from(span.as_nanos().max(1)));
    Rate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))
}
