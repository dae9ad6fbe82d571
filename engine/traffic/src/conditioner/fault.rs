//! The errors in a conditioner's description: the error, and the allowed range.

use crate::dropper::BadDropper;
use crate::meter::BadProfile;
use crate::shaper::BadShaper;
use core::fmt;
use terms::{Bytes, Rate, Span};

/// An error in a conditioner's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConditionerFault {
    /// A rate outside its range.
    Rate {
        /// The name of the rate.
        what: &'static str,
        /// The stated rate.
        rate: Rate,
        /// The least.
        least: Rate,
        /// The most.
        most: Rate,
    },
    /// A size outside its range.
    Size {
        /// The name of the size.
        what: &'static str,
        /// The stated size.
        size: Bytes,
        /// The least.
        least: Bytes,
        /// The most.
        most: Bytes,
    },
    /// A number outside its range.
    Number {
        /// The name of the number.
        what: &'static str,
        /// The stated number.
        number: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A time outside its range.
    Time {
        /// The name of the time.
        what: &'static str,
        /// The stated time.
        time: Span,
        /// The least.
        least: Span,
        /// The most.
        most: Span,
    },
    /// An error in the meter's own values.
    Meter(BadProfile),
    /// An error in the shaper's own values.
    Shaper(BadShaper),
    /// An error in the dropper's own values.
    Dropper(BadDropper),
    /// A green shaper without srTCM or trTCM behind it.
    GreenNeedsMeter,
    /// A colour-aware meter without a marker that defines the code points.
    AwareNeedsMarker,
    /// TSWTCM has no colour-aware mode here.
    TswIsBlind,
}

impl fmt::Display for ConditionerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ConditionerFault as F;
        match self {
            F::Rate { what, rate, least, most } => write!(f, "{what} is {rate}: allowed is {least} to {most}"),
            F::Size { what, size, least, most } => write!(f, "{what} is {size}: allowed is {least} to {most}"),
            F::Number { what, number, least, most } => write!(f, "{what} is {number}: allowed is {least} to {most}"),
            F::Time { what, time, least, most } => {
                write!(f, "{what} is {}: allowed is {} to {}", Said(*time), Said(*least), Said(*most))
            }
            F::Meter(bad) => bad.fmt(f),
            F::Shaper(bad) => bad.fmt(f),
            F::Dropper(bad) => bad.fmt(f),
            F::GreenNeedsMeter => f.write_str("a green shaper asks the meter behind it: allowed are srtcm and trtcm"),
            F::AwareNeedsMarker => {
                f.write_str("a colour-aware meter needs a marker that says which code points mean which colour")
            }
            F::TswIsBlind => f.write_str("tswtcm is colour-blind: leave `aware` out"),
        }
    }
}

impl core::error::Error for ConditionerFault {}

/// A span, written in the largest unit that divides it.
pub(crate) struct Said(pub(crate) Span);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            0 => f.write_str("0s"),
            n if n % 1_000_000_000 == 0 => write!(f, "{}s", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}ms", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}us", n / 1_000),
            n => write!(f, "{n}ns"),
        }
    }
}
