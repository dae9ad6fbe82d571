//! Open slots: signalled reservations, in force now and open at their end (DESIGN.md, "One ledger").
//!
//! An open slot may last for ever, so it counts at every instant from now to for ever. It must fit above the
//! bookings at *every* instant ahead, and from then on a booking must fit beside it. That is exact, and one
//! running sum is enough for any number of open slots. It is also strict: a booking of the whole link next
//! year leaves nothing to signal today.
//!
//! If that is too strict, the offer states an `assumed_holding` H. Then an open slot is *sheltered* only from
//! its opening for H. In that time it must fit beside bookings and sheltered slots, and at its opening also
//! beside every open slot. After H it is *loose*: it still counts now, so no signalled slot can take its
//! place, but a booking ignores it. When a booked window begins beside which it does not fit, it is
//! displaced, with notice. Loose slots go in the order in which their shelter ended. A booked slot is never
//! displaced.
//!
//! In both cases open slots together never exceed `signalled_share`.

use super::{SlotNotice, SlotTable};
use crate::denied::{Denied, Shortfall};
use crate::quantity::{MOST, Quantity};
use crate::slot::{Slot, SlotId};
use crate::state::{SlotState, SlotStep};
use terms::{Misuse, Span, Time, Window};

/// The least capacity free of bookings over all instants from the one at which this was noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    least: u64,
    /// The value of `UseProfile::raised` then.
    raised: u64,
}

impl<Q: Quantity> SlotTable<Q> {
    /// Opens a slot: `amount` from now on, until it is released.
    ///
    /// # Errors
    /// [`Denied`]: it does not fit (`free` says what would), the table is full, the amount is zero.
    pub fn open(&mut self, amount: Q) -> Result<SlotId, Denied<Q>> {
        self.room_for_slot(amount)?;
        let until = self.shelter_end();
        if !self.surely_fits(amount, until) {
            self.look_ahead();
            let free = self.free_to_open_until(until);
            if amount > free {
                return Err(Denied::Capacity { asked: amount, free });
            }
        }
        self.count_new_open(amount, until)
    }

    /// True if the noted [`Ahead`] shows that a new open slot fits, without a look at the bookings. The least
    /// free capacity ahead does not shrink as time passes, unless a booking is added or the capacity changes.
    fn surely_fits(&self, amount: Q, until: Time) -> bool {
        let Some(ahead) = self.ahead.filter(|ahead| ahead.raised == self.whole.profile().raised()) else {
            return false;
        };
        let amount = amount.count();
        let taken = self.whole.standing().saturating_add(amount);
        let in_share = |share: Q| self.open_sum().count().saturating_add(amount) <= share.count();
        until == Time::FOREVER
            && self.loose == 0
            && taken <= ahead.least
            && self.offer.signalled_share.is_none_or(in_share)
    }

    /// Notes the least free capacity ahead, for [`SlotTable::surely_fits`].
    fn look_ahead(&mut self) {
        let (over, profile) = (self.whole.capacity().stretches(self.now, Time::FOREVER), self.whole.profile());
        let least = over.map(|s| s.capacity.saturating_sub(profile.peak(s.start, s.end))).min();
        self.ahead = Some(Ahead { least: least.unwrap_or(0), raised: profile.raised() });
    }

    /// Counts an open slot that exists already (found in the plane after a restart), even if it does not fit.
    /// Returns the shortfall, if any. The slot is safe from bookings for as long as a new one.
    ///
    /// # Errors
    /// [`Denied`]: the table is full, the amount is zero, or the sums would pass [`MOST`].
    pub fn adopt(&mut self, amount: Q) -> Result<(SlotId, Option<Shortfall<Q>>), Denied<Q>> {
        self.room_for_slot(amount)?;
        let most = self.whole.peak(Time::ZERO, Time::FOREVER) + self.loose;
        let free = Q::of(MOST.saturating_sub(most));
        if amount > free {
            return Err(Denied::Capacity { asked: amount, free });
        }
        let id = self.count_new_open(amount, self.shelter_end())?;
        self.settle();
        Ok((id, self.shortfall()))
    }

