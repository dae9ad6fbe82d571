//! Measurement-based admission, packet by packet: what the paper's testbed shows must show here.

use sim::mace::model::{CBR, EXP1, EXP2, Model, POO1, POO2, POO3};
use sim::mace::{MaceOutcome, Params, RuleTerms, run};
use terms::{Rate, Span};

const MEASURED: RuleTerms = RuleTerms::MeasuredSum { target: (9, 10), departures: false };

fn short(model: Model, declared: u64, allocated: u64, rule: RuleTerms, seed: u64) -> Params {
    let models = vec![(model, Rate::from_bps(declared))];
    let long = Params::scenario_three(models, Rate::from_kbps(allocated), rule, seed);
    // Everything a fifth as long; a window stays a tenth of a lifetime.
    Params { lifetime: Span::from_secs(200), sampling: Span::from_secs(1), duration: Span::from_secs(600), ..long }
}

fn rows() -> [(Model, u64, u64, f64); 5] {
    [
        (POO1, 77_200, 3_900, 50.0),
        (POO2, 154_000, 2_300, 14.0),
        (POO3, 77_200, 2_300, 29.0),
        (EXP1, 77_200, 3_900, 50.0),
        (EXP2, 154_000, 2_300, 14.0),
    ]
}

#[test]
fn simple_sum_holds_the_floor_and_measured_sum_admits_more_in_every_row() {
    for (model, declared, allocated, flows) in rows() {
        let simple = run(&short(model, declared, allocated, RuleTerms::SimpleSum, 1));
        let measured = run(&short(model, declared, allocated, MEASURED, 1));
        assert_eq!((simple.most_flows, simple.median_flows), (flows as usize, flows as usize), "{}", model.name);
        // A flow that leaves is replaced as soon as another is recognised, which takes a moment.
        assert!(simple.flows > flows * 0.97 && simple.flows <= flows, "{}: {}", model.name, simple.flows);
        assert!(measured.flows > simple.flows * 1.1, "{}: {} and {}", model.name, measured.flows, simple.flows);
        assert!(measured.utilisation > simple.utilisation, "{}", model.name);
    }
}

#[test]
fn what_is_admitted_stays_within_the_allocation_and_goes_first() {
    for (model, declared, allocated, _) in [rows()[0], rows()[3]] {
        let outcome = run(&short(model, declared, allocated, MEASURED, 2));
        let (all, above) = outcome.samples;
        assert!(all == 500 && above * 50 < all, "{}: {above} of {all} samples above the allocation", model.name);
        let [first, second] = outcome.levels;
        assert_eq!(first.dropped, 0, "{}", model.name);
        assert!(second.dropped * 5 > second.offered, "the background is 130 % of the link: {second:?}");
        let mean_wait = |counts: sim::mace::QueueCounts| counts.waited / counts.sent.max(1);
        assert!(mean_wait(first) * 10 < mean_wait(second), "{first:?} {second:?}");
    }
}

#[test]
fn constant_flows_are_counted_exactly() {
    // 77.2 kbit/s each, all the time: what is measured is what is declared, so both rules let the same number in.
    let flows = |rule| run(&Params { lifetime: Span::from_secs(1 << 20), ..short(CBR, 77_200, 2_300, rule, 3) });
    let (simple, measured) =
        (flows(RuleTerms::SimpleSum), flows(RuleTerms::MeasuredSum { target: (1, 1), departures: false }));
    assert_eq!((simple.most_flows, measured.most_flows), (29, 29));
    assert!((simple.utilisation - 100.0 * 29.0 * 77.2 / 2300.0).abs() < 1.0, "{}", simple.utilisation);
}

#[test]
fn a_higher_target_admits_more() {
    let flows = |target| {
        run(&short(POO1, 77_200, 3_900, RuleTerms::MeasuredSum { target: (target, 10), departures: false }, 4)).flows
    };
    let [low, middle, high] = [7, 9, 11].map(flows);
    assert!(low < middle && middle < high, "{low} {middle} {high}");
}

#[test]
fn the_same_seed_tells_the_same_story_and_nothing_is_made_or_swallowed() {
    let params = |seed| short(POO2, 154_000, 2_300, MEASURED, seed);
    let twice: [MaceOutcome; 2] = [run(&params(5)), run(&params(5))];
    assert_eq!(twice[0], twice[1]);
    assert_ne!(twice[0], run(&params(6)));
    for counts in twice[0].levels {
        let held = counts.offered - counts.dropped - counts.sent;
        assert!(held <= u64::from(sim::mace::ROOM), "{counts:?}");
    }
}
