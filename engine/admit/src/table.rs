//! The slot table: the sum of all slots of one resource, at every instant from now on.
//!
//! Booked slots (holds, promises, bookings, grants) have a window; they are counted in a [`UseProfile`]. Open
//! slots (signalled reservations) are one running sum, counted at every instant from now to for ever. The
//! table keeps `profile(t) + open <= capacity(t)` at every instant `t` that a request touches. Windows are
//! half-open, so two that touch never add up, and two that start at the same instant always do. A request is
//! checked in full before anything is changed.
//!
//! The table is told the time by [`SlotTable::expire`] and never reads a clock. Windows are cut off at now,
//! and nothing is checked before it.

mod audit;
mod displace;
mod expire;
mod modify;
mod open;
mod pooled;
mod question;

pub use audit::AggregateDrift;
pub use expire::SlotNotice;
pub use modify::SlotChange;

use crate::agenda::Agenda;
use crate::counted::Counted;
use crate::denied::{Denied, Shortfall};
use crate::pool::SubPool;
use crate::quantity::{MOST, Quantity};
use crate::slot::{Slot, SlotId, Slots};
use crate::state::{After, SlotState, SlotStep};
use alloc::collections::{BTreeSet, VecDeque};
use open::Ahead;
use terms::{Misuse, Rate, Span, Time, Window};

/// The capacity that a resource offers, and its terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotOffer<Q = Rate> {
    /// The capacity for ever, unless [`SlotTable::set_capacity`] changes it. Values above [`MOST`] count
    /// as that.
    pub capacity: Q,
    /// The most that open slots may hold together; `None`: as much as bookings leave at every instant ahead.
    pub signalled_share: Option<Q>,
    /// The time for which an open slot is safe from bookings; `None`: for ever.
    pub assumed_holding: Option<Span>,
}

impl<Q> SlotOffer<Q> {
    /// A capacity with neither a share nor an assumed holding time stated.
    pub const fn of(capacity: Q) -> SlotOffer<Q> {
        SlotOffer { capacity, signalled_share: None, assumed_holding: None }
    }
}

/// Limits on the size of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of slots; values above `u32::MAX - 1` count as that.
    pub slots: usize,
    /// Maximum number of slots that are held or promised.
    pub undecided: usize,
    /// Maximum number of steps of the capacity.
    pub capacity_steps: usize,
}

impl Default for Limits {
    /// 2^21 slots, 2^20 of them undecided, 1,024 steps of capacity.
    fn default() -> Limits {
        Limits { slots: 1 << 21, undecided: 1 << 20, capacity_steps: 1024 }
    }
}

/// The ledger of one resource. Its agent is its only writer.
#[derive(Clone, Debug)]
pub struct SlotTable<Q: Quantity = Rate> {
    now: Time,
    offer: SlotOffer<Q>,
    limits: Limits,
    /// The capacity and what is given away: with windows the booked slots, and open slots while they are
    /// sheltered; at every instant the open slots that are safe for ever.
    whole: Counted,
    /// The limit for some of the booked slots together.
    pool: Option<SubPool>,
    /// Sum of the sheltered open slots.
    sheltered: u64,
    /// Sum of the loose open slots, which a booking may displace.
    loose: u64,
    /// The loose slots, by the end of their shelter.
    loose_slots: BTreeSet<(Time, SlotId)>,
    slots: Slots<Q>,
    undecided: usize,
    agenda: Agenda,
    /// The free capacity ahead when an open slot last asked.
    ahead: Option<Ahead>,
    notices: VecDeque<SlotNotice<Q>>,
}

impl<Q: Quantity> SlotTable<Q> {
    /// An empty table whose time is [`Time::ZERO`].
    pub fn new(offer: SlotOffer<Q>, limits: Limits) -> SlotTable<Q> {
        SlotTable {
            now: Time::ZERO,
            offer,
            limits: Limits { slots: limits.slots.min(u32::MAX as usize - 1), ..limits },
            whole: Counted::new(offer.capacity.count()),
            pool: None,
            sheltered: 0,
            loose: 0,
            loose_slots: BTreeSet::new(),
            slots: Slots::new(),
            undecided: 0,
            agenda: Agenda::default(),
            ahead: None,
            notices: VecDeque::new(),
        }
    }

    /// The latest time that the table was told.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The capacity at [`SlotTable::now`].
    pub fn capacity(&self) -> Q {
        Q::of(self.whole.capacity().at(self.now))
    }

    /// Holds `amount` in `window`. The hold expires at the instant `until` unless it has been promised. The
    /// part of the window before now is cut off.
    ///
    /// # Errors
    /// [`Denied`]: it does not fit, a table is full, the amount is zero, the window or the deadline is over.
    pub fn hold(&mut self, window: Window, amount: Q, until: Time) -> Result<SlotId, Denied<Q>> {
        if until <= self.now {
            return Err(Misuse::Past { end: until, now: self.now }.into());
        }
        if self.undecided >= self.limits.undecided {
            return Err(Denied::Limit { what: "undecided slots", limit: self.limits.undecided });
        }
        let id = self.book(window, amount, SlotState::Held, until)?;
        self.undecided += 1;
        Ok(id)
    }

    /// Gives `amount` in `window` to a sub-admitter at once, as one committed slot; see [`crate::Grant`].
    ///
    /// # Errors
    /// As [`SlotTable::hold`].
    pub fn grant(&mut self, window: Window, amount: Q) -> Result<SlotId, Denied<Q>> {
        self.book(window, amount, SlotState::Committed, Time::FOREVER)
    }

