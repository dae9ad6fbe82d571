//! A link's ledger as a node uses it: open slots of wire rate on one interface.

use crate::denied::{Denied, Shortfall};
use crate::expire::SlotNotice;
use crate::modify::SlotChange;
use crate::slot::{Slot, SlotId};
use crate::table::{Limits, SlotOffer, SlotTable};
use terms::{IfIndex, Misuse, Rate, Refused, Span, Time, Window};

/// What may be reserved on a link. All rates are wire rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkTerms {
    /// The link's rate.
    pub rate: Rate,
    /// What best effort and signalling keep whatever is reserved.
    pub kept_back: Rate,
    /// The most that signalled reservations may hold together.
    pub signalled_share: Rate,
    /// How long a signalled reservation is safe from bookings; `None`: for ever.
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
    /// With nothing reserved.
    pub fn new(interface: IfIndex, terms: LinkTerms, limits: Limits) -> LinkLedger {
        let offer = SlotOffer {
            capacity: terms.capacity(),
            signalled_share: Some(terms.signalled_share),
            assumed_holding: terms.assumed_holding,
        };
        LinkLedger { interface, terms, table: SlotTable::new(offer, limits) }
    }

    /// Which interface.
    pub fn interface(&self) -> IfIndex {
        self.interface
    }

    /// What may be reserved on it.
    pub fn terms(&self) -> LinkTerms {
        self.terms
    }

    /// The ledger itself, for bookings and grants. Tell it the time first: [`SlotTable::expire`].
    pub fn table(&self) -> &SlotTable {
        &self.table
    }

    /// As [`LinkLedger::table`].
    pub fn table_mut(&mut self) -> &mut SlotTable {
        &mut self.table
    }

    /// Opens a slot of `rate` (wire rate), which lasts until it is released.
    ///
    /// # Errors
    /// [`Refused`] with what is free; nothing has changed then.
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
        self.table.modify(id, SlotChange::rate(rate)).map_err(|denied| match denied {
            Denied::Capacity { free, .. } => {
                Refused::Capacity { interface: self.interface, asked: rate, free: free.saturating_add(old.rate) }
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

    /// Counts a slot found in the plane after a restart, whether or not it fits.
    ///
    /// # Errors
    /// [`Refused`] if the table is full or the rate means nothing.
    pub fn adopt(&mut self, now: Time, rate: Rate) -> Result<(SlotId, Option<Shortfall>), Refused> {
        self.table.expire(now);
        self.table.adopt(rate).map_err(|denied| denied.on(self.interface))
    }

    /// What could be opened now.
    pub fn free(&mut self, now: Time) -> Rate {
        self.table.expire(now);
        self.table.free_to_open()
    }

    /// What could be opened when the table was last told the time.
    pub fn free_then(&self) -> Rate {
        self.table.free_to_open()
    }

    /// What open slots hold together.
    pub fn open_sum(&self) -> Rate {
        self.table.open_sum()
    }

    /// Every slot, for status.
    pub fn slots(&self) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        self.table.slots()
    }

    /// The link changed. What is reserved stays; the answer says where it is more than there is now.
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

    /// Tells the time; then drain [`LinkLedger::poll`].
    pub fn expire(&mut self, now: Time) {
        self.table.expire(now);
    }

    /// What happened to slots by themselves (windows that open and close, displaced slots).
    pub fn poll(&mut self) -> Option<SlotNotice> {
        self.table.poll()
    }

    /// When to tell the time next.
    pub fn wake_at(&self) -> Option<Time> {
        self.table.wake_at()
    }
}
