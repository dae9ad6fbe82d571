//! Times as people write them: `14:00..15:30`, `now+1h`, `friday 08:00`. Inside they are UTC; the zone, and what a change of the
//! clocks does to a time of day, is known here alone (the zone database of the system, by jiff).

use documents::book::{Instant, WindowDoc};
use jiff::civil::{Date, DateTime, Time as OfDay, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The most windows of a recurrence.
pub const MOST_WINDOWS: usize = 1024;

/// The mistake in a time: a sentence for the person who wrote it.
pub type BadTime = String;

/// The time zone and the present moment.
#[derive(Clone, Debug)]
pub struct Calendar {
    now: Zoned,
}

/// A window as it was written; no start: from now on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// The start; `None`: now.
    pub start: Option<Instant>,
    /// The end; `None`: open.
    pub end: Option<Instant>,
    /// The written start, even if it is in the past: a repetition begins there.
    pub begins: Instant,
}

/// The interval of a repetition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Repeat {
    /// Each day
    Daily,
    /// On the same day of each week
    Weekly,
    /// Monday to Friday
    Weekdays,
}

impl Calendar {
    /// In this zone (`None`: the system's), at this moment.
    ///
    /// # Errors
    /// There is no such zone.
    pub fn here(zone: Option<&str>) -> Result<Calendar, BadTime> {
        let zone = match zone {
            Some(name) => {
                TimeZone::get(name).map_err(|_| format!("{name:?} is no time zone, such as Europe/Berlin"))?
            }
            None => TimeZone::system(),
        };
        Ok(Calendar::at(linux::clock::Clock::start().now().as_nanos(), zone))
    }

    /// In this zone, at this moment (nanoseconds since 1970).
    pub fn at(now_ns: u64, zone: TimeZone) -> Calendar {
        let now = Timestamp::from_nanosecond(now_ns.into()).unwrap_or(Timestamp::MAX);
        Calendar { now: now.to_zoned(zone) }
    }

    /// This moment.
    pub fn now(&self) -> Instant {
        Instant(terms::Time::from_nanos(u64::try_from(self.now.timestamp().as_nanosecond()).unwrap_or(0)))
    }

    /// An instant for people, in this zone.
    pub fn show(&self, at: Instant) -> String {
        let found = Timestamp::from_nanosecond(at.0.as_nanos().into());
        let Ok(found) = found else { return "for ever".to_owned() };
        let found = found.to_zoned(self.now.time_zone().clone());
        let seconds = if found.second() == 0 { "" } else { ":%S" };
        let day = if found.date() == self.now.date() { "" } else { "%a %Y-%m-%d " };
        found.strftime(&format!("{day}%H:%M{seconds}")).to_string()
    }

