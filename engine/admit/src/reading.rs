//! Readings of the counter of all bytes that a group of flows has sent so far: how a reading becomes a sample, and when
//! it must not be believed.

use terms::{Bytes, Rate, Span, Time};

/// The use of one reading of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CounterReading {
    /// The first reading: there is no earlier one to compare.
    First,
    /// The sampling period is not over (or time did not move). The reading is ignored.
    TooSoon,
    /// A sample of the flows' rate.
    Sample(Rate),
    /// One reading was missed (two to three periods since the last). There is no sample, because a peak may lie in
    /// that time, and nothing else changes.
    Missed,
    /// The counter ran backwards: it was reset, or wrapped. There is no sample, and declared rates count for
    /// a while.
    Backwards,
    /// At least three periods since the last reading, so peaks may be missed. Declared rates count for a
    /// while.
    Gap,
}

/// Makes samples of readings. It has no clock: it is told the time of each reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterSampler {
    period: Span,
    last: Option<(Time, Bytes)>,
}

impl CounterSampler {
    /// A sampler of one reading each `period`; a period of zero counts as 1 ns.
    pub const fn new(period: Span) -> CounterSampler {
        let period = if period.as_nanos() == 0 { Span::from_nanos(1) } else { period };
        CounterSampler { period, last: None }
    }

    /// The time of the last reading that counted.
    pub fn last(&self) -> Option<Time> {
        self.last.map(|(at, _)| at)
    }

    /// Takes a reading of the counter. Read it once a period.
    pub fn read(&mut self, now: Time, counter: Bytes) -> CounterReading {
        let Some((then, before)) = self.last else {
            self.last = Some((now, counter));
            return CounterReading::First;
        };
        let span = now.since(then);
        if now <= then || span < self.period {
            return CounterReading::TooSoon;
        }
        self.last = Some((now, counter));
        if counter < before {
            return CounterReading::Backwards;
        }
        if span.as_nanos() / 3 >= self.period.as_nanos() {
            return CounterReading::Gap;
        }
        if span.as_nanos() / 2 > self.period.as_nanos() {
            return CounterReading::Missed;
        }
        CounterReading::Sample(used(counter.saturating_sub(before), span))
    }
}

/// The rate of these bytes in that time. It is demand, so it is rounded up.
fn used(bytes: Bytes, span: Span) -> Rate {
    let bit_nanos = u128::from(bytes.get()) * 8 * u128::from(Span::NANOS_PER_SEC);
    let rate = bit_nanos.div_ceil(u128::from(span.as_nanos().max(1)));
    Rate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))
}
