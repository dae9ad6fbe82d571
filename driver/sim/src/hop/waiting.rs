//! A FIFO with limits. Departures are known when packets come, and a packet waits until its transmission
//! begins.

use crate::scenario::QueueSpec;
use std::collections::VecDeque;

/// The waiting packets.
#[derive(Clone, Debug)]
pub struct HopWaiting {
    limits: QueueSpec,
    /// For each waiting packet: the start of its transmission (ns) and its IP bytes.
    queue: VecDeque<(u64, u32)>,
    bytes: u64,
}

impl HopWaiting {
    /// An empty queue.
    pub fn new(limits: QueueSpec) -> HopWaiting {
        HopWaiting { limits, queue: VecDeque::new(), bytes: 0 }
    }

    /// Offers a packet that comes at `now` and would be sent from `start` on. Returns true if there is room.
    /// Departures at an instant come before arrivals.
    pub fn admit(&mut self, now: u64, start: u64, len: u32) -> bool {
        self.settle(now);
        let full =
            self.queue.len() >= self.limits.packets as usize || self.bytes + u64::from(len) > self.limits.bytes.get();
        // An idle link takes it at once, whatever the limits.
        if full && start > now {
            return false;
        }
        self.queue.push_back((start, len));
        self.bytes += u64::from(len);
        true
    }

    /// Removes the packets whose transmission has begun.
    pub fn settle(&mut self, now: u64) {
        while let Some(&(_, len)) = self.queue.front().filter(|(start, _)| *start <= now) {
            self.queue.pop_front();
            self.bytes -= u64::from(len);
        }
    }

    /// Empties the queue, because the link went down.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }
}
