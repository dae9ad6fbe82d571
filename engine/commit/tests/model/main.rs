//! The tests of the commit engine: orders, and the search of every order of events (docs/commit-model.md).

mod nested;
mod older_copy;
mod orders;
mod pauses;
mod world;

use nested::{NESTED_MUTANTS, NestedMutant, Played, SEEDS, plays};
use world::Scope;
use world::counts::{ALL, Seen};
use world::scopes::{LARGE, NIGHTLY, SCOPES, check, mutants};

/// Searches a scope. Returns the number of its states, and of what happened.
fn holds(scope: Scope) -> (usize, [u64; ALL.len()]) {
    let report = check(scope);
    println!("{} states, {} steps: {}", report.states, report.steps, scope.name);
    assert!(report.violations.is_empty(), "{}: {:#?}", scope.name, report.violations);
    (report.states, ALL.map(|(seen, _)| report.count(seen)))
}

/// A fault that never happened in any search is not checked by it.
#[test]
fn no_order_of_events_makes_a_half() {
    let mut counts = [0; ALL.len()];
    for scope in SCOPES {
        let (_, seen) = holds(scope);
        counts.iter_mut().zip(seen).for_each(|(sum, count)| *sum += count);
    }
    for (seen, name) in ALL {
        println!("{} {name}", counts[seen as usize]);
    }
    let not_here = [Seen::OutdatedCoordinator];
    for (seen, name) in ALL.iter().filter(|(seen, _)| !not_here.contains(seen)) {
        assert!(counts[*seen as usize] > 0, "no {name}");
    }
    assert_eq!(counts[Seen::OutdatedCoordinator as usize], 0);
}

#[test]
fn no_order_of_two_transactions_makes_a_half() {
    assert!(holds(LARGE[0]).0 >= 400_000);
}

/// With `SLUICE_NIGHTLY` in two transactions too, which takes minutes.
#[test]
fn no_order_at_three_participants_makes_a_half() {
    assert!(holds(LARGE[1]).0 >= 800_000);
    for scope in NIGHTLY.into_iter().filter(|_| std::env::var_os("SLUICE_NIGHTLY").is_some()) {
        holds(scope);
    }
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
