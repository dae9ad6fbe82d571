//! Each rule against its formula in floating point, and the departures variant against its definition.

use admit::estimator::{DepartureWindow, UseEstimator};
use admit::{CounterReading, CounterSampler, FlowRule, HoeffdingBound, HoeffdingTerms, TangentAtOrigin, TangentTerms};
use mace::RuleTerms;
use mace::rules::SharedTerms;
use proptest::prelude::*;
use terms::{Bytes, Rate, Span, Time};

fn kbps(n: u64) -> Rate {
    Rate::from_kbps(n)
}

fn hoeffding(allocated: Rate, nines: u32) -> HoeffdingBound {
    HoeffdingBound::new(HoeffdingTerms { allocated, nines, shift: 2, most_flows: 1_000 })
}

fn tangent(allocated: Rate, space: Rate) -> TangentAtOrigin {
    TangentAtOrigin::new(TangentTerms { allocated, space, most_flows: 1_000 }).expect("a space")
}

#[test]
fn hoeffding_bounds_as_floyd_writes_them() {
    let mut rule = hoeffding(kbps(10_000), 6);
    (0..20).for_each(|_| rule.enter(kbps(100)));
    (0..200).for_each(|_| rule.take(CounterReading::Sample(kbps(800))));
    let margin = (6.0 * 10_f64.ln() / 2.0 * 20.0 * 100_000_f64.powi(2)).sqrt();
    let usage = rule.usage().as_bps() as f64;
    assert!((usage - 800_000.0 - margin).abs() < 10.0, "{usage} for {}", 800_000.0 + margin);
    let free = 10_000_000.0 - usage;
    assert!(rule.would(Rate::from_bps(free as u64)).is_ok());
    assert!(rule.would(Rate::from_bps(free as u64 + 2)).is_err());
    // A counter that runs backwards: what is declared counts, and no margin above the sum of the peaks.
    rule.take(CounterReading::Backwards);
    assert_eq!((rule.usage(), rule.in_doubt()), (kbps(2_000), true));
    // Everybody leaves: nothing of the margin is left.
    (0..20).for_each(|_| rule.leave(kbps(100)));
    (0..400).for_each(|_| rule.take(CounterReading::Sample(Rate::from_bps(1))));
    assert!(rule.usage() <= Rate::from_bps(2), "{}", rule.usage());
}

#[test]
fn the_tangent_weighs_the_measured_rate_by_the_highest_peak() {
    let mut rule = tangent(kbps(10_000), kbps(1_000));
    (0..20).for_each(|_| rule.enter(kbps(100)));
    assert_eq!(rule.declared(), kbps(2_000));
    rule.take(CounterReading::Sample(kbps(1_500)));
    let near = |rate: Rate, to: f64| (rate.as_bps() as f64 / to - 1.0).abs() < 1e-6;
    assert!(near(rule.usage(), 1_500_000.0 * 0.1_f64.exp()), "{}", rule.usage());
    rule.enter(kbps(500));
    assert!(near(rule.usage(), 2_000_000.0 * 0.5_f64.exp()), "what came since counts as its peak: {}", rule.usage());
    let most = 10_000_000.0 / 0.5_f64.exp() - 2_000_000.0;
    assert!(rule.would(kbps(499)).is_ok());
    // A peak of 5 Mbit/s would count e^5 times.
    assert!(rule.would(kbps(5_000)).is_err() && most > 4_000_000.0);
    rule.leave(kbps(500));
    rule.take(CounterReading::Sample(kbps(1_500)));
    assert!(near(rule.usage(), 1_500_000.0 * 0.1_f64.exp()), "the highest peak has left");
    // A peak out of all proportion admits nothing, and does not overflow.
    assert!(tangent(kbps(1), Rate::from_bps(1)).would(kbps(1_000)).is_err());
}

