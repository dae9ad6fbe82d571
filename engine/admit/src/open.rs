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

use crate::denied::{Denied, Shortfall};
use crate::expire::SlotNotice;
use crate::slot::{Slot, SlotId};
use crate::state::{SlotState, SlotStep};
use crate::table::{MAX_RATE, SlotTable};
use terms::{Misuse, Rate, Span, Time, Window};

/// The least capacity free of bookings over all instants from the one at which this was noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    least: Rate,
    /// The value of `UseProfile::raised` then.
    raised: u64,
}

impl SlotTable {
    /// Opens a slot: `rate` from now on, until it is released.
    ///
    /// # Errors
    /// [`Denied`]: it does not fit (`free` says what would), the table is full, the rate is zero.
    pub fn open(&mut self, rate: Rate) -> Result<SlotId, Denied> {
        self.room_for_slot(rate)?;
        let until = self.shelter_end();
        if !self.surely_fits(rate, until) {
            self.look_ahead();
            let free = self.free_to_open_until(until);
            if rate > free {
                return Err(Denied::Capacity { asked: rate, free });
            }
        }
        self.count_new_open(rate, until)
    }

    /// True if the noted [`Ahead`] shows that a new open slot fits, without a look at the bookings. The least
    /// free capacity ahead does not shrink as time passes, unless a booking is added or the capacity changes.
    fn surely_fits(&self, rate: Rate, until: Time) -> bool {
        let Some(ahead) = self.ahead.filter(|ahead| ahead.raised == self.profile.raised()) else { return false };
        let taken = Rate::from_bps(self.standing).saturating_add(rate);
        let in_share = |share: Rate| self.open_sum().saturating_add(rate) <= share;
        until == Time::FOREVER
            && self.loose == 0
            && taken <= ahead.least
            && self.offer.signalled_share.is_none_or(in_share)
    }

    /// Notes the least free capacity ahead, for [`SlotTable::surely_fits`].
    fn look_ahead(&mut self) {
        let over = self.capacity.stretches(self.now, Time::FOREVER);
        let least = over.map(|s| s.rate.as_bps().saturating_sub(self.profile.peak(s.start, s.end))).min();
        let least = Rate::from_bps(least.unwrap_or(0));
        self.ahead = Some(Ahead { least, raised: self.profile.raised() });
    }

    /// Counts an open slot that exists already (found in the plane after a restart), even if it does not fit.
    /// Returns the shortfall, if any. The slot is safe from bookings for as long as a new one.
    ///
    /// # Errors
    /// [`Denied`]: the table is full, the rate is zero, or the sums would pass [`MAX_RATE`].
    pub fn adopt(&mut self, rate: Rate) -> Result<(SlotId, Option<Shortfall>), Denied> {
        self.room_for_slot(rate)?;
        let most = self.profile.peak(Time::ZERO, Time::FOREVER) + self.standing + self.loose;
        let free = MAX_RATE.saturating_sub(Rate::from_bps(most));
        if rate > free {
            return Err(Denied::Capacity { asked: rate, free });
        }
        let id = self.count_new_open(rate, self.shelter_end())?;
        self.settle();
        Ok((id, self.shortfall()))
    }

    /// Sum of all open slots.
    pub fn open_sum(&self) -> Rate {
        Rate::from_bps(self.standing + self.sheltered + self.loose)
    }

    /// The largest rate that could be opened now, as one slot or several.
    pub fn free_to_open(&self) -> Rate {
        self.free_to_open_until(self.shelter_end())
    }

    /// Changes the share of open slots. Open slots stay; the result is the rate by which they exceed the new
    /// share.
    pub fn set_signalled_share(&mut self, share: Option<Rate>) -> Rate {
        self.offer.signalled_share = share;
        share.map_or(Rate::ZERO, |share| self.open_sum().saturating_sub(share))
    }

    /// Changes the time for which a new open slot is safe from bookings. Slots that are open keep theirs.
    pub fn set_assumed_holding(&mut self, span: Option<Span>) {
        self.offer.assumed_holding = span;
    }

    pub(crate) fn shelter_end(&self) -> Time {
        self.offer.assumed_holding.map_or(Time::FOREVER, |span| self.now.saturating_add(span))
    }

    /// The rate that a new open slot could have, or an existing one grow by, if it is safe until `until`.
    pub(crate) fn free_to_open_until(&self, until: Time) -> Rate {
        let share = self.offer.signalled_share.map(|share| share.saturating_sub(self.open_sum()));
        let ahead = if until > self.now { self.available(self.now, until) } else { Rate::INFINITE };
        let present = self.capacity.at(self.now).as_bps();
        let taken = self.profile.level(self.now) + self.standing + self.loose;
        ahead.min(Rate::from_bps(present.saturating_sub(taken))).min(share.unwrap_or(Rate::INFINITE))
    }

    fn count_new_open(&mut self, rate: Rate, until: Time) -> Result<SlotId, Denied> {
        let Ok(window) = Window::open(self.now) else {
            return Err(Misuse::Past { end: Time::FOREVER, now: self.now }.into());
        };
        let slot = Slot { window, rate, state: SlotState::Open, until, begun: true };
        let id = self.slots.insert(slot);
        if until > self.now {
            self.agenda.add(id, &slot);
        }
        self.count_open(id, &slot);
        Ok(id)
    }

    pub(crate) fn count_open(&mut self, id: SlotId, slot: &Slot) {
        let bps = slot.rate.as_bps();
        if slot.until == Time::FOREVER {
            self.standing += bps;
        } else if slot.until > self.now {
            self.sheltered += bps;
            self.profile.add(slot.window.start(), slot.until, bps as i64);
        } else {
            self.loose += bps;
            self.loose_slots.insert((slot.until, id));
        }
    }

    pub(crate) fn uncount_open(&mut self, id: SlotId, slot: &Slot) {
        let bps = slot.rate.as_bps();
        if slot.until == Time::FOREVER {
            self.standing -= bps;
        } else if self.loose_slots.remove(&(slot.until, id)) {
            self.loose -= bps;
        } else {
            self.sheltered -= bps;
            self.profile.add(slot.window.start(), slot.until, -(bps as i64));
        }
    }

    /// Ends the slot's shelter: it leaves the profile and is loose from now on.
    pub(crate) fn loosen(&mut self, id: SlotId, slot: &Slot) {
        self.sheltered -= slot.rate.as_bps();
        self.profile.add(slot.window.start(), slot.until, -(slot.rate.as_bps() as i64));
        self.loose += slot.rate.as_bps();
        self.loose_slots.insert((slot.until, id));
    }

    /// Displaces loose slots until the others fit beside the bookings of this instant.
    pub(crate) fn settle(&mut self) {
        while self.loose > 0 {
            let taken = self.profile.level(self.now) + self.standing + self.loose;
            if taken <= self.capacity.at(self.now).as_bps() {
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
        self.capacity.stretches(self.now, Time::FOREVER).find_map(|s| {
            match s.rate.as_bps().checked_sub(self.standing + self.loose) {
                Some(ceiling) => self.profile.first_above(s.start, s.end, ceiling),
                None => Some(s.start),
            }
        })
    }
}
