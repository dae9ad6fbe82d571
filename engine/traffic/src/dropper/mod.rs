//! Droppers: RED (Floyd and Jacobson 1993) and RIO with three precedences (Clark and Fang 1998, extended as in RFC 2963
//! appendix A).
//!
//! A dropper decides before the queue: it gets every arrival and departure, keeps averages of the queue, and accepts
//! or drops. Amounts are packets or bytes, as the caller counts. Integers only; random numbers come from the caller.

mod average;
mod rio;

pub use average::Average;
pub use rio::{ColorCounters, Coupling, Rio, RioProfile};

/// The curve of one precedence: it drops no packet below `min` and every packet above `max` (or `2 max` if
/// gentle); in between the probability grows to `max_p`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedCurve {
    /// The lower threshold of the average.
    pub min: u32,
    /// The upper threshold of the average; above `min`.
    pub max: u32,
    /// The probability just below `max`, in 1/65536.
    pub max_p: u32,
    /// True if the probability grows to one between `max` and `2 max`, and false if it jumps to one at `max`.
    pub gentle: bool,
}

/// A dropper's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Queue the packet.
    Accept,
    /// Drop it by chance: the average lies between the thresholds.
    Early,
    /// Drop it because the average is above the upper threshold.
    Forced,
}

/// The error in a dropper's parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadDropper {
    /// `min < max` does not hold, or `max` is above 2^30.
    Thresholds {
        /// The lower threshold.
        min: u32,
        /// The upper threshold.
        max: u32,
    },
    /// The probability is zero or above one.
    Probability {
        /// The probability, in 1/65536.
        max_p: u32,
    },
    /// The weight of the average is zero or above one.
    Weight {
        /// The weight, in 1/2^32.
        weight: u64,
    },
}

impl core::fmt::Display for BadDropper {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BadDropper::Thresholds { min, max } => {
                write!(f, "thresholds {min} and {max}: the lower must be below the upper, the upper at most 2^30")
            }
            BadDropper::Probability { max_p } => write!(f, "a probability of {max_p}/65536: allowed is 1 to 65536"),
            BadDropper::Weight { weight } => write!(f, "a weight of {weight}/2^32: allowed is 1 to 2^32"),
        }
    }
}

impl core::error::Error for BadDropper {}
