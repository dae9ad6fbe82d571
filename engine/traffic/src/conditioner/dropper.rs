//! The dropper of a conditioner: RED or RIO, its profile and its averages.

use super::spec::{DropperSpec, QueueUnit};
use crate::dropper::{BadDropper, Rio, RioProfile, Verdict};
use crate::meter::Color;
use terms::Time;

/// A dropper at work. It is told each arrival at a queue and each departure from it.
#[derive(Clone, Debug)]
pub struct Dropper {
    spec: DropperSpec,
    profile: RioProfile,
    rio: Rio,
}

pub(super) fn profile(spec: &DropperSpec) -> Result<RioProfile, BadDropper> {
    RioProfile::new(spec.curves, spec.weight, spec.slot, spec.coupling)
}

impl Dropper {
    /// A dropper before a queue that is empty.
    ///
    /// # Errors
    /// [`BadDropper`]: the description cannot work.
    pub fn new(spec: &DropperSpec) -> Result<Dropper, BadDropper> {
        Dropper::holding(spec, [0; 3])
    }

    /// A dropper before a queue that holds this much of each colour, in the unit of `spec`.
    ///
    /// # Errors
    /// [`BadDropper`]: the description cannot work.
    pub fn holding(spec: &DropperSpec, queued: [u32; 3]) -> Result<Dropper, BadDropper> {
        Ok(Dropper { spec: *spec, profile: profile(spec)?, rio: Rio::holding(queued) })
    }

    /// Changes the description in place, averages and all, if the old one counts alike; returns false if it does not.
    ///
    /// # Errors
    /// [`BadDropper`]: the description cannot work; nothing is changed.
    pub fn change(&mut self, spec: &DropperSpec) -> Result<bool, BadDropper> {
        let profile = profile(spec)?;
        if self.spec.unit != spec.unit || self.spec.coupling != spec.coupling {
            return Ok(false);
        }
        (self.spec, self.profile) = (*spec, profile);
        Ok(true)
    }

    /// Decides about a packet of `len` IP bytes that comes to the queue.
    pub fn arrival(&mut self, now: Time, color: Color, len: u32, chance: u32) -> Verdict {
        let amount = self.amount(len);
        self.rio.arrival(&self.profile, now, color, amount, chance)
    }

    /// Counts a packet that left the queue, or that the queue refused after all.
    pub fn departure(&mut self, now: Time, color: Color, len: u32) {
        let amount = self.amount(len);
        self.rio.departure(&self.profile, now, color, amount);
    }

    /// Averages and counters by colour.
    pub fn rio(&self) -> &Rio {
        &self.rio
    }

    fn amount(&self, len: u32) -> u32 {
        match self.spec.unit {
            QueueUnit::Packets => 1,
            QueueUnit::Bytes => len,
        }
    }
}
