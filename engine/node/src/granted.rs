//! The grant of Boomerang's fast path: one open slot of an interface's ledger, which the program in the kernel divides.
//!
//! The ledger sees the slot and the class of controlled load carries all of it; who has which part is in the program's
//! table. Whoever drives the program grows the slot first and the program's share after, and shrinks them the other way
//! round, so that the program never has what the ledger does not hold for it.

use crate::classes::{self, ReservedLoad};
use crate::link::Link;
use crate::tc::Tc;
use admit::SlotId;
use terms::{Bytes, FlowSpec, IfIndex, Rate, Refused, Time, Tspec};
use traffic::plan::ClassId;

/// How much is granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantedShare {
    /// Sum of the sessions' rates, at most; IP bytes.
    pub rate: Rate,
    /// What their buckets may let through at once, together; IP bytes.
    pub burst: Bytes,
    /// No packet of theirs counts as shorter, IP bytes.
    pub min_packet: u32,
}

impl GrantedShare {
    fn flowspec(&self) -> FlowSpec {
        let GrantedShare { rate, burst, min_packet } = *self;
        FlowSpec::ControlledLoad(Tspec { r: rate, b: burst, p: Rate::INFINITE, m: min_packet, M: 0 })
    }
}

/// A grant that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    slot: SlotId,
    share: GrantedShare,
    /// Wire rate.
    pub(crate) admitted: Rate,
}

impl Link {
    /// What classes have to carry: reservations, and the grant as far as there is room beside them. A grant that was
    /// found may be larger, until it is shrunk.
    pub(crate) fn carried(&self) -> ReservedLoad {
        let Some(granted) = &self.granted else { return self.load };
        let for_sale = self.terms.spec.rate.saturating_sub(classes::kept_back(&self.terms));
        let left = for_sale.saturating_sub(self.load.shared).saturating_sub(self.load.own);
        self.load.plus(&granted.share.flowspec(), granted.admitted.min(left), &self.terms.spec)
    }

    fn on_the_wire(&self, share: &GrantedShare) -> Rate {
        share.rate.with_overhead(self.terms.spec.overhead, share.min_packet)
    }

    /// The link's terms changed: the slot is that of the same share on it, where that fits.
    pub(crate) fn grant_again(&mut self, now: Time) {
        let Some(Granted { slot, share, .. }) = self.granted else { return };
        let admitted = self.on_the_wire(&share);
        if self.ledger.modify(now, slot, admitted).is_ok() {
            self.granted = Some(Granted { slot, share, admitted });
        }
    }
}

impl Tc {
    /// What the fast path may give away of an interface from now on; a rate of zero ends it. The change of the class is
    /// said as any other.
    ///
    /// # Errors
    /// [`Refused`] with what is free; the old grant stays.
    pub fn grant(&mut self, now: Time, interface: IfIndex, share: GrantedShare) -> Result<(), Refused> {
        self.read_ledger(now, interface);
        let link = self.links.get_mut(&interface).ok_or(Refused::NotReservable { interface })?;
        let admitted = link.on_the_wire(&share);
        let old = link.granted;
        match old {
            Some(Granted { slot, .. }) if share.rate == Rate::ZERO => {
                // A slot that is over already has nothing to give back.
                let _ = link.ledger.release(now, slot);
                link.granted = None;
            }
            None if share.rate == Rate::ZERO => return Ok(()),
            Some(Granted { slot, admitted: before, .. }) => {
                if before != admitted {
                    link.ledger.modify(now, slot, admitted)?;
                }
                link.granted = Some(Granted { slot, share, admitted });
            }
            None => {
                let slot = link.ledger.open(now, admitted)?;
                link.granted = Some(Granted { slot, share, admitted });
            }
        }
        self.sync(interface, &[ClassId::CONTROLLED_LOAD], None);
        self.read_ledger(now, interface);
        Ok(())
    }

    /// The grant that the program of an earlier life still has: counted whether or not it fits, because what is in its
    /// table was promised.
    ///
    /// # Errors
    /// [`Refused`]: no such interface, or a full table.
    pub fn adopt_grant(&mut self, now: Time, interface: IfIndex, share: GrantedShare) -> Result<(), Refused> {
        let link = self.links.get_mut(&interface).ok_or(Refused::NotReservable { interface })?;
        if share.rate == Rate::ZERO || link.granted.is_some() {
            return Ok(());
        }
        let admitted = link.on_the_wire(&share);
        let (slot, _) = link.ledger.adopt(now, admitted)?;
        link.granted = Some(Granted { slot, share, admitted });
        self.sync(interface, &[ClassId::CONTROLLED_LOAD], None);
        Ok(())
    }

    /// What a part of an interface's grant counts for in the ledger, wire rate.
    pub fn part_of_grant(&self, interface: IfIndex, part: GrantedShare) -> Option<Rate> {
        self.links.get(&interface).map(|link| link.on_the_wire(&part))
    }

    /// What the fast path has of an interface.
    pub fn granted(&self, interface: IfIndex) -> Rate {
        let granted = self.links.get(&interface).and_then(|link| link.granted.as_ref());
        granted.map_or(Rate::ZERO, |granted| granted.share.rate)
    }
}
