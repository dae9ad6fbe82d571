//! The token bucket, in exact integers (TOKEN_BUCKET_TSPEC of RFC 2215 section 3.6; policing of RFC 2211 section 3).
//!
//! Tokens are counted in 10^-9 bit, so that `rate [bit/s] x dt [ns]` is exact and nothing is divided per packet.
//! A `u64` then holds [`TokenBucket::MAX_DEPTH`], about 2.3 GB. `dt` saturates at the time that fills an
//! empty bucket, so no product overflows at any rate and after any pause.

use crate::spec::BucketSpec;
use crate::work::PER_BYTE;
use terms::{Bytes, Rate, Span, Time};

/// A token bucket: filled at a rate up to a depth, emptied by packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenBucket {
    rate: u64,
    depth: u64,
    tokens: u64,
    /// The time that fills an empty bucket, in ns, rounded up.
    fill: u64,
    /// The time at which `tokens` were counted.
    at: Time,
    min_unit: u32,
}

impl TokenBucket {
    /// The largest depth; a deeper bucket counts as this deep.
    pub const MAX_DEPTH: Bytes = Bytes::new(u64::MAX / PER_BYTE);

    /// A full bucket.
    pub fn new(spec: &BucketSpec, now: Time) -> TokenBucket {
        let depth = depth_of(spec.depth);
        let rate = spec.rate.as_bps();
        TokenBucket { rate, depth, tokens: depth, fill: fill_time(depth, rate), at: now, min_unit: spec.min_unit }
    }

    /// Changes rate, depth and minimum unit; the level stays, up to the new depth.
    pub fn change(&mut self, spec: &BucketSpec, now: Time) {
        self.fill_to(now);
        self.rate = spec.rate.as_bps();
        self.depth = depth_of(spec.depth);
        self.tokens = self.tokens.min(self.depth);
        self.fill = fill_time(self.depth, self.rate);
        self.min_unit = spec.min_unit;
    }

    /// Takes the tokens of a packet of `len` bytes and returns true if it conforms now; otherwise takes none.
    /// A packet shorter than the minimum policed unit counts as that long; one longer than the depth never
    /// conforms. Time that runs backwards adds nothing.
    pub fn take(&mut self, now: Time, len: u32) -> bool {
        self.fill_to(now);
        let cost = self.cost(len);
        let conforms = cost <= self.tokens;
        if conforms {
            self.tokens -= cost;
        }
        conforms
    }

    /// True if a packet would conform now; takes nothing.
    pub fn would_take(&self, now: Time, len: u32) -> bool {
        self.cost(len) <= self.level_at(now)
    }

    /// The first instant, not before `now`, at which the packet conforms if no other comes; `None`: never.
    pub fn when(&self, now: Time, len: u32) -> Option<Time> {
        let cost = self.cost(len);
        let level = self.level_at(now);
        if cost <= level {
            return Some(now);
        }
        if cost > self.depth || self.rate == 0 {
            return None;
        }
        Some(now.max(self.at) + Span::from_nanos((cost - level).div_ceil(self.rate)))
    }

    /// The tokens at `now`, in 10^-9 bit.
    pub fn level_at(&self, now: Time) -> u64 {
        let dt = now.since(self.at).as_nanos();
        if dt >= self.fill {
            return self.depth;
        }
        // dt < fill, so the product is less than the depth.
        self.tokens.saturating_add(self.rate * dt).min(self.depth)
    }

    /// The tokens at `now` in whole bytes, rounded down.
    pub fn bytes_at(&self, now: Time) -> Bytes {
        Bytes::new(self.level_at(now) / PER_BYTE)
    }

    /// The depth, at most [`TokenBucket::MAX_DEPTH`].
    pub fn depth(&self) -> Bytes {
        Bytes::new(self.depth / PER_BYTE)
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.rate)
    }

    fn fill_to(&mut self, now: Time) {
        self.tokens = self.level_at(now);
        self.at = self.at.max(now);
    }

    fn cost(&self, len: u32) -> u64 {
        u64::from(len.max(self.min_unit)).saturating_mul(PER_BYTE)
    }
}

fn depth_of(depth: Bytes) -> u64 {
    depth.min(TokenBucket::MAX_DEPTH).get() * PER_BYTE
}

/// The time that fills `depth` at `rate`, rounded up; never at rate zero, unless the depth is zero.
fn fill_time(depth: u64, rate: u64) -> u64 {
    if depth == 0 {
        0
    } else if rate == 0 {
        u64::MAX
    } else {
        depth.div_ceil(rate)
    }
}
