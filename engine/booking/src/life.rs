//! Changes of reservations by time alone, and their creation, storage and removal.
//!
//! The kernel follows the clock at once. The state follows as soon as no change of the reservation is on its
//! way to the store, and its events are written then.

use crate::broker::Bookings;
use crate::io::{EventKind, JournalRecord, RecordTable};
use crate::journal::key_of;
use crate::reservation::{Number, Reservation};
use crate::state::{BookingState, LifeStep};
use terms::Time;
use terms::ports::Ledger;
use terms::ports::book::SlotKey;

/// The time of the next look at a reservation; calendar time.
fn next_look(r: &Reservation, today: Time, retention: terms::Span) -> Option<Time> {
    let at = if r.state.is_over() {
        r.over.saturating_add(retention)
    } else if r.state == BookingState::Held {
        r.hold_until.min(r.span().1)
    } else {
        r.next_edge(today)?
    };
    (at != Time::FOREVER).then_some(at)
}

impl Bookings {
    /// Applies all changes that are due by now.
    pub(crate) fn pass<L: Ledger>(&mut self, ledger: &mut L) {
        let today = self.today();
        while let Some(&(at, number)) = self.agenda.first() {
            if at > today {
                break;
            }
            self.agenda.pop_first();
            if let Some(r) = self.all.get_mut(&number) {
                r.look = Time::FOREVER;
            }
            self.look(ledger, number);
        }
        self.force.retry(self.now);
    }

    fn look<L: Ledger>(&mut self, ledger: &mut L, number: Number) {
        let (today, retention) = (self.today(), self.config.retention);
        let Some(r) = self.all.get(&number) else { return };
        if r.state.is_over() && r.over.saturating_add(retention) <= today && r.busy.is_none() {
            return self.forget(number);
        }
        self.update_due(number);
        self.follow(ledger, number);
    }

    /// Lets the state follow the clock, as far as it may, and plans the next look.
    pub(crate) fn follow<L: Ledger>(&mut self, ledger: &mut L, number: Number) {
        let today = self.today();
        while let Some(r) = self.all.get_mut(&number).filter(|r| r.busy.is_none() && !r.unborn) {
            let (ended, open) = (r.span().1 <= today, r.is_open(today));
            let act = match r.state {
                BookingState::Held if ended || r.hold_until <= today => LifeStep::Expire,
                BookingState::Booked | BookingState::Active | BookingState::Suspended if ended => LifeStep::End,
                BookingState::Booked if open => LifeStep::Open,
                BookingState::Active | BookingState::Suspended if !open => LifeStep::Pause,
                _ => break,
            };
            let Ok(state) = r.state.after(act) else { break };
            if state.is_over() {
                self.finish(ledger, number, state);
                self.fact(number, EventKind::Over(state));
                break;
            }
            r.state = state;
            self.fact(number, if act == LifeStep::Open { EventKind::Opened } else { EventKind::Paused });
        }
        self.update_due(number);
        self.plan(number);
    }

    /// Puts the next look at a reservation on the agenda.
    pub(crate) fn plan(&mut self, number: Number) {
        let today = self.today();
        let Some(r) = self.all.get_mut(&number) else { return };
        let next = next_look(r, today, self.config.retention).unwrap_or(Time::FOREVER);
        // While a change is on its way only the edges count; what the state missed follows when it is written.
        let at = if next <= today { r.next_edge(today).unwrap_or(Time::FOREVER) } else { next };
        if at == r.look {
            return;
        }
        if r.look != Time::FOREVER {
            self.agenda.remove(&(r.look, number));
        }
        r.look = at;
        if at != Time::FOREVER {
            self.agenda.insert((at, number));
        }
    }

