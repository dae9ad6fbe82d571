//! The floats of RFC 2210 against exact arithmetic: the rounding law, and every exponent.

use proptest::prelude::*;
use terms::{Bytes, Rate};
use wire::float;

/// `bits` as an exact fraction: mantissa and power of two, for finite numbers that are not negative.
fn exact(bits: u32) -> (u128, i32) {
    let (field, fraction) = ((bits >> 23) as i32, u128::from(bits & 0x7f_ffff));
    if field == 0 { (fraction, -149) } else { (fraction | 1 << 23, field - 150) }
}

/// Whether `n` is the least integer at or above `bits * 2^scale` (up), or the greatest at or below (down).
fn is_rounded(n: u64, bits: u32, scale: i32, up: bool) -> bool {
    let (mantissa, exponent) = exact(bits);
    let shift = exponent + scale;
    if shift >= 0 {
        return u128::from(n) == mantissa << shift;
    }
    let shift = shift.unsigned_abs();
    if shift >= 100 {
        return n == u64::from(up && mantissa != 0);
    }
    let n = u128::from(n);
    if up {
        n << shift >= mantissa && (n == 0 || (n - 1) << shift < mantissa)
    } else {
        n << shift <= mantissa && (n + 1) << shift > mantissa
    }
}

#[test]
fn every_exponent_with_edge_mantissas() {
    for field in 0..255u32 {
        for mantissa in [0, 1, 2, 0x3f_ffff, 0x40_0000, 0x40_0001, 0x7f_fffe, 0x7f_ffff] {
            let bits = field << 23 | mantissa;
            match float::demanded_rate(bits) {
                Ok(rate) => assert!(is_rounded(rate.as_bps(), bits, 3, true), "{bits:#x} -> {rate}"),
                Err(_) => assert!(f32::from_bits(bits) >= 2f32.powi(61), "{bits:#x} refused"),
            }
            match float::demanded_bytes(bits) {
                Ok(bytes) => assert!(is_rounded(bytes.get(), bits, 0, true), "{bits:#x} -> {bytes}"),
                Err(_) => assert!(f32::from_bits(bits) >= 2f32.powi(64), "{bits:#x} refused"),
            }
            let supplied = float::supplied_rate(bits).unwrap();
            assert!(supplied.is_infinite() || is_rounded(supplied.as_bps(), bits, 3, false), "{bits:#x} -> {supplied}");
            assert_eq!(float::supplied_rate(bits | 1 << 31).is_err(), bits != 0, "below zero");
        }
    }
    for nan in [0x7f80_0001u32, 0x7fc0_0000, 0x7fff_ffff, 0xffc0_0000] {
        assert!(
            float::peak_rate(nan).is_err() && float::demanded_rate(nan).is_err() && float::supplied_rate(nan).is_err()
        );
    }
    let infinity = f32::INFINITY.to_bits();
    assert_eq!(float::peak_rate(infinity), Ok(Rate::INFINITE));
    assert_eq!(float::supplied_rate(infinity), Ok(Rate::INFINITE));
    assert!(float::demanded_rate(infinity).is_err() && float::demanded_bytes(infinity).is_err());
    assert_eq!(
        (float::from_demanded_rate(Rate::INFINITE), float::from_supplied_rate(Rate::INFINITE)),
        (infinity, infinity)
    );
}

/// Known values, as other programs print them.
#[test]
fn known_values() {
    for (bps, float) in [(0, 0.0f32), (8, 1.0), (1, 0.125), (3_200_000, 400_000.0), (10_000_000_000, 1.25e9)] {
        assert_eq!(float::from_demanded_rate(Rate::from_bps(bps)), float.to_bits());
        assert_eq!(float::from_supplied_rate(Rate::from_bps(bps)), float.to_bits());
        assert_eq!(float::demanded_rate(float.to_bits()), Ok(Rate::from_bps(bps)));
    }
    assert_eq!(
        float::demanded_rate(float::from_demanded_rate(Rate::from_bps(float::LARGEST))),
        Ok(Rate::from_bps(float::LARGEST))
    );
}

proptest! {
    #![proptest_config(chance::cases(100_000))]

    #[test]
    fn demand_never_shrinks_and_supply_never_grows(shift in 0u32..64, n in any::<u64>()) {
        let rate = Rate::from_bps((n >> shift).min(float::LARGEST));
        let demanded = float::demanded_rate(float::from_demanded_rate(rate)).unwrap();
        let supplied = float::supplied_rate(float::from_supplied_rate(rate)).unwrap();
        prop_assert!(supplied <= rate && rate <= demanded);
        // Within one unit of a 24-bit mantissa.
        prop_assert!(demanded.as_bps() - supplied.as_bps() <= rate.as_bps() >> 22);
        // What has been rounded once stays.
        prop_assert_eq!(float::demanded_rate(float::from_demanded_rate(demanded)).unwrap(), demanded);
        prop_assert_eq!(float::supplied_rate(float::from_supplied_rate(supplied)).unwrap(), supplied);
        let bytes = Bytes::new(rate.as_bps());
        prop_assert!(float::demanded_bytes(float::from_demanded_bytes(bytes)).unwrap() >= bytes);
    }

    #[test]
    fn the_nearest_float_is_taken(bits in 0u32..0x5e00_0000) {
        let rate = float::demanded_rate(bits).unwrap();
        let next = float::from_demanded_rate(rate);
        // The integer is at or above the float; no smaller float would do.
        prop_assert!(next >= bits || rate.as_bps() == 0);
        prop_assert!(next == 0 || float::demanded_rate(next - 1).unwrap() < rate || is_rounded(rate.as_bps(), next - 1, 3, true));
    }
}
