//! Refusals in the audit. A caller who is refused now and then has a row for each refusal; one who is refused
//! all the time has a few rows, and the other refusals are counted together in a row. Otherwise a caller
//! without rights could fill the disk.

use crate::broker::Bookings;
use crate::io::CallId;
use crate::journal::{Decided, Written};
use crate::refusal::Refusal;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use terms::{Span, Time};

/// The verb in audit rows that count refusals.
const VERB: &str = "refused";
/// The name under which callers without a place of their own are counted.
const OTHERS: &str = "others";

/// The refusals of each caller. In memory only: a restart forgets refusals that no row has counted yet.
#[derive(Clone, Debug)]
pub(crate) struct Refusals {
    callers: BTreeMap<Box<str>, Tally>,
    /// The time at which refusals without a row of their own are counted in one; the agent's clock.
    due: Time,
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals { callers: BTreeMap::new(), due: Time::FOREVER }
    }
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
    /// True if this refusal has a row of its own; if not, it is counted.
    fn has_row(&mut self, now: Time, who: &str, allowance: Allowance) -> bool {
        let Allowance { burst, every, callers } = allowance;
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
    fn take(&mut self) -> Vec<(Box<str>, u64)> {
        self.due = Time::FOREVER;
        let counted = self.callers.iter_mut().filter(|(_, tally)| tally.more > 0);
        counted.map(|(who, tally)| (who.clone(), core::mem::take(&mut tally.more))).collect()
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

impl Bookings {
    /// Writes a refusal by policy or ledger to the audit before it is said, if this caller has a row left.
    pub(crate) fn refuse(&mut self, reply: CallId, refusal: Refusal, decided: &Decided<'_>) {
        let allowance = Allowance {
            burst: self.config.refusals,
            every: self.config.refusal_every,
            callers: self.config.refused_callers,
        };
        if !self.refusals.has_row(self.now, &decided.caller.name, allowance) {
            return self.reply(reply, Err(refusal));
        }
        let record = self.audit_record(decided, refusal.why.name());
        self.append(alloc::vec![record], Written::Refused(refusal), Some(reply), Vec::new());
    }

    /// Writes the counted refusals to the audit, once in a while.
    pub(crate) fn count_refusals(&mut self) {
        if self.refusals.wake_at().is_none_or(|due| self.now < due) || self.now < self.write_again {
            return;
        }
        let counted = self.refusals.take();
        let records = counted.iter().map(|(who, more)| self.count_record(who, VERB, &format!("{more} more"))).collect();
        self.append(records, Written::Counted(counted), None, Vec::new());
    }

    /// Counts refusals again whose row was not written.
    pub(crate) fn not_counted(&mut self, counted: Vec<(Box<str>, u64)>) {
        let every = self.config.refusal_every;
        for (who, more) in counted {
            let fresh = Tally { rows: 0, earned: self.now, more: 0 };
            self.refusals.callers.entry(who).or_insert(fresh).more += more;
        }
        self.refusals.due = self.refusals.due.min(self.now.saturating_add(every));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    /// One who is refused a million times in an hour has the burst and one row a minute, and every refusal is counted; another
    /// who is refused now and then has a row for each.
    #[test]
    fn who_is_refused_all_the_time_has_few_rows() {
        let allowance = Allowance { burst: 64, every: Span::from_secs(60), callers: 8 };
        let mut refusals = Refusals::default();
        let (mut rows, mut counted) = (0u64, 0u64);
        for second in 0..3600 {
            for _ in 0..277 {
                rows += u64::from(refusals.has_row(at(second), "uid:1001", allowance));
            }
            if second % 100 == 0 {
                assert!(refusals.has_row(at(second), "uid:1002", allowance), "hurt by another");
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
        let allowance = Allowance { burst: 2, every: Span::from_secs(60), callers: 8 };
        let mut refusals = Refusals::default();
        let rows = (0..1000).filter(|n| refusals.has_row(at(1), &format!("uid:{n}"), allowance)).count();
        assert_eq!((rows, refusals.callers.len()), (8 + 2, 9));
        assert_eq!(refusals.take(), [("others".into(), 990)]);
        assert!(refusals.has_row(at(200), "uid:5000", allowance), "the quiet are forgotten");
    }
}
