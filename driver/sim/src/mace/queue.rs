//! The paper's output queue: controlled load before best effort, 50 packets together (section 3, "Queue Manager").

use std::collections::VecDeque;
use terms::{Bytes, Rate, Span};

/// Capacity of the queue, packets.
pub const ROOM: usize = 50;

/// Two levels of strict priority before one link.
#[derive(Clone, Debug)]
pub struct TwoLevels {
    rate: Rate,
    first: VecDeque<Waiting>,
    second: VecDeque<Waiting>,
    /// The time until which the link is busy, ns.
    busy: u64,
    /// Counters of each level.
    pub counts: [QueueCounts; 2],
    /// Packets that were sent and have a mark: the mark, and the time at which the last bit has left, ns.
    left: Vec<(u32, u64)>,
}

/// A queued packet.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The time of its arrival, ns.
    came: u64,
    /// Wire bytes.
    bytes: u32,
    /// The mark of its owner.
    mark: Option<u32>,
}

/// Counters of the packets of one level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounts {
    /// Packets that came.
    pub offered: u64,
    /// Packets dropped for lack of room.
    pub dropped: u64,
    /// Packets sent.
    pub sent: u64,
    /// Wire bytes of the packets sent.
    pub sent_bytes: u64,
    /// Waiting time of the packets sent, ns, in all.
    pub waited: u64,
    /// The longest waiting time, ns.
    pub longest_wait: u64,
}

impl TwoLevels {
    /// An idle link.
    pub fn new(rate: Rate) -> TwoLevels {
        let room = || VecDeque::with_capacity(2 * ROOM);
        TwoLevels {
            rate,
            first: room(),
            second: room(),
            busy: 0,
            counts: [QueueCounts::default(); 2],
            left: Vec::new(),
        }
    }

    /// Offers a packet. Best effort is dropped when both levels together hold [`ROOM`]; controlled load only
    /// when it alone does. Returns false if it was dropped.
    pub fn offer(&mut self, now: u64, first: bool, bytes: u32, mark: Option<u32>) -> bool {
        self.serve(now);
        let counts = &mut self.counts[usize::from(!first)];
        counts.offered += 1;
        let held = if first { self.first.len() } else { self.first.len() + self.second.len() };
        if held >= ROOM {
            counts.dropped += 1;
            return false;
        }
        let packet = Waiting { came: now, bytes, mark };
        if first {
            self.first.push_back(packet)
        } else {
            self.second.push_back(packet)
        }
        true
    }

    /// The marked packets that were sent since the last call.
    pub fn departures(&mut self) -> std::vec::Drain<'_, (u32, u64)> {
        self.left.drain(..)
    }

    /// Starts all transmissions that could begin by `now`. The present one is not interrupted.
    pub fn serve(&mut self, now: u64) {
        while self.busy <= now {
            // At the instant when the link becomes free only what is there by then may go.
            let free = self.busy;
            let ready = |queue: &VecDeque<Waiting>| queue.front().is_some_and(|packet| packet.came <= free);
            let level = match (ready(&self.first), ready(&self.second)) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => match (self.first.front(), self.second.front()) {
                    (None, None) => {
                        self.busy = now.max(self.busy);
                        return;
                    }
                    // The link idles until the next one comes; the first level wins a tie.
                    (Some(a), Some(b)) => usize::from(b.came < a.came),
                    (Some(_), None) => 0,
                    (None, Some(_)) => 1,
                },
            };
            let queue = if level == 0 { &mut self.first } else { &mut self.second };
            let Some(packet) = queue.pop_front() else { return };
            let Waiting { came, bytes, mark } = packet;
            let start = free.max(came);
            if start > now {
                queue.push_front(packet);
                return;
            }
            let counts = &mut self.counts[level];
            counts.sent += 1;
            counts.sent_bytes += u64::from(bytes);
            counts.waited += start - came;
            counts.longest_wait = counts.longest_wait.max(start - came);
            self.busy = start + self.rate.span_for(Bytes::new(u64::from(bytes))).as_nanos();
            self.left.extend(mark.map(|mark| (mark, self.busy)));
        }
    }

    /// The number of waiting packets of both levels.
    pub fn held(&self) -> [usize; 2] {
        [self.first.len(), self.second.len()]
    }

    /// Restarts the counters. Queued packets stay and count as offered.
    pub fn restart_counts(&mut self) {
        let held = self.held();
        self.counts = [0, 1].map(|n| QueueCounts { offered: held[n] as u64, ..QueueCounts::default() });
    }

    /// The transmission time of a packet of `bytes` wire bytes.
    pub fn transmission(&self, bytes: u32) -> Span {
        self.rate.span_for(Bytes::new(u64::from(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_level_goes_before_and_nothing_is_interrupted() {
        // 1,000 bytes take 1 ms at 8 Mbit/s.
        let mut queue = TwoLevels::new(Rate::from_mbps(8));
        queue.offer(0, false, 1000, None);
        queue.offer(100, false, 1000, None);
        queue.offer(200, true, 1000, None);
        queue.serve(10_000_000);
        assert_eq!(queue.counts[0].longest_wait, 1_000_000 - 200, "it waits for the packet on the link only");
        assert_eq!(queue.counts[1].longest_wait, 2_000_000 - 100);
        assert_eq!((queue.counts[0].sent, queue.counts[1].sent), (1, 2));
    }

    #[test]
    fn best_effort_is_dropped_when_both_fill_the_room_and_controlled_load_only_by_itself() {
        let mut queue = TwoLevels::new(Rate::from_mbps(8));
        queue.offer(0, true, 1000, None);
        queue.serve(0);
        for n in 0..ROOM {
            queue.offer(1, n % 2 == 0, 1000, None);
        }
        queue.offer(2, false, 1000, None);
        assert_eq!(queue.counts[1].dropped, 1);
        for _ in 0..ROOM {
            queue.offer(3, true, 1000, None);
        }
        assert_eq!((queue.counts[0].dropped, queue.held()), (25, [ROOM, 25]));
        for counts in queue.counts {
            assert!(counts.offered >= counts.sent + counts.dropped);
        }
        queue.serve(u64::MAX / 2);
        for counts in queue.counts {
            assert_eq!(counts.offered, counts.sent + counts.dropped, "nothing is made or swallowed");
        }
    }
}
