//! The table's side of the sub-pool: bookings that count in both, and questions that both must answer.

use super::SlotTable;
use super::question::typed;
use crate::denied::{Denied, Shortfall};
use crate::pool::{SubPool, Take};
use crate::quantity::{MOST, Quantity};
use crate::slot::SlotId;
use alloc::vec::Vec;
use terms::{Misuse, Span, Time, Window};

impl<Q: Quantity> SlotTable<Q> {
    /// Sets the limit of the sub-pool from now on, or ends it. Slots stay, in it too; a new sub-pool begins empty.
    /// Values above [`MOST`] count as that.
    pub fn set_pool(&mut self, limit: Option<Q>) {
        let Some(limit) = limit.map(Quantity::count) else {
            self.pool = None;
            return;
        };
        match &mut self.pool {
            Some(pool) => pool.set_limit(limit),
            None => self.pool = Some(SubPool::new(limit)),
        }
    }

    /// The limit of the sub-pool.
    pub fn pool(&self) -> Option<Q> {
        self.pool.as_ref().map(|pool| Q::of(pool.limit()))
    }

    /// Books an amount in a window as one committed slot, in the sub-pool too if there is one.
    ///
    /// # Errors
    /// As [`SlotTable::grant`]; [`Denied::Pool`] if the part does not fit in the sub-pool, which is asked first.
    pub fn book_in_pool(&mut self, window: Window, take: Take<Q>) -> Result<SlotId, Denied<Q>> {
        let window = self.fits_in_pool(window, take)?;
        self.grant(window, take.whole).inspect(|id| self.enter(*id, window, take.part))
    }

    /// Holds an amount in a window without a deadline, in the sub-pool too if there is one.
    ///
    /// # Errors
    /// As [`SlotTable::book_in_pool`].
    pub fn hold_in_pool(&mut self, window: Window, take: Take<Q>) -> Result<SlotId, Denied<Q>> {
        let window = self.fits_in_pool(window, take)?;
        self.hold(window, take.whole, Time::FOREVER).inspect(|id| self.enter(*id, window, take.part))
    }

    /// Checks that a part fits in the sub-pool; returns the window from now on.
    fn fits_in_pool(&self, window: Window, take: Take<Q>) -> Result<Window, Denied<Q>> {
        let window = self.still_ahead(window)?;
        self.room_for_slot(take.part)?;
        if let Some(pool) = &self.pool
            && !pool.counted().fits(window, take.part.count())
        {
            let free = Q::of(pool.counted().available(window.start(), window.end()));
            return Err(Denied::Pool { asked: take.part, free });
        }
        Ok(window)
    }

    /// Counts a booking of an earlier run in both, even if it does not fit.
    ///
    /// # Errors
    /// As [`SlotTable::adopt_booked`].
    pub fn adopt_in_pool(&mut self, window: Window, take: Take<Q>) -> Result<SlotId, Denied<Q>> {
        let window = self.still_ahead(window)?;
        self.room_for_slot(take.part)?;
        if let Some(pool) = &self.pool {
            let free = Q::of(MOST.saturating_sub(pool.counted().peak(window.start(), window.end())));
            if take.part > free {
                return Err(Denied::Pool { asked: take.part, free });
            }
        }
        self.adopt_booked(window, take.whole).inspect(|id| self.enter(*id, window, take.part))
    }

    /// Puts a slot in the sub-pool that has just been counted.
    fn enter(&mut self, id: SlotId, window: Window, part: Q) {
        if let Some(pool) = &mut self.pool {
            pool.enter(id, window, part.count());
        }
    }

    /// The part that can be booked over the whole of `[start, end)`; `unit` converts a free amount of the table.
    pub fn available_in_pool(&self, start: Time, end: Time, unit: impl Fn(Q) -> Q) -> Q {
        self.least(unit(self.available(start, end)), |pool| pool.counted().available(start.max(self.now), end))
    }

