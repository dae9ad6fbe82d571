//! When to look at which slot next: each slot that something will happen to, by the instant at which it does.

use crate::slot::{Slot, SlotId};
use crate::state::SlotState;
use alloc::collections::BTreeSet;
use terms::Time;

/// The instants at which slots of a table want to be looked at: one entry a slot at most, none that is out of date.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    entries: BTreeSet<(Time, SlotId)>,
}

/// When something next happens to the slot by time alone; `None`: nothing ever does.
/// An open slot has one event, the end of its shelter, and keeps naming it when it is over.
fn next(slot: &Slot) -> Option<Time> {
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
    /// A slot came.
    pub(crate) fn add(&mut self, id: SlotId, slot: &Slot) {
        if let Some(at) = next(slot) {
            self.entries.insert((at, id));
        }
    }

    /// A slot went.
    pub(crate) fn remove(&mut self, id: SlotId, slot: &Slot) {
        if let Some(at) = next(slot) {
            self.entries.remove(&(at, id));
        }
    }

    /// A slot changed.
    pub(crate) fn change(&mut self, id: SlotId, old: &Slot, new: &Slot) {
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

    /// Whether it has the next event of each of these slots, and nothing else.
    pub(crate) fn is_of(&self, slots: impl Iterator<Item = (SlotId, Slot)>, now: Time) -> bool {
        let to_come = |slot: &Slot| next(slot).filter(|at| slot.state != SlotState::Open || *at > now);
        let mut entries = 0;
        let all = slots.filter_map(|(id, slot)| Some((to_come(&slot)?, id))).all(|entry| {
            entries += 1;
            self.entries.contains(&entry)
        });
        all && entries == self.entries.len()
    }

    /// Bytes of memory that it takes, about: nodes are two thirds full.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() * size_of::<(Time, SlotId)>() * 3 / 2
    }
}
