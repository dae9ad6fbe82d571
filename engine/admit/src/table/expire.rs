//! The passing of time: holds expire, windows open and close, open slots lose their shelter and are
//! displaced.

use super::SlotTable;
use crate::quantity::Quantity;
use crate::slot::{Slot, SlotId};
use crate::state::{SlotState, SlotStep};
use alloc::vec::Vec;
use terms::{Rate, Time};

/// An event of a slot that time alone caused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SlotNotice<Q = Rate> {
    /// A hold passed its deadline, or its window was over, before it was promised.
    Expired {
        /// The slot's handle, stale now.
        id: SlotId,
        /// The slot before it expired.
        slot: Slot<Q>,
    },
    /// A committed slot's window has begun.
    Opens {
        /// The slot's handle.
        id: SlotId,
        /// The slot.
        slot: Slot<Q>,
    },
    /// A committed slot's window is over.
    Closes {
        /// The slot's handle, stale now.
        id: SlotId,
        /// The slot before it ended. If it never opened (because of a late commit or a late call), `begun` is
        /// false.
        slot: Slot<Q>,
    },
    /// An open slot made way for a booking (RFC 2205 appendix B: ResvErr code 12, service preempted).
    Displaced {
        /// The slot's handle, stale now.
        id: SlotId,
        /// The slot before it was displaced.
        slot: Slot<Q>,
    },
}

impl<Q: Quantity> SlotTable<Q> {
    /// Tells the time and carries out what is due. Time that runs backwards is ignored. Read the events with
    /// [`SlotTable::poll`]: all ends come before all openings, so adjacent windows never overlap in a plane
    /// that follows them.
    pub fn expire(&mut self, now: Time) {
        self.now = self.now.max(now);
        let mut opening: Vec<(SlotId, Slot<Q>)> = Vec::new();
        while let Some(id) = self.agenda.due(self.now) {
            let Ok(mut slot) = self.slots.get(id) else { continue };
            match slot.state {
                SlotState::Held => self.finish(id, SlotStep::Expire),
                SlotState::Committed if slot.window.end() <= self.now => self.finish(id, SlotStep::Close),
                SlotState::Committed => {
                    slot.begun = true;
                    self.slots.put(id, slot);
                    opening.push((id, slot));
                }
                SlotState::Open => self.loosen(id, &slot),
                SlotState::Promised => {}
            }
        }
        self.settle();
        for (id, slot) in opening {
            self.agenda.add(id, &slot);
            self.notices.push_back(SlotNotice::Opens { id, slot });
        }
    }

    /// The next event. Read it until `None` after each call that changes the table.
    pub fn poll(&mut self) -> Option<SlotNotice<Q>> {
        self.notices.pop_front()
    }

    /// The instant at which [`SlotTable::expire`] is next due; `None` if nothing happens by time alone.
    pub fn wake_at(&self) -> Option<Time> {
        match (self.agenda.earliest(), self.next_displacement()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn finish(&mut self, id: SlotId, step: SlotStep) {
        if let Ok(slot) = self.end(id, step) {
            self.notices.push_back(match step {
                SlotStep::Expire => SlotNotice::Expired { id, slot },
                _ => SlotNotice::Closes { id, slot },
            });
        }
    }
}
