//! The ledger of a resource other than a link: processors, a disk, pieces. Amounts come and go with their unit.

use crate::denied::{Denied, Shortfall};
use crate::quantity::Count;
use crate::slot::SlotId;
use crate::table::{Limits, SlotOffer, SlotTable};
use alloc::vec::Vec;
use terms::{Amount, Misuse, Span, Time, Unit, Window};

/// The ledger of one stock. All its amounts have one unit; another is refused as [`Misuse::OtherUnit`].
#[derive(Clone, Debug)]
pub struct StockLedger {
    unit: Unit,
    table: SlotTable<Count>,
}

impl StockLedger {
    /// A ledger with nothing booked.
    pub fn new(capacity: Amount, limits: Limits) -> StockLedger {
        let table = SlotTable::new(SlotOffer::of(Count(capacity.count())), limits);
        StockLedger { unit: capacity.unit(), table }
    }

    /// The unit of its amounts.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The capacity at present.
    pub fn capacity(&self) -> Amount {
        self.amount(self.table.capacity())
    }

    /// Sets the capacity from now on. Bookings stay.
    ///
    /// # Errors
    /// [`Denied::Misuse`]: the amount has another unit.
    pub fn set_capacity(&mut self, now: Time, capacity: Amount) -> Result<Option<Shortfall<Amount>>, Denied<Amount>> {
        let capacity = self.count(capacity)?;
        self.expire(now);
        let ever = Window::open(now)?;
        let short = self.table.set_capacity(ever, capacity).map_err(|denied| self.refused(denied))?;
        Ok(short.map(|short| self.short(short)))
    }

    /// Tells the time. The table's notices are dropped, because the bookings know their windows.
    pub fn expire(&mut self, now: Time) {
        self.table.expire(now);
        while self.table.poll().is_some() {}
    }

    /// Books an amount in a window.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn book(&mut self, now: Time, window: Window, amount: Amount) -> Result<SlotId, Denied<Amount>> {
        let count = self.count(amount)?;
        self.expire(now);
        self.table.grant(window, count).map_err(|denied| self.refused(denied))
    }

    /// Holds an amount in a window without a deadline, until it is promised and committed, or released.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn hold(&mut self, now: Time, window: Window, amount: Amount) -> Result<SlotId, Denied<Amount>> {
        let count = self.count(amount)?;
        self.expire(now);
        self.table.hold(window, count, Time::FOREVER).map_err(|denied| self.refused(denied))
    }

    /// Promises a held slot.
    ///
    /// # Errors
    /// As [`SlotTable::promise`].
    pub fn promise(&mut self, now: Time, id: SlotId) -> Result<(), Misuse> {
        self.expire(now);
        self.table.promise(id)
    }

    /// Commits a promised slot.
    ///
    /// # Errors
    /// As [`SlotTable::commit`].
    pub fn commit(&mut self, now: Time, id: SlotId) -> Result<(), Misuse> {
        self.expire(now);
        self.table.commit(id)
    }

    /// Counts a booking of an earlier run, even if it does not fit.
    ///
    /// # Errors
    /// As [`StockLedger::book`], but a lack of capacity only if the sums would overflow.
    pub fn adopt(&mut self, now: Time, window: Window, amount: Amount) -> Result<SlotId, Denied<Amount>> {
        let count = self.count(amount)?;
        self.expire(now);
        self.table.adopt_booked(window, count).map_err(|denied| self.refused(denied))
    }

    /// Gives a slot back.
    ///
    /// # Errors
    /// [`Misuse::UnknownHandle`] if it is over already.
    pub fn release(&mut self, now: Time, id: SlotId) -> Result<(), Misuse> {
        self.expire(now);
        self.table.release(id).map(|_| ())
    }

    /// The amount that can be booked over a whole window.
    pub fn free(&self, window: Window) -> Amount {
        self.amount(self.table.available(window.start(), window.end()))
    }

    /// The amount that nothing uses at an instant.
    pub fn spare(&self, at: Time) -> Amount {
        self.amount(self.table.spare(at))
    }

    /// The earliest start at which an amount fits for `span`, not before `earliest` and over by `latest`.
    ///
    /// # Errors
    /// [`Misuse`]: another unit, an amount or a span of zero.
    pub fn find(&self, amount: Amount, span: Span, earliest: Time, latest: Time) -> Result<Option<Time>, Misuse> {
        self.table.find(self.count(amount)?, span, earliest, latest)
    }

    /// The amount that can be booked in each stretch of a window, in order and without gaps; at most `most`.
    pub fn stretches(&self, window: Window, most: usize) -> Vec<(Window, Amount)> {
        let found = self.table.stretches(window.start(), window.end(), most);
        found.into_iter().map(|(window, count)| (window, self.amount(count))).collect()
    }

    /// The shortfall from now on, if more has been given away than there is.
    pub fn shortfall(&self) -> Option<Shortfall<Amount>> {
        self.table.shortfall().map(|short| self.short(short))
    }

    fn amount(&self, count: Count) -> Amount {
        Amount::new(count.0, self.unit)
    }

    fn count(&self, amount: Amount) -> Result<Count, Misuse> {
        amount.count_of(self.unit).map(Count)
    }

    fn refused(&self, denied: Denied<Count>) -> Denied<Amount> {
        denied.convert(|count| self.amount(count), |count| self.amount(count))
    }

    fn short(&self, short: Shortfall<Count>) -> Shortfall<Amount> {
        Shortfall { first: short.first, worst: self.amount(short.worst) }
    }
}
