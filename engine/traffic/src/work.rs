//! Work: service in units of 10^-9 bit, in which `rate [bit/s] x time [ns]` is an exact integer.
//!
//! Every algorithm here counts in this unit, so that added credit never rounds, and a year of packets leaves
//! no drift. Only the way back from work to time divides; each place that does it states its rounding
//! direction.

/// Work in 10^-9 bit, wide enough for 400 Gb/s over centuries.
pub type Work = u128;

/// One byte of work: 8 x 10^9.
pub const PER_BYTE: u64 = 8_000_000_000;

/// The work for `bytes`.
pub const fn of_bytes(bytes: u32) -> Work {
    bytes as Work * PER_BYTE as Work
}

/// The least number of nanoseconds in which `rate` bit/s does `work`: rounded up. `None` at rate zero, unless
/// `work` is zero.
pub const fn nanos_for(work: Work, rate: u64) -> Option<u128> {
    if work == 0 {
        return Some(0);
    }
    if rate == 0 {
        return None;
    }
    // The short division is several times faster, and the usual case.
    Some(if work <= u64::MAX as Work { (work as u64).div_ceil(rate) as u128 } else { work.div_ceil(rate as u128) })
}
