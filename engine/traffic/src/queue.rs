//! First in, first out, with limits in packets and in bytes (tail drop).
//!
//! The packets of all queues of one port lie in one [`Pool`], linked by index, so that a thousand mostly
//! empty queues cost a thousand headers and not a thousand buffers, and no packet allocates: memory is
//! reserved when a queue is made. [`TwoLevels`] are two queues that share one limit, with push-out.

mod two_levels;

pub use two_levels::{LevelVerdict, QueueLevel, TwoLevels};

use crate::spec::QueueSpec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// The limit that refused a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The queue's limit in packets.
    Packets,
    /// The queue's limit in bytes.
    Bytes,
    /// The pool that all queues share.
    Pool,
}

/// The packets of many queues.
#[derive(Clone, Debug)]
pub struct Pool<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    limit: u32,
    used: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    item: T,
    bytes: u32,
    next: u32,
    /// The packet in front of it in its queue. It means nothing for the head.
    before: u32,
}

impl<T: Copy> Pool<T> {
    /// A pool without room; it grows by [`Pool::reserve`], to at most `limit` packets.
    pub fn new(limit: u32) -> Pool<T> {
        Pool { slots: Vec::new(), free: NONE, limit: limit.min(NONE - 1), used: 0 }
    }

    /// Reserves memory for `packets` packets in all, or for the limit if that is less. The only place that allocates.
    pub fn reserve(&mut self, packets: u64) {
        let want = packets.min(u64::from(self.limit)) as usize;
        if want > self.slots.capacity() {
            self.slots.reserve_exact(want - self.slots.len());
        }
    }

    /// The number of packets for which memory is reserved.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// The number of packets in all queues.
    pub fn len(&self) -> u32 {
        self.used
    }

    /// True if every queue is empty.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    fn insert(&mut self, bytes: u32, item: T, before: u32) -> Option<u32> {
        let slot = Slot { item, bytes, next: NONE, before };
        let at = if self.free != NONE {
            let at = self.free;
            self.free = self.slots[at as usize].next;
            self.slots[at as usize] = slot;
            at
        } else {
            if self.slots.len() == self.slots.capacity() || self.slots.len() >= self.limit as usize {
                return None;
            }
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        };
        self.used += 1;
        Some(at)
    }

    fn take(&mut self, at: u32) -> Slot<T> {
        let slot = self.slots[at as usize];
        self.slots[at as usize].next = self.free;
        self.free = at;
        self.used -= 1;
        slot
    }
}

/// One queue.
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    spec: QueueSpec,
    head: u32,
    tail: u32,
    packets: u32,
    bytes: u64,
}

impl Fifo {
    /// An empty queue.
    pub const fn new(spec: QueueSpec) -> Fifo {
        Fifo { spec, head: NONE, tail: NONE, packets: 0, bytes: 0 }
    }

    /// The limits of the queue.
    pub fn spec(&self) -> QueueSpec {
        self.spec
    }

    /// Changes the limits. Queued packets stay, even above the new limits.
    pub fn set_spec(&mut self, spec: QueueSpec) {
        self.spec = spec;
    }

    /// The number of waiting packets.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// The bytes of the waiting packets.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if no packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// True if a packet of `bytes` would not exceed a limit.
    pub fn has_room(&self, bytes: u32) -> bool {
        self.packets < self.spec.packets && self.bytes.saturating_add(u64::from(bytes)) <= self.spec.bytes.get()
    }

    /// Puts a packet of `bytes` at the tail.
    ///
    /// # Errors
    /// [`Full`]: it would exceed a limit; the queue is unchanged.
    pub fn push<T: Copy>(&mut self, pool: &mut Pool<T>, bytes: u32, item: T) -> Result<(), Full> {
        if self.packets >= self.spec.packets {
            return Err(Full::Packets);
        }
        if self.bytes.saturating_add(u64::from(bytes)) > self.spec.bytes.get() {
            return Err(Full::Bytes);
        }
        let at = pool.insert(bytes, item, self.tail).ok_or(Full::Pool)?;
        if self.tail == NONE {
            self.head = at;
        } else {
            pool.slots[self.tail as usize].next = at;
        }
        self.tail = at;
        self.packets += 1;
        self.bytes += u64::from(bytes);
        Ok(())
    }

    /// Takes the packet at the head, with its bytes.
    pub fn pop<T: Copy>(&mut self, pool: &mut Pool<T>) -> Option<(u32, T)> {
        if self.head == NONE {
            return None;
        }
        let slot = pool.take(self.head);
        self.head = slot.next;
        if self.head == NONE {
            self.tail = NONE;
        }
        self.packets -= 1;
        self.bytes -= u64::from(slot.bytes);
        Some((slot.bytes, slot.item))
    }

    /// Takes the packet at the tail, with its bytes: the one that came last.
    pub fn pop_last<T: Copy>(&mut self, pool: &mut Pool<T>) -> Option<(u32, T)> {
        if self.packets <= 1 {
            return self.pop(pool);
        }
        let slot = pool.take(self.tail);
        self.tail = slot.before;
        pool.slots[self.tail as usize].next = NONE;
        self.packets -= 1;
        self.bytes -= u64::from(slot.bytes);
        Some((slot.bytes, slot.item))
    }

    /// The bytes of the packet at the head.
    pub fn head_bytes<T: Copy>(&self, pool: &Pool<T>) -> Option<u32> {
        if self.head == NONE { None } else { Some(pool.slots[self.head as usize].bytes) }
    }

    /// The packet at the head.
    pub fn head<'a, T: Copy>(&self, pool: &'a Pool<T>) -> Option<&'a T> {
        if self.head == NONE { None } else { Some(&pool.slots[self.head as usize].item) }
    }
}
