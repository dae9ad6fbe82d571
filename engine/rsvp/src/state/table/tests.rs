//! The table against a map and lists from the standard library.

use super::{BlockId, BlockTable, Chain};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u8, u8),
    Remove(u8),
    Find(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (any::<u8>(), 0u8..3).prop_map(|(k, c)| Step::Insert(k, c)),
        2 => any::<u8>().prop_map(Step::Remove),
        1 => any::<u8>().prop_map(Step::Find),
    ];
    prop::collection::vec(step, 0..600)
}

/// A key whose hash is the same for many: probes run into each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Crowded(u8);

impl Hash for Crowded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.0 % 3);
    }
}

fn run<K: Copy + Eq + Hash + core::fmt::Debug>(steps: &[Step], key: impl Fn(u8) -> K, keys: (u64, u64)) {
    let mut table: BlockTable<K, u8> = BlockTable::new(keys);
    let mut chains: [Chain<u8>; 3] = Default::default();
    let mut known: BTreeMap<u8, (BlockId<u8>, usize)> = BTreeMap::new();
    let mut order: [Vec<u8>; 3] = Default::default();
    for step in steps {
        match *step {
            Step::Insert(k, c) if !known.contains_key(&k) => {
                let id = table.insert(&mut chains[usize::from(c)], key(k), k);
                known.insert(k, (id, usize::from(c)));
                order[usize::from(c)].insert(0, k);
            }
            Step::Remove(k) => {
                if let Some((id, c)) = known.remove(&k) {
                    assert_eq!(table.remove(&mut chains[c], id), k);
                    order[c].retain(|o| *o != k);
                }
            }
            Step::Insert(k, _) | Step::Find(k) => {
                assert_eq!(table.find(&key(k)), known.get(&k).map(|(id, _)| *id));
            }
        }
        assert_eq!(table.len(), known.len());
    }
    for (k, (id, _)) in &known {
        assert_eq!((table[*id], table.key(*id), table.find(&key(*k))), (*k, key(*k), Some(*id)));
    }
    for (chain, order) in chains.iter().zip(&order) {
        let found: Vec<u8> = table.chain(chain).map(|id| table[id]).collect();
        assert_eq!((&found, chain.len(), chain.is_empty()), (order, order.len(), order.is_empty()));
    }
    assert_eq!(table.iter().count(), known.len());
}

proptest! {
    #![proptest_config(chance::cases(256))]

    #[test]
    fn like_a_map_with_lists(steps in steps(), a in any::<u64>(), b in any::<u64>()) {
        run(&steps, |k| k, (a, b));
    }

    #[test]
    fn like_a_map_when_all_hashes_collide(steps in steps()) {
        run(&steps, Crowded, (0, 0));
    }
}

/// The hash spreads keys that differ in one octet of an address or in a port, as sessions do.
#[test]
fn similar_sessions_spread() {
    let mut table: BlockTable<terms::Session, ()> = BlockTable::new((1, 2));
    for n in 0..40_000u32 {
        let [_, a, b, c] = n.to_be_bytes();
        let dst = [10, a, b, c & 0xf0].into();
        let session = terms::Session { dst, protocol: 17, dst_port: u16::from(c & 0x0f) };
        table.insert_alone(session, ());
    }
    let (mean, longest) = probes(&table);
    assert!(mean < 3.0 && longest < 120, "mean {mean} longest {longest}");
}

/// How many places are looked at to find a key, on average and at most.
fn probes<K: Copy + Eq + Hash, V>(table: &BlockTable<K, V>) -> (f64, usize) {
    let (mut sum, mut most) = (0, 0);
    for (id, key, _) in table.iter() {
        let home = table.hash(key) as usize;
        let at = table.index.probe(home).position(|(_, cell)| cell.word == id.0).expect("it is there");
        sum += at + 1;
        most = most.max(at + 1);
    }
    (sum as f64 / table.len() as f64, most)
}

/// A place that was freed is taken again: tables do not grow under coming and going.
#[test]
fn freed_places_are_taken_again() {
    let mut table: BlockTable<u32, u32> = BlockTable::new((3, 4));
    for n in 0..100_000 {
        let id = table.insert_alone(n, n);
        assert_eq!(table.remove_alone(id), n);
    }
    assert_eq!((table.pages.len(), table.pages[0].len(), table.index.room()), (1, 1, 16));
}

/// Blocks lie still while the table grows over many pages.
#[test]
fn pages_hold_what_they_were_given() {
    let mut table: BlockTable<u32, u32> = BlockTable::new((5, 6));
    let mut chain = Chain::new();
    let ids: Vec<_> = (0..5_000).map(|n| table.insert(&mut chain, n, n * 7)).collect();
    for (n, id) in (0..).zip(&ids).filter(|(n, _)| n % 3 == 0) {
        assert_eq!(table.remove(&mut chain, *id), n * 7);
    }
    assert_eq!(table.len(), 3_333);
    for (n, id) in (0..).zip(&ids) {
        assert_eq!(table.find(&n), Some(*id).filter(|_| n % 3 != 0));
    }
    assert_eq!(
        table.chain(&chain).map(|id| table[id] / 7).collect::<Vec<_>>(),
        (0..5_000).filter(|n| n % 3 != 0).rev().collect::<Vec<_>>()
    );
}

/// So do the keys of blocks: the number of a session and a sender that is the same for all.
#[test]
fn block_keys_spread() {
    let sender = terms::SenderTemplate { src: [10, 1, 1, 1].into(), src_port: 5004 };
    for keys in [(1, 2), (0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321)] {
        let mut table: BlockTable<(BlockId<()>, terms::SenderTemplate), ()> = BlockTable::new(keys);
        for n in 0..100_000 {
            table.insert_alone((BlockId::new(n), sender), ());
        }
        let (mean, longest) = probes(&table);
        assert!(mean < 3.0 && longest < 120, "mean {mean} longest {longest}");
    }
}
