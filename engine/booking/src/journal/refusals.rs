//! Refusals in the audit. A caller who is refused now and then has a row for each refusal; one who is refused
//! all the time has a few rows, and the other refusals are counted together in a row. Otherwise a caller
//! without rights could fill the disk.

use crate::config::Config;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use terms::{Span, Time};

/// The name under which callers without a place of their own are counted.
const OTHERS: &str = "others";

/// The refusals of each caller. In memory only: a restart forgets refusals that no row has counted yet.
#[derive(Clone, Debug)]
pub(crate) struct Refusals {
    allowance: Allowance,
    callers: BTreeMap<Box<str>, Tally>,
    /// The time at which refusals without a row of their own are counted in one; the agent's clock.
    due: Time,
}

/// The refusals of one caller.
#[derive(Clone, Debug)]
struct Tally {
    /// The number of rows that may be written before the next is earned.
    rows: u32,
    /// The instant up to which rows have been earned.
    earned: Time,
    /// Refusals without a row of their own.
    more: u64,
}

/// The limits of the audit's rows of refusals.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    burst: u32,
    every: Span,
    callers: usize,
}

impl Refusals {
    /// No refusals so far, under the limits of a configuration.
    pub(crate) fn new(config: &Config) -> Refusals {
        let (burst, every, callers) = (config.refusals, config.refusal_every, config.refused_callers);
        Refusals { allowance: Allowance { burst, every, callers }, callers: BTreeMap::new(), due: Time::FOREVER }
    }

    /// True if this refusal has a row of its own; if not, it is counted.
    pub(crate) fn has_row(&mut self, now: Time, who: &str) -> bool {
        let Allowance { burst, every, callers } = self.allowance;
        if !self.callers.contains_key(who) && self.callers.len() >= callers {
            // Who has been quiet for long enough to have everything again need not be remembered.
            self.callers.retain(|_, tally| {
                tally.earn(now, burst, every);
                tally.more > 0 || tally.rows < burst
            });
        }
        let full = self.callers.len() >= callers && !self.callers.contains_key(who);
        let who = if full { OTHERS } else { who };
        let tally = self.callers.entry(who.into()).or_insert(Tally { rows: burst, earned: now, more: 0 });
        tally.earn(now, burst, every);
        if tally.rows > 0 {
            tally.rows -= 1;
            return true;
        }
        tally.more += 1;
        self.due = self.due.min(now.saturating_add(every));
        false
    }

    /// The refusals that were counted since the last row, by caller.
    pub(crate) fn take(&mut self) -> Vec<(Box<str>, u64)> {
        self.due = Time::FOREVER;
        let counted = self.callers.iter_mut().filter(|(_, tally)| tally.more > 0);
        counted.map(|(who, tally)| (who.clone(), core::mem::take(&mut tally.more))).collect()
    }

    /// Counts refusals again whose row was not written.
    pub(crate) fn again(&mut self, now: Time, counted: Vec<(Box<str>, u64)>) {
        for (who, more) in counted {
            let fresh = Tally { rows: 0, earned: now, more: 0 };
            self.callers.entry(who).or_insert(fresh).more += more;
        }
        self.due = self.due.min(now.saturating_add(self.allowance.every));
    }

    /// The time of the next row of counted refusals; the agent's clock.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        (self.due != Time::FOREVER).then_some(self.due)
    }
}

impl Tally {
    fn earn(&mut self, now: Time, burst: u32, every: Span) {
        let earned = now.since(self.earned).as_nanos() / every.as_nanos().max(1);
        let rows = u64::from(self.rows).saturating_add(earned).min(u64::from(burst));
        self.rows = u32::try_from(rows).unwrap_or(burst);
        let spent = Span::from_nanos(earned.saturating_mul(every.as_nanos()));
        self.earned = if self.rows >= burst { now } else { self.earned.saturating_add(spent) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn with_burst(refusals: u32) -> Refusals {
        Refusals::new(&Config { refusals, refused_callers: 8, ..Config::default() })
    }

    /// One who is refused a million times in an hour has the burst and one row a minute, and every refusal is counted; another
    /// who is refused now and then has a row for each.
    #[test]
    fn who_is_refused_all_the_time_has_few_rows() {
        let mut refusals = with_burst(64);
        let (mut rows, mut counted) = (0u64, 0u64);
        for second in 0..3600 {
            for _ in 0..277 {
                rows += u64::from(refusals.has_row(at(second), "uid:1001"));
            }
            if second % 100 == 0 {
                assert!(refusals.has_row(at(second), "uid:1002"), "hurt by another");
            }
            if refusals.wake_at().is_some_and(|due| due <= at(second)) {
                counted += refusals.take().iter().map(|(_, more)| more).sum::<u64>();
            }
        }
        counted += refusals.take().iter().map(|(_, more)| more).sum::<u64>();
        assert_eq!(rows, 64 + 59);
        assert_eq!(rows + counted, 3600 * 277, "every refusal is counted");
    }

    /// However many names there are, so many are remembered.
    #[test]
    fn names_without_end_share_a_place() {
        let mut refusals = with_burst(2);
        let rows = (0..1000).filter(|n| refusals.has_row(at(1), &format!("uid:{n}"))).count();
        assert_eq!((rows, refusals.callers.len()), (8 + 2, 9));
        assert_eq!(refusals.take(), [("others".into(), 990)]);
        assert!(refusals.has_row(at(200), "uid:5000"), "the quiet are forgotten");
    }
}
