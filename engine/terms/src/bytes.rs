//! Sizes, in bytes.

use core::ops::Add;

/// A number of bytes; of IP packets, header included, unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// The largest size that fits in 64 bits.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// From a count of bytes.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    /// The count.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum, or [`Bytes::MAX`].
    pub const fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    /// Saturates at [`Bytes::MAX`].
    fn add(self, other: Bytes) -> Bytes {
        self.saturating_add(other)
    }
}

impl core::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}b", self.0)
    }
}

impl core::fmt::Display for Bytes {
    /// As `tc` writes it, in powers of 1,024: `8kb`, `2mb`, `1500b`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            n if n != 0 && n % (1 << 20) == 0 => write!(f, "{}mb", n >> 20),
            n if n != 0 && n % (1 << 10) == 0 => write!(f, "{}kb", n >> 10),
            n => write!(f, "{n}b"),
        }
    }
}
