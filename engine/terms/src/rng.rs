//! Random numbers from a seed: PCG-XSH-RR 64/32 (O'Neill, "PCG: A Family of Simple Fast Space-Efficient
//! Statistically Good Algorithms for Random Number Generation", 2014). The numbers are the same on every machine,
//! so that a run can be repeated. They are for jitter, simulated faults and the keys of hash tables; they are not
//! secret: who sees enough of them can tell the next.

use crate::Span;

/// One stream of pseudo-random numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rng {
    state: u64,
    increment: u64,
}

/// An exact probability: `numerator` in `denominator`. A denominator of zero means never.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Probability {
    /// The number of favourable cases.
    pub numerator: u32,
    /// The number of all cases.
    pub denominator: u32,
}

impl Probability {
    /// A probability of zero.
    pub const NEVER: Probability = Probability { numerator: 0, denominator: 1 };

    /// A probability of `n` percent.
    pub const fn percent(n: u32) -> Probability {
        Probability { numerator: n, denominator: 100 }
    }
}

/// The factor of the linear congruential step.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
/// The stream that [`Rng::seeded`] draws from: the default increment of the reference implementation, halved.
const DEFAULT_STREAM: u64 = 1_442_695_040_888_963_407 >> 1;

impl Rng {
    /// The stream number `stream` of the seed `seed`; streams are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut rng = Rng { state: 0, increment: stream << 1 | 1 };
        rng.next_u32();
        rng.state = rng.state.wrapping_add(seed);
        rng.next_u32();
        rng
    }

    /// The default stream of a seed.
    pub fn seeded(seed: u64) -> Rng {
        Rng::new(seed, DEFAULT_STREAM)
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
        let xorshifted = ((old >> 18 ^ old) >> 27) as u32;
        xorshifted.rotate_right((old >> 59) as u32)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// A uniform number in `0..bound`; zero if `bound` is zero. The bias is below 2^-64 of `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws if an event of that probability happens this time. A probability of zero draws no number, so a
    /// fault that is off leaves the rest of the run unchanged.
    pub fn happens(&mut self, ratio: Probability) -> bool {
        ratio.numerator > 0 && self.below(u64::from(ratio.denominator)) < u64::from(ratio.numerator)
    }

    /// A uniform span in `[low, high]`; `low` if `low` is above `high`.
    pub fn span_between(&mut self, low: Span, high: Span) -> Span {
        let width = u128::from(high.saturating_sub(low).as_nanos()) + 1;
        let offset = (u128::from(self.next_u64()) * width) >> 64;
        low.saturating_add(Span::from_nanos(offset as u64))
    }

    /// A uniform span from three quarters of `span` to all of it.
    pub fn shortened(&mut self, span: Span) -> Span {
        let quarter = span.as_nanos() / 4;
        let less = (u128::from(quarter) * u128::from(self.next_u32())) >> 32;
        span.saturating_sub(Span::from_nanos(less as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn streams_are_those_of_the_reference_implementation() {
        // pcg32-demo, seed 42, stream 54: the six numbers that the author prints.
        let mut rng = Rng::new(42, 54);
        let six: Vec<u32> = (0..6).map(|_| rng.next_u32()).collect();
        assert_eq!(six, [0xa15c_02b7, 0x7b47_f409, 0xba1d_3330, 0x83d2_f293, 0xbfa4_784b, 0xcbed_606e]);
    }

    #[test]
    fn a_seed_begins_at_the_state_one_step_behind_it() {
        // RSVP's and Boomerang's jitter have always begun there: their runs repeat with the same seed.
        for seed in [0, 1, 42, u64::MAX] {
            let increment = 1_442_695_040_888_963_407;
            let mut begun = Rng { state: seed.wrapping_add(increment), increment };
            begun.next_u32();
            assert_eq!(Rng::seeded(seed), begun);
        }
    }

    #[test]
    fn a_ratio_happens_as_often_as_it_says() {
        let mut rng = Rng::new(1, 1);
        let hits = (0..100_000).filter(|_| rng.happens(Probability::percent(30))).count();
        assert!((29_500..30_500).contains(&hits), "{hits}");
        assert!(!rng.happens(Probability::NEVER));
    }

    #[test]
    fn spans_stay_in_their_bounds() {
        let (mut rng, low, high) = (Rng::seeded(7), Span::from_nanos(300), Span::from_nanos(400));
        let drawn: Vec<u64> = (0..10_000).map(|_| rng.span_between(low, high).as_nanos()).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&300), Some(&400)));
        assert_eq!(rng.span_between(high, low), high);
        let drawn: Vec<u64> = (0..10_000).map(|_| rng.shortened(high).as_nanos()).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&301), Some(&400)));
    }
}