    /// Sum of all open slots.
    pub fn open_sum(&self) -> Q {
        Q::of(self.whole.standing() + self.sheltered + self.loose)
    }

    /// The largest amount that could be opened now, as one slot or several.
    pub fn free_to_open(&self) -> Q {
        self.free_to_open_until(self.shelter_end())
    }

    /// Changes the share of open slots. Open slots stay; the result is the amount by which they exceed the new
    /// share.
    pub fn set_signalled_share(&mut self, share: Option<Q>) -> Q {
        self.offer.signalled_share = share;
        share.map_or(Q::ZERO, |share| Q::of(self.open_sum().count().saturating_sub(share.count())))
    }

    /// Changes the time for which a new open slot is safe from bookings. Slots that are open keep theirs.
    pub fn set_assumed_holding(&mut self, span: Option<Span>) {
        self.offer.assumed_holding = span;
    }

    pub(crate) fn shelter_end(&self) -> Time {
        self.offer.assumed_holding.map_or(Time::FOREVER, |span| self.now.saturating_add(span))
    }

    /// The amount that a new open slot could have, or an existing one grow by, if it is safe until `until`.
    pub(crate) fn free_to_open_until(&self, until: Time) -> Q {
        let share = self.offer.signalled_share.map(|share| share.count().saturating_sub(self.open_sum().count()));
        let ahead = if until > self.now { self.whole.available(self.now, until) } else { u64::MAX };
        let present = self.whole.capacity().at(self.now);
        let taken = self.whole.level(self.now) + self.loose;
        Q::of(ahead.min(present.saturating_sub(taken)).min(share.unwrap_or(u64::MAX)))
    }

    fn count_new_open(&mut self, amount: Q, until: Time) -> Result<SlotId, Denied<Q>> {
        let Ok(window) = Window::open(self.now) else {
            return Err(Misuse::Past { end: Time::FOREVER, now: self.now }.into());
        };
        let slot = Slot { window, amount, state: SlotState::Open, until, begun: true };
        let id = self.slots.insert(slot);
        if until > self.now {
            self.agenda.add(id, &slot);
        }
        self.count_open(id, &slot);
        Ok(id)
    }

    pub(crate) fn count_open(&mut self, id: SlotId, slot: &Slot<Q>) {
        let count = slot.amount.count();
        if slot.until == Time::FOREVER {
            self.whole.add_standing(count);
        } else if slot.until > self.now {
            self.sheltered += count;
            self.whole.add(slot.window.start(), slot.until, count);
        } else {
            self.loose += count;
            self.loose_slots.insert((slot.until, id));
        }
    }

    pub(crate) fn uncount_open(&mut self, id: SlotId, slot: &Slot<Q>) {
        let count = slot.amount.count();
        if slot.until == Time::FOREVER {
            self.whole.remove_standing(count);
        } else if self.loose_slots.remove(&(slot.until, id)) {
            self.loose -= count;
        } else {
            self.sheltered -= count;
            self.whole.remove(slot.window.start(), slot.until, count);
        }
    }

    /// Ends the slot's shelter: it leaves the profile and is loose from now on.
    pub(crate) fn loosen(&mut self, id: SlotId, slot: &Slot<Q>) {
        let count = slot.amount.count();
        self.sheltered -= count;
        self.whole.remove(slot.window.start(), slot.until, count);
        self.loose += count;
        self.loose_slots.insert((slot.until, id));
    }

    /// Displaces loose slots until the others fit beside the bookings of this instant.
    pub(crate) fn settle(&mut self) {
        while self.loose > 0 {
            if self.whole.level(self.now) + self.loose <= self.whole.capacity().at(self.now) {
                return;
            }
            let Some(&(_, id)) = self.loose_slots.first() else { return };
            match self.end(id, SlotStep::Displace) {
                Ok(slot) => self.notices.push_back(SlotNotice::Displaced { id, slot }),
                Err(_) => return,
            }
        }
    }

    /// The next instant at which a booking displaces a loose slot.
    pub(crate) fn next_displacement(&self) -> Option<Time> {
        if self.loose == 0 {
            return None;
        }
        self.whole.first_without(self.loose, self.now, Time::FOREVER)
    }
}
