//! The table of session blocks: blocks with a fixed number (timers refer to it), a keyed hash index over
//! their keys, and the masks in use.

use crate::half::{EXACT, Half, HalfKey};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use hashbrown::HashTable;
use wire::boomerang::Selector;

/// The table of session blocks.
#[derive(Debug)]
pub(crate) struct Table {
    blocks: Vec<Option<Block>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    keys: [u64; 2],
    masks: BTreeMap<Selector, (u16, u32)>,
    by_number: BTreeMap<u16, Selector>,
}

#[derive(Debug)]
struct Block {
    hash: u64,
    key: HalfKey,
    half: Half,
}

impl Table {
    /// An empty table with a keyed hash, so that a stranger cannot choose flows that collide.
    pub fn new(keys: [u64; 2]) -> Table {
        Table {
            blocks: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            keys,
            masks: BTreeMap::new(),
            by_number: BTreeMap::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// The upper bound of block numbers, exclusive.
    pub fn bound(&self) -> usize {
        self.blocks.len()
    }

    pub fn find(&self, key: &HalfKey) -> Option<u32> {
        let hash = self.hash(key);
        self.index.find(hash, |id| self.block(*id).is_some_and(|block| block.key == *key)).copied()
    }

    pub fn insert(&mut self, key: HalfKey, half: Half) -> u32 {
        let hash = self.hash(&key);
        let block = Some(Block { hash, key, half });
        let id = match self.free.pop() {
            Some(id) => {
                self.blocks[id as usize] = block;
                id
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() as u32 - 1
            }
        };
        if let Some(mask) = self.by_number.get(&key.mask).and_then(|mask| self.masks.get_mut(mask)) {
            mask.1 += 1;
        }
        let blocks = &self.blocks;
        self.index.insert_unique(hash, id, |id| blocks[*id as usize].as_ref().map_or(0, |block| block.hash));
        id
    }

    pub fn remove(&mut self, id: u32) -> Option<(HalfKey, Half)> {
        let Block { hash, key, half } = self.blocks.get_mut(id as usize)?.take()?;
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == id) {
            entry.remove();
        }
        self.free.push(id);
        self.unmask(key.mask);
        Some((key, half))
    }

    pub fn get(&self, id: u32) -> Option<(&HalfKey, &Half)> {
        self.block(id).map(|block| (&block.key, &block.half))
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Half> {
        self.blocks.get_mut(id as usize)?.as_mut().map(|block| &mut block.half)
    }

    /// The keyed hash of a block's key.
    pub fn hash_at(&self, id: u32) -> Option<u64> {
        self.block(id).map(|block| block.hash)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &HalfKey, &Half)> {
        let blocks = self.blocks.iter().enumerate();
        blocks.filter_map(|(id, block)| block.as_ref().map(|block| (id as u32, &block.key, &block.half)))
    }

    /// The number of a mask that is in use, or of the whole five-tuple's.
    pub fn mask_known(&self, mask: &Selector) -> Option<u16> {
        if mask.is_exact() { Some(EXACT) } else { self.masks.get(&plain(mask)).map(|(number, _)| *number) }
    }

    /// The number of a mask; a new one if fewer than `most` are in use. Its last block releases it.
    pub fn mask(&mut self, mask: &Selector, most: usize) -> Option<u16> {
        if let Some(number) = self.mask_known(mask) {
            return Some(number);
        }
        if self.masks.len() >= most.min(usize::from(u16::MAX)) {
            return None;
        }
        let number = (1..=u16::MAX).find(|number| !self.by_number.contains_key(number))?;
        self.masks.insert(plain(mask), (number, 0));
        self.by_number.insert(number, plain(mask));
        Some(number)
    }

    /// The mask with a number; `None` for the whole five-tuple's.
    pub fn mask_of(&self, number: u16) -> Option<&Selector> {
        self.by_number.get(&number)
    }

    fn unmask(&mut self, number: u16) {
        let Some(mask) = self.by_number.get(&number) else { return };
        let Some((_, users)) = self.masks.get_mut(mask) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.masks.remove(mask);
            self.by_number.remove(&number);
        }
    }

    fn block(&self, id: u32) -> Option<&Block> {
        self.blocks.get(id as usize)?.as_ref()
    }

    fn hash(&self, key: &HalfKey) -> u64 {
        let flow = &key.flow;
        let ports = u64::from(flow.src_port) << 48 | u64::from(flow.dst_port) << 32;
        let rest = u64::from(flow.protocol) << 16 | u64::from(key.mask);
        let mut state = self.mix(self.keys[0], ports | u64::from(key.oif.0));
        state = self.mix(state, rest);
        match (flow.src, flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                self.mix(state, u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits()))
            }
            (src, dst) => {
                for address in [src, dst] {
                    let bits = bits(address);
                    state = self.mix(state, bits as u64);
                    state = self.mix(state, (bits >> 64) as u64);
                }
                state
            }
        }
    }

    fn mix(&self, state: u64, word: u64) -> u64 {
        let product = u128::from(state ^ word) * u128::from(self.keys[1] | 1);
        (product as u64) ^ ((product >> 64) as u64) ^ self.keys[0].rotate_left(23)
    }
}

pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn plain(mask: &Selector) -> Selector {
    Selector { tos: 0, flags: 0, ..*mask }
}
