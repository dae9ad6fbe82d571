//! The exponentially weighted average of a queue (Floyd and Jacobson 1993, section 4), with the correction for idle time.

use terms::{Span, Time};

/// An average in 2^-24 of an amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Average {
    value: u64,
    /// Since when the queue has been empty.
    idle: Option<Time>,
}

const FRACTION: u32 = 24;
/// One, as a weight.
pub(super) const ONE: u64 = 1 << 32;

impl Average {
    /// A new queue: empty since ever, average zero.
    pub fn new() -> Average {
        Average::default()
    }

    /// A packet arrives and finds `queued` waiting: `avg += w (q - avg)`; after idle time, `avg *= (1 - w)^m` first, where `m`
    /// packets of `slot` each could have left meanwhile. `weight` is in 2^-32. Returns the average.
    #[inline]
    pub fn arrival(&mut self, now: Time, queued: u32, weight: u64, slot: Span) -> u64 {
        if queued == 0
            && let Some(since) = self.idle
        {
            let slots = now.since(since).as_nanos() / slot.as_nanos().max(1);
            self.value = decay(self.value, weight, slots);
            self.idle = Some(now);
        }
        let target = u64::from(queued) << FRACTION;
        if target >= self.value {
            self.value += scale(target - self.value, weight);
        } else {
            self.value -= scale(self.value - target, weight);
        }
        self.value
    }

    /// The queue became empty.
    pub fn emptied(&mut self, now: Time) {
        self.idle = Some(now);
    }

    /// The queue is no longer empty.
    pub fn filled(&mut self) {
        self.idle = None;
    }

    /// The average in whole amounts, rounded down.
    pub fn whole(&self) -> u64 {
        self.value >> FRACTION
    }
}

/// An amount in the average's unit.
pub(super) const fn amount(whole: u32) -> u64 {
    (whole as u64) << FRACTION
}

fn scale(value: u64, weight: u64) -> u64 {
    ((u128::from(value) * u128::from(weight)) >> 32) as u64
}

/// `value (1 - w)^n`, by squaring.
fn decay(mut value: u64, weight: u64, mut n: u64) -> u64 {
    let mut factor = ONE - weight;
    while n > 0 && value > 0 {
        if n & 1 == 1 {
            value = scale(value, factor);
        }
        factor = scale(factor, factor);
        n >>= 1;
    }
    value
}
