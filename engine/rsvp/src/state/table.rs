//! Flat tables of state blocks: a slab of blocks, a keyed hash index over their keys, and chains through the blocks
//! that belong together (the path states of a session).
//!
//! Reasons for our own tables: blocks keep their number for life, so that chains and timers can name them in
//! four bytes; no memory is allocated for a block that takes a freed place. The index holds a part of each
//! hash beside the number: an absent key costs one cache line of the index and no look at a block, a present
//! one costs a line of the index and the block itself, and the index grows without looking at keys. The slab
//! grows by pages, so that blocks are never moved. The hash is keyed, so that a node that picks addresses and
//! ports cannot pick collisions.

use crate::index::{HashedWord, Index};
use alloc::vec::Vec;
use core::cell::Cell;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::ops;

/// The number of a block of type `V`.
pub struct BlockId<V>(u32, PhantomData<fn() -> V>);

const NOWHERE: u32 = u32::MAX;

/// A chain through blocks of one table: its first block.
pub struct Chain<V> {
    head: u32,
    len: u32,
    of: PhantomData<fn() -> V>,
}

/// Blocks `V` by key `K`.
pub struct BlockTable<K, V> {
    /// The pages; all but the last are full.
    pages: Vec<Vec<Slot<K, V>>>,
    free: u32,
    len: usize,
    /// The place of each block, by its key's hash.
    index: Index<HashedWord>,
    keys: (u64, u64),
    /// The number of blocks that walks over chains have looked at.
    walked: Cell<u64>,
}

/// Blocks of a page; the first page grows up to this size.
const PAGE: usize = 1 << 10;

enum Slot<K, V> {
    Taken { key: K, prev: u32, next: u32, value: V },
    Free { next: u32 },
}

impl<K: Copy + Eq + Hash, V> BlockTable<K, V> {
    /// An empty table whose hash is keyed by `keys`.
    pub fn new(keys: (u64, u64)) -> BlockTable<K, V> {
        BlockTable { pages: Vec::new(), free: NOWHERE, len: 0, index: Index::new(), keys, walked: Cell::new(0) }
    }

    /// The number of blocks that walks over chains have looked at since the start.
    pub fn walked(&self) -> u64 {
        self.walked.get()
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The block of this key.
    pub fn find(&self, key: &K) -> Option<BlockId<V>> {
        let hash = self.hash(key);
        let found = self.index.find(hash as usize, |cell| cell.hash == hash && self.key_at(cell.word) == *key);
        found.map(|(_, cell)| BlockId::new(cell.word))
    }

    /// A new block at the front of `chain`. The key must be new.
    pub fn insert(&mut self, chain: &mut Chain<V>, key: K, value: V) -> BlockId<V> {
        debug_assert!(self.find(&key).is_none(), "a key is inserted once");
        let taken = Slot::Taken { key, prev: NOWHERE, next: chain.head, value };
        let slot = match self.free {
            NOWHERE => self.push(taken),
            slot => {
                if let Slot::Free { next } = *self.at(slot) {
                    self.free = next;
                }
                *self.at_mut(slot) = taken;
                slot
            }
        };
        if chain.head != NOWHERE
            && let Slot::Taken { prev, .. } = self.at_mut(chain.head)
        {
            *prev = slot;
        }
        chain.head = slot;
        chain.len += 1;
        self.len += 1;
        self.index.insert(HashedWord { hash: self.hash(&key), word: slot }, HashedWord::home);
        BlockId::new(slot)
    }

    /// Takes a block out of the table and out of `chain`, which must be its chain.
    pub fn remove(&mut self, chain: &mut Chain<V>, id: BlockId<V>) -> V {
        self.forget(id.0);
        let free = Slot::Free { next: self.free };
        let old = core::mem::replace(self.at_mut(id.0), free);
        self.free = id.0;
        self.len -= 1;
        let Slot::Taken { prev, next, value, .. } = old else {
            unreachable!("`forget` has looked at this block's key");
        };
        if prev == NOWHERE {
            chain.head = next;
        } else if let Slot::Taken { next: n, .. } = self.at_mut(prev) {
            *n = next;
        }
        if next != NOWHERE
            && let Slot::Taken { prev: p, .. } = self.at_mut(next)
        {
            *p = prev;
        }
        chain.len -= 1;
        value
    }

    /// A new block in no chain.
    pub fn insert_alone(&mut self, key: K, value: V) -> BlockId<V> {
        self.insert(&mut Chain::new(), key, value)
    }

    /// Takes out a block that is in no chain.
    pub fn remove_alone(&mut self, id: BlockId<V>) -> V {
        self.remove(&mut Chain { head: id.0, len: 1, of: PhantomData }, id)
    }

    /// The block of this number, if it has not been taken out.
    pub fn get(&self, id: BlockId<V>) -> Option<&V> {
        match self.pages.get(id.0 as usize / PAGE)?.get(id.0 as usize % PAGE)? {
            Slot::Taken { value, .. } => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// The same, mutably.
    pub fn get_mut(&mut self, id: BlockId<V>) -> Option<&mut V> {
        match self.pages.get_mut(id.0 as usize / PAGE)?.get_mut(id.0 as usize % PAGE)? {
            Slot::Taken { value, .. } => Some(value),
            Slot::Free { .. } => None,
        }
    }

    /// The key of a block.
    pub fn key(&self, id: BlockId<V>) -> K {
        self.key_at(id.0)
    }

    /// The block after this one in its chain.
    fn after(&self, slot: u32) -> Option<u32> {
        match self.at(slot) {
            Slot::Taken { next, .. } if *next != NOWHERE => Some(*next),
            _ => None,
        }
    }

    /// The blocks of a chain, the youngest first.
    pub fn chain(&self, chain: &Chain<V>) -> impl Iterator<Item = BlockId<V>> + Clone {
        let first = Some(chain.head).filter(|h| *h != NOWHERE);
        core::iter::successors(first, |slot| self.after(*slot)).map(|slot| {
            self.walked.set(self.walked.get().wrapping_add(1));
            BlockId::new(slot)
        })
    }

    /// All blocks, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (BlockId<V>, &K, &V)> {
        self.pages.iter().flatten().enumerate().filter_map(|(i, slot)| match slot {
            Slot::Taken { key, value, .. } => Some((BlockId::new(i as u32), key, value)),
            Slot::Free { .. } => None,
        })
    }

    /// The number of places, free ones among them.
    pub fn places(&self) -> u32 {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE + last.len()) as u32
    }

    /// The blocks in these places.
    pub fn between(&self, places: ops::Range<u32>) -> impl Iterator<Item = BlockId<V>> {
        let taken = |slot: &u32| matches!(self.at(*slot), Slot::Taken { .. });
        (places.start..places.end.min(self.places())).filter(taken).map(BlockId::new)
    }

    fn key_at(&self, slot: u32) -> K {
        match self.at(slot) {
            Slot::Taken { key, .. } => *key,
            Slot::Free { .. } => unreachable!("the index and the chains name taken places only"),
        }
    }

    fn hash(&self, key: &K) -> u32 {
        let mut hasher = Folded { state: self.keys.0, key: self.keys.1 | 1 };
        key.hash(&mut hasher);
        hasher.finish() as u32
    }

    /// A new place behind the last.
    fn push(&mut self, taken: Slot<K, V>) -> u32 {
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            let room = if self.pages.is_empty() { 0 } else { PAGE };
            self.pages.push(Vec::with_capacity(room));
        }
        let page = self.pages.len() - 1;
        self.pages[page].push(taken);
        (page * PAGE + self.pages[page].len() - 1) as u32
    }

