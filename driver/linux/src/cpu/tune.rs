//! Feedback for the weights of groups: weights are exact only if the balancer spreads the siblings' threads
//! exactly, which it does not on several cores. A group that waits although it has less than its share gets a
//! larger boost; a group with more than its share gets a smaller one. Arithmetic only.

use std::time::Duration;

/// The run time of a group, and the time that its threads waited ready to run, since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunTimes {
    /// Processor time, ns.
    pub ran: u64,
    /// Time that threads waited in a run queue, ns.
    pub waited: u64,
}

/// The feedback of one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuner {
    boost: u64,
    /// A running mean of the usage, millionths of a core.
    got: Option<u64>,
}

/// The first boost, thousandths: exact weights are never quite enough.
const FIRST: u64 = 1020;
const MOST: u64 = 8000;

impl Default for Tuner {
    fn default() -> Tuner {
        Tuner { boost: FIRST, got: None }
    }
}

impl Tuner {
    /// The boost: thousandths of the share for which the weight is computed.
    pub fn boost(&self) -> u64 {
        self.boost
    }

    /// The recent usage, millionths of a core.
    pub fn got(&self) -> u64 {
        self.got.unwrap_or(0)
    }

    /// Updates the boost of a group with `share` reserved millionths of a core, from its run times before and
    /// after `span`; returns true if the boost changed.
    pub fn learn(&mut self, share: u64, before: RunTimes, now: RunTimes, span: Duration) -> bool {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).max(1);
        let rate = |from: u64, to: u64| (u128::from(to.saturating_sub(from)) * 1_000_000 / u128::from(nanos)) as u64;
        let (got, waited) = (rate(before.ran, now.ran), rate(before.waited, now.waited));
        let mean = self.got.map_or(got, |mean| (3 * mean + got) / 4);
        self.got = Some(mean);
        let had = self.boost;
        // It must have been able to use more: what it lacked, its threads have waited at least.
        if mean < share && got + waited >= share {
            self.boost = (self.boost * 23 / 20).min(MOST);
        } else if mean > share + share / 50 || waited == 0 {
            self.boost = (self.boost * 97 / 100).max(FIRST);
        }
        self.boost != had
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    fn after(tuner: &mut Tuner, ran_ms: u64, waited_ms: u64, rounds: u32) -> u64 {
        for _ in 0..rounds {
            let now = RunTimes { ran: ran_ms * 1_000_000, waited: waited_ms * 1_000_000 };
            tuner.learn(500_000, RunTimes::default(), now, TENTH);
        }
        tuner.boost()
    }

    #[test]
    fn one_that_waits_short_of_its_share_gets_more_weight_and_gives_it_back() {
        let mut tuner = Tuner::default();
        let much = after(&mut tuner, 45, 55, 5);
        assert!(much > 1500, "{much}");
        assert_eq!(tuner.got(), 450_000);
        assert_eq!(after(&mut tuner, 60, 40, 200), FIRST);
    }

    #[test]
    fn one_that_sleeps_needs_no_more() {
        assert_eq!(after(&mut Tuner::default(), 10, 1, 50), FIRST);
        assert_eq!(after(&mut Tuner::default(), 50, 50, 50), FIRST, "it has its share");
        assert_eq!(after(&mut Tuner::default(), 1, 900, 500), MOST, "there is an end");
    }
}
