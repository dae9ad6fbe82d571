//! A FIFO with limits whose departures are known when packets come: what waits is what has not begun to be sent.

use crate::scenario::QueueSpec;
use std::collections::VecDeque;

/// What waits.
#[derive(Clone, Debug)]
pub struct HopWaiting {
    limits: QueueSpec,
    /// When each begins to be sent (ns), and its IP bytes.
    queue: VecDeque<(u64, u32)>,
    bytes: u64,
}

impl HopWaiting {
    /// An empty queue.
    pub fn new(limits: QueueSpec) -> HopWaiting {
        HopWaiting { limits, queue: VecDeque::new(), bytes: 0 }
    }

    /// A packet comes at `now` and would begin to be sent at `start`: whether there is room. What leaves at an instant leaves
    /// before what comes.
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

    /// The packets that wait no longer.
    pub fn settle(&mut self, now: u64) {
        while let Some(&(_, len)) = self.queue.front().filter(|(start, _)| *start <= now) {
            self.queue.pop_front();
            self.bytes -= u64::from(len);
        }
    }

    /// The link is down: nothing that waits begins to be sent. Forgets them; they come again when it is up.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }
}
