//! The rounding law against exact arithmetic: supply rounds down, demand rounds up, nothing overflows, for any `u64`.
//!
//! Exact here means a comparison of products in `u128`, which no two `u64` overflow; never a division.

use proptest::prelude::*;
use terms::{Bytes, Rate, ServiceCurve, Span, Time};

/// Bit-nanoseconds in a byte at 1 bit/s.
const UNIT: u128 = 8_000_000_000;

/// Any `u64`, with the edges far more often than chance has them.
fn any_u64() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => any::<u64>(),
        2 => 0..10_000_000_000u64,
        2 => (0..64u32, 0..3u64).prop_map(|(bit, off)| (1u64 << bit).wrapping_add(off).wrapping_sub(1)),
        1 => Just(0),
        1 => Just(u64::MAX),
        1 => 0..16u64,
    ]
}

/// Whether `bytes` is the largest number of whole bytes in `wide` bit-nanoseconds, or the largest that can be written.
fn is_floor(bytes: u64, wide: u128) -> bool {
    let bytes = u128::from(bytes);
    bytes * UNIT <= wide && (wide < (bytes + 1) * UNIT || bytes == u128::from(u64::MAX))
}

/// Whether `bytes` is the least number of whole bytes that holds `wide` bit-nanoseconds, or the largest that can be
/// written.
fn is_ceil(bytes: u64, wide: u128) -> bool {
    let bytes = u128::from(bytes);
    let enough = bytes * UNIT >= wide || bytes == u128::from(u64::MAX);
    enough && (bytes == 0 || (bytes - 1) * UNIT < wide)
}

