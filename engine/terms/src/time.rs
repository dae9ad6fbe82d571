//! Time and spans of time, in nanoseconds.
//!
//! [`Time`] is the boot clock plus an offset fixed at start, so it looks like Unix time, never steps and never runs
//! backwards. It has a zero, so tests and the simulator start there. It is read from a clock in one file of
//! `driver/linux` only; everywhere else it is handed in.

use core::ops::{Add, Sub};

/// An instant, in nanoseconds since the epoch of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Time {
    /// The first instant.
    pub const ZERO: Time = Time(0);
    /// Later than every real instant: the end of a slot that is open at its end.
    pub const FOREVER: Time = Time(u64::MAX);

    /// From nanoseconds since the epoch.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / Span::NANOS_PER_SEC
    }

    /// The span since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// `self + span`, or [`Time::FOREVER`] if that is past the end of time.
    pub const fn saturating_add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }

    /// This instant if it is a whole second, otherwise the next whole second.
    pub const fn whole_second(self) -> Time {
        let second = Span::NANOS_PER_SEC;
        match self.0 % second {
            0 => self,
            past => Time(self.0.saturating_add(second - past)),
        }
    }

    /// `self - span`, or [`Time::ZERO`].
    pub const fn saturating_sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// A span of length zero.
    pub const ZERO: Span = Span(0);
    /// The longest span that can be written.
    pub const MAX: Span = Span(u64::MAX);
    /// Nanoseconds in a second.
    pub const NANOS_PER_SEC: u64 = 1_000_000_000;

    /// From nanoseconds.
    pub const fn from_nanos(ns: u64) -> Span {
        Span(ns)
    }

    /// From microseconds, saturating.
    pub const fn from_micros(us: u64) -> Span {
        Span(us.saturating_mul(1_000))
    }

    /// From milliseconds, saturating.
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms.saturating_mul(1_000_000))
    }

    /// From seconds, saturating.
    pub const fn from_secs(s: u64) -> Span {
        Span(s.saturating_mul(Span::NANOS_PER_SEC))
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// `self * n / d`, rounded up, saturating. `d` must not be zero.
    pub const fn mul_div_ceil(self, n: u64, d: u64) -> Span {
        let wide = (self.0 as u128 * n as u128).div_ceil(d as u128);
        Span(if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 })
    }

    /// The sum, or [`Span::MAX`].
    pub const fn saturating_add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    /// Saturates at [`Time::FOREVER`].
    fn add(self, span: Span) -> Time {
        self.saturating_add(span)
    }
}

impl Sub<Time> for Time {
    type Output = Span;
    /// Zero if `earlier` is later.
    fn sub(self, earlier: Time) -> Span {
        self.since(earlier)
    }
}

impl Add for Span {
    type Output = Span;
    /// Saturates at [`Span::MAX`].
    fn add(self, other: Span) -> Span {
        self.saturating_add(other)
    }
}

impl core::fmt::Debug for Time {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if *self == Time::FOREVER {
            return f.write_str("forever");
        }
        write!(f, "{}.{:09}s", self.0 / Span::NANOS_PER_SEC, self.0 % Span::NANOS_PER_SEC)
    }
}

impl core::fmt::Debug for Span {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{:09}s", self.0 / Span::NANOS_PER_SEC, self.0 % Span::NANOS_PER_SEC)
    }
}
