//! The grant of Boomerang's fast path: one open slot of an interface's ledger, which the kernel program divides.
//!
//! The ledger has only the slot, and the class of controlled load carries all of it; the parts are in the
//! program's table. The program's driver grows the slot before the program's share, and shrinks it after it,
//! so that the program never has more than the ledger holds for it.

use crate::classes::{self, ReservedLoad};
use crate::link::Link;
use crate::tc::Tc;
use admit::SlotId;
use terms::{Bytes, FlowSpec, IfIndex, Rate, Refused, Time, Tspec};
use traffic::plan::ClassId;

/// The share that is granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantedShare {
    /// The most that the sessions' rates may sum to, in IP bytes.
    pub rate: Rate,
    /// The burst of all their buckets together, in IP bytes.
    pub burst: Bytes,
    /// The least packet size that is counted, in IP bytes.
    pub min_packet: u32,
}

impl GrantedShare {
    fn flowspec(&self) -> FlowSpec {
        let GrantedShare { rate, burst, min_packet } = *self;
        FlowSpec::ControlledLoad(Tspec { r: rate, b: burst, p: Rate::INFINITE, m: min_packet, M: 0 })
    }
}

/// An existing grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    slot: SlotId,
    share: GrantedShare,
    /// The rate in the ledger, a wire rate.
    pub(crate) admitted: Rate,
}

impl Link {
    /// The load of the classes: reservations, and the part of the grant that fits beside them. An adopted
    /// grant may be larger until it is shrunk.
    pub(crate) fn carried(&self) -> ReservedLoad {
        self.carried_beside(self.load)
    }

    /// The same if the reservations were this load.
    pub(crate) fn carried_beside(&self, load: ReservedLoad) -> ReservedLoad {
        let Some(granted) = &self.granted else { return load };
        let for_sale = self.terms.spec.rate.saturating_sub(classes::kept_back(&self.terms));
        let left = for_sale.saturating_sub(load.shared).saturating_sub(load.own);
        load.plus(&granted.share.flowspec(), granted.admitted.min(left), &self.terms.spec)
    }

    fn on_the_wire(&self, share: &GrantedShare) -> Rate {
        share.rate.with_overhead(self.terms.spec.overhead, share.min_packet)
    }

    /// Adapts the slot to the link's changed terms, if the same share still fits.
    pub(crate) fn grant_again(&mut self, now: Time) {
        let Some(Granted { slot, share, .. }) = self.granted else { return };
        let admitted = self.on_the_wire(&share);
        if self.ledger.modify(now, slot, admitted).is_ok() {
            self.granted = Some(Granted { slot, share, admitted });
        }
    }
}

impl Tc {
    /// Sets the rate that the fast path may give away on an interface; zero ends the grant. The change of the
    /// class is reported as any other.
    ///
    /// # Errors
    /// [`Refused`] with the free rate; the old grant stays.
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

    /// Counts the grant of a program from an earlier run of the agent, even if it does not fit, because the
    /// sessions in its table were promised.
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

    /// The wire rate that the ledger counts for a part of an interface's grant.
    pub fn part_of_grant(&self, interface: IfIndex, part: GrantedShare) -> Option<Rate> {
        self.links.get(&interface).map(|link| link.on_the_wire(&part))
    }

    /// The rate of the fast path on an interface.
    pub fn granted(&self, interface: IfIndex) -> Rate {
        let granted = self.links.get(&interface).and_then(|link| link.granted.as_ref());
        granted.map_or(Rate::ZERO, |granted| granted.share.rate)
    }
}