proptest! {
    #![proptest_config(chance::cases(20_000))]

    #[test]
    fn supply_rounds_down_and_demand_rounds_up(rate in any_u64(), span in any_u64()) {
        let wide = u128::from(rate) * u128::from(span);
        let (rate, span) = (Rate::from_bps(rate), Span::from_nanos(span));
        let (supplied, demanded) = (rate.supplies(span).get(), rate.demands(span).get());
        prop_assert!(is_floor(supplied, wide), "{rate} supplies {supplied} bytes in {span:?}");
        prop_assert!(is_ceil(demanded, wide), "{rate} demands {demanded} bytes in {span:?}");
        prop_assert!(supplied <= demanded && demanded - supplied <= 1);
    }

    /// `span_for` is the least time in which the rate supplies that much: each is the other's adjoint.
    #[test]
    fn span_for_and_supplies_are_a_galois_connection(rate in any_u64(), bytes in any_u64(), span in any_u64()) {
        let (rate, bytes, span) = (Rate::from_bps(rate), Bytes::new(bytes), Span::from_nanos(span));
        let least = rate.span_for(bytes);
        if span < Span::MAX {
            prop_assert_eq!(least <= span, bytes <= rate.supplies(span), "least {:?}", least);
        }
        if least < Span::MAX {
            prop_assert!(rate.supplies(least) >= bytes);
        }
        if least > Span::ZERO {
            prop_assert!(rate.supplies(least.saturating_sub(Span::from_nanos(1))) < bytes);
        }
    }

    #[test]
    fn more_rate_or_time_is_never_less(a in any_u64(), b in any_u64(), s in any_u64(), t in any_u64()) {
        let (slow, fast) = (Rate::from_bps(a.min(b)), Rate::from_bps(a.max(b)));
        let (short, long) = (Span::from_nanos(s.min(t)), Span::from_nanos(s.max(t)));
        prop_assert!(slow.supplies(short) <= fast.supplies(long));
        prop_assert!(slow.demands(short) <= fast.demands(long));
        let bytes = Bytes::new(s);
        prop_assert!(slow.span_for(bytes) >= fast.span_for(bytes));
    }

    #[test]
    fn overhead_is_the_least_rate_that_carries_it(rate in any_u64(), overhead in any::<u32>(), min in any::<u32>()) {
        let wire = Rate::from_bps(rate).with_overhead(overhead, min);
        let m = u128::from(min.max(1));
        let (asked, carried) = (u128::from(rate) * (m + u128::from(overhead)), u128::from(wire.as_bps()) * m);
        if rate == u64::MAX {
            prop_assert!(wire.is_infinite());
        } else if wire.as_bps() < u64::MAX {
            prop_assert!(carried >= asked && (wire.as_bps() == 0 || carried - m < asked));
        } else {
            prop_assert!(asked > u128::from(u64::MAX - 1) * m, "saturates only where it must");
        }
        prop_assert!(wire >= Rate::from_bps(rate), "overhead never makes a flow smaller");
    }

    #[test]
    fn a_share_is_supplied_so_it_rounds_down(rate in any_u64(), n in any_u64(), d in 1..u64::MAX) {
        let share = u128::from(Rate::from_bps(rate).share(n, d).as_bps());
        let exact = u128::from(rate) * u128::from(n);
        prop_assert!(share * u128::from(d) <= exact);
        prop_assert!(share == u128::from(u64::MAX) || (share + 1) * u128::from(d) > exact);
    }

    #[test]
    fn a_scaled_span_rounds_up(span in any_u64(), n in any_u64(), d in 1..u64::MAX) {
        let scaled = u128::from(Span::from_nanos(span).mul_div_ceil(n, d).as_nanos());
        let exact = u128::from(span) * u128::from(n);
        prop_assert!(scaled == u128::from(u64::MAX) || scaled * u128::from(d) >= exact);
        prop_assert!(scaled == 0 || (scaled - 1) * u128::from(d) < exact);
    }

    #[test]
    fn a_service_curve_is_exact_and_monotone(
        (m1, d, m2) in (any_u64(), any_u64(), any_u64()),
        (t, u) in (any_u64(), any_u64()),
    ) {
        let curve = ServiceCurve { m1: Rate::from_bps(m1), d: Span::from_nanos(d), m2: Rate::from_bps(m2) };
        let (t, u) = (t.min(u), t.max(u));
        let wide = u128::from(m1) * u128::from(t.min(d)) + u128::from(m2) * u128::from(t.saturating_sub(d));
        let service = curve.service(Span::from_nanos(t));
        prop_assert!(is_floor(service.get(), wide));
        prop_assert!(service <= curve.service(Span::from_nanos(u)));
        prop_assert_eq!(curve.service(Span::ZERO), Bytes::ZERO);
        let line = ServiceCurve::linear(curve.m2);
        prop_assert_eq!(line.service(Span::from_nanos(t)), curve.m2.supplies(Span::from_nanos(t)));
        if curve.is_concave() {
            prop_assert!(service >= line.service(Span::from_nanos(t)), "a concave curve is over its second slope");
        }
        if curve.is_linear() {
            prop_assert!(!curve.is_concave());
        }
    }

    #[test]
    fn sums_and_differences_stay_in_range(a in any_u64(), b in any_u64()) {
        let clip = |wide: u128| wide.min(u128::from(u64::MAX)) as u64;
        let sum = clip(u128::from(a) + u128::from(b));
        prop_assert_eq!((Bytes::new(a) + Bytes::new(b)).get(), sum);
        prop_assert_eq!(Rate::from_bps(a).saturating_add(Rate::from_bps(b)).as_bps(), sum);
        prop_assert_eq!(Rate::from_bps(a).checked_add(Rate::from_bps(b)).map(Rate::as_bps), a.checked_add(b));
        prop_assert_eq!((Span::from_nanos(a) + Span::from_nanos(b)).as_nanos(), sum);
        prop_assert_eq!((Time::from_nanos(a) + Span::from_nanos(b)).as_nanos(), sum);
        let difference = a.saturating_sub(b);
        prop_assert_eq!(Bytes::new(a).saturating_sub(Bytes::new(b)).get(), difference);
        prop_assert_eq!(Rate::from_bps(a).saturating_sub(Rate::from_bps(b)).as_bps(), difference);
        prop_assert_eq!((Time::from_nanos(a) - Time::from_nanos(b)).as_nanos(), difference);
        prop_assert_eq!(Time::from_nanos(a).saturating_sub(Span::from_nanos(b)).as_nanos(), difference);
    }

    #[test]
    fn units_saturate(n in any_u64()) {
        let clip = |factor: u128| (u128::from(n) * factor).min(u128::from(u64::MAX)) as u64;
        prop_assert_eq!(Rate::from_kbps(n).as_bps(), clip(1_000));
        prop_assert_eq!(Rate::from_mbps(n).as_bps(), clip(1_000_000));
        prop_assert_eq!(Span::from_micros(n).as_nanos(), clip(1_000));
        prop_assert_eq!(Span::from_millis(n).as_nanos(), clip(1_000_000));
        prop_assert_eq!(Span::from_secs(n).as_nanos(), clip(1_000_000_000));
        prop_assert_eq!(Span::from_nanos(n).as_micros(), n / 1_000);
        prop_assert_eq!(Span::from_nanos(n).as_millis(), n / 1_000_000);
        prop_assert_eq!(Time::from_nanos(n).as_secs(), n / 1_000_000_000);
    }

    /// What is shown is the exact value, in the largest unit that divides it.
    #[test]
    fn what_is_shown_is_exact(n in any_u64(), shift in 0..4u32) {
        let rounded = n / 1_000u64.pow(shift) * 1_000u64.pow(shift);
        if rounded < u64::MAX {
            let shown = Rate::from_bps(rounded).to_string();
            prop_assert_eq!(read(&shown, &[("gbit", 3), ("mbit", 2), ("kbit", 1), ("bit", 0)], 1_000), Some(rounded));
            prop_assert!(rounded == 0 || !rounded.is_multiple_of(1_000) || !shown.ends_with("0bit"), "{shown}");
        }
        let rounded = n >> (10 * shift) << (10 * shift);
        let shown = Bytes::new(rounded).to_string();
        prop_assert_eq!(read(&shown, &[("mb", 2), ("kb", 1), ("b", 0)], 1_024), Some(rounded), "{}", shown);
    }
}

/// Reads a number with one of the units.
fn read(shown: &str, units: &[(&str, u32)], base: u64) -> Option<u64> {
    let (digits, power) = units.iter().find_map(|(unit, power)| Some((shown.strip_suffix(unit)?, *power)))?;
    digits.parse::<u64>().ok()?.checked_mul(base.pow(power))
}

#[test]
fn an_unbounded_peak_is_shown_as_such() {
    assert_eq!(Rate::INFINITE.to_string(), "infinite");
    assert_eq!(Rate::from_mbps(10).to_string(), "10mbit");
    assert_eq!(Rate::from_bps(1_500_000).to_string(), "1500kbit");
    assert_eq!(Bytes::new(1500).to_string(), "1500b");
    assert_eq!(Bytes::new(8 << 10).to_string(), "8kb");
    assert_eq!(format!("{:?}", Time::from_nanos(1_000_000_001)), "1.000000001s");
    assert_eq!(format!("{:?}", Time::FOREVER), "forever");
}
