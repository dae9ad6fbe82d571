//! Our own random numbers, for jitter and for the keys of a run without `Rsvp::keyed`: PCG-XSH-RR 64/32
//! (O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
//! Generation", 2014). Seeded from outside, so that a run can be repeated.

use terms::Span;

/// A small generator.
#[derive(Clone, Debug)]
pub struct Pcg {
    state: u64,
}

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

impl Pcg {
    /// A generator from a seed.
    pub fn new(seed: u64) -> Pcg {
        let mut pcg = Pcg { state: seed.wrapping_add(INCREMENT) };
        pcg.next_u32();
        pcg
    }

    fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        mixed.rotate_right((old >> 59) as u32)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// A span in `[low, high]`, evenly distributed; `low` if `low` is above `high`.
    pub fn span_between(&mut self, low: Span, high: Span) -> Span {
        let width = u128::from(high.saturating_sub(low).as_nanos()) + 1;
        let offset = (u128::from(self.next_u64()) * width) >> 64;
        low.saturating_add(Span::from_nanos(offset as u64))
    }
}
