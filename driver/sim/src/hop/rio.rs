//! RIO (or RED) before a FIFO. Departures are known when packets come, and the averages see them at their own
//! times.

use crate::rng::Rng;
use crate::scenario::{EgressReport, QueueSpec};
use std::collections::VecDeque;
use terms::{Dscp, Time};
use traffic::conditioner::{Dropper, DropperSpec};
use traffic::dropper::{Rio, Verdict};
use traffic::meter::{Color, Marker};

/// A FIFO of waiting packets and the dropper before it.
#[derive(Clone, Debug)]
pub struct RioQueue {
    dropper: Dropper,
    limits: QueueSpec,
    colors: [Color; 64],
    chance: Rng,
    /// For each waiting packet: the start of its transmission (ns), its IP bytes and its colour.
    queue: VecDeque<(u64, u32, Color)>,
    bytes: u64,
}

impl RioQueue {
    /// An empty queue. `stream` is the seed and the number of its random stream.
    ///
    /// # Errors
    /// A text that names the error.
    pub fn new(spec: &DropperSpec, marker: &Marker, limits: QueueSpec, stream: [u64; 2]) -> Result<RioQueue, String> {
        Ok(RioQueue {
            dropper: Dropper::new(spec).map_err(|why| why.to_string())?,
            limits,
            colors: std::array::from_fn(|point| marker.color_of(Dscp(point as u8))),
            chance: Rng::new(stream[0], stream[1]),
            queue: VecDeque::new(),
            bytes: 0,
        })
    }

    /// The colour of a DSCP.
    #[inline]
    pub fn color_of(&self, dscp: u8) -> Color {
        self.colors[usize::from(dscp) % 64]
    }

    /// Offers a packet that comes at `now` and would be sent from `start` on. Returns true if it is accepted.
    pub fn admit(&mut self, now: u64, start: u64, len: u32, color: Color) -> bool {
        self.settle(now);
        let at = Time::from_nanos(now);
        let verdict = self.dropper.arrival(at, color, len, self.chance.next_u32());
        if verdict != Verdict::Accept {
            return false;
        }
        let full =
            self.queue.len() >= self.limits.packets as usize || self.bytes + u64::from(len) > self.limits.bytes.get();
        if full && start > now {
            self.dropper.departure(at, color, len);
            return false;
        }
        self.queue.push_back((start, len, color));
        self.bytes += u64::from(len);
        true
    }

    /// Removes the packets whose transmission has begun, each at its own time.
    pub fn settle(&mut self, now: u64) {
        while let Some(&(start, len, color)) = self.queue.front().filter(|(start, ..)| *start <= now) {
            self.queue.pop_front();
            self.bytes -= u64::from(len);
            self.dropper.departure(Time::from_nanos(start), color, len);
        }
    }

    /// Empties the queue at `now`, because the link went down.
    pub fn clear(&mut self, now: u64) {
        while let Some((_, len, color)) = self.queue.pop_front() {
            self.dropper.departure(Time::from_nanos(now), color, len);
        }
        self.bytes = 0;
    }

    /// Checks by colour that the dropper accepted all packets that were offered and not dropped.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn agrees(&self, tally: &EgressReport) -> Result<(), &'static str> {
        for color in [Color::Green, Color::Yellow, Color::Red] {
            let (c, counters) = (color as usize, self.rio().counters(color));
            let all = counters.accepted + counters.early + counters.forced;
            let tail = tally.dropped[c].packets - counters.early - counters.forced;
            if all != tally.offered[c].packets || tail > counters.accepted {
                return Err("a dropper and its queue disagree on a colour");
            }
        }
        Ok(())
    }

    /// The dropper.
    pub fn rio(&self) -> &Rio {
        self.dropper.rio()
    }
}