    /// Takes a place out of the index.
    fn forget(&mut self, slot: u32) {
        let home = self.hash(&self.key_at(slot)) as usize;
        let place = self.index.find(home, |cell| cell.word == slot);
        if let Some((place, _)) = place {
            self.index.remove(place, HashedWord::home);
        }
    }
}

impl<K, V> BlockTable<K, V> {
    fn at(&self, slot: u32) -> &Slot<K, V> {
        &self.pages[slot as usize / PAGE][slot as usize % PAGE]
    }

    fn at_mut(&mut self, slot: u32) -> &mut Slot<K, V> {
        &mut self.pages[slot as usize / PAGE][slot as usize % PAGE]
    }
}

impl<K, V> ops::Index<BlockId<V>> for BlockTable<K, V> {
    type Output = V;
    fn index(&self, id: BlockId<V>) -> &V {
        match self.at(id.0) {
            Slot::Taken { value, .. } => value,
            Slot::Free { .. } => unreachable!("an id is not used after its block was removed"),
        }
    }
}

impl<K, V> ops::IndexMut<BlockId<V>> for BlockTable<K, V> {
    fn index_mut(&mut self, id: BlockId<V>) -> &mut V {
        match self.at_mut(id.0) {
            Slot::Taken { value, .. } => value,
            Slot::Free { .. } => unreachable!("an id is not used after its block was removed"),
        }
    }
}

impl<V> Chain<V> {
    /// An empty chain.
    pub const fn new() -> Chain<V> {
        Chain { head: NOWHERE, len: 0, of: PhantomData }
    }

    /// The number of its blocks.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if it has no blocks.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<V> Default for Chain<V> {
    fn default() -> Chain<V> {
        Chain::new()
    }
}

impl<V> BlockId<V> {
    fn new(slot: u32) -> BlockId<V> {
        BlockId(slot, PhantomData)
    }

    /// The number of its place.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The block at a place that [`BlockId::number`] gave; it may be another by now, or none.
    pub fn of_number(number: u32) -> BlockId<V> {
        BlockId::new(number)
    }
}

impl<V> Clone for BlockId<V> {
    fn clone(&self) -> BlockId<V> {
        *self
    }
}

impl<V> Copy for BlockId<V> {}

impl<V> PartialEq for BlockId<V> {
    fn eq(&self, other: &BlockId<V>) -> bool {
        self.0 == other.0
    }
}

impl<V> Eq for BlockId<V> {}

impl<V> Hash for BlockId<V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.0);
    }
}

impl<V> core::fmt::Debug for BlockId<V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A keyed hash by folded multiplication: each word is mixed by a 64 x 64 -> 128 bit product whose halves are
/// combined by exclusive or.
struct Folded {
    state: u64,
    key: u64,
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.key ^ 0x9e37_79b9_7f4a_7c15);
        self.state = (product as u64) ^ ((product >> 64) as u64) ^ self.key.rotate_left(23);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        let product = u128::from(self.state) * 0x9fb2_1c65_1e98_df25_u128;
        (product as u64) ^ ((product >> 64) as u64)
    }
}

#[cfg(test)]
mod tests;
