//! Simple sum: a flow comes in if the declared rates together stay within what is allocated. The yardstick that a
//! measured sum is compared with (Jamin, Danzig, Shenker, Zhang 1997; "SSAC" of Jamin and Jin 1998, section 1).

use crate::denied::Denied;
use terms::{Misuse, Rate};

/// Admission by the sum of declared rates. Exact: use it where a [`SlotTable`](crate::SlotTable) would be too much.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimpleSum {
    allocated: Rate,
    declared: Rate,
    flows: usize,
    most_flows: usize,
}

impl SimpleSum {
    /// Nobody is in. `allocated` is what the flows may have together.
    pub const fn new(allocated: Rate, most_flows: usize) -> SimpleSum {
        SimpleSum { allocated, declared: Rate::ZERO, flows: 0, most_flows }
    }

    /// May a flow of this declared rate come in? If so it is in.
    ///
    /// # Errors
    /// [`Denied`]; nothing has changed then.
    pub fn ask(&mut self, rate: Rate) -> Result<(), Denied> {
        if rate == Rate::ZERO {
            return Err(Misuse::ZeroRate.into());
        }
        if self.flows >= self.most_flows {
            return Err(Denied::Limit { what: "flows of a sum", limit: self.most_flows });
        }
        let free = self.free();
        if rate > free {
            return Err(Denied::Capacity { asked: rate, free });
        }
        self.declared = self.declared.saturating_add(rate);
        self.flows += 1;
        Ok(())
    }

    /// A flow of this declared rate went.
    pub fn leave(&mut self, rate: Rate) {
        debug_assert!(self.flows > 0 && rate <= self.declared, "who leaves was in");
        self.declared = self.declared.saturating_sub(rate);
        self.flows = self.flows.saturating_sub(1);
    }

    /// The most that a flow may declare and still come in.
    pub fn free(&self) -> Rate {
        self.allocated.saturating_sub(self.declared)
    }

    /// What those who are in have declared together.
    pub fn declared(&self) -> Rate {
        self.declared
    }

    /// How many are in.
    pub fn flows(&self) -> usize {
        self.flows
    }
}
