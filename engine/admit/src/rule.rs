//! The interface of every rule of admission: one of them decides, and any number of others can be asked beside it.

use crate::denied::Denied;
use crate::measured_sum::MeasuredSum;
use crate::reading::CounterReading;
use crate::simple_sum::SimpleSum;
use core::fmt::Debug;
use terms::Rate;

/// A rule that decides whether one more flow may share an allocation. All rules are told the same: which flows are in,
/// and what was measured. So a rule can be asked what it would decide about flows that another one admits.
pub trait FlowRule: Debug {
    /// Decides about a flow of this declared rate; nothing changes.
    ///
    /// # Errors
    /// [`Denied`], with the rate that is free.
    fn would(&self, rate: Rate) -> Result<(), Denied>;

    /// Counts a flow of this declared rate, whatever the rule thinks of it.
    fn enter(&mut self, rate: Rate);

    /// Removes a flow of this declared rate.
    fn leave(&mut self, rate: Rate);

    /// Takes what one reading of the counter of the flows' bytes gave.
    fn take(&mut self, reading: CounterReading);

    /// The rate that the flows count as together.
    fn usage(&self) -> Rate;

    /// True while declared rates count because the measurement is in doubt.
    fn in_doubt(&self) -> bool;

    /// The number of flows.
    fn flows(&self) -> usize;

    /// The sum of the declared rates.
    fn declared(&self) -> Rate;

    /// Changes the allocation. Flows that are in stay.
    fn allocate(&mut self, allocated: Rate);

    /// Says that all flows so far were adopted from an earlier run: no sample has seen them, so their declared rates
    /// count until samples do.
    fn adopted(&mut self);

    /// The largest declared rate that it admits now.
    fn room(&self) -> Rate {
        let (mut fits, mut over) = match self.would(Rate::INFINITE) {
            Err(Denied::Capacity { .. } | Denied::Pool { .. }) => (0, Rate::INFINITE.as_bps()),
            Ok(()) => return Rate::INFINITE,
            Err(Denied::Limit { .. } | Denied::Misuse(_)) => return Rate::ZERO,
        };
        // What is free depends on who asks: on the highest declared rate, or the sum of squares.
        while over - fits > 1 {
            let middle = fits + (over - fits) / 2;
            match self.would(Rate::from_bps(middle)) {
                Ok(()) => fits = middle,
                Err(_) => over = middle,
            }
        }
        Rate::from_bps(fits)
    }

    /// Admits a flow of this declared rate, if it fits.
    ///
    /// # Errors
    /// [`Denied`]; then nothing is changed.
    fn ask(&mut self, rate: Rate) -> Result<(), Denied> {
        self.would(rate)?;
        self.enter(rate);
        Ok(())
    }
}

impl<E: crate::estimator::UseEstimator + Debug> FlowRule for MeasuredSum<E> {
    fn would(&self, rate: Rate) -> Result<(), Denied> {
        MeasuredSum::would(self, rate)
    }

    fn enter(&mut self, rate: Rate) {
        MeasuredSum::enter(self, rate);
    }

    fn leave(&mut self, rate: Rate) {
        MeasuredSum::leave(self, rate);
    }

    fn take(&mut self, reading: CounterReading) {
        MeasuredSum::take(self, reading);
    }

    fn usage(&self) -> Rate {
        MeasuredSum::usage(self)
    }

    fn in_doubt(&self) -> bool {
        MeasuredSum::in_doubt(self)
    }

    fn flows(&self) -> usize {
        MeasuredSum::flows(self)
    }

    fn declared(&self) -> Rate {
        MeasuredSum::declared(self)
    }

    fn allocate(&mut self, allocated: Rate) {
        MeasuredSum::allocate(self, allocated);
    }

    fn adopted(&mut self) {
        MeasuredSum::adopted(self);
    }
}

/// The simple sum measures nothing.
impl FlowRule for SimpleSum {
    fn would(&self, rate: Rate) -> Result<(), Denied> {
        SimpleSum::would(self, rate)
    }

    fn enter(&mut self, rate: Rate) {
        SimpleSum::enter(self, rate);
    }

    fn leave(&mut self, rate: Rate) {
        SimpleSum::leave(self, rate);
    }

    fn take(&mut self, _: CounterReading) {}

    fn usage(&self) -> Rate {
        SimpleSum::declared(self)
    }

    fn in_doubt(&self) -> bool {
        false
    }

    fn flows(&self) -> usize {
        SimpleSum::flows(self)
    }

    fn declared(&self) -> Rate {
        SimpleSum::declared(self)
    }

    fn allocate(&mut self, allocated: Rate) {
        SimpleSum::allocate(self, allocated);
    }

    fn adopted(&mut self) {}
}
