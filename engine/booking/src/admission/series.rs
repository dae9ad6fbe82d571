//! A recurrence, as a list of windows from a client that knows time zones: every window must fit, except
//! those that may fail (FAULTS.md T14).

use super::{Plan, Room, Wanted};
use crate::refusal::{Refusal, RefusalReason};
use terms::Window;
use terms::ports::Ledger;

impl<L: Ledger> Room<'_, L> {
    pub(super) fn series(
        &self,
        wanted: &[Wanted<'_>],
        windows: &[Window],
        may_fail: &[usize],
    ) -> Result<Plan, Refusal> {
        let mut plan: Plan = alloc::vec![alloc::vec::Vec::new(); wanted.len()];
        let mut refused = None;
        for (n, window) in windows.iter().enumerate() {
            let ahead = Window::new(window.start().max(self.today), window.end());
            let Ok(ahead) = ahead else { continue };
            match self.fit(wanted, ahead) {
                Ok(granted) => plan.iter_mut().zip(granted).for_each(|(steps, step)| steps.extend(step)),
                Err(refusal @ Refusal { why: RefusalReason::NoRoom { .. }, .. }) if may_fail.contains(&n) => {
                    refused = refused.or(Some(refusal));
                }
                Err(refusal) => return Err(refusal),
            }
        }
        match refused {
            Some(refusal) if plan.iter().all(|steps| steps.is_empty()) => Err(refusal),
            _ => Ok(plan),
        }
    }
}
