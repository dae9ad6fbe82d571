//! The pictures that the receiver showed: their times, and their integrity.

use super::source::RATE;
use terms::{Span, Time};

/// A shown picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The time.
    pub at: Time,
    /// True if every pixel was right.
    pub whole: bool,
}

/// The picture counts of an interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Screen {
    /// Whole pictures a second.
    pub fps: f64,
    /// Pictures shown with errors.
    pub spoilt: u64,
    /// Expected pictures that were not shown.
    pub missing: u64,
    /// The fraction of expected pictures that were spoilt or missing.
    pub error_rate: f64,
}

impl Screen {
    /// Returns the number of spoilt and missing pictures.
    pub fn damaged(&self) -> u64 {
        self.spoilt + self.missing
    }
}

/// Counts `[from, until)`. Pictures come every 1/[`RATE`] s, so an interval may hold one more or less than
/// its length says: that one does not count as missing.
pub fn screen(shown: &[Shown], from: Time, until: Time) -> Screen {
    let begin = shown.partition_point(|picture| picture.at < from);
    let end = shown.partition_point(|picture| picture.at < until);
    let within = &shown[begin..end.max(begin)];
    let whole = within.iter().filter(|picture| picture.whole).count() as u64;
    let spoilt = within.len() as u64 - whole;
    let length = until.since(from);
    let due = (u128::from(length.as_nanos()) * u128::from(RATE) / u128::from(Span::NANOS_PER_SEC)) as u64;
    let missing = match due.saturating_sub(within.len() as u64) {
        1 => 0,
        more => more,
    };
    let all = whole + spoilt + missing;
    Screen {
        fps: if length == Span::ZERO { 0.0 } else { whole as f64 / (length.as_nanos() as f64 / 1e9) },
        spoilt,
        missing,
        error_rate: if all == 0 { 0.0 } else { (spoilt + missing) as f64 / all as f64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(frame: u64) -> Time {
        Time::from_nanos(5_000_000_000 + frame * 40_000_000)
    }

    #[test]
    fn spoilt_and_missing_pictures_are_told_apart() {
        // Ten seconds; every tenth picture is spoilt, the last two seconds show nothing.
        let shown: Vec<Shown> = (0..200).map(|n| Shown { at: at(n), whole: n % 10 != 3 }).collect();
        let found = screen(&shown, at(0), at(250));
        assert_eq!((found.fps, found.spoilt, found.missing, found.damaged()), (18.0, 20, 50, 70));
        assert_eq!(found.error_rate, 0.28);
    }

    #[test]
    fn the_edge_is_not_a_loss() {
        let shown: Vec<Shown> = (0..249).map(|n| Shown { at: at(n), whole: true }).collect();
        let found = screen(&shown, at(0), at(250));
        assert_eq!((found.spoilt, found.missing, found.error_rate), (0, 0, 0.0));
        assert_eq!(screen(&[], at(0), at(250)).damaged(), 250);
        assert_eq!(screen(&shown, at(5), at(5)), Screen::default());
    }
}
