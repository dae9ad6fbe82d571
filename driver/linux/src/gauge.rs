//! A rate computed from a count that only grows: the increase in the last whole interval, and the length of
//! that interval.
//!
//! The count may be read at any frequency; the rate is computed at most once a second, so that it covers a
//! useful interval, and always comes with its length.

use std::time::Duration;

/// The shortest interval of a rate.
const SHORTEST: Duration = Duration::from_secs(1);

/// A rate and its interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GaugeReading {
    /// The increase per second, rounded down.
    pub rate: u64,
    /// The length of the interval, which ended at a reading of the count.
    pub span: Duration,
}

/// The state of one count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gauge {
    /// The start of the current interval: time and count.
    from: Option<(Duration, u64)>,
    seen: Option<GaugeReading>,
}

impl Gauge {
    /// Notes that the count is `total` at this time, of any clock that does not step.
    pub fn look(&mut self, at: Duration, total: u64) {
        let Some((then, before)) = self.from else {
            self.from = Some((at, total));
            return;
        };
        // One that has become less counts something else now.
        let Some(more) = total.checked_sub(before) else {
            *self = Gauge { from: Some((at, total)), seen: None };
            return;
        };
        let span = at.saturating_sub(then);
        if span >= SHORTEST {
            let rate = u128::from(more) * 1_000_000_000 / span.as_nanos();
            self.seen = Some(GaugeReading { rate: u64::try_from(rate).unwrap_or(u64::MAX), span });
            self.from = Some((at, total));
        }
    }

    /// The rate of the last whole interval; `None` until there is one.
    pub fn seen(&self) -> Option<GaugeReading> {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_told_with_its_interval_and_a_count_that_begins_again_is_none() {
        let ms = Duration::from_millis;
        let mut gauge = Gauge::default();
        gauge.look(ms(10), 500);
        gauge.look(ms(900), 900);
        assert_eq!(gauge.seen(), None, "not a second yet");
        gauge.look(ms(1_260), 3_000);
        assert_eq!(gauge.seen(), Some(GaugeReading { rate: 2_000, span: ms(1_250) }));
        gauge.look(ms(2_000), 9_000);
        assert_eq!(gauge.seen().map(|seen| seen.rate), Some(2_000), "that interval still runs");
        gauge.look(ms(2_001), 0);
        assert_eq!(gauge.seen(), None);
        gauge.look(ms(4_001), 0);
        assert_eq!(gauge.seen(), Some(GaugeReading { rate: 0, span: ms(2_000) }));
    }
}