    /// The unused part at an instant.
    pub fn spare_in_pool(&self, at: Time, unit: impl Fn(Q) -> Q) -> Q {
        let end = at.saturating_add(Span::from_nanos(1));
        self.least(unit(self.spare(at)), |pool| pool.counted().available(at.max(self.now), end))
    }

    /// The capacity at present, or the limit if that is less.
    pub fn capacity_in_pool(&self, unit: impl Fn(Q) -> Q) -> Q {
        self.least(unit(self.capacity()), SubPool::limit)
    }

    fn least(&self, whole: Q, part: impl FnOnce(&SubPool) -> u64) -> Q {
        self.pool.as_ref().map_or(whole, |pool| Q::of(part(pool)).min(whole))
    }

    /// The instant until which this can be booked from now on, at most `by`; `None` if not even now.
    pub fn lasts_in_pool(&self, take: Take<Q>, by: Time) -> Option<Time> {
        let by = self.lasts(take.whole, by)?;
        let first = self.pool.as_ref().and_then(|pool| pool.counted().first_without(take.part.count(), self.now, by));
        Some(first.unwrap_or(by)).filter(|at| *at > self.now)
    }

    /// The earliest start at which this fits for `span`, as [`SlotTable::find`].
    ///
    /// # Errors
    /// As [`SlotTable::find`].
    pub fn find_in_pool(
        &self,
        take: Take<Q>,
        span: Span,
        earliest: Time,
        latest: Time,
    ) -> Result<Option<Time>, Misuse> {
        let mut start = earliest;
        // Each says when it would be possible at the earliest, until both say the same.
        while let Some(found) = self.find(take.whole, span, start, latest)? {
            let Some(pool) = &self.pool else { return Ok(Some(found)) };
            match pool.counted().find(take.part.count(), span, found, latest) {
                Some(later) if later > found => start = later,
                same => return Ok(same),
            }
        }
        Ok(None)
    }

    /// The part that can be booked in each stretch of `[start, end)`, in order and without gaps; at most `most`.
    pub fn stretches_in_pool(&self, start: Time, end: Time, most: usize, unit: impl Fn(Q) -> Q) -> Vec<(Window, Q)> {
        let mut whole = self.stretches(start, end, most);
        whole.iter_mut().for_each(|(_, free)| *free = unit(*free));
        match &self.pool {
            Some(pool) => meet(&whole, &typed(pool.counted().stretches(start.max(self.now), end, most)), most),
            None => whole,
        }
    }

    /// The larger of the two shortfalls from now on, in the measure of the sub-pool.
    pub fn shortfall_in_pool(&self, unit: impl Fn(Q) -> Q) -> Option<Shortfall<Q>> {
        let whole = self.shortfall().map(|short| Shortfall { worst: unit(short.worst), ..short });
        let part = self.pool.as_ref().and_then(|pool| pool.counted().shortfall(self.now));
        let part = part.map(|(first, worst)| Shortfall { first, worst: Q::of(worst) });
        [whole, part].into_iter().flatten().max_by_key(|short| short.worst)
    }

    /// The part that a slot takes of the sub-pool.
    pub fn part(&self, id: SlotId) -> Option<Q> {
        self.pool.as_ref()?.part(id).map(Q::of)
    }
}

/// The lesser of two profiles, window by window.
fn meet<Q: Quantity>(a: &[(Window, Q)], b: &[(Window, Q)], most: usize) -> Vec<(Window, Q)> {
    let (mut out, mut i, mut j) = (Vec::new(), 0, 0);
    while let (Some((x, in_a)), Some((y, in_b))) = (a.get(i), b.get(j)) {
        if out.len() >= most {
            break;
        }
        if let Ok(both) = Window::new(x.start().max(y.start()), x.end().min(y.end())) {
            out.push((both, *in_a.min(in_b)));
        }
        if x.end() <= y.end() {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}
