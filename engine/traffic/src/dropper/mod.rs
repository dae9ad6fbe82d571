//! Droppers: RED (Floyd and Jacobson 1993) and RIO with three precedences (Clark and Fang 1998, extended as in RFC 2963
//! appendix A).
//!
//! A dropper decides before the queue: it is told of every arrival and departure, keeps averages of the queue, and answers
//! accept or drop. Amounts are packets or bytes, as the caller counts. Integers only; chance is handed in.

mod average;
mod rio;

pub use average::Average;
pub use rio::{ColorCounters, Coupling, Rio, RioProfile};

/// The curve of one precedence: nothing is dropped below `min`, all above `max` (or `2 max` if gentle), and in between with a
/// probability that grows to `max_p`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedCurve {
    /// Lower threshold of the average.
    pub min: u32,
    /// Upper threshold of the average; above `min`.
    pub max: u32,
    /// Probability just below `max`, in 1/65536.
    pub max_p: u32,
    /// Whether the probability grows on to one between `max` and `2 max`, rather than at once.
    pub gentle: bool,
}

/// A dropper's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Queue it.
    Accept,
    /// Dropped by chance: the average lies between the thresholds.
    Early,
    /// Dropped because the average is above the upper threshold.
    Forced,
}

/// Why a dropper cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadDropper {
    /// `min < max` does not hold, or `max` is above 2^30.
    Thresholds {
        /// Lower.
        min: u32,
        /// Upper.
        max: u32,
    },
    /// The probability is zero or above one.
    Probability {
        /// In 1/65536.
        max_p: u32,
    },
    /// The weight of the average is zero or above one.
    Weight {
        /// In 1/2^32.
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
