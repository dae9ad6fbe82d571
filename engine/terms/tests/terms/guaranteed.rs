//! The delay bound of guaranteed service against the formula of RFC 2212, and the rate chosen for a bound.

use proptest::prelude::*;
use terms::guaranteed::{delay_bound, request_for, rspec_for};
use terms::{Adspec, Bytes, FlowSpec, GuaranteedTerms, Rate, Span, Tspec};

fn tspec(r: u64, more: Option<u64>, b: u64, largest: u32) -> Tspec {
    let p = more.map_or(Rate::INFINITE, |more| Rate::from_bps(r + more));
    Tspec { r: Rate::from_bps(r), b: Bytes::new(b), p, m: 0, M: largest }
}

/// The formula in floating point: the oracle.
fn formula(t: &Tspec, rate: f64, c: f64, d: f64) -> f64 {
    let (r, p, b, m) = (t.r.as_bps() as f64 / 8.0, t.p.as_bps() as f64 / 8.0, t.b.get() as f64, f64::from(t.M));
    let rate = rate / 8.0;
    let burst = (b - m).max(0.0);
    let first = match t.p.is_infinite() {
        true => burst / rate,
        false if p > rate => burst / rate * (p - rate) / (p - r),
        false => 0.0,
    };
    (first + (m + c) / rate) * 1e9 + d * 1e3
}

fn path(c_tot: u32, d_tot: u32) -> Adspec {
    let guaranteed = Some(GuaranteedTerms { c_tot, d_tot, ..GuaranteedTerms::default() });
    Adspec { guaranteed, ..Adspec::origin(1500) }
}

/// A flow of 1 Mbit/s with 10 kB bursts over three hops of 1,500 bytes and 1 ms each.
#[test]
fn an_example_by_hand() {
    let t = tspec(1_000_000, Some(9_000_000), 10_000, 1_500);
    // (10,000 - 1,500) / 250,000 * (10 - 2) / (10 - 1) + (1,500 + 4,500) / 250,000 + 3 ms, at 2 Mbit/s.
    assert_eq!(delay_bound(&t, Rate::from_mbps(2), 4_500, 3_000), Span::from_nanos(57_222_223));
    // At the peak and above nothing waits for the burst.
    assert_eq!(delay_bound(&t, Rate::from_mbps(10), 4_500, 3_000), Span::from_nanos(7_800_000));
    assert_eq!(delay_bound(&t, Rate::from_bps(999_999), 4_500, 3_000), Span::MAX, "below the token rate");
    let rspec = rspec_for(&t, &path(4_500, 3_000), Span::from_micros(57_223)).unwrap();
    assert!(rspec.R <= Rate::from_mbps(2) && rspec.R.as_bps() > 1_999_900, "{:?}", rspec.R);
    assert_eq!(rspec_for(&t, &path(4_500, 3_000), Span::from_millis(3)), None, "the path alone takes as long");
    let relaxed = rspec_for(&t, &path(4_500, 3_000), Span::from_secs(1)).unwrap();
    assert_eq!(relaxed.R, t.r, "never below the token rate");
    assert_eq!(relaxed.S.as_nanos() + delay_bound(&t, t.r, 4_500, 3_000).as_nanos(), 1_000_000_000);
}

#[test]
fn a_path_without_a_bound_gets_no_request() {
    let t = tspec(1_000_000, None, 10_000, 1_500);
    let wanted = Span::from_secs(1);
    assert!(request_for(&t, &path(0, 0), wanted).is_some());
    let broken = GuaranteedTerms { break_bit: true, ..GuaranteedTerms::default() };
    for adspec in [
        Adspec { guaranteed: None, ..path(0, 0) },
        Adspec { guaranteed: Some(broken), ..path(0, 0) },
        Adspec { break_bit: true, ..path(0, 0) },
        Adspec { min_latency: None, ..path(0, 0) },
        Adspec { min_latency: Some(Span::from_secs(2)), ..path(0, 0) },
    ] {
        assert_eq!(request_for(&t, &adspec, wanted), None, "{adspec:?}");
    }
    let Some(FlowSpec::Guaranteed(t, _)) = request_for(&t, &Adspec { path_mtu: 1_400, ..path(0, 0) }, wanted) else {
        panic!("a request")
    };
    assert_eq!(t.M, 1_400, "no larger than the path's packets");
}

proptest! {
    #![proptest_config(chance::cases(20_000))]

    #[test]
    fn the_bound_is_the_formula_rounded_up(
        (r, more, b, largest) in (1_000..1_000_000_000u64, prop::option::of(0..10_000_000_000u64), 0..10_000_000u64, 0..9_000u32),
        (extra, c, d) in (0..10_000_000_000u64, 0..1_000_000u32, 0..10_000_000u32),
    ) {
        let t = tspec(r, more, b, largest);
        let exact = delay_bound(&t, Rate::from_bps(r + extra), c, d).as_nanos() as f64;
        let oracle = formula(&t, (r + extra) as f64, f64::from(c), f64::from(d));
        prop_assert!((exact - oracle).abs() <= 2.0 + oracle * 1e-9, "{exact} {oracle}");
    }

    /// The rate chosen keeps the bound, and one bit a second less would not.
    #[test]
    fn the_rate_is_the_least_that_keeps_the_bound(
        (r, more, b, largest) in (1_000..1_000_000_000u64, prop::option::of(0..10_000_000_000u64), 0..10_000_000u64, 0..9_000u32),
        (c, d, wanted) in (0..1_000_000u32, 0..10_000_000u32, 0..20_000_000_000u64),
    ) {
        let (t, wanted) = (tspec(r, more, b, largest), Span::from_nanos(wanted));
        match rspec_for(&t, &path(c, d), wanted) {
            Some(rspec) => {
                let bound = delay_bound(&t, rspec.R, c, d);
                prop_assert_eq!(bound.as_nanos() + rspec.S.as_nanos(), wanted.as_nanos());
                let less = Rate::from_bps(rspec.R.as_bps() - 1);
                prop_assert!(rspec.R == t.r || delay_bound(&t, less, c, d) > wanted);
            }
            None => prop_assert!(wanted.as_nanos() < u64::from(d) * 1_000 + 2),
        }
    }
}
