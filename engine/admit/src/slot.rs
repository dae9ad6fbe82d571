//! Slots and their handles.
//!
//! A handle is an index and a generation. The generation of an index grows each time its slot ends, and an index whose
//! generations are used up is never given out again, so a stale handle is never another slot.

use crate::quantity::Quantity;
use crate::state::SlotState;
use alloc::vec::Vec;
use terms::{Misuse, Rate, Time, Window};

/// A handle of a slot in one table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId {
    index: u32,
    generation: u32,
}

impl SlotId {
    /// The handle as one number, for logs, journals and the API.
    pub const fn as_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The handle of a number from [`SlotId::as_u64`]. Any number is safe: the table does not know a wrong
    /// one.
    pub const fn from_u64(number: u64) -> SlotId {
        SlotId { index: number as u32, generation: (number >> 32) as u32 }
    }
}

/// A slot of a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot<Q = Rate> {
    /// The time in which it counts; an open slot counts from its opening for ever.
    pub window: Window,
    /// Its amount.
    pub amount: Q,
    /// Its state.
    pub state: SlotState,
    /// Held: the instant at which it expires. Open: the instant from which a booking may displace it
    /// ([`Time::FOREVER`]: never). Without meaning in other states.
    pub until: Time,
    /// True if its opening has been told ([`crate::SlotNotice::Opens`]); always true for an open slot.
    pub begun: bool,
}

#[derive(Clone, Debug)]
struct Entry<Q> {
    window: Window,
    amount: Q,
    until: Time,
    generation: u32,
    state: Option<SlotState>,
    begun: bool,
}

/// All slots of a table, by handle.
#[derive(Clone, Debug)]
pub(crate) struct Slots<Q> {
    entries: Vec<Entry<Q>>,
    vacant: Vec<u32>,
    live: usize,
}

impl<Q: Quantity> Slots<Q> {
    pub(crate) fn new() -> Slots<Q> {
        Slots { entries: Vec::new(), vacant: Vec::new(), live: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Adds a slot. The caller has checked the limit, which is below `u32::MAX`.
    pub(crate) fn insert(&mut self, slot: Slot<Q>) -> SlotId {
        self.live += 1;
        if let Some(index) = self.vacant.pop() {
            let entry = &mut self.entries[index as usize];
            let generation = entry.generation;
            *entry = Entry::of(slot, generation);
            return SlotId { index, generation };
        }
        let index = self.entries.len() as u32;
        self.entries.push(Entry::of(slot, 0));
        SlotId { index, generation: 0 }
    }

    pub(crate) fn get(&self, id: SlotId) -> Result<Slot<Q>, Misuse> {
        match self.entries.get(id.index as usize) {
            Some(entry) if entry.generation == id.generation => entry.slot().ok_or(Misuse::UnknownHandle),
            _ => Err(Misuse::UnknownHandle),
        }
    }

    /// Replaces a slot that [`Slots::get`] has just found.
    pub(crate) fn put(&mut self, id: SlotId, slot: Slot<Q>) {
        let entry = &mut self.entries[id.index as usize];
        debug_assert!(entry.generation == id.generation && entry.state.is_some());
        *entry = Entry::of(slot, id.generation);
    }

    /// Ends a slot that [`Slots::get`] has just found.
    pub(crate) fn remove(&mut self, id: SlotId) {
        let entry = &mut self.entries[id.index as usize];
        debug_assert!(entry.generation == id.generation && entry.state.is_some());
        entry.state = None;
        self.live -= 1;
        if entry.generation < u32::MAX {
            entry.generation += 1;
            self.vacant.push(id.index);
        }
    }

    /// Every slot, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotId, Slot<Q>)> + '_ {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let slot = entry.slot()?;
            Some((SlotId { index: index as u32, generation: entry.generation }, slot))
        })
    }

    /// Bytes of memory that the slots take.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<Q>>() + self.vacant.capacity() * size_of::<u32>()
    }
}

impl<Q: Quantity> Entry<Q> {
    fn of(slot: Slot<Q>, generation: u32) -> Entry<Q> {
        Entry {
            window: slot.window,
            amount: slot.amount,
            until: slot.until,
            generation,
            state: Some(slot.state),
            begun: slot.begun,
        }
    }

    fn slot(&self) -> Option<Slot<Q>> {
        let state = self.state?;
        Some(Slot { window: self.window, amount: self.amount, state, until: self.until, begun: self.begun })
    }
}
