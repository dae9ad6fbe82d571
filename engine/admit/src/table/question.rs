//! Questions to the table: peaks, free capacity, the next place where a slot fits.

use super::SlotTable;
use crate::denied::{Denied, Shortfall};
use crate::quantity::Quantity;
use crate::slot::{Slot, SlotId};
use alloc::vec::Vec;
use terms::{Misuse, Span, Time, Window};

impl<Q: Quantity> SlotTable<Q> {
    /// The largest sum given away at any instant of `[start, end)`. It includes the open slots that a booking
    /// may not displace. Zero for an empty window.
    pub fn peak(&self, start: Time, end: Time) -> Q {
        Q::of(self.whole.peak(start, end))
    }

    /// The amount that can be booked over the whole of `[start, end)`: the least free capacity at any of its
    /// instants from now on. Zero for a window that is empty or over.
    pub fn available(&self, start: Time, end: Time) -> Q {
        Q::of(self.whole.available(start.max(self.now), end))
    }

    /// The unused capacity at an instant: less than [`SlotTable::available`] if a booking would displace open
    /// slots.
    pub fn spare(&self, at: Time) -> Q {
        let instant = self.available(at, at.saturating_add(Span::from_nanos(1)));
        Q::of(instant.count().saturating_sub(self.loose))
    }

    /// The instant until which `amount` can be booked from now on, at most `by`; `None` if not even now.
    pub fn lasts(&self, amount: Q, by: Time) -> Option<Time> {
        let window = Window::new(self.now, by).ok()?;
        match self.whole.first_without(amount.count(), window.start(), window.end()) {
            Some(at) => Some(at).filter(|at| *at > self.now),
            None => Some(by),
        }
    }

    /// The earliest start at which `amount` fits for `span`, not before `earliest` (or now) and over by
    /// `latest`.
    ///
    /// # Errors
    /// [`Misuse`]: an amount of zero, a span of zero.
    pub fn find(&self, amount: Q, span: Span, earliest: Time, latest: Time) -> Result<Option<Time>, Misuse> {
        let earliest = earliest.max(self.now);
        if amount == Q::ZERO {
            return Err(Misuse::ZeroRate);
        }
        if span == Span::ZERO {
            return Err(Misuse::EmptyWindow { start: earliest, end: earliest });
        }
        Ok(self.whole.find(amount.count(), span, earliest, latest))
    }

    /// The amount that can be booked in each stretch of `[start, end)` from now on, in order and without gaps.
    /// Equal neighbours are one stretch. With more than `most` stretches, the last one returned ends before
    /// `end`.
    pub fn stretches(&self, start: Time, end: Time, most: usize) -> Vec<(Window, Q)> {
        typed(self.whole.stretches(start.max(self.now), end, most))
    }

    /// The slots that count at the instant `t`. Reads every slot.
    pub fn slots_at(&self, t: Time) -> impl Iterator<Item = (SlotId, Slot<Q>)> + '_ {
        self.slots.iter().filter(move |(_, slot)| slot.window.contains(t))
    }

    /// The shortfall from now on, if more has been given away than there is.
    pub fn shortfall(&self) -> Option<Shortfall<Q>> {
        self.whole.shortfall(self.now).map(|(first, worst)| Shortfall { first, worst: Q::of(worst) })
    }

    /// Checks that `amount` more fits at every instant of `window`, which is not before now.
    pub(crate) fn must_fit(&self, window: Window, amount: Q) -> Result<(), Denied<Q>> {
        if self.whole.fits(window, amount.count()) {
            return Ok(());
        }
        Err(Denied::Capacity { asked: amount, free: self.available(window.start(), window.end()) })
    }
}

/// Plain numbers as quantities.
pub(crate) fn typed<Q: Quantity>(found: Vec<(Window, u64)>) -> Vec<(Window, Q)> {
    found.into_iter().map(|(window, count)| (window, Q::of(count))).collect()
}
