//! Measured sum and simple sum: the seed's three updates as a table, an oracle that keeps everything it ever saw, and
//! what happens when the measurement lies.

use admit::estimator::{ExponentialAverage, TimeWindow, UseEstimator};
use admit::{CounterReading, Denied, MeasuredSum, SimpleSum, SumTerms};
use proptest::prelude::*;
use terms::{Bytes, Misuse, Rate, Span, Time};

const PERIOD: Span = Span::from_secs(5);

fn kbps(n: u64) -> Rate {
    Rate::from_kbps(n)
}

fn terms(allocated: Rate, target: (u32, u32)) -> SumTerms {
    SumTerms { allocated, target, period: PERIOD, most_flows: 1000 }
}

/// A sum whose counter a test moves by rates.
struct Bench {
    sum: MeasuredSum<TimeWindow>,
    now: Time,
    sent: Bytes,
}

impl Bench {
    fn new(allocated: Rate, target: (u32, u32), window: u32) -> Bench {
        let mut sum =
            MeasuredSum::new(terms(allocated, target), TimeWindow::new(window)).expect("these mean something");
        assert_eq!(sum.read(Time::ZERO, Bytes::new(0)), CounterReading::First);
        Bench { sum, now: Time::ZERO, sent: Bytes::new(0) }
    }

    fn period(&mut self, rate: Rate) -> CounterReading {
        self.now = self.now.saturating_add(PERIOD);
        self.sent = self.sent.saturating_add(rate.demands(PERIOD));
        self.sum.read(self.now, self.sent)
    }
}

#[test]
fn the_three_updates_of_the_estimate() {
    // A window of three samples of 5 s. Rates in kbit/s; "ask" is a flow that declares that much.
    let story = [
        ("ask", 100, 100), // admitted: nothing measured yet, so what it declares
        ("sample", 40, 100),
        ("sample", 60, 100),
        ("sample", 50, 60), // the window ends: its highest sample
        ("sample", 80, 80), // a sample above the estimate: at once
        ("ask", 100, 180),
        ("sample", 90, 180),
        ("sample", 70, 90), // the window ends
        ("sample", 10, 90),
        ("sample", 10, 90),
        ("sample", 10, 10), // the only way down
    ];
    let mut bench = Bench::new(kbps(1000), (1, 1), 3);
    for (n, (what, rate, estimate)) in story.into_iter().enumerate() {
        match what {
            "ask" => bench.sum.ask(kbps(rate)).expect("there is room"),
            _ => assert_eq!(bench.period(kbps(rate)), CounterReading::Sample(kbps(rate)), "line {n}"),
        }
        assert_eq!(bench.sum.usage(), kbps(estimate), "line {n}: {what} {rate}");
    }
}

#[test]
fn simple_sum_admits_by_floor_as_the_seed_counts() {
    // Table 2: 39 % and 23 % of 10 Mb/s, 77.2 and 154 kbit/s a flow.
    for (allocated, declared, flows) in [(3_900, 77_200, 50), (2_300, 77_200, 29), (2_300, 154_000, 14)] {
        let mut sum = SimpleSum::new(kbps(allocated), 1000);
        while sum.ask(Rate::from_bps(declared)).is_ok() {}
        assert_eq!(sum.flows(), flows);
        sum.leave(Rate::from_bps(declared));
        assert!(sum.ask(Rate::from_bps(declared)).is_ok(), "who leaves makes room");
        assert!(sum.ask(Rate::from_bps(declared)).is_err());
    }
}

#[test]
fn the_inequality_is_strict_and_exact() {
    // v = 9/10 of 1 Mbit/s: r + b must stay below 900 kbit/s.
    let mut bench = Bench::new(kbps(1000), (9, 10), 3);
    assert_eq!(bench.sum.free(), Rate::from_bps(899_999));
    assert!(matches!(bench.sum.ask(kbps(900)), Err(Denied::Capacity { .. })));
    assert!(bench.sum.ask(Rate::from_bps(899_999)).is_ok());
    assert_eq!(bench.sum.free(), Rate::ZERO);
    assert_eq!(bench.sum.ask(Rate::ZERO), Err(Denied::Misuse(Misuse::ZeroRate)));
    // A target above one lets in more than is allocated, but no flow that is larger than that alone.
    let mut bench = Bench::new(kbps(1000), (3, 2), 3);
    assert!(matches!(bench.sum.ask(kbps(1200)), Err(Denied::Capacity { .. })));
    assert!(bench.sum.ask(kbps(1000)).is_ok() && bench.sum.ask(kbps(400)).is_ok() && bench.sum.ask(kbps(100)).is_err());
}

