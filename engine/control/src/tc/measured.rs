//! Flows that are admitted by what is measured: they share one grant of the ledger, which says that its inside is
//! statistical, and one class. Who of those that never signalled they are is decided elsewhere (`mace`); here they become
//! entries of the plan. Controlled load that is signalled is admitted by the same rule, if its owner says how much it admits
//! ([`set_room`]).

use super::Tc;
use crate::classes;
use crate::held::{Flows, Held, MOST};
use crate::io::Event;
use crate::outbox::{ControlOutput, SignalledFlow};
use crate::plane::MOST_FLOWS;
use crate::record::FlowRecord;
use alloc::vec::Vec;
use terms::ports::{Preemption, RHandle};
use terms::{Fault, FlowKey, FlowSpec, IfIndex, Rate, Refused, Session, Span, Time, Tspec};
use traffic::plan::{BucketSpec, ClassId};

/// A flow to promote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeasuredFlow {
    /// The outgoing interface.
    pub oif: IfIndex,
    /// The flow: a whole five-tuple.
    pub flow: FlowKey,
    /// Its policer, IP bytes; what exceeds it is best effort.
    pub tspec: Tspec,
    /// Silence after which its owner gives it up; kept in the plane for the owner's next life.
    pub timeout: Span,
}

impl Tc {
    /// Gives a flow its place in the class of flows that are admitted by measurement. The plane's answer is
    /// [`ControlOutput::Promoted`]. A flow of an earlier run is promoted again by this call, and nothing changes in the
    /// plane.
    ///
    /// # Errors
    /// [`Refused`]: the interface sets nothing aside for such flows, another reservation has the flow, or a table is full.
    pub fn promote(&mut self, wanted: &MeasuredFlow) -> Result<RHandle, Refused> {
        let MeasuredFlow { oif, flow, tspec, timeout } = *wanted;
        let gone = Refused::NotReservable { interface: oif };
        let link = self.links.get(&oif).filter(|link| link.terms.measured > Rate::ZERO).ok_or(gone)?;
        if let Some(there) = self.plane.link(oif).and_then(|shadow| shadow.whose(&flow)) {
            return promote_again(self, there)
                .ok_or(Refused::Limit { what: "reservations of one flow on an interface", limit: 1 });
        }
        if self.plane.link(oif).is_some_and(|shadow| !shadow.has_room(1)) {
            return Err(Refused::Limit { what: "flows of an interface", limit: MOST_FLOWS });
        }
        if self.held.len() >= MOST {
            return Err(Refused::Limit { what: "reservations of a node", limit: MOST });
        }
        let session = Session { dst: flow.dst, protocol: flow.protocol, dst_port: flow.dst_port };
        let flowspec = FlowSpec::ControlledLoad(tspec);
        let charged = classes::charged(&session, &flowspec);
        let admitted = classes::demand(&link.terms.spec, &charged);
        let record = FlowRecord {
            session,
            flowspec,
            sender_tspec: tspec,
            admitted,
            lifetime: timeout,
            priority: Preemption::default(),
        };
        let held = of_record(oif, Flows::One(flow), &record, classes::bucket(charged.tspec()));
        let handle = self.hold(held);
        self.out.event(Event::Admitted { oif, flow, rate: admitted });
        self.sync_reservation(handle);
        Ok(handle)
    }

    /// Takes a promoted flow's place away: its packets are best effort. A handle that is over is no error.
    pub fn demote(&mut self, now: Time, handle: RHandle) {
        if self.held.get(handle).is_some_and(|held| held.recognised) {
            self.drop_reservation(now, handle);
        }
    }

    /// The wire rate that the promoted flows of an interface have together: what was set aside, or what exact reservations
    /// leave of it.
    pub fn measured(&self, oif: IfIndex) -> Rate {
        self.links.get(&oif).map_or(Rate::ZERO, |link| link.measured_rate())
    }
}

