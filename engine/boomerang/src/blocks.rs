//! The session blocks of a node, with their timers and traffic control's handles. A block that holds a reservation is
//! found by its handle, and a block that is gone has neither timer nor handle.

use crate::half::{Half, HalfKey, State};
use crate::table::Table;
use alloc::vec::Vec;
use core::net::IpAddr;
use hashbrown::HashTable;
use terms::ports::RHandle;
use terms::{FlowKey, IfIndex, Span, Time};
use wheel::Wheel;
use wire::boomerang::Selector;

/// Resolution of the session blocks' timers: 67 ms, as in the kernel's table.
const TICK: u32 = 26;

/// All session blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    table: Table,
    timers: Wheel,
    handles: HashTable<(RHandle, u32)>,
}

impl Blocks {
    /// No blocks. `keys`: of the table's hash, so that a stranger cannot choose flows that collide.
    pub fn new(keys: [u64; 2]) -> Blocks {
        Blocks { table: Table::new(keys), timers: Wheel::new(TICK, Time::ZERO, 0), handles: HashTable::new() }
    }

    /// The blocks, to be read.
    pub fn table(&self) -> &Table {
        &self.table
    }

    pub fn get(&self, id: u32) -> Option<(&HalfKey, &Half)> {
        self.table.get(id)
    }

    /// The number of a mask; a new one if fewer than `most` are in use.
    pub fn mask(&mut self, mask: &Selector, most: usize) -> Option<u16> {
        self.table.mask(mask, most)
    }

    /// A new block, which holds nothing yet.
    pub fn insert(&mut self, key: HalfKey, half: Half) -> u32 {
        let id = self.table.insert(key, Half { handle: None, rate: 0, ..half });
        // The wheel makes exactly as much room as it is told to: by powers of two, or each new block would move them all.
        self.timers.reserve(self.table.bound().next_power_of_two());
        id
    }

    /// Removes a block with its timer and its handle.
    pub fn remove(&mut self, id: u32) -> Option<(HalfKey, Half)> {
        self.timers.cancel(id);
        let (key, half) = self.table.remove(id)?;
        half.handle.into_iter().for_each(|handle| self.forget(handle));
        Some((key, half))
    }

    /// The block of a handle.
    pub fn whose(&self, handle: RHandle) -> Option<u32> {
        self.handles.find(hash(handle), |(other, _)| *other == handle).map(|(_, id)| *id)
    }

    fn forget(&mut self, handle: RHandle) {
        if let Ok(entry) = self.handles.find_entry(hash(handle), |(other, _)| *other == handle) {
            entry.remove();
        }
    }

    /// A block holds this rate under this handle from now on; it keeps the handle that it had.
    pub fn hold(&mut self, id: u32, handle: RHandle, rate: u32, life: Span) {
        let Some(half) = self.table.get_mut(id) else { return };
        if half.handle.is_none() {
            self.handles.insert_unique(hash(handle), (handle, id), |(handle, _)| hash(*handle));
        }
        let state = if half.state == State::Lost { State::Pending } else { half.state };
        *half = Half { handle: Some(handle), rate, life, state, ..*half };
    }

    /// A block holds nothing any more. The handle that it had.
    pub fn empty(&mut self, id: u32) -> Option<RHandle> {
        let half = self.table.get_mut(id)?;
        let handle = half.handle.take()?;
        half.rate = 0;
        self.forget(handle);
        Some(handle)
    }

    /// A block holds less than before.
    pub fn lower(&mut self, id: u32, rate: u32) {
        if let Some(half) = self.table.get_mut(id) {
            half.rate = rate;
        }
    }

    /// The plane has installed a block's reservation.
    pub fn installed(&mut self, id: u32) {
        if let Some(half) = self.table.get_mut(id) {
            half.state = State::Installed;
        }
    }

    /// The reservation of a handle is lost; its block, which stays.
    pub fn lose(&mut self, handle: RHandle) -> Option<(FlowKey, IfIndex)> {
        let id = self.whose(handle)?;
        self.empty(id);
        self.table.get_mut(id)?.state = State::Lost;
        self.get(id).map(|(key, _)| (key.flow, key.oif))
    }

    /// Records a transaction and the rate before it, for a revert.
    pub fn confirm(&mut self, id: u32, transaction: u32, before: u32) {
        if let Some(half) = self.table.get_mut(id)
            && half.undo.0 != transaction
        {
            half.undo = (transaction, before);
        }
    }

    /// Records a message of a block's session.
    pub fn refresh(&mut self, id: u32, initiator: IpAddr, transaction: u32, life: Span) -> Option<&Half> {
        let half = self.table.get_mut(id)?;
        (half.initiator, half.life) = (initiator, life);
        if half.undo.0 != transaction {
            half.undo = (transaction, half.rate);
        }
        Some(half)
    }

    /// The key of a block's lock has come.
    pub fn unlock(&mut self, id: u32) {
        if let Some(half) = self.table.get_mut(id) {
            half.lock = None;
        }
    }

    /// A block expires at this time.
    pub fn set_timer(&mut self, id: u32, at: Time) {
        self.timers.set(id, at);
    }

    pub fn has_timer(&self, id: u32) -> bool {
        self.timers.is_set(id)
    }

    /// The time at which a block expires unless it is refreshed.
    pub fn expires(&self, id: u32) -> Option<Time> {
        self.timers.due(id)
    }

    /// A block whose timer has expired.
    pub fn expired(&mut self, now: Time) -> Option<u32> {
        self.timers.expire(now)
    }

    pub fn wake_at(&self) -> Option<Time> {
        self.timers.wake_at()
    }

    /// The blocks on an interface.
    pub fn on(&self, interface: IfIndex) -> Vec<u32> {
        self.table.iter().filter(|(_, key, _)| key.oif == interface).map(|(id, ..)| id).collect()
    }
}

fn hash(handle: RHandle) -> u64 {
    handle.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20)
}
