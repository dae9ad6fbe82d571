//! A 4-ary heap whose entries can be moved and removed by name, in O(log n), without allocating.
//!
//! The place of each entry is kept in a table outside, so that many heaps whose members are disjoint (the children of
//! each class) share one. Equal keys go by the lower name, so the order never depends on history.

use alloc::vec::Vec;

/// The children of an entry: with four, the tree is shallower than with two, and its comparisons lie side by side in
/// memory.
const ARITY: usize = 4;

/// The place of a name that is in no heap.
pub const ABSENT: u32 = u32::MAX;

/// A heap of names with keys, least first.
#[derive(Clone, Debug)]
pub struct Heap<K> {
    entries: Vec<(K, u32)>,
}

impl<K: Ord + Copy> Default for Heap<K> {
    fn default() -> Self {
        Heap { entries: Vec::new() }
    }
}

impl<K: Ord + Copy> Heap<K> {
    /// Reserves room for `n` entries in all.
    pub fn reserve(&mut self, n: usize) {
        if n > self.entries.capacity() {
            self.entries.reserve(n - self.entries.len());
        }
    }

    /// The least entry: its key and its name.
    pub fn first(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds `name`, which must not be in the heap.
    pub fn insert(&mut self, places: &mut [u32], key: K, name: u32) {
        self.entries.push((key, name));
        self.up(places, self.entries.len() - 1);
    }

    /// Changes the key of `name`, which must be in the heap.
    pub fn update(&mut self, places: &mut [u32], key: K, name: u32) {
        let at = places[name as usize] as usize;
        let old = self.entries[at].0;
        self.entries[at].0 = key;
        if key < old {
            self.up(places, at);
        } else {
            self.down(places, at);
        }
    }

    /// Removes `name`, which must be in the heap.
    pub fn remove(&mut self, places: &mut [u32], name: u32) {
        let at = places[name as usize] as usize;
        places[name as usize] = ABSENT;
        self.entries.swap_remove(at);
        if at < self.entries.len() {
            // What came from the end may belong higher (it comes from another branch) or lower.
            let at = self.up(places, at);
            self.down(places, at);
        }
    }

    /// Changes every key at once; `change` must keep their order.
    pub fn map_keys(&mut self, change: impl Fn(K) -> K) {
        for (key, _) in &mut self.entries {
            *key = change(*key);
        }
    }

    fn up(&mut self, places: &mut [u32], mut at: usize) -> usize {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.entries[parent] <= entry {
                break;
            }
            self.entries[at] = self.entries[parent];
            places[self.entries[at].1 as usize] = at as u32;
            at = parent;
        }
        self.entries[at] = entry;
        places[entry.1 as usize] = at as u32;
        at
    }

    fn down(&mut self, places: &mut [u32], mut at: usize) {
        let entry = self.entries[at];
        loop {
            let first = ARITY * at + 1;
            let Some(children) = self.entries.get(first..self.entries.len().min(first + ARITY)) else { break };
            let Some((least, _)) = children.iter().enumerate().min_by_key(|(_, entry)| **entry) else { break };
            let child = first + least;
            if entry <= self.entries[child] {
                break;
            }
            self.entries[at] = self.entries[child];
            places[self.entries[at].1 as usize] = at as u32;
            at = child;
        }
        self.entries[at] = entry;
        places[entry.1 as usize] = at as u32;
    }
}
