//! How much one source may say: an array of token buckets that sources are hashed into. It never grows, and nobody can
//! fill it; two sources in one bucket share it.

use crate::table::bits;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::Time;

#[derive(Debug)]
pub(crate) struct Limits {
    buckets: Vec<(u32, u32)>,
    rate: u32,
    keys: [u64; 2],
}

/// Buckets; sources are rarely so many at a time.
const BUCKETS: usize = 4_096;
/// A bucket's clock ticks in 2^20 ns, about a millisecond.
const TICK: u32 = 20;

impl Limits {
    pub fn new(rate: u32, keys: [u64; 2]) -> Limits {
        Limits { buckets: vec![(rate, 0); BUCKETS], rate, keys }
    }

    /// Whether a source may say so much more.
    pub fn take(&mut self, now: Time, source: IpAddr, cost: u32) -> bool {
        let bits = bits(source);
        let mut place = (bits as u64 ^ self.keys[0]).wrapping_mul(self.keys[1] | 1);
        place = (place ^ (bits >> 64) as u64 ^ place >> 29).wrapping_mul(self.keys[1] | 1);
        let (tokens, then) = &mut self.buckets[(place >> 52) as usize % BUCKETS];
        let tick = (now.as_nanos() >> TICK) as u32;
        let gained = (u64::from(tick.wrapping_sub(*then)) * u64::from(self.rate)) >> 10;
        if gained > 0 {
            *tokens = (u64::from(*tokens) + gained).min(u64::from(self.rate)) as u32;
            *then = tick;
        }
        let enough = *tokens >= cost;
        if enough {
            *tokens -= cost;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::Span;

    #[test]
    fn a_source_may_say_a_seconds_worth_at_once_and_its_rate_after_that() {
        let mut limits = Limits::new(100, [0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1]);
        let (a, b) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut now = Time::from_nanos(5_000_000_000_000);
        let said = |limits: &mut Limits, now, who| (0..1_000).filter(|_| limits.take(now, who, 1)).count();
        assert_eq!(said(&mut limits, now, a), 100);
        assert_eq!(said(&mut limits, now, b), 100, "somebody else has his own");
        now = now + Span::from_millis(500);
        assert!((44..=52).contains(&said(&mut limits, now, a)));
        now = now + Span::from_secs(3_600);
        assert_eq!(said(&mut limits, now, a), 100, "it does not add up");
    }
}
