//! The limit of session set-up on each outgoing interface.
//!
//! Paths and PathTears of sessions without a reservation share the signalling queue with the refreshes of
//! sessions that have one. A flood of new sessions over a slow link would fill that queue and end what is
//! established, so it gets a bucket for each outgoing interface. A message beyond it is counted and not sent;
//! the session's next refresh tries again (RFC 2205 section 2.3: messages may be lost). Traffic control sets
//! the limit, as it knows the link.

use alloc::collections::BTreeMap;
use terms::{IfIndex, Rate, Time};

/// The least burst, bytes: some hundred sessions that come at once, as after a restart.
const LEAST_BURST: u64 = 64 << 10;
/// A burst is at least a second's bytes divided by this.
const BURST_PER_SECOND: u64 = 10;

/// A bucket for each interface that has a limit.
#[derive(Debug, Default)]
pub(crate) struct SetUp {
    buckets: BTreeMap<IfIndex, Bucket>,
}

#[derive(Debug)]
struct Bucket {
    rate: Rate,
    /// Bytes that may be sent now.
    credit: u64,
    at: Time,
}

impl SetUp {
    /// Sets the present limit of an interface; `None`: there is no limit.
    pub(crate) fn limit(&mut self, now: Time, oif: IfIndex, rate: Option<Rate>) {
        match (rate, self.buckets.get_mut(&oif)) {
            (Some(rate), Some(bucket)) => bucket.rate = rate,
            (Some(rate), None) => drop(self.buckets.insert(oif, Bucket { rate, credit: burst(rate), at: now })),
            (None, _) => drop(self.buckets.remove(&oif)),
        }
    }

    /// True if a message of `len` bytes may go out by an interface; if so, it is charged.
    pub(crate) fn takes(&mut self, now: Time, oif: IfIndex, len: usize) -> bool {
        let Some(bucket) = self.buckets.get_mut(&oif) else { return true };
        let earned = bucket.rate.supplies(now.since(bucket.at));
        // What is less than a byte stays earned.
        bucket.at = now.min(bucket.at.saturating_add(bucket.rate.span_for(earned)));
        bucket.credit = bucket.credit.saturating_add(earned.get()).min(burst(bucket.rate));
        let left = bucket.credit.checked_sub(len as u64);
        bucket.credit = left.unwrap_or(bucket.credit);
        left.is_some()
    }
}

fn burst(rate: Rate) -> u64 {
    LEAST_BURST.max(rate.as_bps() / 8 / BURST_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::Span;

    #[test]
    fn a_flood_gets_its_burst_and_then_the_rate() {
        let (oif, mut set_up) = (IfIndex(1), SetUp::default());
        let begun = Time::from_nanos(1_000_000_000);
        assert!(set_up.takes(begun, oif, 1 << 20), "no limit yet");
        set_up.limit(begun, oif, Some(Rate::from_kbps(800))); // 100,000 bytes a second
        let mut gone = 0_u64;
        // A message of 200 bytes each microsecond, for two seconds.
        for n in 0..2_000_000 {
            let now = begun + Span::from_micros(n);
            gone += u64::from(set_up.takes(now, oif, 200)) * 200;
        }
        let most = LEAST_BURST + 200_000;
        assert!(gone <= most && gone >= most - 1_000, "{gone} bytes of {most}");
        set_up.limit(begun, oif, None);
        assert!(set_up.takes(begun, oif, 1 << 20), "no limit any more");
    }
}
