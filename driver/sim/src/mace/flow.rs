//! A test flow: it lives for a while, sends in bursts, and is recognised by its packets.

use super::model::Model;
use crate::draw::exponential;
use crate::rng::Rng;
use terms::Span;

/// A flow.
#[derive(Clone, Debug)]
pub struct MaceFlow {
    /// The model of its traffic.
    pub model: Model,
    /// The time of its end, ns.
    pub ends: u64,
    /// The time of its next packet, ns.
    pub next: u64,
    /// Packets left in the burst, with the next one.
    left: u64,
}

impl MaceFlow {
    /// A flow that begins now, at a random place of its cycle. Its lifetime is exponential with mean
    /// `lifetime`.
    pub fn begin(model: Model, now: u64, lifetime: Span, rng: &mut Rng) -> MaceFlow {
        let ends = now.saturating_add(exponential(rng, lifetime).as_nanos());
        let cycle = model.on.as_nanos() + model.off.as_nanos();
        let off = rng.below(cycle.max(1)) < model.off.as_nanos();
        let wait = if off { model.pause(rng) } else { rng.below(model.interval.as_nanos()) };
        let left = model.burst(rng);
        MaceFlow { model, ends, next: now.saturating_add(wait), left }
    }

    /// The time of its next event, a packet or its end, ns.
    pub fn due(&self) -> u64 {
        self.next.min(self.ends)
    }

    /// Notes that its packet was sent, and sets the time of the next one.
    pub fn sent(&mut self, rng: &mut Rng) {
        self.left -= 1;
        let mut wait = self.model.interval.as_nanos();
        if self.left == 0 {
            wait = wait.saturating_add(self.model.pause(rng));
            self.left = self.model.burst(rng);
        }
        self.next = self.next.saturating_add(wait);
    }
}
