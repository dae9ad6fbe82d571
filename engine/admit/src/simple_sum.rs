//! Simple sum: a flow is admitted if the sum of the declared rates stays within the allocation. It is the
//! yardstick for a measured sum (Jamin, Danzig, Shenker, Zhang 1997; "SSAC" of Jamin and Jin 1998, section
//! 1).

use crate::denied::Denied;
use terms::{Misuse, Rate};

/// Admission by the sum of declared rates. It is exact; use it if a [`SlotTable`](crate::SlotTable) would be
/// too much.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimpleSum {
    allocated: Rate,
    declared: Rate,
    flows: usize,
    most_flows: usize,
}

impl SimpleSum {
    /// A sum without flows. `allocated` is the rate of all flows together.
    pub const fn new(allocated: Rate, most_flows: usize) -> SimpleSum {
        SimpleSum { allocated, declared: Rate::ZERO, flows: 0, most_flows }
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
        if self.flows >= self.most_flows {
            return Err(Denied::Limit { what: "flows of a sum", limit: self.most_flows });
        }
        let free = self.free();
        if rate > free { Err(Denied::Capacity { asked: rate, free }) } else { Ok(()) }
    }

    /// Counts a flow of this declared rate, whether or not it fits.
    pub fn enter(&mut self, rate: Rate) {
        self.declared = self.declared.saturating_add(rate);
        self.flows += 1;
    }

    /// Changes the allocation. Flows that are in stay.
    pub fn allocate(&mut self, allocated: Rate) {
        self.allocated = allocated;
    }

    /// Removes a flow of this declared rate.
    pub fn leave(&mut self, rate: Rate) {
        debug_assert!(self.flows > 0 && rate <= self.declared, "who leaves was in");
        self.declared = self.declared.saturating_sub(rate);
        self.flows = self.flows.saturating_sub(1);
    }

    /// The largest rate that a new flow may declare.
    pub fn free(&self) -> Rate {
        self.allocated.saturating_sub(self.declared)
    }

    /// The sum of the declared rates.
    pub fn declared(&self) -> Rate {
        self.declared
    }

    /// The number of admitted flows.
    pub fn flows(&self) -> usize {
        self.flows
    }
}
