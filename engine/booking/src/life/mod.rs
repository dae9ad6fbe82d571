//! Changes of reservations by time alone, and their end.
//!
//! The kernel follows the clock at once. The state follows as soon as no change of the reservation is on its
//! way to the store, and its events are written then.

mod recount;
mod settle;

use crate::admission::packet;
use crate::background::{Background, BackgroundClaim};
use crate::calendar::Calendar;
use crate::enforcement::Enforcement;
use crate::io::{EventKind, RecordTable};
use crate::journal::Journal;
use crate::reservations::{Freed, Number, Part, Reservations, key_of};
use crate::slots;
use crate::state::{BookingState, LifeStep};
pub(crate) use recount::MOVED;
pub(crate) use settle::dropped_state;
use terms::ports::Ledger;

/// The reservations and the parts that follow when one of them changes.
pub(crate) struct Life<'a, L> {
    pub ledger: &'a mut L,
    pub table: &'a mut Reservations,
    pub enforcement: &'a mut Enforcement,
    pub background: &'a mut Background,
    pub journal: &'a mut Journal,
    pub calendar: Calendar,
    /// Most reservations that are over and still shown.
    pub most_finished: usize,
}

impl<L: Ledger> Life<'_, L> {
    /// Applies all changes that are due by now.
    pub(crate) fn pass(&mut self) {
        let today = self.calendar.today();
        while let Some(number) = self.table.due(today) {
            match self.table.get(number) {
                Some(r) if self.table.is_outdated(r, today) => self.forget(number),
                _ => {
                    self.update_due(number);
                    self.follow(number);
                }
            }
        }
        self.enforcement.retry(self.calendar.now());
    }

    /// Lets the state follow the clock, as far as it may, and plans the next check.
    pub(crate) fn follow(&mut self, number: Number) {
        let today = self.calendar.today();
        while let Some(r) = self.table.get(number).filter(|r| r.busy.is_none() && !r.unborn) {
            let (ended, open) = (r.span().1 <= today, r.is_open(today));
            // Only the decision ends it, or the promise is moot.
            let ended = ended && r.promise.is_none();
            let step = match r.state {
                _ if r.promise.is_some() && !r.state.is_booked() => break,
                // Its promise was lost with a corrupt record.
                BookingState::Promised if ended => LifeStep::Expire,
                BookingState::Held if ended || r.hold_until <= today => LifeStep::Expire,
                BookingState::Booked | BookingState::Active | BookingState::Suspended if ended => LifeStep::End,
                BookingState::Booked if open => LifeStep::Open,
                BookingState::Active | BookingState::Suspended if !open => LifeStep::Pause,
                _ => break,
            };
            let Ok(state) = r.state.after(step) else { break };
            if state.is_over() {
                self.finish(number, state);
                self.journal.note(number, EventKind::Over(state));
                break;
            }
            if !self.table.step(number, step) {
                break;
            }
            self.journal.note(number, if step == LifeStep::Open { EventKind::Opened } else { EventKind::Paused });
        }
        self.tell_of_end(number);
        self.update_due(number);
        self.table.plan(number, today);
    }

    /// Tells the owner that the end is near, if that is due. It is written down with the event that it was told.
    fn tell_of_end(&mut self, number: Number) {
        let today = self.calendar.today();
        let Some(r) = self.table.get(number).filter(|r| r.busy.is_none() && !r.unborn) else { return };
        let (at, ended) = (r.notice_at(), r.span().1 <= today);
        if ended || at.is_none_or(|at| at > today) {
            return;
        }
        if let Some(end) = self.table.told(number) {
            self.journal.note(number, EventKind::EndsSoon { end });
        }
    }

    /// Finishes a reservation, and forgets the oldest if too many are over.
    fn finish(&mut self, number: Number, state: BookingState) {
        let today = self.calendar.today();
        let freed = self.table.finish(number, state, today);
        self.give_back(freed);
        self.update_due(number);
        self.table.plan(number, today);
        while let Some(oldest) = self.table.surplus(self.most_finished) {
            self.forget(oldest);
        }
    }

    /// Removes an old reservation: it is not shown any more, and its key may be used again.
    fn forget(&mut self, number: Number) {
        self.journal.delete(RecordTable::Reservation, key_of(number));
        self.journal.drop_notes(number);
        self.table.forget(number);
    }

    fn give_back(&mut self, freed: impl IntoIterator<Item = Freed>) {
        slots::give_back(self.ledger, self.table.resources(), self.background, self.calendar.now(), freed);
    }

    /// Computes the due amount of every part of a reservation. Background parts have their share.
    fn update_due(&mut self, number: Number) {
        let Some(r) = self.table.get(number) else { return };
        let today = self.calendar.today();
        let in_force = !r.unborn && r.state.is_booked();
        for (n, part) in r.parts.iter().enumerate() {
            let (place, most) = ((number, n), if in_force { part.amount(today) } else { 0 });
            match part.background {
                None => {
                    if self.enforcement.set_due(part.resource, place, most, true) {
                        self.background.touch(part.resource);
                    }
                }
                Some(_) if most == 0 => {
                    if self.background.leave(part.resource, place) {
                        self.enforcement.set_due(part.resource, place, 0, false);
                    }
                }
                Some(terms) => {
                    let claim = BackgroundClaim { terms, most };
                    self.background.join(part.resource, place, claim, part.shape.packet);
                }
            }
        }
    }

    /// Divides background anew where something has changed, and suspends who has no share.
    pub(crate) fn divide(&mut self) {
        let today = self.calendar.today();
        for shift in self.background.divide(self.ledger, self.table, self.enforcement, self.calendar) {
            let (number, part) = shift.place();
            if let Some((kind, from, to)) = shift.news() {
                self.journal.note(number, EventKind::Share { part, kind, from, to });
            }
            let Some(r) = self.table.get(number) else { continue };
            let starved = self.background.is_starved(r, today);
            // Another state stays as it is.
            self.table.step(number, if starved { LifeStep::Suspend } else { LifeStep::Resume });
        }
    }

    /// Counts the parts of a reservation that `counts` names in the ledger. They have no slots, and were promised.
    fn adopt(&mut self, number: Number, counts: impl Fn(&Part) -> bool) {
        let (ledger, calendar) = (&mut *self.ledger, self.calendar);
        self.table.put_slots(number, |resources, part| match resources.get(part.resource).id() {
            Some(id) if counts(part) && part.background.is_none() => {
                let packet = packet(resources.get(part.resource).kind(), part.shape.packet);
                slots::adopt(ledger, calendar, id, packet, &part.steps)
            }
            _ => alloc::vec::Vec::new(),
        });
    }
}
