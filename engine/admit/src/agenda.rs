//! The agenda: for each slot, the instant of its next event.

use crate::quantity::Quantity;
use crate::slot::{Slot, SlotId};
use crate::state::SlotState;
use alloc::collections::BTreeSet;
use terms::Time;

/// The instants of the next events, by time: at most one entry for each slot, none out of date.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    entries: BTreeSet<(Time, SlotId)>,
}

/// The instant of the slot's next event by time alone; `None` if there is none. For an open slot it is the
/// end of its shelter, even after that has passed.
fn next<Q: Quantity>(slot: &Slot<Q>) -> Option<Time> {
    let at = match slot.state {
        SlotState::Held => slot.until.min(slot.window.end()),
        SlotState::Promised => return None,
        SlotState::Committed if slot.begun => slot.window.end(),
        SlotState::Committed => slot.window.start(),
        SlotState::Open => slot.until,
    };
    (at != Time::FOREVER).then_some(at)
}

impl Agenda {
    /// Adds a new slot.
    pub(crate) fn add<Q: Quantity>(&mut self, id: SlotId, slot: &Slot<Q>) {
        if let Some(at) = next(slot) {
            self.entries.insert((at, id));
        }
    }

    /// Removes a slot that ended.
    pub(crate) fn remove<Q: Quantity>(&mut self, id: SlotId, slot: &Slot<Q>) {
        if let Some(at) = next(slot) {
            self.entries.remove(&(at, id));
        }
    }

    /// Updates the entry of a slot that changed.
    pub(crate) fn change<Q: Quantity>(&mut self, id: SlotId, old: &Slot<Q>, new: &Slot<Q>) {
        if next(old) != next(new) {
            self.remove(id, old);
            self.add(id, new);
        }
    }

    /// Takes the earliest entry that is due.
    pub(crate) fn due(&mut self, now: Time) -> Option<SlotId> {
        let &(at, id) = self.entries.first()?;
        if at > now {
            return None;
        }
        self.entries.pop_first();
        Some(id)
    }

    /// The earliest instant.
    pub(crate) fn earliest(&self) -> Option<Time> {
        self.entries.first().map(|&(at, _)| at)
    }

    /// True if the agenda has the next event of each of these slots, and no other entry.
    pub(crate) fn is_of<Q: Quantity>(&self, slots: impl Iterator<Item = (SlotId, Slot<Q>)>, now: Time) -> bool {
        let to_come = |slot: &Slot<Q>| next(slot).filter(|at| slot.state != SlotState::Open || *at > now);
        let mut entries = 0;
        let all = slots.filter_map(|(id, slot)| Some((to_come(&slot)?, id))).all(|entry| {
            entries += 1;
            self.entries.contains(&entry)
        });
        all && entries == self.entries.len()
    }

    /// Approximate memory of the entries, bytes: nodes are two thirds full.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() * size_of::<(Time, SlotId)>() * 3 / 2
    }
}
