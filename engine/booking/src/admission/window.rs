//! One window: every part gets the amount that it wants, or the free amount if that is at least the least.

use super::{Plan, Room, Wanted};
use crate::refusal::Refusal;
use alloc::vec::Vec;
use terms::book::RateStep;
use terms::ports::Ledger;
use terms::{Time, Window};

impl<L: Ledger> Room<'_, L> {
    pub(super) fn in_window(&self, wanted: &[Wanted<'_>], start: Option<Time>, end: Time) -> Result<Plan, Refusal> {
        let start = start.unwrap_or(self.today).max(self.today);
        let window = Window::new(start, end)
            .map_err(|_| Refusal::meaningless(None, "the window is empty: it must end after it starts"))?;
        self.fit(wanted, window).map_err(|refusal| self.with_alternatives(refusal, wanted, window))
    }

    /// The grant of each part in this window.
    pub(super) fn fit(&self, wanted: &[Wanted<'_>], window: Window) -> Result<Plan, Refusal> {
        let mut plan: Plan = Vec::with_capacity(wanted.len());
        for (n, part) in wanted.iter().enumerate() {
            let mut amount = part.ask.amount;
            if part.needs_room() {
                // Parts of one request on one resource stand beside each other.
                let beside =
                    wanted[..n].iter().zip(&plan).filter(|(other, _)| other.needs_room() && other.id == part.id);
                let taken =
                    beside.flat_map(|(_, steps)| steps).fold(0_u64, |sum, step| sum.saturating_add(step.amount));
                let free = self.free(part, window).saturating_sub(taken);
                if free < part.ask.least {
                    return Err(self.no_room(n, part, part.ask.least, window, taken));
                }
                amount = amount.min(free);
            }
            plan.push(alloc::vec![RateStep { window, amount }]);
        }
        Ok(plan)
    }
}
