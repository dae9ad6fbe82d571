//! When to look at which slot next: a heap of instants, cleaned as it is read.
//!
//! Each slot has at most one valid entry, the instant of its [`next`] event. Entries of slots that changed or ended
//! stay until they are popped or until they outnumber the slots; then the heap is built anew.

use crate::slot::{Slot, SlotId, Slots};
use crate::state::State;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use terms::Time;

/// The instants at which slots of a table want to be looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(Time, SlotId)>>,
}

/// When something next happens to the slot by time alone; `None`: nothing ever does.
pub(crate) fn next(slot: &Slot) -> Option<Time> {
    let at = match slot.state {
        State::Held => slot.until.min(slot.window.end()),
        State::Promised => return None,
        State::Committed if slot.begun => slot.window.end(),
        State::Committed => slot.window.start(),
        State::Open => slot.until,
    };
    (at != Time::FOREVER).then_some(at)
}

impl Agenda {
    /// Notes the slot's next event, if there is one. All that was due by `now` has been carried out.
    pub(crate) fn note(&mut self, id: SlotId, slot: &Slot, slots: &Slots, now: Time) {
        let Some(at) = next(slot) else { return };
        if self.heap.len() >= 2 * slots.len() + 64 {
            // An open slot whose shelter is over has had its only event.
            let to_come = |slot: &Slot| next(slot).filter(|at| slot.state != State::Open || *at > now);
            self.heap = slots.iter().filter_map(|(id, slot)| Some(Reverse((to_come(&slot)?, id)))).collect();
            if self.heap.iter().any(|&Reverse(entry)| entry == (at, id)) {
                return;
            }
        }
        self.heap.push(Reverse((at, id)));
    }

    /// Takes the earliest entry that is due.
    pub(crate) fn due(&mut self, now: Time) -> Option<(Time, SlotId)> {
        let &Reverse((at, _)) = self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// The earliest instant, which may be that of a slot that has changed since.
    pub(crate) fn earliest(&self) -> Option<Time> {
        self.heap.peek().map(|&Reverse((at, _))| at)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(Time, SlotId)>()
    }
}
