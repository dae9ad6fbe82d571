//! The tests of the commit engine: orders, and the search of every order of events (docs/commit-model.md).

mod nested;
mod orders;
mod world;

use nested::{NESTED_MUTANTS, NestedMutant, Played, SEEDS, plays};
use world::counts::{ALL, Seen};
use world::scopes::{SCOPES, check, mutants};

/// A fault that never happened in any search is not checked by it.
#[test]
fn no_order_of_events_makes_a_half() {
    let mut counts = [0; ALL.len()];
    for scope in SCOPES {
        let report = check(scope);
        println!("{} states, {} steps: {}", report.states, report.steps, scope.name);
        assert!(report.violations.is_empty(), "{}: {:#?}", scope.name, report.violations);
        ALL.iter().for_each(|(seen, _)| counts[*seen as usize] += report.count(*seen));
    }
    for (seen, name) in ALL {
        println!("{} {name}", counts[seen as usize]);
    }
    let not_here = [Seen::OutdatedCoordinator, Seen::Moot, Seen::Contradiction];
    for (seen, name) in ALL.iter().filter(|(seen, _)| !not_here.contains(seen)) {
        assert!(counts[*seen as usize] > 0, "no {name}");
    }
    assert_eq!(counts[Seen::OutdatedCoordinator as usize], 0);
}

#[test]
fn every_mutant_is_caught() {
    let mut missed = Vec::new();
    for (mutant, words, report) in mutants() {
        let found = report.violations.first();
        println!("{mutant:?}: {} states: {:?}", report.states, found.map(|(name, steps)| (name, steps.len())));
        missed.extend(found.is_none().then_some(words));
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

#[test]
fn three_domains_make_it_all_or_none() {
    let played = plays(NestedMutant::None).unwrap_or_else(|(seed, why)| panic!("seed {seed}: {why}"));
    println!("{SEEDS} seeds: {played:?}");
    let Played { made, not, kills, lost, repeated, failed } = played;
    assert!(made > SEEDS / 5 && not > SEEDS / 5);
    assert!([kills, lost, repeated, failed].iter().all(|count| *count > SEEDS / 10));
}

#[test]
fn every_mutant_of_a_broker_between_two_is_caught() {
    let mut missed: Vec<&str> = Vec::new();
    for (mutant, words) in NESTED_MUTANTS {
        let found = plays(*mutant).err();
        println!("{mutant:?}: {found:?}");
        missed.extend(found.is_none().then_some(words));
    }
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}
