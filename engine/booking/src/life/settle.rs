//! The store has answered: a change is true, or is undone.

use super::Life;
use crate::journal::Change;
use crate::reservations::Number;
use crate::state::BookingState;
use terms::ports::Ledger;

impl<L: Ledger> Life<'_, L> {
    /// Makes a written change true.
    pub(crate) fn complete(&mut self, change: Change) {
        let number = change.number();
        match change {
            Change::Create(_) => self.table.born(number),
            Change::Commit(_) => self.table.committed(number),
            Change::Modify { next, label, grown, .. } => {
                // The ledger counts the new amounts only.
                self.give_back(grown);
                let freed = self.table.modified(number, next, label);
                self.give_back(freed);
                self.adopt(number, |_| true);
            }
            Change::Bind { part, binding, .. } => {
                self.table.rebind((number, part), binding);
                if let Some(at) = self.table.part((number, part)) {
                    self.enforcement.rebound(at.resource, (number, part));
                }
            }
            Change::Cancel(_) => {
                self.table.settle(number);
                self.finish(number, BookingState::Cancelled);
            }
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
            Change::Commit(number) | Change::Bind { number, .. } | Change::Cancel(number) => self.table.settle(number),
        }
    }

    /// Removes a reservation whose creation could not be written.
    fn unmake(&mut self, number: Number) {
        let freed = self.table.unmake(number);
        self.give_back(freed);
        self.journal.drop_notes(number);
    }
}
