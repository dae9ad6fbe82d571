//! The store has answered: a change is true, or is undone.

use super::Life;
use crate::journal::Change;
use crate::reservations::{Freed, Number, Part, Place, Prepared};
use crate::state::BookingState;
use alloc::boxed::Box;
use alloc::vec::Vec;
use commit::participant::DropReason;
use terms::book::Binding;
use terms::ports::Ledger;

/// How firm a slot is in the ledger.
#[derive(Clone, Copy)]
enum Firmness {
    Promised,
    Booked,
}

/// The state of a creation whose promise is dropped.
pub(crate) const fn dropped_state(reason: DropReason) -> BookingState {
    match reason {
        DropReason::Moot => BookingState::Expired,
        DropReason::Aborted | DropReason::Resolved => BookingState::Cancelled,
    }
}

impl<L: Ledger> Life<'_, L> {
    /// Makes a written change true.
    pub(crate) fn complete(&mut self, change: Change) {
        let number = change.number();
        match change {
            Change::Create(_) => self.table.born(number),
            Change::Commit(_) => {
                self.table.committed(number);
                self.firm(number, Firmness::Promised);
                self.firm(number, Firmness::Booked);
            }
            Change::Modify { next, label, grown, .. } => {
                // The ledger counts the new amounts only.
                self.give_back(grown);
                self.modified(number, next, label);
            }
            Change::Bind { part, binding, .. } => self.rebind((number, part), binding),
            Change::Cancel(_) => {
                self.table.settle(number);
                self.finish(number, BookingState::Cancelled);
            }
            Change::Promise(_) => {
                self.table.promised(number);
                self.firm(number, Firmness::Promised);
            }
            Change::Keep(_) => self.keep(number),
            Change::Drop(_, reason) => self.drop_promise(number, reason),
        }
        self.follow(number);
        if self.background.is_touched() {
            self.divide();
        }
    }

    /// Undoes a change that could not be written.
    pub(crate) fn undo(&mut self, change: Change) {
        match change {
            Change::Create(number) => self.unmake(number),
            Change::Modify { number, grown, .. } => {
                self.give_back(grown);
                self.table.settle(number);
            }
            Change::Promise(number) => match self.release_promise(number) {
                Some(Prepared::Create) => self.unmake(number),
                _ => self.table.settle(number),
            },
            Change::Commit(number)
            | Change::Bind { number, .. }
            | Change::Cancel(number)
            | Change::Keep(number)
            | Change::Drop(number, _) => self.table.settle(number),
        }
    }

    /// Makes the promised change of a reservation true.
    fn keep(&mut self, number: Number) {
        match self.release_promise(number) {
            Some(Prepared::Create | Prepared::Hold) => {
                self.table.kept(number);
                self.firm(number, Firmness::Booked);
            }
            Some(Prepared::Modify { next, label, .. }) => self.modified(number, next, label),
            Some(Prepared::Bind { part, binding }) => self.rebind((number, part), binding),
            None => self.table.settle(number),
        }
    }

    /// Drops the promised change of a reservation.
    fn drop_promise(&mut self, number: Number, reason: DropReason) {
        match self.release_promise(number) {
            Some(Prepared::Create) => {
                self.table.settle(number);
                self.table.free_key(number);
                self.finish(number, dropped_state(reason));
            }
            Some(Prepared::Hold) => self.table.withdrawn(number),
            _ => self.table.settle(number),
        }
    }

    /// Takes the promised change of a reservation; what it grew by is free.
    fn release_promise(&mut self, number: Number) -> Option<Prepared> {
        let mut change = self.table.unpromise(number)?.change;
        if let Prepared::Modify { grown, .. } = &mut change {
            let freed: Vec<Freed> = grown.iter_mut().flat_map(Part::take_slots).collect();
            self.give_back(freed);
        }
        Some(change)
    }

    fn modified(&mut self, number: Number, next: Vec<Part>, label: Box<str>) {
        let freed = self.table.modified(number, next, label);
        self.give_back(freed);
        self.adopt(number, |_| true);
    }

    fn rebind(&mut self, place: Place, binding: Option<Binding>) {
        self.table.rebind(place, binding);
        if let Some(at) = self.table.part(place) {
            self.enforcement.rebound(at.resource, place);
        }
    }

    /// Makes the slots of a reservation firmer in the ledger.
    fn firm(&mut self, number: Number, firmness: Firmness) {
        let Some(r) = self.table.get(number) else { return };
        let now = self.calendar.now();
        for part in r.counted() {
            let Some(id) = self.table.resources().get(part.resource).id() else { continue };
            for slot in &part.slots {
                match firmness {
                    Firmness::Promised => self.ledger.promise(now, id, *slot),
                    Firmness::Booked => self.ledger.commit(now, id, *slot),
                }
            }
        }
    }

    /// Removes a reservation whose creation could not be written.
    fn unmake(&mut self, number: Number) {
        let freed = self.table.unmake(number);
        self.give_back(freed);
        self.journal.drop_notes(number);
    }
}
