//! Rates, in bit/s, with the rounding law: supply rounds down, demand rounds up.

use crate::{Bytes, Span};

/// A rate in bit/s of IP bytes unless said otherwise.
///
/// [`Rate::INFINITE`] is legal only as an unbounded peak rate (RFC 2210 section 3.1: the peak may be positive
/// infinity).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// Zero bit/s.
    pub const ZERO: Rate = Rate(0);
    /// A peak rate without a bound; in sums and products it counts as 2^64 - 1 bit/s.
    pub const INFINITE: Rate = Rate(u64::MAX);

    /// From bit/s.
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// From kbit/s (1 kbit = 1,000 bit), saturating.
    pub const fn from_kbps(kbps: u64) -> Rate {
        Rate(kbps.saturating_mul(1_000))
    }

    /// From Mbit/s (1 Mbit = 1,000,000 bit), saturating.
    pub const fn from_mbps(mbps: u64) -> Rate {
        Rate(mbps.saturating_mul(1_000_000))
    }

    /// bit/s.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// True if this is the unbounded peak.
    pub const fn is_infinite(self) -> bool {
        self.0 == u64::MAX
    }

    /// Bytes that this rate *supplies* in `span`: rounded down, saturating.
    pub const fn supplies(self, span: Span) -> Bytes {
        let wide = self.0 as u128 * span.as_nanos() as u128 / BIT_NANOS_PER_BYTE;
        Bytes::new(saturate(wide))
    }

    /// Bytes that this rate supplies in `first` and `next` in `second` together, rounded down once, saturating.
    /// The spans add up to one that can be written, so the sum of the products fits in 128 bits.
    pub(crate) const fn supplies_with(self, first: Span, next: Rate, second: Span) -> Bytes {
        let wide = self.0 as u128 * first.as_nanos() as u128 + next.0 as u128 * second.as_nanos() as u128;
        Bytes::new(saturate(wide / BIT_NANOS_PER_BYTE))
    }

    /// Bytes that a source of this rate may *demand* in `span`: rounded up, saturating.
    pub const fn demands(self, span: Span) -> Bytes {
        let wide = (self.0 as u128 * span.as_nanos() as u128).div_ceil(BIT_NANOS_PER_BYTE);
        Bytes::new(saturate(wide))
    }

    /// The time that `bytes` take at this rate: rounded up (nothing is early); [`Span::MAX`] at rate zero.
    pub const fn span_for(self, bytes: Bytes) -> Span {
        if bytes.get() == 0 {
            return Span::ZERO;
        }
        if self.0 == 0 {
            return Span::MAX;
        }
        Span::from_nanos(saturate((bytes.get() as u128 * BIT_NANOS_PER_BYTE).div_ceil(self.0 as u128)))
    }

    /// The rate on a wire that adds `overhead` bytes to each packet, when no packet is shorter than `min_packet`
    /// bytes: `self * (min_packet + overhead) / min_packet`, rounded up. A `min_packet` of zero counts as one.
    pub const fn with_overhead(self, overhead: u32, min_packet: u32) -> Rate {
        if self.is_infinite() {
            return self;
        }
        let m = if min_packet == 0 { 1 } else { min_packet as u128 };
        Rate(saturate((self.0 as u128 * (m + overhead as u128)).div_ceil(m)))
    }

    /// `self * n / d` rounded down (a share that is *supplied*), saturating. `d` must not be zero.
    pub const fn share(self, n: u64, d: u64) -> Rate {
        Rate(saturate(self.0 as u128 * n as u128 / d as u128))
    }

    /// The sum, or the largest rate.
    pub const fn saturating_add(self, other: Rate) -> Rate {
        Rate(self.0.saturating_add(other.0))
    }

    /// The sum, or `None` if it does not fit in 64 bits.
    pub const fn checked_add(self, other: Rate) -> Option<Rate> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Rate(sum)),
            None => None,
        }
    }

    /// The difference, or zero.
    pub const fn saturating_sub(self, other: Rate) -> Rate {
        Rate(self.0.saturating_sub(other.0))
    }
}

/// A byte at 1 bit/s lasts this many nanoseconds.
const BIT_NANOS_PER_BYTE: u128 = 8 * Span::NANOS_PER_SEC as u128;

const fn saturate(wide: u128) -> u64 {
    if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 }
}

impl core::fmt::Debug for Rate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl core::fmt::Display for Rate {
    /// As `tc` writes it: the largest unit that divides the rate, `10mbit`, `64kbit`, `1001bit`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("infinite"),
            0 => f.write_str("0bit"),
            n if n % 1_000_000_000 == 0 => write!(f, "{}gbit", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}mbit", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}kbit", n / 1_000),
            n => write!(f, "{n}bit"),
        }
    }
}
