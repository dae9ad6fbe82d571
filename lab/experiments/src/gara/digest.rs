//! Processor work for each received byte. It is plain arithmetic whose cost is measured first, so that a
//! machine of any speed is equally busy.

use std::time::{Duration, Instant};

/// A computation of a number of rounds for each byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest {
    rounds: u32,
}

/// The bytes and repetitions of a cost measurement: some milliseconds each, of which the quickest was not
/// interrupted.
const SAMPLE: usize = 256 << 10;
const TRIES: usize = 15;

impl Digest {
    /// Creates one that takes about `cost` of a core for each byte. Measures on the calling thread and takes
    /// the least of a few times.
    pub fn costing(cost: Duration) -> Digest {
        let block = vec![7u8; SAMPLE];
        let rounds = 8;
        let once = |_| {
            let before = Instant::now();
            std::hint::black_box(Digest { rounds }.of(std::hint::black_box(&block)));
            before.elapsed()
        };
        let least = (0..TRIES).map(once).min().unwrap_or_default();
        let per_round = least.as_nanos().max(1) as f64 / SAMPLE as f64 / f64::from(rounds);
        Digest { rounds: ((cost.as_nanos() as f64 / per_round) as u32).clamp(1, 10_000) }
    }

    /// Computes the digest of these bytes.
    pub fn of(self, bytes: &[u8]) -> u64 {
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        for &byte in bytes {
            for _ in 0..self.rounds {
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_cost_is_twice_the_rounds() {
        let (one, two) = (Digest::costing(Duration::from_nanos(200)), Digest::costing(Duration::from_nanos(400)));
        let ratio = f64::from(two.rounds) / f64::from(one.rounds);
        assert!((1.2..3.4).contains(&ratio), "{one:?} {two:?}");
        assert_ne!(one.of(b"a"), one.of(b"b"));
    }
}
