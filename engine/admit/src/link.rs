//! The ledger of a link, as a node uses it: open slots of wire rate on one interface.

use crate::denied::{Denied, Shortfall};
use crate::slot::{Slot, SlotId};
use crate::table::{Limits, SlotChange, SlotNotice, SlotOffer, SlotTable};
use terms::{IfIndex, Misuse, Rate, Refused, Span, Time, Window};

/// Limits on reservations of a link. All rates are wire rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTerms {
    /// The link's rate.
    pub rate: Rate,
    /// The rate that is always kept for best effort and signalling.
    pub kept_back: Rate,
    /// The most that signalled reservations may hold together.
    pub signalled_share: Rate,
    /// The time for which a signalled reservation is safe from bookings; `None`: for ever.
    pub assumed_holding: Option<Span>,
}

impl LinkTerms {
    fn capacity(&self) -> Rate {
        self.rate.saturating_sub(self.kept_back)
    }
}

/// The ledger of one interface.
#[derive(Clone, Debug)]
pub struct LinkLedger {
    interface: IfIndex,
    terms: LinkTerms,
    table: SlotTable,
}

impl LinkLedger {
    /// A ledger with nothing reserved.
    pub fn new(interface: IfIndex, terms: LinkTerms, limits: Limits) -> LinkLedger {
        let offer = SlotOffer {
            capacity: terms.capacity(),
            signalled_share: Some(terms.signalled_share),
            assumed_holding: terms.assumed_holding,
        };
        LinkLedger { interface, terms, table: SlotTable::new(offer, limits) }
    }

    /// The index of the interface.
    pub fn interface(&self) -> IfIndex {
        self.interface
    }

    /// The present terms.
    pub fn terms(&self) -> LinkTerms {
        self.terms
    }

    /// The table of slots, for bookings and grants. Tell it the time first: [`SlotTable::expire`].
    pub fn table(&self) -> &SlotTable {
        &self.table
    }

    /// As [`LinkLedger::table`].
    pub fn table_mut(&mut self) -> &mut SlotTable {
        &mut self.table
    }

    /// Opens a slot of `rate` (wire rate). It lasts until it is released.
    ///
    /// # Errors
    /// [`Refused`] with the free rate; then the ledger is unchanged.
    pub fn open(&mut self, now: Time, rate: Rate) -> Result<SlotId, Refused> {
        self.table.expire(now);
        self.table.open(rate).map_err(|denied| denied.on(self.interface))
    }

    /// Changes the rate of a slot; the old stays if the new does not fit.
    ///
    /// # Errors
    /// [`Refused`], where `asked` is the whole new rate and `free` the most that the slot could have.
    pub fn modify(&mut self, now: Time, id: SlotId, rate: Rate) -> Result<Slot, Refused> {
        self.table.expire(now);
        let old = self.table.get(id).map_err(|misuse| Denied::from(misuse).on(self.interface))?;
        self.table.modify(id, SlotChange::amount(rate)).map_err(|denied| match denied {
            Denied::Capacity { free, .. } => {
                Refused::Capacity { interface: self.interface, asked: rate, free: free.saturating_add(old.amount) }
            }
            other => other.on(self.interface),
        })
    }

    /// Gives a slot back.
    ///
    /// # Errors
    /// [`Misuse::UnknownHandle`] if it is over already.
    pub fn release(&mut self, now: Time, id: SlotId) -> Result<Slot, Misuse> {
        self.table.expire(now);
        self.table.release(id)
    }

    /// Counts a slot found in the plane after a restart, even if it does not fit.
    ///
    /// # Errors
    /// [`Refused`] if the table is full or the rate is zero or too large.
    pub fn adopt(&mut self, now: Time, rate: Rate) -> Result<(SlotId, Option<Shortfall>), Refused> {
        self.table.expire(now);
        self.table.adopt(rate).map_err(|denied| denied.on(self.interface))
    }

    /// The largest rate that could be opened now.
    pub fn free(&mut self, now: Time) -> Rate {
        self.table.expire(now);
        self.table.free_to_open()
    }

    /// The largest rate that could be opened at the latest time that the table was told.
    pub fn free_then(&self) -> Rate {
        self.table.free_to_open()
    }

    /// As [`SlotTable::free_without`].
    pub fn free_without(&mut self, now: Time, gone: &[SlotId], of: Option<SlotId>) -> Rate {
        self.table.expire(now);
        self.table.free_without(gone, of)
    }

    /// Sum of all open slots.
    pub fn open_sum(&self) -> Rate {
        self.table.open_sum()
    }

    /// Every slot, for status reports.
    pub fn slots(&self) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        self.table.slots()
    }

    /// Takes new terms of the link. Reservations stay; the result is the shortfall, if they exceed the new
    /// capacity.
    ///
    /// # Errors
    /// [`Refused::Limit`] if the capacity has too many steps.
    pub fn change(&mut self, now: Time, terms: LinkTerms) -> Result<Option<Shortfall>, Refused> {
        self.table.expire(now);
        let Ok(ever) = Window::open(now) else { return Ok(None) };
        let shortfall = self.table.set_capacity(ever, terms.capacity()).map_err(|denied| denied.on(self.interface))?;
        self.table.set_signalled_share(Some(terms.signalled_share));
        self.table.set_assumed_holding(terms.assumed_holding);
        self.terms = terms;
        Ok(shortfall)
    }

    /// Tells the time. Drain [`LinkLedger::poll`] afterwards.
    pub fn expire(&mut self, now: Time) {
        self.table.expire(now);
    }

    /// The next event that time alone caused (a window opened or closed, a slot was displaced).
    pub fn poll(&mut self) -> Option<SlotNotice> {
        self.table.poll()
    }

    /// The instant at which to tell the time next.
    pub fn wake_at(&self) -> Option<Time> {
        self.table.wake_at()
    }
}
