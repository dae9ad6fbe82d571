//! Two levels of strict priority in one buffer, with push-out: the queue of *Measurement-based Admission Control for
//! Controlled-load Service* (Jamin, Jin 1998), section 3, "Queue Manager".
//!
//! The buffer has room for a number of packets in all. A packet of the second level is dropped when the buffer is full. One of
//! the first level takes the place of the second level's last packet then, and is dropped only when its own level fills the
//! buffer. So a router without packets of the first level has the same queue as one that does not know the levels.

use super::{Fifo, Full, Pool};
use crate::spec::QueueSpec;
use terms::Bytes;

/// A level of [`TwoLevels`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLevel {
    /// It is served before the other, and pushes the other's packets out.
    First,
    /// It has what the first leaves.
    Second,
}

/// The fate of a packet that comes to a buffer of two levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LevelVerdict {
    /// It enters.
    Enters,
    /// It enters in the place of the second level's last packet.
    PushesOut,
    /// It is dropped.
    Dropped,
}

impl QueueLevel {
    /// The fate of a packet of this level. `full`: with it the buffer would hold more than it may; `second_waits`: a packet of
    /// the second level is in it.
    #[inline]
    pub const fn verdict(self, full: bool, second_waits: bool) -> LevelVerdict {
        match self {
            _ if !full => LevelVerdict::Enters,
            QueueLevel::First if second_waits => LevelVerdict::PushesOut,
            QueueLevel::First | QueueLevel::Second => LevelVerdict::Dropped,
        }
    }
}

/// Two queues that share one limit in packets. Their packets lie in a [`Pool`], as those of a [`Fifo`].
#[derive(Clone, Copy, Debug)]
pub struct TwoLevels {
    room: u32,
    levels: [Fifo; 2],
}

impl TwoLevels {
    /// Empty queues with room for `room` packets in all.
    pub const fn new(room: u32) -> TwoLevels {
        let level = Fifo::new(QueueSpec { packets: room, bytes: Bytes::new(u64::MAX) });
        TwoLevels { room, levels: [level; 2] }
    }

    /// The room, packets of both levels.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// The number of waiting packets of both levels.
    pub fn packets(&self) -> u32 {
        self.levels[0].packets() + self.levels[1].packets()
    }

    /// The number of waiting packets of a level.
    pub fn packets_of(&self, level: QueueLevel) -> u32 {
        self.levels[level as usize].packets()
    }

    /// True if no packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets() == 0
    }

    /// Puts a packet of `bytes` at the tail of a level. Returns the packet of the second level that it pushed out, with its
    /// bytes.
    ///
    /// # Errors
    /// [`Full`]: there is no room for it; the queues are unchanged.
    pub fn push<T: Copy>(
        &mut self,
        pool: &mut Pool<T>,
        level: QueueLevel,
        bytes: u32,
        item: T,
    ) -> Result<Option<(u32, T)>, Full> {
        let [first, second] = &mut self.levels;
        let full = first.packets() + second.packets() >= self.room;
        match level.verdict(full, !second.is_empty()) {
            LevelVerdict::Dropped => Err(Full::Packets),
            // The place that has just become free is there for it.
            LevelVerdict::PushesOut => {
                let out = second.pop_last(pool);
                first.push(pool, bytes, item).map(|()| out)
            }
            LevelVerdict::Enters => match level {
                QueueLevel::First => first.push(pool, bytes, item).map(|()| None),
                QueueLevel::Second => second.push(pool, bytes, item).map(|()| None),
            },
        }
    }

    /// Takes the next packet, with its level and its bytes: the first level's, else the second's.
    pub fn pop<T: Copy>(&mut self, pool: &mut Pool<T>) -> Option<(QueueLevel, u32, T)> {
        let [first, second] = &mut self.levels;
        if let Some((bytes, item)) = first.pop(pool) {
            return Some((QueueLevel::First, bytes, item));
        }
        second.pop(pool).map(|(bytes, item)| (QueueLevel::Second, bytes, item))
    }
}
