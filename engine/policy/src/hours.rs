//! Hours of the week, in UTC, in which reservations may lie. Named time zones are for faces.

use alloc::vec::Vec;
use terms::{Span, Time, Window};

const DAY: u64 = 86_400;
/// Seconds of a week.
const WEEK: u64 = 7 * DAY;
/// 1970-01-01 was a Thursday: so many seconds after a Monday's midnight.
const FIRST: u64 = 3 * DAY;

/// Hours of the week: from Monday 00:00 UTC, in seconds, in order and apart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Hours {
    open: Vec<(u64, u64)>,
}

/// Hours that make no sense: a day after Sunday, a time after 24:00, an end that is not after its start, none at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadHours;

impl Hours {
    /// From days (0 is Monday, 6 is Sunday) and a time of day on each of them, seconds after midnight. An end before its
    /// start is on the next day.
    ///
    /// # Errors
    /// [`BadHours`].
    pub fn new(all: &[(u8, u64, u64)]) -> Result<Hours, BadHours> {
        let mut open = Vec::new();
        for &(day, start, end) in all {
            if day > 6 || start >= DAY || end > DAY || start == end {
                return Err(BadHours);
            }
            let from = u64::from(day) * DAY + start;
            let to = from - start + end + if end < start { DAY } else { 0 };
            open.push((from, to.min(WEEK)));
            if to > WEEK {
                open.push((0, to - WEEK));
            }
        }
        if open.is_empty() {
            return Err(BadHours);
        }
        open.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in open {
            match joined.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        Ok(Hours { open: joined })
    }

    /// Whether the whole of a window of calendar time lies in these hours.
    pub fn cover(&self, window: Window) -> bool {
        if self.open == [(0, WEEK)] {
            return true;
        }
        if window.span() >= Span::from_secs(WEEK) {
            return false;
        }
        let second = Span::NANOS_PER_SEC;
        let week = WEEK * second;
        let start = (window.start().as_nanos() % week + FIRST * second) % week;
        // Less than a week long, so that this does not overflow.
        let end = start + window.span().as_nanos();
        let inside =
            |from: u64, to: u64| self.open.iter().any(|&(open, close)| open * second <= from && to <= close * second);
        match end.checked_sub(week) {
            None | Some(0) => inside(start, end),
            Some(rest) => inside(start, week) && inside(0, rest),
        }
    }

    /// Whether an instant lies in these hours.
    pub fn contain(&self, t: Time) -> bool {
        Window::new(t, t.saturating_add(Span::from_nanos(1))).is_ok_and(|instant| self.cover(instant))
    }
}

impl core::fmt::Display for BadHours {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("hours are on Monday to Sunday, from 00:00 to 24:00, and not empty")
    }
}

impl core::error::Error for BadHours {}
