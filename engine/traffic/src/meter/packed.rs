//! The two rate three colour marker (RFC 2698) with states of half the size, for a great many meters: four share a line of cache.
//!
//! Credit moves in steps: by CIR or PIR times whole nanoseconds, and by packets of 8 x 10^9. Their greatest common
//! divisor divides every credit, so credit is counted in it instead of 10^-9 bit, without any rounding. If a full
//! bucket then fits 31 bits, a state is 16 bytes. For 10 and 20 Mb/s that holds up to bursts of 2.6 MB, for 64 kb/s
//! up to 17 kB; the finer the rates, the less.

use super::tr_tcm::take;
use super::{BadProfile, Color, TokenCounts, TrTcm, fill_plain, plain_below};
use crate::work::PER_BYTE;
use terms::{Bytes, Rate, Time};

/// The largest credit of a bucket: 31 bits, so that no packet's cost exceeds 63 bits.
const MOST: u64 = i32::MAX as u64;

/// A profile of trTCM whose credit fits 31 bits a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackedTrTcm {
    /// The same profile in 10^-9 bit.
    wide: TrTcm,
    /// The unit of credit, in 10^-9 bit.
    unit: u64,
    /// The units per byte.
    per_byte: u64,
    /// The rates in units per nanosecond, the bursts in units.
    cir: u64,
    cbs: u64,
    pir: u64,
    pbs: u64,
    /// The gap between packets, in ns, below which no saturation is needed.
    plain: u64,
}

/// The credit of one flow, in the profile's unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(16))] // never across two cache lines
pub struct PackedState {
    at: Time,
    first: u32,
    second: u32,
}

impl PackedTrTcm {
    /// A profile.
    ///
    /// # Errors
    /// As [`TrTcm::new`]; [`BadProfile::TooFine`] if the credit does not fit.
    pub fn new(cir: Rate, cbs: Bytes, pir: Rate, pbs: Bytes) -> Result<PackedTrTcm, BadProfile> {
        let wide = TrTcm::new(cir, cbs, pir, pbs)?;
        let unit = gcd(gcd(wide.cir, wide.pir), PER_BYTE);
        let [cir, cbs, pir, pbs] = [wide.cir, wide.cbs, wide.pir, wide.pbs].map(|n| n / unit);
        if cbs.max(pbs) > MOST {
            let limit = Bytes::new(MOST / (PER_BYTE / unit));
            return Err(BadProfile::TooFine { asked: wide.largest_burst(), limit });
        }
        let plain = plain_below(cir, cbs).min(plain_below(pir, pbs));
        Ok(PackedTrTcm { wide, unit, per_byte: PER_BYTE / unit, cir, cbs, pir, pbs, plain })
    }

    /// Full buckets (section 3).
    pub fn start(&self, now: Time) -> PackedState {
        self.pack(self.wide.start(now))
    }

    /// Colours a packet of `len` bytes. For a colour-blind meter, pass [`Color::Green`] (section 3).
    #[inline(always)]
    pub fn meter(&self, state: &mut PackedState, now: Time, len: u32, color: Color) -> Color {
        let dt = now.as_nanos().wrapping_sub(state.at.as_nanos());
        if dt >= self.plain {
            return self.meter_any(state, now, len, color);
        }
        // Less than 2^32 bytes of less than 2^31 units each, for a byte is no more than a burst.
        let cost = u64::from(len) * self.per_byte;
        let first = fill_plain(u64::from(state.first), self.cir, dt, self.cbs);
        let second = fill_plain(u64::from(state.second), self.pir, dt, self.pbs);
        let (first, second, color) = take(first, second, cost as i64, color);
        // Neither is above its burst.
        (state.first, state.second) = (first as u32, second as u32);
        state.at = now;
        color
    }

    /// The credit in [`TrTcm`]'s unit.
    pub fn unpack(&self, state: &PackedState) -> TokenCounts {
        let wide = |credit: u32| u64::from(credit) * self.unit;
        TokenCounts { at: state.at, first: wide(state.first), second: wide(state.second) }
    }

    fn pack(&self, state: TokenCounts) -> PackedState {
        // At most a burst, and a multiple of the unit as everything is.
        let packed = |credit: u64| (credit / self.unit) as u32;
        PackedState { at: state.at, first: packed(state.first), second: packed(state.second) }
    }

    /// The slow path: after a long pause, or when time runs backwards.
    #[cold]
    #[inline(never)]
    fn meter_any(&self, state: &mut PackedState, now: Time, len: u32, color: Color) -> Color {
        let mut wide = self.unpack(state);
        let color = self.wide.meter(&mut wide, now, len, color);
        *state = self.pack(wide);
        color
    }
}

/// Euclid's algorithm; of zero and a number it returns that number.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
