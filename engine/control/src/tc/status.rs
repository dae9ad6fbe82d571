//! A node's status: for each reservation *asked / admitted / installed*. The fourth value, *measured*, comes
//! from the reader of the plane's counters; (interface, flow) is the key to join them.

use super::Tc;
use crate::held::Held;
use crate::link::Link;
use crate::order::{self, Want};
use crate::plane::{Due, Plane};
use alloc::vec::Vec;
use terms::ports::{Preemption, RHandle};
use terms::{FlowKey, FlowSpec, IfIndex, Rate, Session, Span, Time, Tspec};
use traffic::plan::{ClassId, Plan};

/// A reservation on one outgoing interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationView {
    /// Traffic control's handle.
    pub handle: RHandle,
    /// Outgoing interface.
    pub oif: IfIndex,
    /// The flow; if several senders share the reservation, the first of them. See [`Tc::flows`].
    pub flow: FlowKey,
    /// The number of flows in the reservation.
    pub flows: usize,
    /// True if they share one bucket.
    pub shared: bool,
    /// The priorities in pre-emption.
    pub priority: Preemption,
    /// The session.
    pub session: Session,
    /// The requested flowspec.
    pub asked: FlowSpec,
    /// The Tspec of the sender.
    pub sender_tspec: Tspec,
    /// The wire rate that the ledger counts.
    pub admitted: Rate,
    /// True if the plane has confirmed it.
    pub installed: bool,
    /// The class of its conforming packets.
    pub class: ClassId,
    /// Its lifetime: the next agent keeps it so long without a new request.
    pub lifetime: Span,
    /// For a reservation of an earlier run: the end of its lifetime, unless it is requested again.
    pub adopted_until: Option<Time>,
}

/// The reservable and the reserved rates of an interface, as wire rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkView {
    /// The interface.
    pub oif: IfIndex,
    /// The link's rate.
    pub rate: Rate,
    /// The most that reservations can hold together.
    pub reservable: Rate,
    /// The sum of the reservations.
    pub reserved: Rate,
    /// The free rate.
    pub free: Rate,
    /// The `C` (bytes) and `D` (microseconds), if guaranteed service is offered.
    pub guaranteed: Option<(u32, u32)>,
}

/// A disagreement between tables; our own fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drift {
    /// The interface.
    pub oif: IfIndex,
    /// The disagreement.
    pub what: &'static str,
}

impl Tc {
    /// Every reservation, oldest first.
    pub fn reservations(&self) -> impl Iterator<Item = ReservationView> + '_ {
        self.held.by_age().map(|(handle, held)| view(handle, held))
    }

    /// The reservation of a handle.
    pub fn reserved(&self, handle: RHandle) -> Option<ReservationView> {
        self.held.get(handle).map(|held| view(handle, held))
    }

    /// The reservation that a flow has on an interface, alone or with others.
    pub fn reservation(&self, oif: IfIndex, flow: &FlowKey) -> Option<ReservationView> {
        let (handle, held) = self.held.at(self.plane.link(oif)?.whose(flow)?)?;
        Some(view(handle, held))
    }

    /// The flows of a reservation, in ascending order.
    pub fn flows(&self, handle: RHandle) -> &[FlowKey] {
        self.held.get(handle).map(|held| held.flows.as_slice()).unwrap_or_default()
    }

    /// Every interface that takes reservations.
    pub fn links(&self) -> impl Iterator<Item = LinkView> + '_ {
        self.links.iter().map(|(&oif, link)| LinkView {
            oif,
            rate: link.terms.spec.rate,
            reservable: link.reservable(),
            reserved: link.ledger.open_sum(),
            free: link.ledger.free_then(),
            guaranteed: link.terms.guaranteed,
        })
    }

    /// The confirmed state of the plane, computed anew.
    pub fn plan(&self) -> Plan {
        Plan { edges: self.edges.confirmed().clone(), ..self.plane.confirmed(&self.held) }
    }

    /// The model of the plane.
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// A digest of every interface's ledger: equal states, equal digests.
    pub fn ledger_digest(&self) -> u64 {
        let digests = self.links.values().map(|link| link.ledger.table().digest());
        digests.fold(0xcbf2_9ce4_8422_2325, |all, one| (all ^ one).wrapping_mul(0x0100_0000_01b3))
    }

    /// Checks that ledger, reservations and plan agree on every interface. The time grows with their number.
    ///
    /// # Errors
    /// [`Drift`] names the first disagreement.
    pub fn audit(&self) -> Result<(), Drift> {
        self.links.iter().try_for_each(|(&oif, link)| self.audit_link(oif, link).map_err(|what| Drift { oif, what }))
    }

    fn audit_link(&self, oif: IfIndex, link: &Link) -> Result<(), &'static str> {
        let mut admitted = link.granted.as_ref().map_or(Rate::ZERO, |granted| granted.admitted());
        let mut load = crate::classes::ReservedLoad::default();
        let (mut own, mut flows) = (0, 0);
        for (handle, held) in self.held.iter().filter(|(_, held)| held.oif == oif) {
            if held.slot.is_some() {
                admitted = admitted.saturating_add(held.admitted);
                load = load.plus(&held.charged(), held.admitted, &link.terms.spec);
            }
            own += usize::from(held.class >= ClassId::FIRST_OWN);
            flows += held.flows.as_slice().len();
            let mine = |flow: &FlowKey| {
                self.plane.link(oif).and_then(|shadow| shadow.whose(flow)) == Some(crate::held::place(handle))
            };
            let its_slot = held.slot.is_none_or(|slot| link.whose(slot) == Some(crate::held::place(handle)));
            if !held.flows.as_slice().iter().all(mine) || !its_slot {
                return Err("a reservation's flows or its slot are another's");
            }
        }
        link.ledger.table().audit().map_err(|drift| drift.what)?;
        if link.ledger.open_sum() != admitted {
            return Err("the ledger's sum is not that of the reservations");
        }
        if link.load != load || link.own.len() != own {
            return Err("the running sums are not those of the reservations");
        }
        let (wanted, settled) = self.plane.link(oif).map_or((0, true), |shadow| shadow.census());
        if wanted != flows {
            return Err("the table of flows is not that of the reservations");
        }
        let mut classes = Vec::new();
        let due = Due { all: true, ..Due::default() };
        self.classes_due(oif, link, &due, &link.carried(), &mut classes);
        let sum = classes.iter().filter_map(|(_, spec)| *spec).map(|spec| crate::classes::guaranteed(&spec));
        if sum.fold(Rate::ZERO, Rate::saturating_add) != link.terms.spec.rate {
            return Err("the classes do not sum to the link");
        }
        let want = Want { link: Some(link.terms.spec), classes, flows: Vec::new() };
        let as_wanted = settled && order::steps(oif, self.plane.link(oif), &want).is_empty();
        if self.plane.is_idle_on(oif) && !as_wanted {
            return Err("the plan is not what the reservations need");
        }
        Ok(())
    }
}

fn view(handle: RHandle, held: &Held) -> ReservationView {
    ReservationView {
        handle,
        oif: held.oif,
        flow: held.flows.first(),
        flows: held.flows.as_slice().len(),
        shared: held.shared.is_some(),
        priority: held.priority,
        session: held.session,
        asked: held.flowspec,
        sender_tspec: held.sender_tspec,
        admitted: held.admitted,
        installed: held.pending == 0,
        class: held.class,
        lifetime: held.lifetime,
        adopted_until: held.adopted_until,
    }
}
