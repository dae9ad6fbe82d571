//! Seeded random numbers (PCG-XSH-RR 64/32, O'Neill 2014) for jitter, transactions and keyed tables.

use terms::Span;

/// A small pseudo-random generator.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        let mut chance = Chance(seed.wrapping_add(1_442_695_040_888_963_407));
        chance.next_u32();
        chance
    }

    pub fn next_u32(&mut self) -> u32 {
        let old = self.0;
        self.0 = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (((old >> 18) ^ old) >> 27) as u32;
        mixed.rotate_right((old >> 59) as u32)
    }

    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// A random span, uniform from three quarters of `span` to all of it.
    pub fn shortened(&mut self, span: Span) -> Span {
        let quarter = span.as_nanos() / 4;
        let less = (u128::from(quarter) * u128::from(self.next_u32())) >> 32;
        span.saturating_sub(Span::from_nanos(less as u64))
    }
}
