//! The table of candidates against a plain map: bounded, and it forgets nobody but the oldest of a full row.

use crate::{at, flow};
use mace::candidates::{CandidateTable, WAYS};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn its_size_is_a_whole_number_of_rows() {
    assert_eq!([1, 4, 5, 1_000].map(|places| CandidateTable::new(places, [1, 2]).room()), [4, 4, 8, 1_024]);
}

#[test]
fn a_newcomer_takes_the_place_of_the_one_that_was_silent_longest() {
    let mut table = CandidateTable::new(WAYS, [1, 2]);
    for n in 0..4 {
        table.at(at(u64::from(n)), &flow(n, 1)).packets = n;
    }
    table.at(at(9), &flow(0, 1));
    table.at(at(10), &flow(7, 1));
    assert_eq!((table.evicted(), table.iter().count()), (1, WAYS));
    assert!(table.get(&flow(1, 1)).is_none(), "the oldest");
    assert!([0, 2, 3, 7].iter().all(|n| table.get(&flow(*n, 1)).is_some()));
    table.remove(&flow(2, 1));
    table.at(at(11), &flow(8, 1));
    assert_eq!(table.evicted(), 1, "there was an empty place");
}

proptest! {
    #![proptest_config(chance::cases(64))]

    #[test]
    fn counts_are_those_of_a_map_until_the_first_loss(steps in prop::collection::vec((0..40_u32, 0..8_u8), 1..300)) {
        let mut table = CandidateTable::new(128, [chance::seed(), 7]);
        let mut map: BTreeMap<u32, u32> = BTreeMap::new();
        for (n, (who, what)) in steps.into_iter().enumerate() {
            if what == 0 {
                table.remove(&flow(who, 1));
                map.remove(&who);
            } else {
                table.at(at(n as u64), &flow(who, 1)).packets += 1;
                *map.entry(who).or_insert(0) += 1;
            }
            prop_assert!(table.iter().count() <= table.room());
            if table.evicted() == 0 {
                prop_assert_eq!(table.iter().count(), map.len());
                for (who, packets) in &map {
                    prop_assert_eq!(table.get(&flow(*who, 1)).map(|found| found.packets), Some(*packets));
                }
            }
        }
    }
}
