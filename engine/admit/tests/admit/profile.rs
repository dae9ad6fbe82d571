//! The profile against an array with one number per tick, with nodes so small that every split, merge and change of
//! height happens many times, and with nodes of the real size.

use admit::profile::{NODE, Search, UseProfile};
use proptest::prelude::*;
use terms::Time;

const TICKS: usize = 600;

fn time(tick: usize) -> Time {
    if tick >= TICKS { Time::FOREVER } else { Time::from_nanos(1 + tick as u64 * 1_000_003) }
}

struct Twin<const N: usize> {
    tree: UseProfile<N>,
    array: [i64; TICKS],
    stretches: Vec<(usize, usize, i64)>,
}

impl<const N: usize> Twin<N> {
    fn new() -> Twin<N> {
        Twin { tree: UseProfile::new(), array: [0; TICKS], stretches: Vec::new() }
    }

    fn add(&mut self, (s, e, rate): (usize, usize, i64)) {
        self.tree.add(time(s), time(e), rate);
        self.array[s..e].iter_mut().for_each(|level| *level += rate);
    }

    fn compare(&self, s: usize, e: usize, ceiling: u64, length: usize) {
        let levels: Vec<u64> = self.array.iter().map(|level| *level as u64).collect();
        assert_eq!(self.tree.audit(), Ok(()));
        let changes = (0..TICKS).filter(|&t| levels[t] != if t == 0 { 0 } else { levels[t - 1] });
        assert!(self.tree.steps().eq(changes.map(|t| (time(t), levels[t]))), "steps");
        assert_eq!(self.tree.level(time(s)), levels[s], "level at {s}");
        assert_eq!(self.tree.peak(time(s), time(e)), *levels[s..e].iter().max().unwrap(), "peak of {s}..{e}");
        let above = (s..e).find(|&t| levels[t] > ceiling).map(time);
        assert_eq!(self.tree.first_above(time(s), time(e), ceiling), above, "first above {ceiling} in {s}..{e}");
        let mut search = Search { length: time(length).since(time(0)).as_nanos(), since: None };
        let fits = |from: usize| {
            let to = (from..TICKS).find(|&t| time(t).since(time(from)).as_nanos() >= search.length);
            let to = to.unwrap_or(TICKS);
            (to <= e) && (from..to).all(|t| levels[t] <= ceiling)
        };
        let due = (s..e).find(|&from| fits(from)).map(time);
        assert_eq!(self.tree.search(&mut search, time(s), time(e), ceiling), due, "search in {s}..{e}");
    }
}

fn run<const N: usize>(stretches: &[(usize, usize, i64)], asked: &[(usize, usize, u64, usize)], shuffle: usize) {
    let mut twin: Twin<N> = Twin::new();
    for (&stretch, &(s, e, ceiling, length)) in stretches.iter().zip(asked) {
        twin.add(stretch);
        twin.stretches.push(stretch);
        twin.compare(s, e, ceiling, length);
    }
    // Take all away again, not in the order in which it came.
    let mut left = core::mem::take(&mut twin.stretches);
    for &(s, e, ceiling, length) in asked {
        if left.is_empty() {
            break;
        }
        let (s2, e2, rate) = left.swap_remove(shuffle % left.len());
        twin.add((s2, e2, -rate));
        twin.compare(s, e, ceiling, length);
    }
    assert_eq!((twin.tree.boundaries(), twin.tree.peak(Time::ZERO, Time::FOREVER)), (0, 0));
}

fn stretch() -> impl Strategy<Value = (usize, usize)> {
    (0..TICKS, prop_oneof![1..TICKS, 1..8usize]).prop_map(|(s, length)| (s, (s + length).min(TICKS)))
}

proptest! {
    #![proptest_config(chance::cases(96))]

    #[test]
    fn equals_the_array(
        stretches in prop::collection::vec((stretch(), 1..9i64).prop_map(|((s, e), r)| (s, e, r)), 200),
        asked in prop::collection::vec((stretch(), 0..400u64, 1..40usize).prop_map(|((s, e), c, l)| (s, e, c, l)), 200),
        shuffle in any::<usize>(),
    ) {
        run::<4>(&stretches, &asked, shuffle);
        run::<8>(&stretches, &asked, shuffle);
        run::<16>(&stretches, &asked, shuffle);
        run::<NODE>(&stretches, &asked, shuffle);
    }
}

#[test]
fn a_tree_that_grew_shrinks_again() {
    let mut tree: UseProfile<4> = UseProfile::new();
    let at = |i: u64| (Time::from_nanos(2 * i), Time::from_nanos(2 * i + 1));
    for i in 0..20_000 {
        tree.add(at(i).0, at(i).1, 7);
    }
    assert_eq!(tree.audit(), Ok(()));
    let full = tree.bytes();
    for i in (0..20_000).rev().step_by(2).chain((0..20_000).step_by(2)) {
        tree.add(at(i).0, at(i).1, -7);
    }
    assert_eq!((tree.boundaries(), tree.audit()), (0, Ok(())));
    for i in 0..20_000 {
        tree.add(at(i).0, at(i).1, 7);
    }
    assert!(tree.bytes() <= full + full / 4, "nodes that went are used again");
}
