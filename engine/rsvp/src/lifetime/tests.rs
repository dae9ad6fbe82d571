//! The formulas of RFC 2205 section 3.7 as properties.

use super::{LEAST_REFRESH, jittered, lifetime};
use proptest::prelude::*;
use terms::{Rng, Span};

proptest! {
    #![proptest_config(chance::cases(256))]

    /// `L >= (K + 0.5) * 1.5 * R`, and not a nanosecond more than rounding needs.
    #[test]
    fn lifetime_is_the_formula_rounded_up(ns in any::<u64>(), keep in 0u32..1_000) {
        let exact_times_four = u128::from(ns.max(LEAST_REFRESH.as_nanos())) * 3 * (2 * u128::from(keep) + 1);
        let life = u128::from(lifetime(Span::from_nanos(ns), keep).as_nanos());
        let expected = exact_times_four.div_ceil(4).min(u128::from(u64::MAX));
        prop_assert_eq!(life, expected);
    }

    #[test]
    fn jitter_stays_within_half_and_one_and_a_half(ns in 1u64..u64::MAX / 2, seed in any::<u64>()) {
        let mut pcg = Rng::seeded(seed);
        for _ in 0..50 {
            let gap = u128::from(jittered(Span::from_nanos(ns), &mut pcg).as_nanos());
            prop_assert!(2 * gap >= u128::from(ns) && 2 * gap <= 3 * u128::from(ns), "{gap} of {ns}");
        }
    }
}

/// Over 100,000 draws the mean is R and every tenth of the interval gets its tenth.
#[test]
fn jitter_is_even() {
    let (mut pcg, refresh) = (Rng::seeded(7), Span::from_secs(30));
    let (mut tenths, mut sum) = ([0u32; 10], 0u128);
    for _ in 0..100_000 {
        let gap = jittered(refresh, &mut pcg).as_nanos();
        sum += u128::from(gap);
        tenths[((gap - 15_000_000_000) / 3_000_000_001) as usize] += 1;
    }
    assert!((29_950_000_000..30_050_000_000).contains(&(sum / 100_000)));
    assert!(tenths.iter().all(|n| (9_600..10_400).contains(n)), "{tenths:?}");
}