#[test]
fn a_counter_that_lies_brings_the_declared_rates_back() {
    let full = |bench: &mut Bench| {
        (0..8).for_each(|_| bench.sum.ask(kbps(100)).expect("there is room"));
        for _ in 0..6 {
            bench.period(kbps(80));
        }
        assert_eq!((bench.sum.usage(), bench.sum.in_doubt()), (kbps(80), false));
    };
    let recovers = |bench: &mut Bench| {
        for n in 0..6 {
            assert!(bench.sum.in_doubt() && bench.sum.usage() >= kbps(800), "sample {n}");
            bench.period(kbps(80));
        }
        assert_eq!((bench.sum.usage(), bench.sum.in_doubt()), (kbps(80), false));
    };
    let mut reset = Bench::new(kbps(1000), (1, 1), 3);
    full(&mut reset);
    reset.sent = Bytes::new(0);
    assert_eq!(reset.period(kbps(1)), CounterReading::Backwards);
    recovers(&mut reset);

    let mut gap = Bench::new(kbps(1000), (1, 1), 3);
    full(&mut gap);
    gap.now = gap.now.saturating_add(PERIOD).saturating_add(PERIOD);
    assert_eq!(gap.period(kbps(80)), CounterReading::Gap);
    recovers(&mut gap);

    let mut frozen = Bench::new(kbps(1000), (1, 1), 3);
    full(&mut frozen);
    for _ in 0..6 {
        frozen.period(Rate::ZERO);
    }
    assert!(frozen.sum.in_doubt(), "six samples of nothing from eight flows");
    assert_eq!(frozen.sum.usage(), kbps(800));
    recovers(&mut frozen);
}

#[test]
fn a_reading_before_its_time_changes_nothing() {
    let mut bench = Bench::new(kbps(1000), (1, 1), 3);
    bench.sum.ask(kbps(100)).expect("there is room");
    bench.period(kbps(50));
    let before = bench.sum.clone();
    assert_eq!(bench.sum.read(bench.now, Bytes::new(u64::MAX)), CounterReading::TooSoon);
    assert_eq!(bench.sum.read(Time::ZERO, Bytes::new(0)), CounterReading::TooSoon, "time that runs backwards");
    assert_eq!(bench.sum.read(bench.now.saturating_add(Span::from_secs(4)), Bytes::new(0)), CounterReading::TooSoon);
    assert_eq!(bench.sum, before);
    // The largest numbers there are: no overflow, and nothing comes in.
    let late = bench.now.saturating_add(PERIOD);
    assert!(matches!(bench.sum.read(late, Bytes::new(u64::MAX)), CounterReading::Sample(_)));
    assert!(bench.sum.ask(Rate::from_bps(1)).is_err());
}

/// M7: a clock that steps inside a window. The house's time does not step; a sum that is told one all the same promises no
/// more than what was declared.
#[test]
fn m7_a_clock_that_steps_inside_a_window_promises_nothing_new() {
    let full = || {
        let mut bench = Bench::new(kbps(1000), (1, 1), 3);
        (0..8).for_each(|_| bench.sum.ask(kbps(100)).expect("there is room"));
        for _ in 0..7 {
            bench.period(kbps(80));
        }
        assert_eq!((bench.sum.usage(), bench.sum.in_doubt()), (kbps(80), false), "one sample into a window");
        bench
    };
    // An hour on: the rate would be next to nothing, so it is not believed, and not again until all samples are new.
    let mut ahead = full();
    ahead.now = ahead.now.saturating_add(Span::from_secs(3_600));
    assert_eq!(ahead.period(kbps(80)), CounterReading::Gap);
    for _ in 0..6 {
        assert_eq!((ahead.sum.in_doubt(), ahead.sum.usage()), (true, kbps(800)));
        assert!(ahead.sum.ask(kbps(250)).is_err(), "eight times 100 are declared");
        ahead.period(kbps(80));
    }
    assert_eq!((ahead.sum.in_doubt(), ahead.sum.usage()), (false, kbps(80)));
    // A period less a little on: the same bytes in less time is a higher rate, which counts against newcomers at once.
    let mut early = full();
    early.sent = early.sent.saturating_add(kbps(160).demands(PERIOD));
    early.now = early.now.saturating_add(PERIOD);
    assert_eq!(early.sum.read(early.now, early.sent), CounterReading::Sample(kbps(160)));
    assert_eq!(early.sum.usage(), kbps(160));
    // Back: nothing is read until time is where it was, and what comes in meanwhile counts as declared.
    let mut back = full();
    let behind = Time::ZERO.saturating_add(PERIOD);
    assert_eq!(back.sum.read(behind, back.sent), CounterReading::TooSoon);
    back.sum.ask(kbps(700)).expect("there is room beside 80");
    assert_eq!(back.sum.read(behind.saturating_add(PERIOD), back.sent), CounterReading::TooSoon);
    assert_eq!(back.sum.usage(), kbps(780));
    assert!(back.sum.ask(kbps(250)).is_err());
}

