//! The receiver: told of segments, it says when and what to acknowledge (RFC 5681 section 4.2, RFC 2018
//! section 4).

use super::ranges::Ranges;
use super::{Blocks, Conduct};
use terms::Time;

/// The time of a segment's acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckTiming {
    /// Acknowledge now.
    Now,
    /// Not yet; at [`TcpReceiver::wake_at`] at the latest.
    Later,
}

/// A receiver and its state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpReceiver {
    /// The first segment that is missing.
    next: u32,
    /// One member of each range of the latest segments, the latest first.
    recent: [u32; 3],
    beyond: Ranges,
    /// The time at which the delayed acknowledgement must go, ns; 0 if none waits.
    due: u64,
    /// Duplicate segments.
    again: u32,
}

impl TcpReceiver {
    /// Takes a segment of data. Returns when to acknowledge and the number of segments that the application
    /// gets.
    #[inline]
    pub fn arrived(&mut self, conduct: &Conduct, now: Time, segment: u32) -> (AckTiming, u32) {
        if segment == self.next {
            if self.beyond.is_empty() {
                self.next += 1;
                return (self.in_order(conduct, now), 1);
            }
            return (AckTiming::Now, self.fills(segment));
        }
        self.due = 0;
        if segment < self.next || self.beyond.insert(segment, segment + 1, 0).all == 0 {
            self.again += 1;
            return (AckTiming::Now, 0);
        }
        self.remember(segment);
        (AckTiming::Now, 0)
    }

    /// Fills a gap or its first segment. The caller acknowledges at once.
    fn fills(&mut self, segment: u32) -> u32 {
        self.due = 0;
        let before = self.next;
        self.next = self.beyond.gap_from(segment + 1);
        self.beyond.advance(self.next, 0);
        self.next - before
    }

    #[inline]
    fn in_order(&mut self, conduct: &Conduct, now: Time) -> AckTiming {
        let Some(wait) = conduct.delayed_ack else { return AckTiming::Now };
        if self.due != 0 {
            self.due = 0;
            return AckTiming::Now;
        }
        self.due = (now + wait).as_nanos().max(1);
        AckTiming::Later
    }

    /// The time at which the delayed acknowledgement must go; [`Time::FOREVER`] if none waits.
    #[inline]
    pub fn wake_at(&self) -> Time {
        if self.due == 0 { Time::FOREVER } else { Time::from_nanos(self.due) }
    }

    /// Handles the time. Returns true if an acknowledgement must go now.
    pub fn wake(&mut self, now: Time) -> bool {
        let go = now >= self.wake_at();
        if go {
            self.due = 0;
        }
        go
    }

    /// The content of an acknowledgement now: the first missing segment, and the ranges beyond it, the latest
    /// first.
    #[inline]
    pub fn acknowledgement(&self) -> (u32, Blocks) {
        let mut blocks = Blocks::default();
        if self.beyond.is_empty() {
            return (self.next, blocks);
        }
        let mut n = 0;
        for range in self.recent.iter().filter_map(|member| self.beyond.around(*member)) {
            if !blocks[..n].contains(&range) {
                blocks[n] = range;
                n += 1;
            }
        }
        (self.next, blocks)
    }

    fn remember(&mut self, segment: u32) {
        let range = self.beyond.around(segment);
        // The range that it belongs to comes first, and is named once.
        let same = self.recent.iter().position(|member| self.beyond.around(*member) == range).unwrap_or(2);
        self.recent.copy_within(0..same, 1);
        self.recent[0] = segment;
    }

    /// The number of segments delivered to the application.
    pub fn delivered(&self) -> u32 {
        self.next
    }

    /// The number of duplicate segments.
    pub fn again(&self) -> u32 {
        self.again
    }

    /// Segments that arrived beyond the first missing one.
    pub fn beyond(&self) -> &Ranges {
        &self.beyond
    }
}