    /// Counts a booking of an earlier run as one committed slot, even if it does not fit.
    /// [`SlotTable::shortfall`] tells what is missing then.
    ///
    /// # Errors
    /// As [`SlotTable::hold`], but capacity is refused only if the sums would pass [`MOST`].
    pub fn adopt_booked(&mut self, window: Window, amount: Q) -> Result<SlotId, Denied<Q>> {
        let window = self.still_ahead(window)?;
        self.room_for_slot(amount)?;
        let most = self.whole.peak(window.start(), window.end()) + self.loose;
        let free = Q::of(MOST.saturating_sub(most));
        if amount > free {
            return Err(Denied::Capacity { asked: amount, free });
        }
        Ok(self.count_booked(window, amount, SlotState::Committed, Time::FOREVER))
    }

    /// Promises a hold (the participant votes yes): it has no deadline any more.
    ///
    /// # Errors
    /// [`Misuse`]: the handle is stale, or the slot is no hold.
    pub fn promise(&mut self, id: SlotId) -> Result<(), Misuse> {
        self.step(id, SlotStep::Promise)
    }

    /// Commits a promised slot (the coordinator's decision). It opens at its start, or at once if that has
    /// come.
    ///
    /// # Errors
    /// [`Misuse`]: the handle is stale, or the slot is not promised.
    pub fn commit(&mut self, id: SlotId) -> Result<(), Misuse> {
        self.step(id, SlotStep::Commit)?;
        self.undecided -= 1;
        Ok(())
    }

    /// Gives any slot back: its capacity is free from now on, and its handle is stale.
    ///
    /// # Errors
    /// [`Misuse::UnknownHandle`] if the handle is stale.
    pub fn release(&mut self, id: SlotId) -> Result<Slot<Q>, Misuse> {
        self.end(id, SlotStep::Release)
    }

    /// The slot of a handle.
    ///
    /// # Errors
    /// [`Misuse::UnknownHandle`] if it is stale.
    pub fn get(&self, id: SlotId) -> Result<Slot<Q>, Misuse> {
        self.slots.get(id)
    }

    /// Every slot, in an order that has no meaning and is always the same.
    pub fn slots(&self) -> impl Iterator<Item = (SlotId, Slot<Q>)> + '_ {
        self.slots.iter()
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True if there is no slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the capacity in `window`. It takes effect even if more has been given away: booked slots stay, no
    /// more is given, and the result is the shortfall. Loose slots that no longer fit are displaced.
    ///
    /// # Errors
    /// [`Denied::Limit`] if there would be too many steps, [`Misuse::Past`] for a window that is over.
    pub fn set_capacity(&mut self, window: Window, amount: Q) -> Result<Option<Shortfall<Q>>, Denied<Q>> {
        self.still_ahead(window)?;
        let capacity = self.whole.capacity().with(window, amount.count(), self.now);
        if capacity.len() > self.limits.capacity_steps {
            return Err(Denied::Limit { what: "steps of capacity", limit: self.limits.capacity_steps });
        }
        self.whole.set_capacity(capacity);
        self.ahead = None;
        self.settle();
        Ok(self.shortfall())
    }

    /// Cuts off the part of the window before now.
    pub(crate) fn still_ahead(&self, window: Window) -> Result<Window, Misuse> {
        let past = Misuse::Past { end: window.end(), now: self.now };
        Window::new(window.start().max(self.now), window.end()).map_err(|_| past)
    }

    fn book(&mut self, window: Window, amount: Q, state: SlotState, until: Time) -> Result<SlotId, Denied<Q>> {
        let window = self.still_ahead(window)?;
        self.room_for_slot(amount)?;
        self.must_fit(window, amount)?;
        Ok(self.count_booked(window, amount, state, until))
    }

    fn count_booked(&mut self, window: Window, amount: Q, state: SlotState, until: Time) -> SlotId {
        self.whole.add(window.start(), window.end(), amount.count());
        let slot = Slot { window, amount, state, until, begun: false };
        let id = self.slots.insert(slot);
        self.agenda.add(id, &slot);
        self.settle();
        id
    }

    /// Checks the requirements of every new slot: an amount above zero, and a free place in the table.
    pub(crate) fn room_for_slot(&self, amount: Q) -> Result<(), Denied<Q>> {
        if amount == Q::ZERO {
            return Err(Misuse::ZeroRate.into());
        }
        if self.slots.len() >= self.limits.slots {
            return Err(Denied::Limit { what: "slots", limit: self.limits.slots });
        }
        Ok(())
    }

    /// Takes a step that changes the slot's state.
    fn step(&mut self, id: SlotId, step: SlotStep) -> Result<(), Misuse> {
        let old = self.slots.get(id)?;
        let After::Goes(state) = old.state.after(step)? else { return Err(Misuse::WrongState) };
        let new = Slot { state, until: Time::FOREVER, ..old };
        self.slots.put(id, new);
        self.agenda.change(id, &old, &new);
        Ok(())
    }

    /// Takes a step that ends the slot.
    pub(crate) fn end(&mut self, id: SlotId, step: SlotStep) -> Result<Slot<Q>, Misuse> {
        let slot = self.slots.get(id)?;
        let After::Over = slot.state.after(step)? else { return Err(Misuse::WrongState) };
        if slot.state == SlotState::Open {
            self.uncount_open(id, &slot);
        } else {
            self.whole.remove(slot.window.start(), slot.window.end(), slot.amount.count());
            if let Some(pool) = &mut self.pool {
                pool.leave(id, slot.window);
            }
        }
        if matches!(slot.state, SlotState::Held | SlotState::Promised) {
            self.undecided -= 1;
        }
        self.slots.remove(id);
        self.agenda.remove(id, &slot);
        Ok(slot)
    }
}