#[test]
fn what_means_nothing_is_refused() {
    let bad = [
        SumTerms { target: (0, 1), ..terms(kbps(1), (1, 1)) },
        SumTerms { target: (1, 0), ..terms(kbps(1), (1, 1)) },
        SumTerms { period: Span::ZERO, ..terms(kbps(1), (1, 1)) },
    ];
    for terms in bad {
        assert!(MeasuredSum::new(terms, TimeWindow::new(20)).is_err(), "{terms:?}");
    }
    let few = SumTerms { most_flows: 1, ..terms(kbps(1000), (1, 1)) };
    let mut sum = MeasuredSum::new(few, TimeWindow::new(20)).expect("this means something");
    assert!(sum.ask(kbps(1)).is_ok());
    assert!(matches!(sum.ask(kbps(1)), Err(Denied::Limit { .. })));
}

#[test]
fn an_exponential_average_approaches_the_mean() {
    let mut average = ExponentialAverage::new(3);
    average.admitted(kbps(400));
    for n in 0..200 {
        average.sample(if n % 2 == 0 { kbps(100) } else { kbps(300) });
    }
    let estimate = average.estimate().as_bps();
    assert!((185_000..215_000).contains(&estimate), "{estimate}");
    average.restart(kbps(7));
    assert_eq!(average.estimate(), kbps(7));
}

/// The estimate by its definition, from everything that ever happened.
#[derive(Clone, Copy, Debug)]
enum Happened {
    Sample(u64),
    Admitted(u64),
}

fn by_definition(history: &[Happened], window: usize) -> u64 {
    let mut samples: Vec<u64> = Vec::new();
    let mut estimate = 0;
    for happened in history {
        match *happened {
            Happened::Admitted(rate) => estimate += rate,
            Happened::Sample(rate) => {
                samples.push(rate);
                estimate = estimate.max(rate);
                if samples.len().is_multiple_of(window) {
                    estimate = samples[samples.len() - window..].iter().copied().max().unwrap_or(0);
                }
            }
        }
    }
    estimate
}

proptest! {
    #![proptest_config(chance::cases(256))]

    #[test]
    fn admits_exactly_what_the_definition_admits(
        steps in prop::collection::vec((0..3_u8, 1..400_u64), 1..120),
        window in 1..8_u32,
        target in (1..15_u32, 1..15_u32),
    ) {
        let mut bench = Bench::new(kbps(1000), target, window);
        let (mut history, mut inside) = (Vec::new(), Vec::new());
        for (what, rate) in steps {
            match what {
                0 => {
                    let estimate = by_definition(&history, window as usize);
                    let (n, d) = (u64::from(target.0), u64::from(target.1));
                    let fits = n * 1_000_000 > d * (rate * 1000 + estimate) && rate <= 1000;
                    prop_assert_eq!(bench.sum.ask(kbps(rate)).is_ok(), fits);
                    if fits {
                        history.push(Happened::Admitted(rate * 1000));
                        inside.push(rate);
                    }
                }
                1 => {
                    // A sample of at least 1 kbit/s: silence is another test's matter.
                    prop_assert_eq!(bench.period(kbps(rate)), CounterReading::Sample(kbps(rate)));
                    history.push(Happened::Sample(rate * 1000));
                }
                _ => if let Some(rate) = inside.pop() {
                    bench.sum.leave(kbps(rate));
                }
            }
            prop_assert_eq!(bench.sum.usage().as_bps(), by_definition(&history, window as usize));
            prop_assert_eq!(bench.sum.declared(), kbps(inside.iter().sum()));
            prop_assert_eq!(bench.sum.flows(), inside.len());
        }
    }
}
