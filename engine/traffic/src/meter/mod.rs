//! Meters: srTCM (RFC 2697), trTCM (RFC 2698), the differentiated-service trTCM of RFC 4115, TSWTCM (RFC 2859).
//!
//! A meter is a *profile* (rates and bursts, shared by any number of flows) and a *state* of 32 bytes per flow. Credit
//! is counted in 10^-9 bit, so `rate [bit/s] x dt [ns]` is an exact integer: nothing is divided per packet, nothing
//! rounds, and a year of packets leaves no drift. Sizes are bytes of the IP packet, header included, as the RFCs count.
//!
//! A packet larger than a burst never gets that burst's colour, as the RFCs' comparisons require. Time that
//! runs backwards adds no credit.

mod batch;
mod mark;
mod packed;
mod rfc4115;
mod sr_tcm;
mod tr_tcm;
mod tsw_tcm;

pub use batch::{BatchProfile, Job, Prefetch, blind_batch, meter_batch, tsw_batch};
pub use mark::{AfClass, EF, Marker};
pub use packed::{PackedState, PackedTrTcm};
pub use rfc4115::Rfc4115;
pub use sr_tcm::SrTcm;
pub use tr_tcm::TrTcm;
pub use tsw_tcm::{TswState, TswTcm};

use crate::work::PER_BYTE;
use terms::{Bytes, Rate, Time};

/// The result of a meter for a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Color {
    /// Within the committed rate. A colour-blind meter assumes it of every packet.
    #[default]
    Green,
    /// Above the committed rate, within the excess.
    Yellow,
    /// Above both.
    Red,
}

/// The colours by number; the fourth never occurs.
const COLORS: [Color; 4] = [Color::Green, Color::Yellow, Color::Red, Color::Red];

impl Color {
    /// Green if `committed`, which implies `excess`; else yellow if `excess`; else red. Without a branch.
    #[inline(always)]
    const fn of(committed: bool, excess: bool) -> Color {
        COLORS[3 & (2 - committed as usize - excess as usize)]
    }
}

/// The credit of one flow: two buckets and the time at which they were counted. The profile defines the two buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(32))] // never across two cache lines
pub struct TokenCounts {
    pub(super) at: Time,
    pub(super) first: u64,
    pub(super) second: u64,
}

impl TokenCounts {
    /// Credit of the committed bucket as of the last packet, in 10^-9 bit.
    pub fn committed(&self) -> u64 {
        self.first
    }

    /// Credit of the excess (or peak) bucket as of the last packet, in 10^-9 bit.
    pub fn excess(&self) -> u64 {
        self.second
    }
}

/// The error in a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadProfile {
    /// Both bursts are zero (RFC 2697 section 2), or one that must be positive is (RFC 2698 section 2).
    NoBurst,
    /// The peak rate is below the committed one (RFC 2698 section 2).
    PeakBelowCommitted {
        /// The CIR.
        committed: Rate,
        /// The PIR.
        peak: Rate,
    },
    /// The bursts together exceed 64 bits of credit.
    BurstTooLarge {
        /// The sum of the bursts.
        asked: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// The larger burst exceeds 31 bits in units of the rates' common divisor; only from [`PackedTrTcm`].
    TooFine {
        /// The larger burst.
        asked: Bytes,
        /// The limit with these rates.
        limit: Bytes,
    },
    /// The averaging interval is zero or longer than [`TswTcm::MAX_INTERVAL`].
    BadInterval,
}

impl core::fmt::Display for BadProfile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BadProfile::NoBurst => f.write_str("a burst size must be positive, at least the largest packet"),
            BadProfile::PeakBelowCommitted { committed, peak } => {
                write!(f, "the peak rate {peak} is below the committed rate {committed}")
            }
            BadProfile::BurstTooLarge { asked, limit } => write!(f, "bursts of {asked} exceed the limit {limit}"),
            BadProfile::TooFine { asked, limit } => {
                write!(f, "a burst of {asked} exceeds the {limit} that a packed state holds at these rates")
            }
            BadProfile::BadInterval => f.write_str("the averaging interval must be positive and at most an hour"),
        }
    }
}

impl core::error::Error for BadProfile {}

/// The limit of the sum of a profile's bursts: about 2.3 GB.
pub const MAX_BURSTS: Bytes = Bytes::new(u64::MAX / PER_BYTE);

/// A packet's cost; a packet of 2.3 GB or more costs more than any bucket can contain.
const fn cost(len: u32) -> u64 {
    (len as u64).saturating_mul(PER_BYTE)
}

/// Both bursts as credit, if they fit together.
fn bursts(a: Bytes, b: Bytes) -> Result<(u64, u64), BadProfile> {
    let asked = a.saturating_add(b);
    if asked > MAX_BURSTS {
        return Err(BadProfile::BurstTooLarge { asked, limit: MAX_BURSTS });
    }
    Ok((a.get() * PER_BYTE, b.get() * PER_BYTE))
}

/// The credit that a packet takes from a bucket: its cost or zero.
#[inline(always)]
const fn taken(yes: bool, cost: u64) -> u64 {
    cost & (yes as u64).wrapping_neg()
}

/// The `dt` below which credit stays below 2^63 before it is capped, so that signs can replace comparisons;
/// zero: never. At most 2^63, so that a negative difference of times, which wraps, is not below it.
const fn plain_below(rate: u64, burst: u64) -> u64 {
    if burst > i64::MAX as u64 {
        return 0;
    }
    match (i64::MAX as u64 - burst).checked_div(rate) {
        Some(dt) => dt,
        None => i64::MAX as u64,
    }
}

/// The longest packet whose cost is below 2^63.
const PLAIN_LEN: u32 = 1 << 30;

/// [`fill`] below [`plain_below`]: the lesser of the sum and the burst, by the sign of their difference.
#[inline(always)]
const fn fill_plain(credit: u64, rate: u64, dt: u64, burst: u64) -> i64 {
    let over = (credit.wrapping_add(rate.wrapping_mul(dt)) as i64).wrapping_sub(burst as i64);
    (burst as i64).wrapping_add(over & (over >> 63))
}

/// All ones if `a < b`, else zero; both are in 0 to 2^63 - 1.
#[inline(always)]
const fn below(a: i64, b: i64) -> i64 {
    a.wrapping_sub(b) >> 63
}

/// The credit after `dt` ns at `rate` bit/s, capped by the burst. Saturation is exact here: a sum above 64
/// bits is above every burst.
#[inline(always)]
const fn fill(credit: u64, rate: u64, dt: u64, burst: u64) -> u64 {
    let sum = credit.saturating_add(rate.saturating_mul(dt));
    if sum < burst { sum } else { burst }
}
