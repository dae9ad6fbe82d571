//! The earliest start at which every part fits at once.

use super::{Plan, Room, Wanted};
use crate::refusal::{Refusal, RefusalReason};
use terms::ports::Ledger;
use terms::{Span, Time, Window};

/// The most rounds in which parts may disagree about the earliest start before the search is given up.
const ROUNDS: usize = 4_096;

impl<L: Ledger> Room<'_, L> {
    pub(super) fn earliest(
        &self,
        wanted: &[Wanted<'_>],
        span: Span,
        not_before: Option<Time>,
        by: Option<Time>,
    ) -> Result<Plan, Refusal> {
        let from = not_before.unwrap_or(self.today).max(self.today);
        let by = by.unwrap_or_else(|| self.today.saturating_add(self.config.horizon));
        let found = self.meet(wanted, span, from, by);
        if let Some(window) = found {
            return self.fit(wanted, window);
        }
        let asked = Window::new(from, from.saturating_add(span).max(from.saturating_add(Span::from_nanos(1))));
        let Ok(window) = asked else { return Err(Refusal::meaningless(None, "no time at all")) };
        match self.fit(wanted, window) {
            Err(refusal @ Refusal { why: RefusalReason::NoRoom { .. }, .. }) => {
                Err(self.with_alternatives(refusal, wanted, window))
            }
            // It would fit at once, but would not end in time.
            _ => Err(Refusal::meaningless(None, "it is longer than the time that is left for it")),
        }
    }

    /// The first window of this length, from `from` on and over by `by`, in which the least of every part is free.
    pub(super) fn meet(&self, wanted: &[Wanted<'_>], span: Span, from: Time, by: Time) -> Option<Window> {
        let mut start = from;
        for _ in 0..ROUNDS {
            let asked = start;
            for part in wanted.iter().filter(|part| part.needs_room()) {
                start = self.find(part, part.ask.least, span, start, by)?;
            }
            if start == asked || wanted.iter().filter(|part| part.needs_room()).count() == 1 {
                return Window::new(start, start.saturating_add(span)).ok().filter(|window| window.end() <= by);
            }
        }
        None
    }
}
