//! IEEE 754 single floats of RFC 2210 to and from our integers, by their bits: no floating-point arithmetic anywhere.
//!
//! The rounding rule is the same everywhere: **demand** (Tspec, Rspec) rounds up, **supply** (Adspec
//! bandwidth) rounds down, in both directions. The rules for odd values (`FAULTS` P35):
//!
//! | value | r, b, R | p | Adspec bandwidth |
//! |---|---|---|---|
//! | NaN, -inf, below zero | refused | refused | refused |
//! | -0.0 | 0 | 0 | 0 |
//! | denormal (a trace of demand) | 1 | 1 | 0 |
//! | more than `u64` bit/s can say | refused | unbounded | unbounded |
//! | +inf | refused | unbounded | unbounded |
#![allow(clippy::arithmetic_side_effects)] // Every shift and exponent is bounded where it is made; the tests walk all exponents.

use terms::{Bytes, Rate};

/// A float that is no valid rate or size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadValue;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    Up,
    Down,
}

/// The value of a float's bits.
enum Reading {
    Finite(u64),
    TooLarge,
    Infinite,
}

/// The largest integer (bit/s or bytes) that a float can express and that we read back: (2^24 - 1) x 2^40.
pub const LARGEST: u64 = ((1 << 24) - 1) << 40;

/// log2 of bits per byte.
const BYTE: i32 = 3;

/// A demanded rate: bytes/s on the wire, bit/s rounded up here.
///
/// # Errors
/// [`BadValue`] for NaN, infinities, negative numbers and values above `u64` bit/s.
pub fn demanded_rate(bits: u32) -> Result<Rate, BadValue> {
    match read(bits, BYTE, Round::Up)? {
        Reading::Finite(bps) if bps < u64::MAX => Ok(Rate::from_bps(bps)),
        _ => Err(BadValue),
    }
}

/// A peak rate: as [`demanded_rate`], but too large or infinite is [`Rate::INFINITE`].
///
/// # Errors
/// [`BadValue`] for NaN, -inf and negative numbers.
pub fn peak_rate(bits: u32) -> Result<Rate, BadValue> {
    match read(bits, BYTE, Round::Up)? {
        Reading::Finite(bps) => Ok(Rate::from_bps(bps)),
        Reading::TooLarge | Reading::Infinite => Ok(Rate::INFINITE),
    }
}

/// A supplied rate: bytes/s on the wire, bit/s rounded down here; too large or infinite is [`Rate::INFINITE`].
///
/// # Errors
/// [`BadValue`] for NaN, -inf and negative numbers.
pub fn supplied_rate(bits: u32) -> Result<Rate, BadValue> {
    match read(bits, BYTE, Round::Down)? {
        Reading::Finite(bps) => Ok(Rate::from_bps(bps)),
        Reading::TooLarge | Reading::Infinite => Ok(Rate::INFINITE),
    }
}

/// A bucket depth: bytes, rounded up.
///
/// # Errors
/// [`BadValue`] for NaN, infinities, negative numbers and values above `u64`.
pub fn demanded_bytes(bits: u32) -> Result<Bytes, BadValue> {
    match read(bits, 0, Round::Up)? {
        Reading::Finite(bytes) => Ok(Bytes::new(bytes)),
        _ => Err(BadValue),
    }
}

/// The bits of the least float that is at least this rate in bytes/s; +inf for [`Rate::INFINITE`].
pub fn from_demanded_rate(rate: Rate) -> u32 {
    if rate.is_infinite() { INFINITY } else { write(rate.as_bps(), BYTE, Round::Up) }
}

/// The bits of the greatest float that is at most this rate in bytes/s; +inf for [`Rate::INFINITE`].
pub fn from_supplied_rate(rate: Rate) -> u32 {
    if rate.is_infinite() { INFINITY } else { write(rate.as_bps(), BYTE, Round::Down) }
}

/// The bits of the least float that is at least this many bytes.
pub fn from_demanded_bytes(bytes: Bytes) -> u32 {
    write(bytes.get(), 0, Round::Up)
}

const INFINITY: u32 = 0x7f80_0000;
const MANTISSA_BITS: u32 = 23;
const MANTISSA_MASK: u32 = (1 << MANTISSA_BITS) - 1;
/// Exponent bias, with the mantissa read as an integer.
const BIAS: i32 = 127 + MANTISSA_BITS as i32;

/// `value * 2^scale` as an integer.
fn read(bits: u32, scale: i32, round: Round) -> Result<Reading, BadValue> {
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > INFINITY || (bits >> 31 == 1 && magnitude != 0) {
        return Err(BadValue);
    }
    if magnitude == INFINITY {
        return Ok(Reading::Infinite);
    }
    let field = (magnitude >> MANTISSA_BITS) as i32;
    let fraction = u64::from(magnitude & MANTISSA_MASK);
    let (mantissa, exponent) =
        if field == 0 { (fraction, 1 - BIAS) } else { (fraction | 1 << MANTISSA_BITS, field - BIAS) };
    let shift = exponent + scale;
    if mantissa == 0 {
        return Ok(Reading::Finite(0));
    }
    if shift >= 0 {
        let room = mantissa.leading_zeros() as i32;
        return Ok(if shift <= room { Reading::Finite(mantissa << shift) } else { Reading::TooLarge });
    }
    let right = shift.unsigned_abs().min(63);
    let up = if round == Round::Up { (1u64 << right) - 1 } else { 0 };
    Ok(Reading::Finite((mantissa + up) >> right))
}

/// The bits of the float nearest above or below `n / 2^scale`.
fn write(n: u64, scale: i32, round: Round) -> u32 {
    if n == 0 {
        return 0;
    }
    let width = (u64::BITS - n.leading_zeros()) as i32;
    let mut exponent = width - 1 - MANTISSA_BITS as i32;
    let mut mantissa = if exponent <= 0 { n << -exponent } else { n >> exponent };
    if exponent > 0 && round == Round::Up && mantissa << exponent != n {
        mantissa += 1;
        if mantissa >> (MANTISSA_BITS + 1) != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let field = (exponent - scale + BIAS) as u32;
    field << MANTISSA_BITS | (mantissa as u32 & MANTISSA_MASK)
}
