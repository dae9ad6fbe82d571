//! Alternatives to a refused request: the same for the same length at a later time, less at the same time,
//! the same for a shorter time. Other paths are left to clients that know paths.

use super::{Room, Wanted, offered};
use crate::refusal::{Alternative, AlternativeKind, OfferedPart, Refusal};
use alloc::vec::Vec;
use terms::book::RateStep;
use terms::ports::Ledger;
use terms::{Span, Time, Window};

/// The most stretches in which a shorter window is looked for.
const STRETCHES: usize = 64;

impl<L: Ledger> Room<'_, L> {
    /// The refusal with the alternatives to one window.
    pub(super) fn with_alternatives(&self, mut refusal: Refusal, wanted: &[Wanted<'_>], window: Window) -> Refusal {
        refusal.alternatives.extend(self.later(wanted, window));
        refusal.alternatives.extend(self.slower(wanted, window));
        refusal.alternatives.extend(self.shorter(wanted, window));
        refusal
    }

    fn later(&self, wanted: &[Wanted<'_>], window: Window) -> Option<Alternative> {
        if window.end() == Time::FOREVER || named_twice(wanted) {
            return None;
        }
        let by = window.end().saturating_add(self.config.look_ahead);
        let by = by.min(self.today.saturating_add(self.config.horizon));
        // People type the whole seconds that they read. A window from now on was extended to end at one; the
        // alternative is not longer for that.
        let mut span = Time::ZERO.saturating_add(window.span()).whole_second().since(Time::ZERO);
        if window.start().whole_second() != window.start() && window.end().whole_second() == window.end() {
            span = span.saturating_sub(Span::from_secs(1)).max(Span::from_secs(1));
        }
        let mut from = window.start().whole_second();
        for _ in 0..STRETCHES {
            let found = self.meet(wanted, span, from, by)?;
            from = found.start().whole_second();
            if found.start() == from {
                let plan = self.fit(wanted, found).ok()?;
                return Some(Alternative { sort: AlternativeKind::Later, parts: offered(wanted, &plan) });
            }
        }
        None
    }

    fn slower(&self, wanted: &[Wanted<'_>], window: Window) -> Option<Alternative> {
        if named_twice(wanted) {
            return None;
        }
        let part = |part: &Wanted<'_>| {
            let free = if part.needs_room() { self.free(part, window) } else { u64::MAX };
            let amount = part.ask.amount.min(free);
            (amount > 0).then(|| OfferedPart { kind: part.kind, steps: alloc::vec![RateStep { window, amount }] })
        };
        Some(Alternative { sort: AlternativeKind::Slower, parts: wanted.iter().map(part).collect::<Option<_>>()? })
    }

    fn shorter(&self, wanted: &[Wanted<'_>], window: Window) -> Option<Alternative> {
        if named_twice(wanted) {
            return None;
        }
        let mut end = window.end();
        for part in wanted.iter().filter(|part| part.needs_room()) {
            let stretches = self.stretches(part, window, STRETCHES);
            let short = stretches.iter().find(|(_, free)| *free < part.ask.least);
            let known = stretches.last().map_or(window.start(), |(last, _)| last.end());
            end = end.min(short.map_or(known, |(first, _)| first.start()));
        }
        if end != Time::FOREVER {
            end = Time::from_nanos(end.as_nanos() / Span::NANOS_PER_SEC * Span::NANOS_PER_SEC);
        }
        let plan = self.fit(wanted, Window::new(window.start(), end).ok()?).ok()?;
        Some(Alternative { sort: AlternativeKind::Shorter, parts: offered(wanted, &plan) })
    }
}

fn named_twice(wanted: &[Wanted<'_>]) -> bool {
    let ids: Vec<_> = wanted.iter().filter(|part| part.needs_room()).map(|part| part.id).collect();
    ids.iter().enumerate().any(|(n, id)| ids[..n].contains(id))
}
