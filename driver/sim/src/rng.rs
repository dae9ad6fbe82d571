//! Random numbers: PCG32 (O'Neill 2014), one independent stream per (seed, stream), the same on every
//! machine.

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

impl Rng {
    /// The stream number `stream` of the seed `seed`.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut rng = Rng { state: 0, increment: stream << 1 | 1 };
        rng.next_u32();
        rng.state = rng.state.wrapping_add(seed);
        rng.next_u32();
        rng
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.increment);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_those_of_the_reference_implementation() {
        // pcg32-demo, seed 42, stream 54: the six numbers that the author prints.
        let mut rng = Rng::new(42, 54);
        let six: Vec<u32> = (0..6).map(|_| rng.next_u32()).collect();
        assert_eq!(six, [0xa15c_02b7, 0x7b47_f409, 0xba1d_3330, 0x83d2_f293, 0xbfa4_784b, 0xcbed_606e]);
    }

    #[test]
    fn a_ratio_happens_as_often_as_it_says() {
        let mut rng = Rng::new(1, 1);
        let hits = (0..100_000).filter(|_| rng.happens(Probability::percent(30))).count();
        assert!((29_500..30_500).contains(&hits), "{hits}");
        assert!(!rng.happens(Probability::NEVER));
    }
}
