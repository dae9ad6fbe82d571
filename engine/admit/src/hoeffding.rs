//! Admission by Hoeffding bounds: a flow of peak rate p is admitted if `C + p <= mu`, where
//! `C = nu + sqrt(ln(1/e) * sum(p_i^2) / 2)` bounds the rate of the flows that are in: independent flows of peaks `p_i`
//! and mean `nu` together exceed `C` with a probability of at most `e` (Floyd, "Comments on Measurement-based Admissions
//! Control for Controlled-Load Services", 1996; as Jamin, Shenker and Danzig state it, INFOCOM 1997).
//!
//! `nu` is an exponential average of the samples, to which the peak of each new flow is added at once. A flow's declared
//! rate is its peak: its policer lets no more through.

use crate::denied::Denied;
use crate::estimator::{ExponentialAverage, UseEstimator};
use crate::reading::CounterReading;
use crate::rule::FlowRule;
use terms::{Misuse, Rate};

/// ln(10) in millionths, rounded up.
const LN_10: u128 = 2_302_586;
/// Samples of nothing from flows that are in, after which the counter is not believed.
const MOST_SILENT: u32 = 16;

/// Settings of a [`HoeffdingBound`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoeffdingTerms {
    /// mu: the rate allocated to all flows together.
    pub allocated: Rate,
    /// n: the flows may exceed the bound with a probability of 10^-n; above 32 it counts as 32.
    pub nines: u32,
    /// The weight of a sample in the average is 2^-shift.
    pub shift: u32,
    /// Maximum number of flows.
    pub most_flows: usize,
}

/// Admission by Hoeffding bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HoeffdingBound {
    terms: HoeffdingTerms,
    average: ExponentialAverage,
    declared: Rate,
    /// The sum of the squares of the peaks, in (bit/s)^2.
    squares: u128,
    flows: usize,
    doubt: u32,
    silent: u32,
}

impl HoeffdingBound {
    /// A rule without flows.
    pub const fn new(terms: HoeffdingTerms) -> HoeffdingBound {
        let average = ExponentialAverage::new(terms.shift);
        HoeffdingBound { terms, average, declared: Rate::ZERO, squares: 0, flows: 0, doubt: 0, silent: 0 }
    }

    /// The part of the bound above the mean: `sqrt(ln(1/e) * sum(p_i^2) / 2)`, rounded up.
    fn margin(&self) -> Rate {
        let half = LN_10 * u128::from(self.terms.nines.min(32));
        // The sum first loses six digits or the product could be too large; both steps round up.
        let square = match self.squares.checked_mul(half) {
            Some(product) => product.div_ceil(2_000_000),
            None => self.squares.div_ceil(2_000_000).saturating_mul(half),
        };
        let root = square.isqrt();
        let root = if root * root < square { root + 1 } else { root };
        Rate::from_bps(u64::try_from(root).unwrap_or(u64::MAX))
    }

    fn distrust(&mut self) {
        self.average.restart(self.declared);
        self.doubt = self.average.memory();
        self.silent = 0;
    }
}

fn square(rate: Rate) -> u128 {
    u128::from(rate.as_bps()).saturating_mul(u128::from(rate.as_bps()))
}

impl FlowRule for HoeffdingBound {
    fn would(&self, rate: Rate) -> Result<(), Denied> {
        if rate == Rate::ZERO {
            return Err(Misuse::ZeroRate.into());
        }
        if self.flows >= self.terms.most_flows {
            return Err(Denied::Limit { what: "flows of a bound", limit: self.terms.most_flows });
        }
        let free = self.terms.allocated.saturating_sub(self.usage());
        if rate > free { Err(Denied::Capacity { asked: rate, free }) } else { Ok(()) }
    }

    fn enter(&mut self, rate: Rate) {
        self.declared = self.declared.saturating_add(rate);
        self.squares = self.squares.saturating_add(square(rate));
        self.flows += 1;
        self.average.admitted(rate);
    }

    fn leave(&mut self, rate: Rate) {
        debug_assert!(self.flows > 0 && rate <= self.declared, "who leaves was in");
        self.declared = self.declared.saturating_sub(rate);
        self.squares = self.squares.saturating_sub(square(rate));
        self.flows = self.flows.saturating_sub(1);
    }

    fn take(&mut self, reading: CounterReading) {
        match reading {
            CounterReading::Backwards | CounterReading::Gap => self.distrust(),
            CounterReading::Sample(rate) => {
                self.average.sample(rate);
                self.doubt = self.doubt.saturating_sub(1);
                self.silent = if rate == Rate::ZERO && self.flows > 0 { self.silent + 1 } else { 0 };
                if self.silent >= MOST_SILENT {
                    self.distrust();
                }
            }
            CounterReading::First | CounterReading::TooSoon | CounterReading::Missed => {}
        }
    }

    fn usage(&self) -> Rate {
        // Together the flows cannot send more than their peaks: in doubt that is the bound.
        if self.doubt > 0 {
            return self.declared.max(self.average.estimate());
        }
        self.average.estimate().saturating_add(self.margin())
    }

    fn in_doubt(&self) -> bool {
        self.doubt > 0
    }

    fn flows(&self) -> usize {
        self.flows
    }

    fn declared(&self) -> Rate {
        self.declared
    }

    fn allocate(&mut self, allocated: Rate) {
        self.terms.allocated = allocated;
    }

    fn adopted(&mut self) {
        self.average.restart(self.declared);
        self.doubt = self.average.memory();
    }
}
