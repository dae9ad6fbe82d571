//! One sum over time: a capacity, and what is given away of it at every instant. It counts plain numbers; the
//! table gives them their type.
//!
//! A table has one for the whole resource, and one for its sub-pool if it has that. So both answer every question by
//! the same algorithm.

use crate::capacity::Capacity;
use crate::profile::{Search, UseProfile};
use alloc::vec::Vec;
use terms::{Span, Time, Window};

/// A capacity and its use.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    capacity: Capacity,
    profile: UseProfile,
    /// A part that is given away at every instant, beside the profile.
    standing: u64,
}

impl Counted {
    /// Nothing is given away.
    pub(crate) fn new(capacity: u64) -> Counted {
        Counted { capacity: Capacity::constant(capacity), profile: UseProfile::new(), standing: 0 }
    }

    /// The capacity as a function of time.
    pub(crate) fn capacity(&self) -> &Capacity {
        &self.capacity
    }

    /// Replaces the capacity.
    pub(crate) fn set_capacity(&mut self, capacity: Capacity) {
        self.capacity = capacity;
    }

    /// The use that has a window.
    pub(crate) fn profile(&self) -> &UseProfile {
        &self.profile
    }

    /// The use at every instant.
    pub(crate) fn standing(&self) -> u64 {
        self.standing
    }

    /// Counts `count` over `[start, end)`, which is not empty.
    pub(crate) fn add(&mut self, start: Time, end: Time, count: u64) {
        self.profile.add(start, end, count as i64);
    }

    /// Takes back what [`Counted::add`] has counted.
    pub(crate) fn remove(&mut self, start: Time, end: Time, count: u64) {
        self.profile.add(start, end, -(count as i64));
    }

    /// Counts `count` at every instant.
    pub(crate) fn add_standing(&mut self, count: u64) {
        self.standing += count;
    }

    /// Takes back what [`Counted::add_standing`] has counted.
    pub(crate) fn remove_standing(&mut self, count: u64) {
        self.standing -= count;
    }

    /// The use at an instant.
    pub(crate) fn level(&self, at: Time) -> u64 {
        self.profile.level(at) + self.standing
    }

    /// The largest use in `[start, end)`; zero if that is empty.
    pub(crate) fn peak(&self, start: Time, end: Time) -> u64 {
        if start >= end { 0 } else { self.profile.peak(start, end) + self.standing }
    }

    /// The least free capacity in `[start, end)`; zero if that is empty.
    pub(crate) fn available(&self, start: Time, end: Time) -> u64 {
        if start >= end {
            return 0;
        }
        let over = self.capacity.stretches(start, end);
        over.map(|s| s.capacity.saturating_sub(self.profile.peak(s.start, s.end) + self.standing)).min().unwrap_or(0)
    }

    /// True if `count` more fits at every instant of a window.
    pub(crate) fn fits(&self, window: Window, count: u64) -> bool {
        self.capacity.stretches(window.start(), window.end()).all(|s| {
            let taken = count.saturating_add(self.standing);
            taken <= s.capacity && self.profile.peak(s.start, s.end) <= s.capacity - taken
        })
    }

    /// The first instant of `[start, end)` at which `count` more does not fit.
    pub(crate) fn first_without(&self, count: u64, start: Time, end: Time) -> Option<Time> {
        let taken = count.saturating_add(self.standing);
        self.capacity.stretches(start, end).find_map(|s| match s.capacity.checked_sub(taken) {
            Some(ceiling) => self.profile.first_above(s.start, s.end, ceiling),
            None => Some(s.start),
        })
    }

    /// The earliest start from `earliest` on at which `count` more fits for `span` and ends by `latest`.
    pub(crate) fn find(&self, count: u64, span: Span, earliest: Time, latest: Time) -> Option<Time> {
        if latest.since(earliest) < span {
            return None;
        }
        let mut search = Search { length: span.as_nanos(), since: None };
        let taken = count.saturating_add(self.standing);
        for stretch in self.capacity.stretches(earliest, latest) {
            let Some(ceiling) = stretch.capacity.checked_sub(taken) else {
                search.since = None;
                continue;
            };
            let found = self.profile.search(&mut search, stretch.start, stretch.end, ceiling);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The free capacity in each stretch of `[start, end)`, in order and without gaps, equal neighbours as one.
    /// With more than `most` stretches, the last one returned ends before `end`.
    pub(crate) fn stretches(&self, start: Time, end: Time, most: usize) -> Vec<(Window, u64)> {
        let mut found: Vec<(Window, u64)> = Vec::new();
        let mut full = false;
        for s in self.capacity.stretches(start, end) {
            if full || s.start >= s.end {
                break;
            }
            let free = |level: u64| s.capacity.saturating_sub(level.saturating_add(self.standing));
            let mut at = (s.start, free(self.profile.level(s.start)));
            let mut put = |from: Time, to: Time, free: u64| {
                let many = found.len() >= most;
                match found.last_mut() {
                    Some((window, last)) if *last == free => {
                        *window = Window::new(window.start(), to).unwrap_or(*window);
                    }
                    _ if many => full = true,
                    _ => found.extend(Window::new(from, to).map(|window| (window, free))),
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

    /// The first instant from `now` on with more given away than there is, and the most that is missing at any.
    pub(crate) fn shortfall(&self, now: Time) -> Option<(Time, u64)> {
        let mut found: Option<(Time, u64)> = None;
        for stretch in self.capacity.stretches(now, Time::FOREVER) {
            let peak = self.profile.peak(stretch.start, stretch.end) + self.standing;
            let worst = peak.saturating_sub(stretch.capacity);
            if worst == 0 {
                continue;
            }
            let first = match found {
                Some((first, _)) => first,
                None => match stretch.capacity.checked_sub(self.standing) {
                    Some(ceiling) => self.profile.first_above(stretch.start, stretch.end, ceiling),
                    None => Some(stretch.start),
                }
                .unwrap_or(stretch.start),
            };
            found = Some((first, found.map_or(worst, |(_, before)| before.max(worst))));
        }
        found
    }
}
