//! The exponentially weighted average of a queue (Floyd and Jacobson 1993, section 4), with the correction for idle time.

use terms::{Span, Time};

/// An average in 2^-24 of an amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Average {
    value: u64,
    /// The time since which the queue's idle time is not counted yet; meaningless while the queue is not empty.
    idle: Time,
}

impl Default for Average {
    fn default() -> Average {
        Average { value: 0, idle: Time::FOREVER }
    }
}

const FRACTION: u32 = 24;
/// One, as a weight.
pub(super) const ONE: u64 = 1 << 32;

impl Average {
    /// A new queue: always empty before, average zero.
    pub fn new() -> Average {
        Average::default()
    }

    /// A packet arrives and finds `queued` waiting: `avg += w (q - avg)`; after idle time, `avg *= (1 - w)^m` first, where `m`
    /// packets of `slot` each could have left meanwhile. `weight` is in 2^-32. Returns the average.
    #[inline(always)]
    pub fn arrival(&mut self, now: Time, queued: u32, weight: u64, slot: Span) -> u64 {
        if queued == 0 {
            self.rested(now, weight, slot);
        }
        self.approach(queued, weight)
    }

    /// `avg += w (q - avg)`; no change at weight zero.
    #[inline(always)]
    pub(super) fn approach(&mut self, queued: u32, weight: u64) -> u64 {
        // Both are below 2^56, the weight at most 2^32: one signed product, no branch on which is larger.
        let off = (u64::from(queued) << FRACTION) as i64 - self.value as i64;
        let moved = (i128::from(off) * i128::from(weight as i64)) >> 32;
        self.value = (self.value as i64 + moved as i64) as u64;
        self.value
    }

    /// Accounts for the idle time of a queue that was empty until now.
    #[cold]
    pub(super) fn rested(&mut self, now: Time, weight: u64, slot: Span) {
        let slots = now.since(self.idle).as_nanos() / slot.as_nanos().max(1);
        self.value = decay(self.value, weight, slots);
        self.idle = now;
    }

    /// As [`Average::emptied`] if `yes`, without a branch.
    #[inline(always)]
    pub(super) fn emptied_if(&mut self, yes: bool, now: Time) {
        self.idle = if yes { now } else { self.idle };
    }

    /// Records that the queue became empty.
    pub fn emptied(&mut self, now: Time) {
        self.idle = now;
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
