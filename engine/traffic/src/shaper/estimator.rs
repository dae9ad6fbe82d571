//! Estimators of the average rate (RFC 2963 section 2.3; the default is Stoica's exponential one).

use super::exp::{exp_neg, phi};
use terms::{Rate, Span, Time};

/// An estimator of the average rate of arrivals.
pub trait RateEstimator {
    /// A packet of `len` bytes arrives; returns the new average.
    fn arrival(&mut self, now: Time, len: u32) -> Rate;
    /// The average as of the last arrival.
    fn average(&self) -> Rate;
}

/// `EAR = (1 - exp(-T/K)) L/T + exp(-T/K) EAR`.
///
/// At `T = 0` (equal time stamps) the formula's limit is taken: `EAR = L/K + EAR`. So packets that arrive at one instant each add
/// `L/K`, just as the same bytes in one packet would.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exponential {
    k: u64,
    /// 2^-16 bit/s, so that rounding leaves no visible bias.
    average: u64,
    last: Time,
}

const FRACTION: u32 = 16;

impl Exponential {
    /// The longest time constant.
    pub const MAX_K: Span = Span::from_secs(3600);

    /// An estimator with time constant `k` (at least a microsecond, at most [`Exponential::MAX_K`]; others
    /// are clamped) and an average of zero, as if no packet had come before `now`.
    pub fn new(k: Span, now: Time) -> Exponential {
        let k = k.clamp(Span::from_micros(1), Exponential::MAX_K);
        Exponential { k: k.as_nanos(), average: 0, last: now }
    }
}

impl RateEstimator for Exponential {
    fn arrival(&mut self, now: Time, len: u32) -> Rate {
        let gap = now.since(self.last).as_nanos();
        // T/K in 2^-32; beyond 2^32 the old average is forgotten anyway.
        let x = u64::try_from((u128::from(gap) << 32) / u128::from(self.k)).unwrap_or(u64::MAX);
        // L/K.
        let impulse = ((u128::from(len) * 8_000_000_000) << FRACTION) / u128::from(self.k);
        let fresh = (impulse * u128::from(phi(x))) >> 32;
        let old = (u128::from(self.average) * u128::from(exp_neg(x))) >> 32;
        self.average = u64::try_from(fresh + old).unwrap_or(u64::MAX);
        self.last = self.last.max(now);
        self.average()
    }

    fn average(&self) -> Rate {
        Rate::from_bps(self.average >> FRACTION)
    }
}