    /// Finishes a reservation.
    pub(crate) fn finish<L: Ledger>(&mut self, ledger: &mut L, number: Number, state: BookingState) {
        let today = self.today();
        let Some(r) = self.all.get_mut(&number) else { return };
        let was = core::mem::replace(&mut r.state, state);
        r.over = today;
        r.version += 1;
        self.live -= 1;
        self.uncount(ledger, number, was);
        self.finished.insert((today, number));
        self.update_due(number);
        self.plan(number);
        while self.finished.len() > self.config.finished {
            let Some(&(_, oldest)) = self.finished.first() else { break };
            self.forget(oldest);
        }
    }

    /// Frees the amounts of a reservation, and takes it out of its owner's sums.
    fn uncount<L: Ledger>(&mut self, ledger: &mut L, number: Number, was: BookingState) {
        let Some(mut r) = self.all.remove(&number) else { return };
        let owner = self.owners.get_mut(r.owner);
        owner.live -= 1;
        owner.held -= usize::from(was == BookingState::Held);
        for (n, part) in r.parts.iter_mut().enumerate() {
            self.sum(r.owner, part, -1);
            self.resources.get_mut(part.resource).users.remove(&number);
            for slot in core::mem::take(&mut part.slots) {
                self.give_back(ledger, part.resource, slot);
            }
            if let Some(binding) = &part.binding {
                self.force.unbind(part.resource, binding, number, n);
            }
        }
        self.all.insert(number, r);
    }

    pub(crate) fn give_back<L: Ledger>(&mut self, ledger: &mut L, resource: u32, slot: SlotKey) {
        let named = self.resources.get(resource);
        if let Some(id) = named.id {
            ledger.release(self.now, id, slot);
        }
        if !named.sharing.is_empty() {
            // Background may live on it.
            self.force.touched.insert(resource);
        }
    }

    /// Counts a new reservation for its owner and its resources, and makes it findable by handle and key.
    pub(crate) fn count(&mut self, r: Reservation) {
        let number = r.number;
        if r.state.is_over() {
            self.finished.insert((r.over, number));
        } else {
            self.live += 1;
            let owner = self.owners.get_mut(r.owner);
            owner.live += 1;
            owner.held += usize::from(r.state == BookingState::Held);
            for (n, part) in r.parts.iter().enumerate() {
                self.sum(r.owner, part, 1);
                self.resources.get_mut(part.resource).users.insert(number);
                if let Some(binding) = &part.binding {
                    self.force.bind(part.resource, binding, number, n);
                }
            }
        }
        self.handles.insert(r.handle, number);
        self.owners.get_mut(r.owner).numbers.insert(number);
        if let Some(mark) = &r.key {
            self.keys.insert((r.owner, mark.key.clone()), number);
        }
        self.all.insert(number, alloc::boxed::Box::new(r));
    }

    /// The batch that creates it is written.
    pub(crate) fn born(&mut self, number: Number) {
        if let Some(r) = self.all.get_mut(&number) {
            (r.unborn, r.busy) = (false, None);
        }
    }

    /// Removes a reservation whose creation could not be written.
    pub(crate) fn unmake<L: Ledger>(&mut self, ledger: &mut L, number: Number) {
        let Some(r) = self.all.get(&number) else { return };
        let was = r.state;
        self.live -= 1;
        self.uncount(ledger, number, was);
        self.drop_all_trace(number);
    }

    /// Removes an old reservation: it is not shown any more, and its key may be used again.
    fn forget(&mut self, number: Number) {
        let Some(r) = self.all.get(&number) else { return };
        let record = JournalRecord { table: RecordTable::Reservation, key: key_of(number), value: None };
        self.finished.remove(&(r.over, number));
        self.doomed.push(record);
        self.drop_all_trace(number);
    }

    fn drop_all_trace(&mut self, number: Number) {
        let Some(r) = self.all.remove(&number) else { return };
        if r.look != Time::FOREVER {
            self.agenda.remove(&(r.look, number));
        }
        self.handles.remove(&r.handle);
        self.owners.get_mut(r.owner).numbers.remove(&number);
        if let Some(mark) = r.key {
            self.keys.remove(&(r.owner, mark.key));
        }
        self.facts.remove(&number);
    }
}
