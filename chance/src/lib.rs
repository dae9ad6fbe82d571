//! The frame of every property test: its seed and its number of cases, so that a test that passes today passes tomorrow.
//!
//! In `make test` the seed is always the same. `SLUICE_SEED=NUMBER` sets another one, `SLUICE_SEED=random` takes one by
//! chance; it is printed, and is in the output of every test that fails. `SLUICE_CASES=N` runs N times as many cases as a
//! test asks for. Nothing is written into the checkout: what is found is kept as a readable test beside the property.
#![forbid(unsafe_code)]

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// The default seed.
pub const SEED: u64 = 2205;

/// A property test of so many cases; shrinking is as proptest does it.
///
/// # Panics
/// If `SLUICE_SEED` or `SLUICE_CASES` is set to what it cannot be.
pub fn cases(normally: u32) -> ProptestConfig {
    let seed = seed();
    println!("SLUICE_SEED={seed}");
    ProptestConfig {
        cases: normally.saturating_mul(times(std::env::var("SLUICE_CASES").ok().as_deref())),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The seed of this run, the same for all tests of a process.
pub fn seed() -> u64 {
    static ONE: OnceLock<u64> = OnceLock::new();
    *ONE.get_or_init(|| seed_of(std::env::var("SLUICE_SEED").ok().as_deref(), || RandomState::new().hash_one(SEED)))
}

fn seed_of(said: Option<&str>, by_chance: impl Fn() -> u64) -> u64 {
    match said {
        None => SEED,
        Some("random") => by_chance(),
        Some(text) => match text.parse() {
            Ok(seed) => seed,
            Err(_) => panic!("SLUICE_SEED is {text:?}: a number, or \"random\""),
        },
    }
}

fn times(said: Option<&str>) -> u32 {
    match said.map(str::parse) {
        None => 1,
        Some(Ok(times)) if times > 0 => times,
        Some(_) => panic!("SLUICE_CASES is {said:?}: a number from 1 on, how many times as many cases"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    #[test]
    fn what_is_said_counts_and_nonsense_is_refused() {
        assert_eq!((seed_of(None, || 7), seed_of(Some("12"), || 7), seed_of(Some("random"), || 7)), (SEED, 12, 7));
        assert_eq!((times(None), times(Some("40"))), (1, 40));
        for wrong in ["", "0", "x", "-1"] {
            assert!(std::panic::catch_unwind(|| times(Some(wrong))).is_err(), "{wrong:?}");
        }
        assert!(std::panic::catch_unwind(|| seed_of(Some("always"), || 7)).is_err());
    }

    #[test]
    fn one_seed_gives_the_same_cases_and_another_gives_others() {
        let drawn = |seed| {
            let config = ProptestConfig { rng_seed: RngSeed::Fixed(seed), ..cases(1) };
            let mut runner = TestRunner::new(config);
            let strategy = proptest::collection::vec(any::<u64>(), 20);
            strategy.new_tree(&mut runner).unwrap().current()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
