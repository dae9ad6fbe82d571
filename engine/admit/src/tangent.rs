//! Admission by the acceptance region's tangent at the origin: a flow is admitted if `e^(s p) * nu <= mu`, where `nu` is the
//! measured rate, p the largest peak rate and s the space parameter of the Chernoff bound (Gibbens and Kelly,
//! "Measurement-based connection admission control", ITC 15, 1997; in this form in Jamin, Shenker and Danzig, INFOCOM
//! 1997).
//!
//! Two things are ours, both on the safe side: the new flow's peak counts as measured when it is asked for, and with
//! flows of several peaks the largest stands for all. `nu` is the last sample, and the peak of each flow that came
//! since.

use crate::denied::Denied;
use crate::reading::CounterReading;
use crate::rule::FlowRule;
use alloc::collections::BTreeMap;
use terms::{Misuse, Rate};

/// Samples of nothing from flows that are in, after which the counter is not believed.
const MOST_SILENT: u32 = 16;
/// Binary digits after the point of the factor.
const POINT: u32 = 32;
const ONE: u128 = 1 << POINT;
/// e in that form, rounded up.
const E: u128 = 11_674_931_555;

/// Settings of a [`TangentAtOrigin`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TangentTerms {
    /// mu: the rate allocated to all flows together.
    pub allocated: Rate,
    /// 1/s: the peak rate at which the measured rate counts e times. A larger one admits more.
    pub space: Rate,
    /// Maximum number of flows.
    pub most_flows: usize,
}

/// Admission by the tangent at the origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TangentAtOrigin {
    terms: TangentTerms,
    measured: Rate,
    declared: Rate,
    /// How many flows have each peak rate.
    peaks: BTreeMap<Rate, usize>,
    flows: usize,
    in_doubt: bool,
    silent: u32,
}

impl TangentAtOrigin {
    /// A rule without flows.
    ///
    /// # Errors
    /// [`Misuse::ZeroRate`] for a space of zero.
    pub fn new(terms: TangentTerms) -> Result<TangentAtOrigin, Misuse> {
        if terms.space == Rate::ZERO {
            return Err(Misuse::ZeroRate);
        }
        Ok(TangentAtOrigin {
            terms,
            measured: Rate::ZERO,
            declared: Rate::ZERO,
            peaks: BTreeMap::new(),
            flows: 0,
            in_doubt: false,
            silent: 0,
        })
    }

    fn highest(&self) -> Rate {
        self.peaks.last_key_value().map_or(Rate::ZERO, |(rate, _)| *rate)
    }

    /// `e^(s p) * rate`, rounded up.
    fn weighed(&self, rate: Rate, peak: Rate) -> Rate {
        let product = factor(peak, self.terms.space).saturating_mul(u128::from(rate.as_bps()));
        Rate::from_bps(u64::try_from(product.div_ceil(ONE)).unwrap_or(u64::MAX))
    }
}

/// e^(peak / space), with [`POINT`] digits after the point, rounded up.
fn factor(peak: Rate, space: Rate) -> u128 {
    let (peak, space) = (u128::from(peak.as_bps()), u128::from(space.as_bps().max(1)));
    let whole = peak / space;
    if whole >= 64 {
        return u128::MAX;
    }
    let rest = ((peak % space) << POINT).div_ceil(space);
    // The series of e^rest for a rest below one: what is left out after twenty terms is below the last digit.
    let (mut sum, mut term) = (ONE + 1, ONE);
    for n in 1..20_u128 {
        term = (term * rest).div_ceil(n << POINT);
        sum += term;
    }
    (0..whole).fold(sum, |sum, _| match sum.checked_mul(E) {
        Some(product) => product.div_ceil(ONE),
        None => u128::MAX,
    })
}

impl FlowRule for TangentAtOrigin {
    fn would(&self, rate: Rate) -> Result<(), Denied> {
        if rate == Rate::ZERO {
            return Err(Misuse::ZeroRate.into());
        }
        if self.flows >= self.terms.most_flows {
            return Err(Denied::Limit { what: "flows of a tangent", limit: self.terms.most_flows });
        }
        let peak = self.highest().max(rate);
        let allocated = self.terms.allocated;
        if self.in_doubt {
            let free = allocated.saturating_sub(self.declared);
            return if rate > free { Err(Denied::Capacity { asked: rate, free }) } else { Ok(()) };
        }
        let whole = self.measured.saturating_add(rate);
        if self.weighed(whole, peak) > allocated {
            let most = (u128::from(allocated.as_bps()) << POINT) / factor(peak, self.terms.space).max(1);
            let free = Rate::from_bps(u64::try_from(most).unwrap_or(u64::MAX)).saturating_sub(self.measured);
            return Err(Denied::Capacity { asked: rate, free });
        }
        Ok(())
    }

    fn enter(&mut self, rate: Rate) {
        self.declared = self.declared.saturating_add(rate);
        self.measured = self.measured.saturating_add(rate);
        *self.peaks.entry(rate).or_insert(0) += 1;
        self.flows += 1;
    }

    fn leave(&mut self, rate: Rate) {
        debug_assert!(self.flows > 0 && rate <= self.declared, "who leaves was in");
        self.declared = self.declared.saturating_sub(rate);
        self.flows = self.flows.saturating_sub(1);
        if let Some(count) = self.peaks.get_mut(&rate) {
            *count -= 1;
            if *count == 0 {
                self.peaks.remove(&rate);
            }
        }
    }

    fn take(&mut self, reading: CounterReading) {
        match reading {
            CounterReading::Backwards | CounterReading::Gap => self.adopted(),
            CounterReading::Sample(rate) => {
                self.silent = if rate == Rate::ZERO && self.flows > 0 { self.silent + 1 } else { 0 };
                if self.silent >= MOST_SILENT {
                    self.silent = 0;
                    self.adopted();
                    return;
                }
                self.measured = rate;
                self.in_doubt = false;
            }
            CounterReading::First | CounterReading::TooSoon | CounterReading::Missed => {}
        }
    }

    fn usage(&self) -> Rate {
        if self.in_doubt { self.declared } else { self.weighed(self.measured, self.highest()) }
    }

    fn in_doubt(&self) -> bool {
        self.in_doubt
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
        self.measured = self.declared;
        self.in_doubt = true;
    }
}
