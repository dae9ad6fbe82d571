//! Pre-emption (RFC 3181): a request displaces signalled reservations with a defending priority below its
//! preempting priority, the lowest first, as few as suffice, none in vain, and never a booked slot.
//!
//! The choice depends only on the reservations: among equals the newest is first.

use super::Tc;
use crate::held::place;
use crate::io::Event;
use crate::outbox::ControlOutput;
use admit::{SlotId, SlotNotice};
use alloc::vec::Vec;
use terms::ports::{Preemption, RHandle, TcRequest};
use terms::{IfIndex, Rate, Refused, Time};

impl Tc {
    /// A slot of `rate` for a request: a new one, or that of a reservation (`of`) changed. It displaces
    /// others if necessary, and only if that is enough.
    pub(crate) fn slot_for(
        &mut self,
        now: Time,
        request: &TcRequest<'_>,
        rate: Rate,
        of: Option<(RHandle, SlotId)>,
    ) -> Result<SlotId, Refused> {
        let answer = self.ask(now, request.oif, rate, of);
        let Err(refused @ Refused::Capacity { .. }) = answer else { return answer };
        let Some(by) = request.priority.filter(|priority| priority.preempting > 0) else { return Err(refused) };
        let Some(victims) = self.victims(now, request.oif, by, rate, of) else { return Err(refused) };
        for victim in victims {
            self.displace(now, victim, Some(by));
        }
        self.ask(now, request.oif, rate, of)
    }

    fn ask(
        &mut self,
        now: Time,
        interface: IfIndex,
        rate: Rate,
        of: Option<(RHandle, SlotId)>,
    ) -> Result<SlotId, Refused> {
        let link = self.links.get_mut(&interface).ok_or(Refused::NotReservable { interface })?;
        match of {
            None => link.ledger.open(now, rate),
            Some((_, slot)) => link.ledger.modify(now, slot, rate).map(|_| slot),
        }
    }

    /// The reservations to displace, newest last; `None` if that would not help. The ledger is asked before
    /// any is displaced, because a future booking may be the obstacle.
    fn victims(
        &mut self,
        now: Time,
        oif: IfIndex,
        by: Preemption,
        rate: Rate,
        of: Option<(RHandle, SlotId)>,
    ) -> Option<Vec<RHandle>> {
        let link = self.links.get_mut(&oif)?;
        let (but, slot) = (of.map(|(handle, _)| place(handle)), of.map(|(_, slot)| slot));
        let mut need = rate.saturating_sub(link.ledger.free_without(now, &[], slot));
        loop {
            let chosen = link.to_displace(by.preempting, need, but)?;
            let held = || chosen.iter().filter_map(|victim| self.held.at(victim.place));
            let slots: Vec<SlotId> = held().filter_map(|(_, held)| held.slot).collect();
            let missing = rate.saturating_sub(link.ledger.free_without(now, &slots, slot));
            if missing == Rate::ZERO {
                let mut handles: Vec<RHandle> = held().map(|(handle, _)| handle).collect();
                handles.sort_unstable();
                return Some(handles);
            }
            let freed = held().fold(Rate::ZERO, |sum, (_, held)| sum.saturating_add(held.admitted));
            need = freed.saturating_add(missing);
        }
    }

    /// Displaces a reservation for a request, or (`None`) because a booking has taken its place.
    fn displace(&mut self, now: Time, handle: RHandle, by: Option<Preemption>) {
        let held = if by.is_some() { self.close(now, handle) } else { self.forget(handle) };
        let Some(held) = held else { return };
        let (oif, flow, rate) = (held.oif, held.flows.first(), held.admitted);
        self.out.event(Event::Displaced { oif, flow, rate, by });
        if held.adopted_until.is_none() {
            self.out.say(ControlOutput::Displaced(handle, by));
        }
        self.plane.put(oif, crate::plane::Due { classes: [held.class].into(), ..Default::default() });
    }

    /// Tells an interface's ledger the time, and reads the ledger's notices. What it displaces is due in the plane.
    pub(crate) fn read_ledger(&mut self, now: Time, oif: IfIndex) {
        let Some(link) = self.links.get_mut(&oif) else { return };
        link.ledger.expire(now);
        while let Some(notice) = self.links.get_mut(&oif).and_then(|link| link.ledger.poll()) {
            self.heed(now, oif, notice);
        }
    }

    /// Processes a notice.
    fn heed(&mut self, now: Time, oif: IfIndex, notice: SlotNotice) {
        match notice {
            SlotNotice::Displaced { id, .. } => {
                let whose = self.links.get(&oif).and_then(|link| link.whose(id));
                let holder = whose.and_then(|place| self.held.at(place)).filter(|(_, held)| held.slot == Some(id));
                let Some((handle, _)) = holder else { return };
                self.displace(now, handle, None);
            }
            // It opens anew whenever the book counts, which is no news.
            SlotNotice::Opens { id, .. } | SlotNotice::Closes { id, .. }
                if self.links.get(&oif).is_some_and(|link| link.is_of_class(id)) => {}
            SlotNotice::Opens { id, slot } => {
                self.out.event(Event::Opens { oif, slot: id.as_u64(), rate: slot.amount });
            }
            SlotNotice::Closes { id, slot } | SlotNotice::Expired { id, slot } => {
                self.out.event(Event::Closes { oif, slot: id.as_u64(), rate: slot.amount });
            }
        }
    }

    /// The ledger of an interface, for bookings and grants. Displacements are reported when traffic control
    /// is next told the time ([`Tc::wake`]), which is then due.
    pub fn ledger_mut(&mut self, oif: IfIndex) -> Option<&mut admit::LinkLedger> {
        self.links.get_mut(&oif).map(|link| &mut link.ledger)
    }
}