#[test]
fn adopted_flows_count_as_declared_until_samples_have_seen_them() {
    let shared = SharedTerms { allocated: kbps(1_000), period: Span::from_secs(5), window: 4, most_flows: 100 };
    for terms in [
        RuleTerms::SimpleSum,
        RuleTerms::MeasuredSum { target: (1, 1), departures: false },
        RuleTerms::MeasuredSum { target: (1, 1), departures: true },
        RuleTerms::Hoeffding { nines: 3 },
        RuleTerms::Tangent { space: kbps(10_000) },
    ] {
        let mut rule = terms.build(&shared).expect("a rule");
        (0..9).for_each(|_| rule.enter(kbps(100)));
        rule.adopted();
        assert!(rule.usage() >= kbps(900), "{terms}: {}", rule.usage());
        assert!(rule.would(kbps(200)).is_err(), "{terms}");
        assert!(rule.would(Rate::ZERO).is_err(), "{terms}");
    }
    assert!(RuleTerms::Tangent { space: Rate::ZERO }.build(&shared).is_err());
    assert!(RuleTerms::MeasuredSum { target: (0, 1), departures: false }.build(&shared).is_err());
}

#[test]
fn a_departure_takes_its_share_of_the_estimate_along() {
    let mut window = DepartureWindow::new(4);
    window.admitted(kbps(100));
    window.admitted(kbps(300));
    window.left(kbps(100), kbps(400));
    assert_eq!(window.estimate(), kbps(300));
    (0..4).for_each(|_| window.sample(kbps(60)));
    window.left(kbps(150), kbps(300));
    assert_eq!(window.estimate(), kbps(30));
    window.left(kbps(150), kbps(150));
    window.left(kbps(1), Rate::ZERO);
    assert_eq!(window.estimate(), Rate::ZERO);
}

#[test]
fn one_missed_reading_costs_one_sample_and_three_cost_the_trust() {
    let mut sampler = CounterSampler::new(Span::from_secs(5));
    let at = |s: u64| Time::ZERO.saturating_add(Span::from_secs(s));
    let mut read = |s, bytes| sampler.read(at(s), Bytes::new(bytes));
    assert_eq!(read(0, 0), CounterReading::First);
    assert_eq!(read(4, 9), CounterReading::TooSoon);
    assert_eq!(read(5, 625), CounterReading::Sample(kbps(1)));
    assert_eq!(read(16, 9_999), CounterReading::Missed);
    assert_eq!(read(21, 9_999 + 625), CounterReading::Sample(kbps(1)));
    assert_eq!(read(36, 99_999), CounterReading::Gap);
    assert_eq!(read(41, 5), CounterReading::Backwards);
    assert_eq!(read(41, 5), CounterReading::TooSoon);
}

proptest! {
    #![proptest_config(chance::cases(128))]

    #[test]
    fn the_bounds_are_those_of_the_formulas(
        peaks in prop::collection::vec(1..2_000_u64, 1..40),
        nines in 1..12_u32,
        space in 100..5_000_u64,
        measured in 1..20_000_u64,
    ) {
        let (mut bound, mut origin) = (hoeffding(kbps(50_000), nines), tangent(kbps(50_000), kbps(space)));
        for peak in &peaks {
            bound.enter(kbps(*peak));
            origin.enter(kbps(*peak));
        }
        (0..300).for_each(|_| bound.take(CounterReading::Sample(kbps(measured))));
        origin.take(CounterReading::Sample(kbps(measured)));
        let squares: f64 = peaks.iter().map(|peak| (*peak as f64 * 1e3).powi(2)).sum();
        let expected = measured as f64 * 1e3 + (f64::from(nines) * 10_f64.ln() / 2.0 * squares).sqrt();
        let found = bound.usage().as_bps() as f64;
        prop_assert!((found - expected).abs() <= expected * 1e-6 + 20.0, "{} for {}", found, expected);
        let highest = peaks.iter().copied().max().unwrap_or(0) as f64;
        let expected = measured as f64 * 1e3 * (highest / space as f64).exp();
        let found = origin.usage().as_bps() as f64;
        prop_assert!(found >= expected * (1.0 - 1e-9) && found <= expected * (1.0 + 1e-6) + 2.0, "{} for {}", found, expected);
    }
}
