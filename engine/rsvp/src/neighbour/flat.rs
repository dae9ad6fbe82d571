//! A flat table from 32-bit names to small values: one probe, and no allocation unless it grows.
//!
//! Names come in runs (a neighbour counts its messages up), so sixteen neighbouring names share a run of
//! cells and a summary refresh walks memory in order. A keyed hash places the runs, so that a node that picks
//! names cannot pick collisions.

use alloc::vec::Vec;

pub(super) struct Flat<V> {
    cells: Vec<Option<(u32, V)>>,
    len: usize,
    key: u64,
}

/// Two to this power is the number of names in a run.
const RUN: u32 = 4;

impl<V: Copy> Flat<V> {
    pub fn new(key: u64) -> Flat<V> {
        Flat { cells: Vec::new(), len: 0, key }
    }

    /// The number of names, including dead ones that were not forgotten yet.
    pub fn len(&self) -> usize {
        self.len
    }

    fn home(&self, name: u32) -> usize {
        let run = u64::from(name >> RUN) ^ self.key;
        let mixed = u128::from(run) * u128::from(self.key | 0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed as u64) ^ ((mixed >> 64) as u64);
        (mixed as usize) << RUN | (name & ((1 << RUN) - 1)) as usize
    }

    #[inline]
    pub fn get(&self, name: u32) -> Option<V> {
        let mask = self.cells.len().checked_sub(1)?;
        let mut probe = self.home(name) & mask;
        loop {
            match self.cells[probe] {
                Some((n, value)) if n == name => return Some(value),
                Some(_) => probe = (probe + 1) & mask,
                None => return None,
            }
        }
    }

    pub fn get_mut(&mut self, name: u32) -> Option<&mut V> {
        let mask = self.cells.len().checked_sub(1)?;
        let mut probe = self.home(name) & mask;
        while let Some((n, _)) = self.cells[probe] {
            if n == name {
                return self.cells[probe].as_mut().map(|(_, value)| value);
            }
            probe = (probe + 1) & mask;
        }
        None
    }

    /// Keeps a value under a name, in the place of an older one. Before it grows it forgets the entries for
    /// which `live` is false.
    pub fn put(&mut self, name: u32, value: V, live: impl Fn(u32, &V) -> bool) {
        if let Some(old) = self.get_mut(name) {
            *old = value;
            return;
        }
        if (self.len + 1) * 4 > self.cells.len() * 3 {
            let living = self.cells.iter().flatten().filter(|(n, v)| live(*n, v)).count();
            let size = (living * 2 + 1).next_power_of_two().max(1 << RUN);
            let old = core::mem::replace(&mut self.cells, alloc::vec![None; size]);
            self.len = 0;
            for (n, v) in old.into_iter().flatten().filter(|(n, v)| live(*n, v)) {
                self.place(n, v);
            }
        }
        self.place(name, value);
    }

    fn place(&mut self, name: u32, value: V) {
        let mask = self.cells.len() - 1;
        let mut probe = self.home(name) & mask;
        while self.cells[probe].is_some() {
            probe = (probe + 1) & mask;
        }
        self.cells[probe] = Some((name, value));
        self.len += 1;
    }

    /// Forgets a name, and returns its value.
    pub fn take(&mut self, name: u32) -> Option<V> {
        let mask = self.cells.len().checked_sub(1)?;
        let mut gap = self.home(name) & mask;
        let value = loop {
            match self.cells[gap] {
                Some((n, value)) if n == name => break value,
                Some(_) => gap = (gap + 1) & mask,
                None => return None,
            }
        };
        let mut probe = (gap + 1) & mask;
        while let Some((n, _)) = self.cells[probe] {
            let home = self.home(n) & mask;
            // A cell may move back to the gap if its home is not between the gap and itself.
            if probe.wrapping_sub(home) & mask >= probe.wrapping_sub(gap) & mask {
                self.cells[gap] = self.cells[probe];
                gap = probe;
            }
            probe = (probe + 1) & mask;
        }
        self.cells[gap] = None;
        self.len -= 1;
        Some(value)
    }

    pub fn clear(&mut self) {
        self.cells.clear();
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn it_is_a_map() {
        for key in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let mut pcg = crate::pcg::Pcg::new(key);
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
        assert!(flat.cells.len() <= 1024, "{}", flat.cells.len());
        assert_eq!(flat.get(999_950), Some(999_950));
    }
}
