//! Questions to the table: peaks, free capacity, the next place where a slot fits.

use crate::denied::{Denied, Shortfall};
use crate::profile::Search;
use crate::slot::{Slot, SlotId};
use crate::table::SlotTable;
use alloc::vec::Vec;
use terms::{Misuse, Rate, Span, Time, Window};

impl SlotTable {
    /// The largest sum given away at any instant of `[start, end)`. It includes the open slots that a booking
    /// may not displace. Zero for an empty window.
    pub fn peak(&self, start: Time, end: Time) -> Rate {
        if start >= end {
            return Rate::ZERO;
        }
        Rate::from_bps(self.profile.peak(start, end) + self.standing)
    }

    /// The rate that can be booked over the whole of `[start, end)`: the least free capacity at any of its
    /// instants from now on. Zero for a window that is empty or over.
    pub fn available(&self, start: Time, end: Time) -> Rate {
        let start = start.max(self.now);
        if start >= end {
            return Rate::ZERO;
        }
        let over = self.capacity.stretches(start, end);
        let free =
            over.map(|s| s.rate.as_bps().saturating_sub(self.profile.peak(s.start, s.end) + self.standing)).min();
        Rate::from_bps(free.unwrap_or(0))
    }

    /// The unused capacity at an instant: less than [`SlotTable::available`] if a booking would displace open
    /// slots.
    pub fn spare(&self, at: Time) -> Rate {
        let instant = self.available(at, at.saturating_add(Span::from_nanos(1)));
        instant.saturating_sub(Rate::from_bps(self.loose))
    }

    /// The instant until which `rate` can be booked from now on, at most `by`; `None` if not even now.
    pub fn lasts(&self, rate: Rate, by: Time) -> Option<Time> {
        let window = Window::new(self.now, by).ok()?;
        for stretch in self.capacity.stretches(window.start(), window.end()) {
            let taken = rate.as_bps().saturating_add(self.standing);
            let over = match stretch.rate.as_bps().checked_sub(taken) {
                Some(ceiling) => self.profile.first_above(stretch.start, stretch.end, ceiling),
                None => Some(stretch.start),
            };
            if let Some(at) = over {
                return Some(at).filter(|at| *at > self.now);
            }
        }
        Some(by)
    }

    /// The earliest start at which `rate` fits for `span`, not before `earliest` (or now) and over by
    /// `latest`.
    ///
    /// # Errors
    /// [`Misuse`]: a rate of zero, a span of zero.
    pub fn find(&self, rate: Rate, span: Span, earliest: Time, latest: Time) -> Result<Option<Time>, Misuse> {
        let earliest = earliest.max(self.now);
        if rate == Rate::ZERO {
            return Err(Misuse::ZeroRate);
        }
        if span == Span::ZERO {
            return Err(Misuse::EmptyWindow { start: earliest, end: earliest });
        }
        if latest.since(earliest) < span {
            return Ok(None);
        }
        let mut search = Search { length: span.as_nanos(), since: None };
        let taken = rate.as_bps().saturating_add(self.standing);
        for stretch in self.capacity.stretches(earliest, latest) {
            let Some(ceiling) = stretch.rate.as_bps().checked_sub(taken) else {
                search.since = None;
                continue;
            };
            let found = self.profile.search(&mut search, stretch.start, stretch.end, ceiling);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The rate that can be booked in each stretch of `[start, end)` from now on, in order and without gaps.
    /// Equal neighbours are one stretch. With more than `most` stretches, the last one returned ends before
    /// `end`.
    pub fn stretches(&self, start: Time, end: Time, most: usize) -> Vec<(Window, Rate)> {
        let mut found: Vec<(Window, Rate)> = Vec::new();
        let mut full = false;
        for s in self.capacity.stretches(start.max(self.now), end) {
            if full || s.start >= s.end {
                break;
            }
            let free = |level: u64| s.rate.saturating_sub(Rate::from_bps(level.saturating_add(self.standing)));
            let mut at = (s.start, free(self.profile.level(s.start)));
            let mut put = |from: Time, to: Time, rate: Rate| {
                let many = found.len() >= most;
                match found.last_mut() {
                    Some((window, last)) if *last == rate => {
                        *window = Window::new(window.start(), to).unwrap_or(*window);
                    }
                    _ if many => full = true,
                    _ => found.extend(Window::new(from, to).map(|window| (window, rate))),
                }
                !full
            };
            self.profile.walk(s.start, s.end, |t, level| {
                let goes_on = put(at.0, t, at.1);
                at = (t, free(level));
                goes_on
            });
            put(at.0, s.end, at.1);
        }
        found
    }

    /// The slots that count at the instant `t`. Reads every slot.
    pub fn slots_at(&self, t: Time) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        self.slots.iter().filter(move |(_, slot)| slot.window.contains(t))
    }

    /// The shortfall from now on, if more has been given away than there is.
    pub fn shortfall(&self) -> Option<Shortfall> {
        let mut found: Option<Shortfall> = None;
        for stretch in self.capacity.stretches(self.now, Time::FOREVER) {
            let peak = self.profile.peak(stretch.start, stretch.end) + self.standing;
            let worst = Rate::from_bps(peak.saturating_sub(stretch.rate.as_bps()));
            if worst == Rate::ZERO {
                continue;
            }
            let first = match found {
                Some(earlier) => earlier.first,
                None => match stretch.rate.as_bps().checked_sub(self.standing) {
                    Some(ceiling) => self.profile.first_above(stretch.start, stretch.end, ceiling),
                    None => Some(stretch.start),
                }
                .unwrap_or(stretch.start),
            };
            found = Some(Shortfall { first, worst: found.map_or(worst, |f| f.worst.max(worst)) });
        }
        found
    }

    /// Checks that `rate` more fits at every instant of `window`, which is not before now.
    pub(crate) fn must_fit(&self, window: Window, rate: Rate) -> Result<(), Denied> {
        let fits = self.capacity.stretches(window.start(), window.end()).all(|s| {
            let limit = s.rate.as_bps();
            let taken = rate.as_bps().saturating_add(self.standing);
            taken <= limit && self.profile.peak(s.start, s.end) <= limit - taken
        });
        if fits {
            return Ok(());
        }
        Err(Denied::Capacity { asked: rate, free: self.available(window.start(), window.end()) })
    }
}
