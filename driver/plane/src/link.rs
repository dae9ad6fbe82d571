//! The wire behind a direction: how long a frame is on its way, and how many are lost there.
//!
//! It stands in for a long or bad link where the kernel has no `netem`. Frames keep their order.

use std::collections::VecDeque;
use terms::{Rng, Span, Time};

/// A wire. The default has no delay and loses nothing.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct WireSpec {
    /// The time that each frame is on its way.
    pub delay: Span,
    /// The share of frames that are lost, each by itself: 0 to 1.
    pub loss: f64,
    /// The seed of the losses.
    pub seed: u64,
}

/// Frames on the wire.
#[derive(Debug)]
pub(crate) struct Wire {
    spec: WireSpec,
    /// With the times at which they come out.
    frames: VecDeque<(Time, u32)>,
    /// A frame is lost if the draw is below: of 2^32.
    below: u64,
    random: Rng,
}

impl Wire {
    /// An empty wire with room for `most` frames.
    pub(crate) fn new(spec: WireSpec, most: usize) -> Wire {
        let below = (spec.loss.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
        Wire { spec, frames: VecDeque::with_capacity(most), below, random: Rng::seeded(spec.seed) }
    }

    /// A frame goes in; false: it is lost, and its buffer the caller's.
    pub(crate) fn put(&mut self, now: Time, frame: u32) -> bool {
        if self.below > 0 && u64::from(self.random.next_u32()) < self.below {
            return false;
        }
        self.frames.push_back((now + self.spec.delay, frame));
        true
    }

    /// A frame that has come out.
    pub(crate) fn take(&mut self, now: Time) -> Option<u32> {
        let due = self.frames.front().is_some_and(|(at, _)| *at <= now);
        if due { self.frames.pop_front().map(|(_, frame)| frame) } else { None }
    }

    /// The time at which the next comes out.
    pub(crate) fn next(&self) -> Option<Time> {
        self.frames.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_late_and_in_order_and_some_do_not() {
        let spec = WireSpec { delay: Span::from_millis(5), loss: 0.1, seed: 7 };
        let mut wire = Wire::new(spec, 10_000);
        let start = Time::from_nanos(1);
        let kept: Vec<u32> = (0..10_000).filter(|frame| wire.put(start, *frame)).collect();
        assert!((8_900..9_100).contains(&kept.len()), "{} of 10,000 at a loss of 0.1", kept.len());
        assert_eq!((wire.take(start), wire.next()), (None, Some(start + spec.delay)));
        let out: Vec<u32> = std::iter::from_fn(|| wire.take(start + spec.delay)).collect();
        assert_eq!(out, kept);
    }
}
