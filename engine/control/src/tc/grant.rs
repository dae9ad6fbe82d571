//! Changes of the grant of Boomerang's fast path ([`crate::granted`]): the ledger's slot first, then the class.

use super::Tc;
use crate::granted::{Granted, GrantedShare};
use terms::{IfIndex, Rate, Refused, Time};
use traffic::plan::ClassId;

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
            Some(old) if share.rate == Rate::ZERO => {
                // A slot that is over already has nothing to give back.
                let _ = link.ledger.release(now, old.slot());
                link.granted = None;
            }
            None if share.rate == Rate::ZERO => return Ok(()),
            Some(old) => {
                if old.admitted() != admitted {
                    link.ledger.modify(now, old.slot(), admitted)?;
                }
                link.granted = Some(Granted::new(old.slot(), share, admitted));
            }
            None => {
                let slot = link.ledger.open(now, admitted)?;
                link.granted = Some(Granted::new(slot, share, admitted));
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
        link.granted = Some(Granted::new(slot, share, admitted));
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
        granted.map_or(Rate::ZERO, |granted| granted.share().rate)
    }
}