    /// An instant with its day, also where that is today.
    pub fn dated(&self, at: Instant) -> String {
        let found = Timestamp::from_nanosecond(at.0.as_nanos().into());
        let Ok(found) = found else { return "for ever".to_owned() };
        found.to_zoned(self.now.time_zone().clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// An instant as [`Calendar::time`] reads it, to the second.
    pub fn typed(&self, at: Instant) -> Option<String> {
        let found = Timestamp::from_nanosecond(at.0.as_nanos().into()).ok()?.to_zoned(self.now.time_zone().clone());
        let day = if found.date() == self.now.date() { "" } else { "%Y-%m-%d " };
        Some(found.strftime(&format!("{day}%H:%M:%S")).to_string())
    }

    /// A time of day when it was last that; any other time as always.
    ///
    /// # Errors
    /// It is none, or the clocks skip it.
    pub fn last(&self, text: &str) -> Result<Instant, BadTime> {
        let Some(of_day) = time_of_day(text) else { return self.time(text) };
        let at = self.exact(self.now.date().to_datetime(of_day))?;
        if at <= self.now() {
            return Ok(at);
        }
        let before = self.now.date().yesterday().map_err(|error| error.to_string())?;
        self.exact(before.to_datetime(of_day))
    }

    /// A time as people write it; a time of day alone, or a day of the week, is the next one.
    ///
    /// # Errors
    /// It is none, or the clocks skip it.
    pub fn time(&self, text: &str) -> Result<Instant, BadTime> {
        self.after(text, &self.now)
    }

    /// An end as people write it: a time, or a day, which is then meant as a whole.
    ///
    /// # Errors
    /// As [`Calendar::time`].
    pub fn end(&self, text: &str) -> Result<Instant, BadTime> {
        self.time(text).or_else(|bad| self.time(&format!("{} 24:00", text.trim())).map_err(|_| bad))
    }

    /// The same, seen from another moment, from which `+1h` counts.
    fn after(&self, text: &str, from: &Zoned) -> Result<Instant, BadTime> {
        let text = text.trim();
        if let Ok(instant) = text.parse::<Instant>() {
            return Ok(instant);
        }
        if text == "now" {
            return Ok(self.now());
        }
        if let Some(span) = text.strip_prefix("now+") {
            return later(&self.now, span);
        }
        if let Some(span) = text.strip_prefix('+') {
            return later(from, span);
        }
        let bad = || {
            format!(
                "{text:?} is no time: write 14:00, tomorrow 14:00, friday 08:00, 2026-11-27 08:00, now+1h or +30m, or \
                 2026-11-27T08:00:00Z"
            )
        };
        let (day, of_day) = match text.rsplit_once([' ', 'T']) {
            Some((day, of_day)) => (Some(day.trim()), of_day),
            None => (None, text),
        };
        // The midnight after a day may be written as its end.
        let midnight = matches!(of_day.trim(), "24:00" | "24h" | "24:00:00");
        let of_day = if midnight { Some(OfDay::midnight()) } else { time_of_day(of_day) }.ok_or_else(bad)?;
        let today = from.date();
        let date = match day.map(str::to_lowercase).as_deref() {
            None => today,
            Some("today") => today,
            Some("tomorrow") => today.tomorrow().map_err(|_| bad())?,
            Some(day) => match weekday(day) {
                Some(weekday) => on_or_after(today, weekday).ok_or_else(bad)?,
                None => day.parse::<Date>().map_err(|_| bad())?,
            },
        };
        let date = if midnight { date.tomorrow().map_err(|_| bad())? } else { date };
        let at = self.exact(date.to_datetime(of_day))?;
        let moves_on = day.is_none() || day.is_some_and(|day| weekday(&day.to_lowercase()).is_some());
        if moves_on && at <= instant(from) {
            let next = if day.is_none() { 1 } else { 7 };
            let date = (0..next).try_fold(date, |date, _| date.tomorrow()).map_err(|_| bad())?;
            return self.exact(date.to_datetime(of_day));
        }
        Ok(at)
    }

    /// A window: `14:00..15:30`, `now..+2h`, `friday 08:00..friday 10:00`, `now..` (open at its end).
    ///
    /// # Errors
    /// One of its times is none, or it ends before it starts.
    pub fn window(&self, text: &str) -> Result<Written, BadTime> {
        let (start_text, end_text) =
            text.split_once("..").ok_or_else(|| format!("{text:?} is no window: write it as 14:00..15:30"))?;
        let now_text = start_text.trim();
        let mut start = if now_text.is_empty() || now_text == "now" { self.now() } else { self.today_or(now_text)? };
        let from = self.zoned(start);
        let mut end = match end_text.trim() {
            "" | "forever" => None,
            end => Some(self.after(end, &from)?),
        };
        // A window of today that is over is meant for tomorrow; one that has begun begins now.
        if end.is_some_and(|end| end <= self.now()) && time_of_day(now_text).is_some() {
            start = self.after(now_text, &self.now)?;
            end = end.map(|_| self.after(end_text, &self.zoned(start))).transpose()?;
        }
        if end.is_some_and(|end| end <= start) {
            return Err(format!("{text:?} ends before it starts"));
        }
        Ok(Written { start: (start > self.now()).then_some(start), end, begins: start })
    }

    /// A time of day of today, also if it has passed; any other time as always.
    fn today_or(&self, text: &str) -> Result<Instant, BadTime> {
        match time_of_day(text) {
            Some(of_day) => self.exact(self.now.date().to_datetime(of_day)),
            None => self.time(text),
        }
    }

    /// The windows of a recurrence: the first one, and the same times of day on later days, until `until` or `times` of
    /// them. A window that begins at a time which the clocks skip on a day is as much later on that day, and as long; a time that
    /// comes twice is the first. What has begun of the first is over.
    ///
    /// # Errors
    /// Too many, or the first is open.
    pub fn repeated(
        &self,
        first: &Written,
        repeat: Repeat,
        times: Option<usize>,
        until: Option<Instant>,
    ) -> Result<Vec<WindowDoc>, BadTime> {
        let Some(end) = first.end else { return Err("what is repeated needs an end".to_owned()) };
        if times.is_none() && until.is_none() {
            return Err("until when? give --times or --until".to_owned());
        }
        let (start, end) = (self.zoned(first.begins), self.zoned(end));
        let whole_days = days_between(start.date(), end.date());
        let mut date = start.date();
        let mut windows: Vec<WindowDoc> = Vec::new();
        loop {
            if repeat != Repeat::Weekdays || !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday) {
                let last = (0..whole_days).try_fold(date, |date, _| date.tomorrow()).map_err(|e| e.to_string())?;
                let begins = date.to_datetime(start.time());
                let window = self.window_of(begins, last.to_datetime(end.time()))?;
                if until.is_some_and(|until| window.end > until) || times.is_some_and(|n| windows.len() >= n) {
                    break;
                }
                if windows.last().is_some_and(|before| before.end > window.start) {
                    return Err("it is longer than the time until it is repeated".to_owned());
                }
                let start = if window.end > self.now() { window.start.max(self.now()) } else { window.start };
                windows.push(WindowDoc { start, ..window });
                if windows.len() > MOST_WINDOWS {
                    return Err(format!("more than {MOST_WINDOWS} times: say an earlier --until"));
                }
            }
            let step = if repeat == Repeat::Weekly { 7 } else { 1 };
            date = (0..step).try_fold(date, |date, _| date.tomorrow()).map_err(|e| e.to_string())?;
        }
        if windows.is_empty() { Err("not once before --until".to_owned()) } else { Ok(windows) }
    }

    /// A window between two times of day.
    fn window_of(&self, begins: DateTime, ends: DateTime) -> Result<WindowDoc, BadTime> {
        let start = self.civil(begins)?;
        let skipped = self.zoned(start).datetime().duration_since(begins);
        let ends =
            if skipped.is_positive() { ends.checked_add(skipped).map_err(|error| error.to_string())? } else { ends };
        Ok(WindowDoc { start, end: self.civil(ends)? })
    }

    /// The name of the zone, or how far it is from UTC.
    pub fn zone(&self) -> String {
        let zone = self.now.time_zone();
        zone.iana_name().map_or_else(|| format!("UTC{}", self.now.offset()), str::to_owned)
    }

    /// An instant in this zone.
    pub fn zoned(&self, at: Instant) -> Zoned {
        let found = Timestamp::from_nanosecond(at.0.as_nanos().into()).unwrap_or(Timestamp::MAX);
        found.to_zoned(self.now.time_zone().clone())
    }

    /// A time of day of one day, which must be there.
    fn exact(&self, civil: DateTime) -> Result<Instant, BadTime> {
        if self.now.time_zone().to_ambiguous_zoned(civil).is_ambiguous()
            && self.civil(civil).is_ok_and(|at| self.zoned(at).datetime() != civil)
        {
            return Err(format!("{civil} does not exist here: the clocks are set forward then"));
        }
        self.civil(civil)
    }

    fn civil(&self, civil: DateTime) -> Result<Instant, BadTime> {
        let zoned = self.now.time_zone().to_ambiguous_zoned(civil).compatible().map_err(|error| error.to_string())?;
        Ok(instant(&zoned))
    }
}

fn instant(zoned: &Zoned) -> Instant {
    Instant(terms::Time::from_nanos(u64::try_from(zoned.timestamp().as_nanosecond()).unwrap_or(0)))
}

fn later(from: &Zoned, span: &str) -> Result<Instant, BadTime> {
    Ok(Instant(instant(from).0.saturating_add(documents::units::parse_span(span)?)))
}

fn time_of_day(text: &str) -> Option<OfDay> {
    let mut parts = text.trim().split(':');
    let mut number = || parts.next().map(|part| part.parse::<i8>().ok().filter(|n| *n >= 0));
    let (hour, minute, second) = (number()??, number()??, number().unwrap_or(Some(0))?);
    OfDay::new(hour, minute, second, 0).ok().filter(|_| parts.next().is_none())
}

fn weekday(text: &str) -> Option<Weekday> {
    let all = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let found = all.iter().position(|name| *name == text || (text.len() >= 3 && name[..3] == *text))?;
    Weekday::from_monday_zero_offset(i8::try_from(found).ok()?).ok()
}

fn on_or_after(date: Date, weekday: Weekday) -> Option<Date> {
    let mut date = date;
    while date.weekday() != weekday {
        date = date.tomorrow().ok()?;
    }
    Some(date)
}

fn days_between(from: Date, to: Date) -> usize {
    let mut date = from;
    let mut days = 0;
    while date < to && days <= MOST_WINDOWS {
        match date.tomorrow() {
            Ok(next) => date = next,
            Err(_) => break,
        }
        days += 1;
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saturday, 21 November 2026, 15:00 in Berlin, which is 14:00 UTC.
    fn berlin() -> Calendar {
        Calendar::at(1_795_269_600 * 1_000_000_000, TimeZone::get("Europe/Berlin").unwrap())
    }

    fn at(calendar: &Calendar, text: &str) -> String {
        calendar.time(text).map_or_else(|bad| bad, |at| at.to_string())
    }

    #[test]
    fn times() {
        let table = [
            ("now", "2026-11-21T14:00:00Z"),
            ("now+1h", "2026-11-21T15:00:00Z"),
            ("+90m", "2026-11-21T15:30:00Z"),
            ("16:00", "2026-11-21T15:00:00Z"),
            ("14:00", "2026-11-22T13:00:00Z"),
            ("15:00", "2026-11-22T14:00:00Z"),
            ("tomorrow 08:00", "2026-11-22T07:00:00Z"),
            ("friday 08:00", "2026-11-27T07:00:00Z"),
            ("Fri 8:00:30", "2026-11-27T07:00:30Z"),
            ("saturday 16:00", "2026-11-21T15:00:00Z"),
            ("saturday 14:00", "2026-11-28T13:00:00Z"),
            ("2027-07-01 08:00", "2027-07-01T06:00:00Z"),
            ("2027-07-01 24:00", "2027-07-01T22:00:00Z"),
            ("24:00", "2026-11-21T23:00:00Z"),
            ("friday 24h", "2026-11-27T23:00:00Z"),
            ("2027-07-01T08:00:00-04:00", "2027-07-01T12:00:00Z"),
            ("2027-03-28 02:30", "2027-03-28T02:30:00 does not exist here: the clocks are set forward then"),
            ("2027-10-31 02:30", "2027-10-31T00:30:00Z"),
        ];
        for (text, expected) in table {
            assert_eq!(at(&berlin(), text), expected, "{text}");
        }
        for text in
            ["", "25:00", "14:60", "noon", "8", "friday", "-1:00", "14:00:00:00", "now+", "now+1", "2026-13-01 08:00"]
        {
            assert!(berlin().time(text).is_err(), "{text}");
        }
        assert!(Calendar::here(Some("Mars/Olympus")).is_err());
        // It is Saturday, 15:00 there: an hour ago, and yesterday.
        let last = |text: &str| berlin().last(text).unwrap().to_string();
        assert_eq!((last("14:00"), last("16:00")), ("2026-11-21T13:00:00Z".into(), "2026-11-20T15:00:00Z".into()));
    }

    #[test]
    fn windows() {
        let text = |window: Written| {
            let show = |at: Option<Instant>| at.map_or("-".to_owned(), |at| at.to_string());
            format!("{} {}", show(window.start), show(window.end))
        };
        let table = [
            ("16:00..17:30", "2026-11-21T15:00:00Z 2026-11-21T16:30:00Z"),
            ("14:00..16:00", "- 2026-11-21T15:00:00Z"),
            ("12:00..13:00", "2026-11-22T11:00:00Z 2026-11-22T12:00:00Z"),
            ("now..+2h", "- 2026-11-21T16:00:00Z"),
            ("16:00..+2h", "2026-11-21T15:00:00Z 2026-11-21T17:00:00Z"),
            ("23:00..01:00", "2026-11-21T22:00:00Z 2026-11-22T00:00:00Z"),
            ("friday 08:00..10:00", "2026-11-27T07:00:00Z 2026-11-27T09:00:00Z"),
            ("now..", "- -"),
        ];
        for (written, expected) in table {
            assert_eq!(text(berlin().window(written).unwrap()), expected, "{written}");
        }
        for wrong in ["14:00", "16:00..2026-11-21 15:30", "x..y", "16:00..y"] {
            assert!(berlin().window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_recurrence_keeps_the_time_of_day_over_a_change_of_the_clocks() {
        let first = berlin().window("2027-03-26 02:30..2027-03-26 03:30").unwrap();
        let windows = berlin().repeated(&first, Repeat::Daily, Some(4), None).unwrap();
        let starts: Vec<String> = windows.iter().map(|window| window.start.to_string()).collect();
        // On the 28th 02:30 does not exist: an hour later by the clock, and as long.
        let expected = ["2027-03-26T01:30:00Z", "2027-03-27T01:30:00Z", "2027-03-28T01:30:00Z", "2027-03-29T00:30:00Z"];
        assert_eq!(starts, expected);
        let hour = terms::Span::from_secs(3600);
        assert!(windows.iter().all(|window| window.end.0.since(window.start.0) == hour), "{windows:?}");
        // In autumn 02:30 comes twice: the first; the night has an hour more.
        let first = berlin().window("2027-10-30 02:30..2027-10-30 03:30").unwrap();
        let windows = berlin().repeated(&first, Repeat::Daily, Some(3), None).unwrap();
        let hours = windows.iter().map(|window| window.end.0.since(window.start.0).as_nanos() / 3_600_000_000_000);
        assert_eq!(hours.collect::<Vec<_>>(), [1, 2, 1]);
        // One that has begun: what is left of it today, and whole ones later.
        let first = berlin().window("14:30..15:30").unwrap();
        let windows = berlin().repeated(&first, Repeat::Daily, Some(2), None).unwrap();
        assert_eq!((windows[0].start, windows[0].end.to_string().as_str()), (berlin().now(), "2026-11-21T14:30:00Z"));
        assert_eq!(
            (windows[1].start.to_string().as_str(), windows[1].end.to_string().as_str()),
            ("2026-11-22T13:30:00Z", "2026-11-22T14:30:00Z")
        );
        let first = berlin().window("16:00..17:00").unwrap();
        let weekdays = berlin().repeated(&first, Repeat::Weekdays, Some(6), None).unwrap();
        assert_eq!(weekdays[0].start.to_string(), "2026-11-23T15:00:00Z", "the first is no Saturday");
        assert_eq!(weekdays[5].start.to_string(), "2026-11-30T15:00:00Z");
        for (day, end) in [
            ("2026-12-20", "2026-12-21 00:00"),
            ("tomorrow", "tomorrow 24:00"),
            ("friday", "friday 24:00"),
            ("friday 08:00", "friday 08:00"),
        ] {
            assert_eq!(berlin().end(day).unwrap(), berlin().time(end).unwrap(), "{day}");
        }
        assert!(berlin().end("someday").unwrap_err().contains("\"someday\" is no time"));
        let until = berlin().time("2026-12-20 00:00").unwrap();
        assert_eq!(berlin().repeated(&first, Repeat::Weekly, None, Some(until)).unwrap().len(), 5);
        assert!(berlin().repeated(&first, Repeat::Daily, None, None).is_err());
        assert!(berlin().repeated(&first, Repeat::Daily, Some(2000), None).is_err());
        let long = berlin().window("16:00..2026-11-23 17:00").unwrap();
        assert!(berlin().repeated(&long, Repeat::Daily, Some(2), None).is_err());
    }
}
