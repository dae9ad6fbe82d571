//! The windows of a recurrence in a few words: each weekday from 09:00 to 10:00, ten times, the next on Tuesday.

use super::times::Calendar;
use documents::book::StepDoc;
use jiff::Span;
use jiff::civil::{Weekday, time};

/// The windows of a part that repeat.
pub struct Recurrence {
    /// The interval: daily, weekly, weekdays; otherwise the number of windows alone is known.
    pub interval: Option<&'static str>,
    /// The number of all windows.
    pub times: usize,
    /// The first window that is not over, by its place from 0; the last one if all are.
    pub next: usize,
}

impl Recurrence {
    /// `None`: it is one window, or the amounts differ, so that it is one use in steps.
    pub fn of(steps: &[StepDoc], calendar: &Calendar) -> Option<Recurrence> {
        let gaps = steps.windows(2).all(|pair| pair[0].end.is_some_and(|end| end < pair[1].start));
        if steps.len() < 2 || !gaps {
            return None;
        }
        let now = calendar.now();
        let next = steps.iter().position(|step| step.end.is_none_or(|end| end > now)).unwrap_or(steps.len() - 1);
        Some(Recurrence { interval: interval(steps, calendar), times: steps.len(), next })
    }

    /// In words: `weekdays, 10 times`.
    pub fn text(&self) -> String {
        let times = format!("{} times", self.times);
        self.interval.map_or(times.clone(), |interval| format!("{interval}, {times}"))
    }
}

/// The interval between windows that begin and end at the same time of day.
fn interval(steps: &[StepDoc], calendar: &Calendar) -> Option<&'static str> {
    let local = |at| calendar.zoned(at).datetime();
    let starts: Vec<_> = steps.iter().map(|step| local(step.start)).collect();
    let ends = steps.iter().map(|step| step.end.map(local)).collect::<Option<Vec<_>>>()?;
    let midnight = time(0, 0, 0, 0);
    let same =
        |all: &[jiff::civil::DateTime]| all.iter().all(|at| at.time() == all.first().map_or(midnight, |at| at.time()));
    if !same(&starts) || !same(&ends) {
        return None;
    }
    let each = |days: fn(Weekday) -> i64| {
        starts.windows(2).all(|pair| {
            let span = Span::new().days(days(pair[0].weekday()));
            pair[0].date().checked_add(span).is_ok_and(|next| next == pair[1].date())
        })
    };
    if each(|_| 1) {
        Some("daily")
    } else if each(|_| 7) {
        Some("weekly")
    } else if each(|day| if day == Weekday::Friday { 3 } else { 1 }) {
        Some("weekdays")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use documents::book::Instant;
    use jiff::tz::TimeZone;
    use terms::Time;

    /// Windows from this many hours after Friday, 20 November 2026, 00:00 UTC, of one hour each.
    fn windows(hours: &[u64]) -> Vec<StepDoc> {
        const FRIDAY: u64 = 1_795_132_800;
        let at = |hour: u64| Instant(Time::from_nanos((FRIDAY + hour * 3_600) * 1_000_000_000));
        hours.iter().map(|hour| StepDoc { start: at(*hour), end: Some(at(hour + 1)), amount: 1.0 }).collect()
    }

    #[test]
    fn intervals_and_the_next_window() {
        let calendar = Calendar::at(1_795_132_800_000_000_000 + 30 * 3_600_000_000_000, TimeZone::UTC);
        let said = |hours: &[u64]| Recurrence::of(&windows(hours), &calendar).map(|found| (found.text(), found.next));
        assert_eq!(said(&[9]), None);
        assert_eq!(said(&[9, 10]), None, "one use in two steps");
        assert_eq!(said(&[9, 33, 57]), Some(("daily, 3 times".to_owned(), 1)));
        assert_eq!(said(&[9, 9 + 72, 9 + 96]), Some(("weekdays, 3 times".to_owned(), 1)));
        assert_eq!(said(&[9, 9 + 168]), Some(("weekly, 2 times".to_owned(), 1)));
        assert_eq!(said(&[9, 34, 57]), Some(("3 times".to_owned(), 1)));
    }

    /// The clocks change on 29 March 2026: 09:00 in Zurich is an hour earlier in UTC from then on.
    #[test]
    fn a_change_of_the_clocks_is_no_other_time_of_day() {
        const SATURDAY: u64 = 1_774_684_800; // 2026-03-28 08:00 UTC, 09:00 in Zurich
        let at = |seconds: u64| Instant(Time::from_nanos(seconds * 1_000_000_000));
        let step = |start: u64| StepDoc { start: at(start), end: Some(at(start + 3_600)), amount: 1.0 };
        let steps = [step(SATURDAY), step(SATURDAY + 23 * 3_600), step(SATURDAY + 47 * 3_600)];
        let zone = TimeZone::get("Europe/Zurich").unwrap();
        let found = Recurrence::of(&steps, &Calendar::at(SATURDAY * 1_000_000_000, zone)).unwrap();
        assert_eq!((found.interval, found.next), (Some("daily"), 0));
    }
}
