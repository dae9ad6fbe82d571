//! A flat table from 32-bit names to small values: one probe, and no allocation unless it grows.
//!
//! Names come in runs (a neighbour counts its messages up), so sixteen neighbouring names share a run of
//! cells and a summary refresh walks memory in order. A keyed hash places the runs, so that a node that picks
//! names cannot pick collisions.

use crate::index::Index;

pub(super) struct Flat<V> {
    cells: Index<Option<(u32, V)>>,
    key: u64,
}

/// Two to this power is the number of names in a run.
const RUN: u32 = 4;

impl<V: Copy> Flat<V> {
    pub fn new(key: u64) -> Flat<V> {
        Flat { cells: Index::new(), key }
    }

    /// The number of names, including dead ones that were not forgotten yet.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// The place and value of a name.
    #[inline]
    fn find(&self, name: u32) -> Option<(usize, V)> {
        let is = |cell: &Option<(u32, V)>| cell.as_ref().is_some_and(|(n, _)| *n == name);
        let (place, cell) = self.cells.find(home(self.key, name), is)?;
        cell.as_ref().map(|(_, value)| (place, *value))
    }

    #[inline]
    pub fn get(&self, name: u32) -> Option<V> {
        self.find(name).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, name: u32) -> Option<&mut V> {
        let (place, _) = self.find(name)?;
        self.cells.at_mut(place)?.as_mut().map(|(_, value)| value)
    }

    /// Keeps a value under a name, in the place of an older one. Before it grows it forgets the entries for
    /// which `live` is false.
    pub fn put(&mut self, name: u32, value: V, live: impl Fn(u32, &V) -> bool) {
        if let Some(old) = self.get_mut(name) {
            *old = value;
            return;
        }
        let key = self.key;
        if self.cells.is_full() {
            let lives = |cell: &Option<(u32, V)>| cell.as_ref().is_some_and(|(n, v)| live(*n, v));
            let living = self.cells.iter().filter(|cell| lives(cell)).count();
            let size = (living * 2 + 1).next_power_of_two().max(1 << RUN);
            self.cells.resize(size, lives, |cell| home_of(key, cell));
        }
        self.cells.insert(Some((name, value)), |cell| home_of(key, cell));
    }

    /// Forgets a name, and returns its value.
    pub fn take(&mut self, name: u32) -> Option<V> {
        let (place, value) = self.find(name)?;
        let key = self.key;
        self.cells.remove(place, |cell| home_of(key, cell));
        Some(value)
    }

    pub fn clear(&mut self) {
        self.cells = Index::new();
    }
}

#[inline]
fn home(key: u64, name: u32) -> usize {
    let run = u64::from(name >> RUN) ^ key;
    let mixed = u128::from(run) * u128::from(key | 0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed as u64) ^ ((mixed >> 64) as u64);
    (mixed as usize) << RUN | (name & ((1 << RUN) - 1)) as usize
}

#[inline]
fn home_of<V>(key: u64, cell: &Option<(u32, V)>) -> usize {
    cell.as_ref().map_or(0, |(name, _)| home(key, *name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_is_a_map() {
        for key in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let mut pcg = terms::Rng::seeded(key);
            let (mut flat, mut map) = (Flat::new(key), BTreeMap::new());
            for step in 0..60_000u32 {
                let name = match pcg.next_u64() % 3 {
                    0 => u32::MAX - (pcg.next_u64() % 300) as u32,
                    1 => (pcg.next_u64() % 600) as u32,
                    _ => (pcg.next_u64() % 40) as u32 * 16,
                };
                match pcg.next_u64() % 3 {
                    0 => {
                        flat.put(name, step, |_, _| true);
                        map.insert(name, step);
                    }
                    1 => assert_eq!(flat.take(name), map.remove(&name)),
                    _ => assert_eq!(
                        (flat.get(name), flat.get_mut(name).copied()),
                        (map.get(&name).copied(), map.get(&name).copied())
                    ),
                }
                assert_eq!(flat.len(), map.len());
            }
            assert!(map.iter().all(|(n, v)| flat.get(*n) == Some(*v)));
        }
    }

    /// Dead entries are forgotten before the table grows: its size follows the live ones.
    #[test]
    fn the_dead_leave() {
        let mut flat = Flat::new(7);
        for name in 0..1_000_000u32 {
            flat.put(name, name, |n, _| n + 100 > name);
        }
        assert!(flat.cells.room() <= 1024, "{}", flat.cells.room());
        assert_eq!(flat.get(999_950), Some(999_950));
    }
}
