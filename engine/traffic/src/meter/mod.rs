//! Meters: srTCM (RFC 2697), trTCM (RFC 2698), the differentiated-service trTCM of RFC 4115, TSWTCM (RFC 2859).
//!
//! A meter is a *profile* (rates and bursts, shared by any number of flows) and a *state* of 32 bytes per flow. Credit
//! is counted in 10^-9 bit, so `rate [bit/s] x dt [ns]` is an exact integer: nothing is divided per packet, nothing
//! rounds, and a year of packets leaves no drift. Sizes are bytes of the IP packet, header included, as the RFCs count.
//!
//! A packet larger than a burst never gets that burst's colour, as the RFCs' comparisons say. Time that runs backwards
//! adds no credit.

mod batch;
mod mark;
mod rfc4115;
mod sr_tcm;
mod tr_tcm;
mod tsw_tcm;

pub use batch::{Job, Prefetch, Profile, meter_batch, tsw_batch};
pub use mark::{AfClass, EF, Marker};
pub use rfc4115::Rfc4115;
pub use sr_tcm::SrTcm;
pub use tr_tcm::TrTcm;
pub use tsw_tcm::{TswState, TswTcm};

use crate::work::PER_BYTE;
use core::hint::select_unpredictable;
use terms::{Bytes, Rate, Time};

/// What a meter says of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Color {
    /// Within what was committed. What a colour-blind meter assumes of every packet.
    #[default]
    Green,
    /// Above the commitment, within the excess.
    Yellow,
    /// Above everything.
    Red,
}

impl Color {
    /// Green if `committed`, which implies `excess`; else yellow if `excess`; else red. Without a branch.
    #[inline(always)]
    const fn of(committed: bool, excess: bool) -> Color {
        match 2 - committed as u8 - excess as u8 {
            0 => Color::Green,
            1 => Color::Yellow,
            _ => Color::Red,
        }
    }
}

/// The credit of one flow: two buckets and the instant at which they were right. Which bucket is which, the profile knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(32))] // never across two cache lines
pub struct State {
    pub(super) at: Time,
    pub(super) first: u64,
    pub(super) second: u64,
}

impl State {
    /// Credit of the committed bucket as of the last packet, in 10^-9 bit.
    pub fn committed(&self) -> u64 {
        self.first
    }

    /// Credit of the excess (or peak) bucket as of the last packet, in 10^-9 bit.
    pub fn excess(&self) -> u64 {
        self.second
    }
}

/// Why a profile cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadProfile {
    /// Both bursts are zero (RFC 2697 section 2), or one that must be positive is (RFC 2698 section 2).
    NoBurst,
    /// The peak rate is below the committed one (RFC 2698 section 2).
    PeakBelowCommitted {
        /// CIR.
        committed: Rate,
        /// PIR.
        peak: Rate,
    },
    /// The bursts together exceed what 64 bits of credit hold.
    BurstTooLarge {
        /// Their sum.
        asked: Bytes,
        /// The most.
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
            BadProfile::BadInterval => f.write_str("the averaging interval must be positive and at most an hour"),
        }
    }
}

impl core::error::Error for BadProfile {}

/// The most that all bursts of a profile may hold together: about 2.3 GB.
pub const MAX_BURSTS: Bytes = Bytes::new(u64::MAX / PER_BYTE);

/// A packet's cost; a packet of 2.3 GB or more costs more than any bucket holds.
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

/// What a packet takes from a bucket: its cost or nothing. Which colour comes next nobody can guess, a processor neither, so the
/// meters have no branches for it to guess at.
#[inline(always)]
fn taken(yes: bool, cost: u64) -> u64 {
    select_unpredictable(yes, cost, 0)
}

/// The longest `dt` for which [`fill`] saturates nowhere.
const fn plain_below(rate: u64, burst: u64) -> u64 {
    match (u64::MAX - burst).checked_div(rate) {
        Some(dt) => dt,
        None => u64::MAX,
    }
}

/// [`fill`] for a `dt` within [`plain_below`].
#[inline(always)]
fn fill_plain(credit: u64, rate: u64, dt: u64, burst: u64) -> u64 {
    let sum = credit.wrapping_add(rate.wrapping_mul(dt));
    select_unpredictable(sum < burst, sum, burst)
}

/// Credit after `dt` ns at `rate` bit/s, capped by the burst. Saturation is not an approximation: what overflows 64
/// bits is above every burst.
#[inline(always)]
fn fill(credit: u64, rate: u64, dt: u64, burst: u64) -> u64 {
    let sum = credit.saturating_add(rate.saturating_mul(dt));
    select_unpredictable(sum < burst, sum, burst)
}
