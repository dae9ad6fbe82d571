//! Bookings on a link: IP rates outside, wire rates in the ledger, and the interface's premium as its sub-pool.
//!
//! A demanded rate gets the link's overhead for each packet of the stated least size, rounded up. A free rate is told
//! without it, rounded down. The premium bounds bookings alone, in IP bytes, and no overhead counts in it.

use crate::denied::{Denied, Shortfall};
use crate::link::LinkLedger;
use crate::pool::Take;
use crate::slot::SlotId;
use alloc::vec::Vec;
use terms::{Misuse, Rate, Span, Time, Window};

/// The sizes that turn an IP rate into a wire rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Framing {
    /// The bytes that the link adds to each packet.
    pub overhead: u32,
    /// The least packet size, bytes of IP; zero counts as one.
    pub packet: u32,
}

impl Framing {
    /// The wire rate that an IP rate demands: rounded up.
    pub const fn wire(self, ip: Rate) -> Rate {
        ip.with_overhead(self.overhead, self.packet)
    }

    /// The IP rate that a wire rate supplies if no packet is shorter: rounded down.
    pub fn ip(self, wire: Rate) -> Rate {
        let packet = u64::from(self.packet.max(1));
        wire.share(packet, packet + u64::from(self.overhead))
    }

    fn take(self, ip: Rate) -> Take<Rate> {
        Take { whole: self.wire(ip), part: ip }
    }

    /// A refusal in IP rates.
    fn refused(self, denied: Denied) -> Denied {
        denied.convert(|wire| self.ip(wire), |ip| ip)
    }
}

impl LinkLedger {
    /// Sets the most that bookings may have together from now on, in IP bytes; `None`: all that the ledger has.
    /// Bookings of before a first limit do not count in it.
    pub fn set_premium(&mut self, premium: Option<Rate>) {
        self.table_mut().set_pool(premium);
    }

    /// The most that bookings may have together, in IP bytes.
    pub fn premium(&self) -> Option<Rate> {
        self.table().pool()
    }

    /// Books an IP rate in a window.
    ///
    /// # Errors
    /// [`Denied`], in IP rates: of the premium first ([`Denied::Pool`]), then of the link.
    pub fn book(&mut self, now: Time, window: Window, ip: Rate, framing: Framing) -> Result<SlotId, Denied> {
        self.expire(now);
        self.table_mut().book_in_pool(window, framing.take(ip)).map_err(|denied| framing.refused(denied))
    }

    /// Holds an IP rate in a window without a deadline, until it is promised and committed, or released.
    ///
    /// # Errors
    /// As [`LinkLedger::book`].
    pub fn hold_booked(&mut self, now: Time, window: Window, ip: Rate, framing: Framing) -> Result<SlotId, Denied> {
        self.expire(now);
        self.table_mut().hold_in_pool(window, framing.take(ip)).map_err(|denied| framing.refused(denied))
    }

    /// Promises a held slot.
    ///
    /// # Errors
    /// As [`SlotTable::promise`](crate::SlotTable::promise).
    pub fn promise_booked(&mut self, now: Time, id: SlotId) -> Result<(), Misuse> {
        self.expire(now);
        self.table_mut().promise(id)
    }

    /// Commits a promised slot.
    ///
    /// # Errors
    /// As [`SlotTable::commit`](crate::SlotTable::commit).
    pub fn commit_booked(&mut self, now: Time, id: SlotId) -> Result<(), Misuse> {
        self.expire(now);
        self.table_mut().commit(id)
    }

    /// Counts a booking of an earlier run, even if it does not fit.
    ///
    /// # Errors
    /// As [`LinkLedger::book`], but a lack of capacity only if the sums would overflow.
    pub fn adopt_booked(&mut self, now: Time, window: Window, ip: Rate, framing: Framing) -> Result<SlotId, Denied> {
        self.expire(now);
        self.table_mut().adopt_in_pool(window, framing.take(ip)).map_err(|denied| framing.refused(denied))
    }

    /// The most that bookings could have at present if there were none, in IP bytes.
    pub fn bookable(&self, framing: Framing) -> Rate {
        self.table().capacity_in_pool(|wire| framing.ip(wire))
    }

    /// The IP rate that can be booked over a whole window.
    pub fn free_to_book(&self, window: Window, framing: Framing) -> Rate {
        self.table().available_in_pool(window.start(), window.end(), |wire| framing.ip(wire))
    }

    /// The IP rate that a booking could have at an instant and displace no slot.
    pub fn spare_to_book(&self, at: Time, framing: Framing) -> Rate {
        self.table().spare_in_pool(at, |wire| framing.ip(wire))
    }

    /// The instant until which an IP rate can be booked from now on, at most `by`; `None` if not even now.
    pub fn lasts_booked(&self, ip: Rate, by: Time, framing: Framing) -> Option<Time> {
        self.table().lasts_in_pool(framing.take(ip), by)
    }

    /// The earliest start at which an IP rate can be booked for `span`, not before `earliest` and over by `latest`.
    /// `None` also for a rate or a span of zero.
    pub fn find_to_book(&self, ip: Rate, span: Span, earliest: Time, latest: Time, framing: Framing) -> Option<Time> {
        self.table().find_in_pool(framing.take(ip), span, earliest, latest).ok()?
    }

    /// The IP rate that can be booked in each stretch of a window, in order and without gaps; at most `most`.
    pub fn stretches_to_book(&self, window: Window, most: usize, framing: Framing) -> Vec<(Window, Rate)> {
        self.table().stretches_in_pool(window.start(), window.end(), most, |wire| framing.ip(wire))
    }

    /// The shortfall of the link or of its premium, the larger of the two, in IP bytes.
    pub fn booked_shortfall(&self, framing: Framing) -> Option<Shortfall> {
        self.table().shortfall_in_pool(|wire| framing.ip(wire))
    }
}
