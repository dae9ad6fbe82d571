//! Soft state tortured: twenty simulated days over fifty seeds in every run; `SLUICE_TORTURE_MINUTES` sets another length of
//! a seed. Years are recorded by `sluice torture soft-state`.

use sim::torture::{Broken, FaultCounts, Torture};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use terms::Span;

const SEEDS: u64 = 50;

fn minutes(usual: u64) -> u64 {
    std::env::var("SLUICE_TORTURE_MINUTES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn no_state_dies_early_none_outlives_its_time_and_nothing_leaks() {
    // 50 times 9.6 hours are 20 days.
    let length = Span::from_secs(minutes(576) * 60);
    let (next, all) = (AtomicU64::new(0), Mutex::new(FaultCounts::default()));
    let run = || -> Result<(), Broken> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                return Ok(());
            }
            let tally = Torture::usual(seed, length).play()?;
            all.lock().expect("nobody panics with it").add(&tally);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            if let Err(broken) = thread.join().expect("it does not panic") {
                panic!("{broken}");
            }
        }
    });
    let tally = all.into_inner().expect("nobody panics with it");
    assert_eq!(tally.missing(), Vec::<&str>::new(), "kinds that never happened; {:?}", tally.kinds);
    assert!(tally.simulated >= length.mul_div_ceil(SEEDS, 1));
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let hash = |seed| Torture::usual(seed, Span::from_secs(1_200)).play().expect("the laws hold").hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}
