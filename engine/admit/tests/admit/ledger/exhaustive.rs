//! Small scope, completely: every sequence of 5 operations on 4 slots with capacity 3 (FAULTS.md I1, I8).
//!
//! Scope: time is 0, 1, 2 and for ever (cells 0..1, 1..2, and 2.. to which only open slots reach); at most 4 slots at a
//! time. The alphabet has 49 letters: hold one of the 3 windows at rate 1, 2 or 3 (9); open at rate 1, 2 or 3 (3);
//! promise, commit or release the 1st to 4th slot created (12), set its rate to 1, 2 or 3 (12) or its window to one
//! of the 3 (12); let one unit of time pass (1). A fifth slot could only be made by the last operation, so four names
//! are all that there are. 49^5 = 282,475,249 sequences. A refused operation is checked to leave the state as it was, so what
//! follows it has been run already one step earlier and is not run again.

use crate::ledger::oracle::{Op, Pair};

const DEPTH: usize = 5;
const WINDOWS: [(usize, usize); 3] = [(0, 1), (1, 2), (0, 2)];

fn alphabet(now: usize) -> Vec<Op> {
    let mut letters = Vec::new();
    for rate in 1..=3 {
        letters.push(Op::Open { rate });
        letters.extend(WINDOWS.map(|(s, e)| Op::Hold { s, e, rate, until: 2 }));
    }
    for k in 0..4 {
        letters.extend([Op::Promise(k), Op::Commit(k), Op::Release(k)]);
        letters.extend([1, 2, 3].map(|rate| Op::Modify { k, rate: Some(rate), s: None, e: None }));
        letters.extend(WINDOWS.map(|(s, e)| Op::Modify { k, rate: None, s: Some(s), e: Some(e) }));
    }
    letters.push(Op::Expire((now + 1).min(2)));
    letters
}

#[derive(Default)]
struct Tally {
    done: u64,
    refused: u64,
}

fn explore(pair: &Pair, depth: usize, tally: &mut Tally) {
    for op in alphabet(pair.oracle.now) {
        let mut next = pair.clone();
        if !next.run(op) {
            tally.refused += 1;
            continue;
        }
        tally.done += 1;
        next.compare_all();
        for (s, e) in WINDOWS {
            next.compare_window(s, e, 1, 1);
            next.compare_window(s, 3, 2, e - s);
        }
        if depth > 1 {
            explore(&next, depth - 1, tally);
        }
    }
}

#[test]
fn every_sequence_of_five_operations() {
    assert_eq!(alphabet(0).len(), 49);
    let mut tally = Tally::default();
    explore(&Pair::new(3, 1, 3, None, None, 4), DEPTH, &mut tally);
    println!("{} steps done, {} refused, all as the oracle says", tally.done, tally.refused);
    assert!(tally.done > 100_000 && tally.refused > 100_000);
}

/// The same alphabet one step less deep, where open slots have a share of 2 and are safe from bookings for one unit of
/// time: 49^4 = 5,764,801 sequences in which they are displaced.
#[test]
fn every_sequence_of_four_with_an_assumed_holding() {
    let mut tally = Tally::default();
    explore(&Pair::new(4, 1, 3, Some(2), Some(1), 4), DEPTH - 1, &mut tally);
    println!("{} steps done, {} refused, all as the oracle says", tally.done, tally.refused);
    assert!(tally.done > 10_000 && tally.refused > 10_000);
}