/// From now on controlled load that is signalled on an interface is admitted by measurement too, up to this wire rate: the
/// largest that the owner's rule admits. It shrinks with each reservation until it is said anew. `None`: such reservations
/// are exact. Those that are there stay as they were admitted.
pub fn set_room(tc: &mut Tc, oif: IfIndex, room: Option<Rate>) {
    tc.links.get_mut(&oif).into_iter().for_each(|link| link.set_measured_room(room));
}

/// True if a new reservation is admitted by measurement.
pub(crate) fn admits(tc: &Tc, oif: IfIndex, flowspec: &FlowSpec) -> bool {
    let open = tc.links.get(&oif).is_some_and(|link| link.measured_room().is_some());
    open && matches!(flowspec, FlowSpec::ControlledLoad(_))
}

/// Admits so much more by measurement.
pub(crate) fn take(tc: &mut Tc, interface: IfIndex, asked: Rate) -> Result<(), Refused> {
    let gone = Refused::NotReservable { interface };
    let link = tc.links.get_mut(&interface).ok_or(gone)?;
    let free = link.measured_room().unwrap_or(Rate::ZERO);
    if asked > free {
        return Err(Refused::Capacity { interface, asked, free });
    }
    link.set_measured_room(link.measured_room().map(|room| room.saturating_sub(asked)));
    Ok(())
}

/// Tells the owner of the rule that a signalled reservation counts.
pub(crate) fn say(tc: &mut Tc, handle: RHandle) {
    let Some(held) = tc.held.get(handle).filter(|held| held.slot.is_none()) else { return };
    let (oif, declared) = (held.oif, held.admitted);
    tc.out.say(ControlOutput::ByMeasurement(SignalledFlow::Counts { handle, oif, declared }));
}

/// Confirms a flow of an earlier run; `None`: the place is another reservation's.
fn promote_again(tc: &mut Tc, there: u32) -> Option<RHandle> {
    let (handle, held) = tc.held.at(there)?;
    let until = held.adopted_until.filter(|_| held.recognised)?;
    tc.deadlines.remove(&(until, handle));
    tc.held.get_mut(handle)?.adopted_until = None;
    tc.sync_reservation(handle);
    Some(handle)
}

/// Drops the recognised flows among these reservations, and returns the others. Their rates are room for the reservation
/// that has claimed them.
pub(crate) fn drop_measured(tc: &mut Tc, now: Time, handles: Vec<RHandle>) -> Vec<RHandle> {
    let is_recognised = |handle: &RHandle| tc.held.get(*handle).is_some_and(|held| held.recognised);
    let (recognised, others): (Vec<_>, Vec<_>) = handles.into_iter().partition(is_recognised);
    for handle in recognised {
        let Some(held) = tc.held.get(handle) else { continue };
        let (oif, flow, admitted) = (held.oif, held.flows.first(), held.admitted);
        tc.drop_reservation(now, handle);
        tc.out.say(ControlOutput::ByMeasurement(SignalledFlow::Claimed { oif, flow }));
        if let Some(link) = tc.links.get_mut(&oif) {
            let most = link.measured_rate();
            link.set_measured_room(link.measured_room().map(|room| room.saturating_add(admitted).min(most)));
        }
    }
    others
}

/// The reservation of a recorded flow that is admitted by measurement.
pub(crate) fn of_record(oif: IfIndex, flows: Flows, record: &FlowRecord, bucket: BucketSpec) -> Held {
    Held {
        oif,
        session: record.session,
        flows,
        shared: None,
        flowspec: record.flowspec,
        sender_tspec: record.sender_tspec,
        lifetime: record.lifetime,
        admitted: record.admitted,
        slot: None,
        recognised: true,
        class: ClassId::MEASURED,
        bucket,
        priority: record.priority,
        rank: 0,
        adopted_until: None,
        pending: 0,
    }
}

/// Who hears how an installation went: the protocol that asked, or the owner of recognised flows.
pub(crate) fn installed(handle: RHandle, held: &Held, result: Result<(), Fault>) -> ControlOutput {
    if held.recognised {
        ControlOutput::Promoted { handle, oif: held.oif, flow: held.flows.first(), result }
    } else {
        ControlOutput::Installed(handle, result)
    }
}
