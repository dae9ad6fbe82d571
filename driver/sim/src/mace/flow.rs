//! One testing flow: it lives for a while, sends in bursts, and is recognised by its packets.

use super::model::Model;
use crate::draw::exponential;
use crate::rng::Rng;
use terms::{Rate, Span};

/// A flow.
#[derive(Clone, Debug)]
pub struct MaceFlow {
    /// What it sends.
    pub model: Model,
    /// What it declares when it asks.
    pub declared: Rate,
    /// Whether it has been admitted.
    pub admitted: bool,
    /// Packets since it was last considered.
    pub counted: u32,
    /// When it ends, nanoseconds.
    pub ends: u64,
    /// When its next packet comes.
    pub next: u64,
    /// Packets of the burst that are still to come, the next one included.
    left: u64,
}

impl MaceFlow {
    /// A flow that begins now, somewhere in its cycle, and lives for an exponential time of that mean.
    pub fn begin(model: Model, declared: Rate, now: u64, lifetime: Span, rng: &mut Rng) -> MaceFlow {
        let ends = now.saturating_add(exponential(rng, lifetime).as_nanos());
        let cycle = model.on.as_nanos() + model.off.as_nanos();
        let off = rng.below(cycle.max(1)) < model.off.as_nanos();
        let wait = if off { model.pause(rng) } else { rng.below(model.interval.as_nanos()) };
        let left = model.burst(rng);
        MaceFlow { model, declared, admitted: false, counted: 0, ends, next: now.saturating_add(wait), left }
    }

    /// When something happens to it next: a packet, or its end.
    pub fn due(&self) -> u64 {
        self.next.min(self.ends)
    }

    /// Its packet was sent; sets when the next one comes.
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
