//! Hours of the week, in UTC, in which reservations may lie. Named time zones are for clients.

use alloc::vec::Vec;
use terms::{Span, Time, Window};

const DAY: u64 = 86_400;
/// Seconds of a week.
const WEEK: u64 = 7 * DAY;
/// 1970-01-01 was a Thursday: the seconds from Monday's midnight to it.
const FIRST: u64 = 3 * DAY;

/// Hours of the week: from Monday 00:00 UTC, in seconds, in order and apart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Hours {
    open: Vec<(u64, u64)>,
}

/// The error for impossible hours: a day after Sunday, a time after 24:00, an empty span, no hours at all.
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

    /// True if the whole of a window of calendar time lies in these hours.
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

    /// True if an instant lies in these hours.
    pub fn contain(&self, t: Time) -> bool {
        Window::new(t, t.saturating_add(Span::from_nanos(1))).is_ok_and(|instant| self.cover(instant))
    }
}

/// `mon-fri 08:00-18:00 UTC`.
impl core::fmt::Display for Hours {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut open = self.open.clone();
        // Hours that continue over Sunday's midnight are one.
        if let (Some(&(0, first)), Some(&(last, WEEK)), true) = (open.first(), open.last(), open.len() > 1) {
            open.remove(0);
            open.pop();
            open.push((last, WEEK + first));
        }
        let clock = |t: u64| (t % DAY / 3_600, t % 3_600 / 60);
        let mut rest = open.as_slice();
        while let Some(&(from, to)) = rest.first() {
            // The same hours on days that follow each other are said once.
            let same = |n: &usize| rest.get(*n) == Some(&(from + *n as u64 * DAY, to + *n as u64 * DAY));
            let days = (1..=rest.len()).take_while(|n| same(n)).count();
            let (first, (h, m), (eh, em)) = (name(from), clock(from), clock(to));
            let last =
                if days > 0 { alloc::format!("-{}", name(from + days as u64 * DAY)) } else { Default::default() };
            match (to - from, (eh, em)) {
                (0..DAY, (0, 0)) => write!(f, "{first}{last} {h:02}:{m:02}-24:00")?,
                (0..DAY, _) => write!(f, "{first}{last} {h:02}:{m:02}-{eh:02}:{em:02}")?,
                (_, (0, 0)) => write!(f, "{first} {h:02}:{m:02} to {} 24:00", name(to - 1))?,
                _ => write!(f, "{first} {h:02}:{m:02} to {} {eh:02}:{em:02}", name(to))?,
            }
            rest = &rest[if to - from < DAY { days + 1 } else { 1 }..];
            f.write_str(if rest.is_empty() { " UTC" } else { ", " })?;
        }
        Ok(())
    }
}

/// The day of a second of the week.
fn name(t: u64) -> &'static str {
    ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][(t / DAY % 7) as usize]
}

impl core::fmt::Display for BadHours {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("hours are on Monday to Sunday, from 00:00 to 24:00, and not empty")
    }
}

impl core::error::Error for BadHours {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn hours_are_said_as_they_are_written() {
        let of = |days: &[u8], from: u64, to: u64| {
            let all: Vec<(u8, u64, u64)> = days.iter().map(|day| (*day, from * 3_600, to * 3_600 + 1_800)).collect();
            Hours::new(&all).unwrap().to_string()
        };
        assert_eq!(of(&[0, 1, 2, 3, 4], 8, 18), "mon-fri 08:00-18:30 UTC");
        assert_eq!(of(&[0, 2, 3], 8, 18), "mon 08:00-18:30, wed-thu 08:00-18:30 UTC");
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6], 22, 6), "mon-sun 22:00-06:30 UTC");
        assert_eq!(of(&[6], 22, 6), "sun 22:00-06:30 UTC");
        let whole = |days: &[u8]| {
            let all: Vec<(u8, u64, u64)> = days.iter().map(|day| (*day, 0, DAY)).collect();
            Hours::new(&all).unwrap().to_string()
        };
        assert_eq!(whole(&[5, 6]), "sat 00:00 to sun 24:00 UTC");
        assert_eq!(whole(&[1]), "tue 00:00 to tue 24:00 UTC");
        assert_eq!(whole(&[0, 5, 6]), "sat 00:00 to mon 24:00 UTC");
        assert_eq!(Hours::new(&[(2, 12 * 3_600, DAY)]).unwrap().to_string(), "wed 12:00-24:00 UTC");
    }
}
