//! What a node says of itself when asked: for each reservation *asked / admitted / installed*. The fourth word,
//! *measured*, belongs to whoever can read the plane's counters; the key to join them by is (interface, flow).

use crate::plane::{Due, Plane};
use crate::tc::{Held, Link, Tc};
use terms::ports::RHandle;
use terms::{FlowKey, FlowSpec, IfIndex, Rate, Session, Time, Tspec};
use traffic::plan::{ClassId, Plan};

/// A reservation on one outgoing interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationView {
    /// Traffic control's handle.
    pub handle: RHandle,
    /// Outgoing interface.
    pub oif: IfIndex,
    /// Which packets.
    pub flow: FlowKey,
    /// The session.
    pub session: Session,
    /// What was asked.
    pub asked: FlowSpec,
    /// What the sender says it sends.
    pub sender_tspec: Tspec,
    /// What the ledger counts, wire rate.
    pub admitted: Rate,
    /// Whether the plane has confirmed it.
    pub installed: bool,
    /// The class of its conforming packets.
    pub class: ClassId,
    /// Kept from an earlier life of the agent, until then if nobody asks for it again.
    pub adopted_until: Option<Time>,
}

/// What may be and what is reserved on an interface. Wire rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkView {
    /// Which.
    pub oif: IfIndex,
    /// The link's rate.
    pub rate: Rate,
    /// The most that reservations can hold together.
    pub reservable: Rate,
    /// What they hold.
    pub reserved: Rate,
    /// What could be reserved now.
    pub free: Rate,
    /// `C` (bytes) and `D` (microseconds), where guaranteed service is offered.
    pub guaranteed: Option<(u32, u32)>,
}

/// What does not agree with what; our own fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drift {
    /// Where.
    pub oif: IfIndex,
    /// What.
    pub what: &'static str,
}

impl Tc {
    /// Every reservation, oldest first.
    pub fn reservations(&self) -> impl Iterator<Item = ReservationView> + '_ {
        self.held.iter().map(|(&handle, held)| view(handle, held))
    }

    /// The reservation of a flow on an interface.
    pub fn reservation(&self, oif: IfIndex, flow: &FlowKey) -> Option<ReservationView> {
        let handle = *self.by_flow.get(&(oif, *flow))?;
        self.held.get(&handle).map(|held| view(handle, held))
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

    /// What the plane has confirmed.
    pub fn plan(&self) -> &Plan {
        self.plane.confirmed()
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

    /// Checks that ledger, reservations and plan say the same on every interface. Takes time in proportion to them.
    ///
    /// # Errors
    /// [`Drift`] names the first disagreement.
    pub fn audit(&self) -> Result<(), Drift> {
        self.links.iter().try_for_each(|(&oif, link)| self.audit_link(oif, link).map_err(|what| Drift { oif, what }))
    }

    fn audit_link(&self, oif: IfIndex, link: &Link) -> Result<(), &'static str> {
        let mut admitted = Rate::ZERO;
        let mut load = crate::classes::Load::default();
        let mut own = 0;
        for held in self.held.values().filter(|held| held.oif == oif) {
            admitted = admitted.saturating_add(held.admitted);
            load = load.plus(&held.flowspec, held.admitted, &link.terms.spec);
            own += usize::from(held.class >= ClassId::FIRST_OWN);
        }
        link.ledger.table().audit().map_err(|drift| drift.what)?;
        if link.ledger.open_sum() != admitted {
            return Err("the ledger's sum is not that of the reservations");
        }
        if link.load != load || link.own.len() != own {
            return Err("the running sums are not those of the reservations");
        }
        let want = self.want_all(oif, link);
        let settled = self.plane.is_idle_on(oif);
        if settled && !self.steps_for(oif, &Due { all: true, ..Due::default() }).is_empty() {
            return Err("the plan is not what the reservations need");
        }
        let classes = want.classes.values().flatten().map(crate::classes::guaranteed);
        if classes.fold(Rate::ZERO, Rate::saturating_add) != link.terms.spec.rate {
            return Err("the classes do not sum to the link");
        }
        Ok(())
    }
}

fn view(handle: RHandle, held: &Held) -> ReservationView {
    ReservationView {
        handle,
        oif: held.oif,
        flow: held.flow,
        session: held.session,
        asked: held.flowspec,
        sender_tspec: held.sender_tspec,
        admitted: held.admitted,
        installed: held.pending == 0,
        class: held.class,
        adopted_until: held.adopted_until,
    }
}
