//! Traffic control as RSVP sees it (RFC 2205 section 3.11.2): flowspecs become slots in the ledger and operations on
//! the plane. This is the one file that maps them.
//!
//! A reservation is admitted at its wire rate (demand rounds up) in the ledger of its outgoing interface. Controlled
//! load (RFC 2211) shares one class per interface whose rate is the ledger's sum; guaranteed service (RFC 2212) has a
//! class of its own. Each change is one batch of operations, said once; what is refused says none and changes nothing.

use crate::classes::{self, Load};
use crate::io::{Event, PlanId, Reservable};
use crate::order::{self, Want};
use crate::plane::{Due, Plane};
use admit::SlotId;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use terms::ports::{RHandle, TcRequest, TrafficControl};
use terms::{Adspec, Fault, FlowKey, FlowSpec, Hop, IfIndex, Rate, Refused, Session, Span, Time, Tspec};
use traffic::plan::{BucketSpec, ClassId, ClassSpec, FlowRecord, FlowSpecEntry, LinkPlan, LinkSpec, PlanOp};

/// Guaranteed flows have a class each while ids last: 16 bits, as the kernel's, of which it keeps the last.
const LAST_OWN: u16 = u16::MAX - 1;
const OWN_CLASSES: usize = (LAST_OWN - ClassId::FIRST_OWN.0) as usize + 1;

/// Traffic control of one node.
#[derive(Debug, Default)]
pub struct Tc {
    pub(crate) links: BTreeMap<IfIndex, Link>,
    pub(crate) held: BTreeMap<RHandle, Held>,
    pub(crate) by_flow: BTreeMap<(IfIndex, FlowKey), RHandle>,
    /// Adopted flows by the time their lifetime is over.
    pub(crate) deadlines: BTreeSet<(Time, RHandle)>,
    pub(crate) plane: Plane,
    said: VecDeque<Said>,
    last_handle: u64,
}

/// What traffic control says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// Carry these out.
    Plan(PlanId, Vec<PlanOp>),
    /// Something happened.
    Event(Event),
    /// Tell RSVP how an installation went; one answer for each `add` and `modify`, unless the reservation went.
    Installed(RHandle, Result<(), Fault>),
}

/// An interface whose link takes reservations.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) terms: Reservable,
    pub(crate) ledger: admit::Link,
    pub(crate) load: Load,
    /// Whose the own classes are.
    pub(crate) own: BTreeMap<ClassId, RHandle>,
    /// Where to look for the next free id; an id rests as long as possible before it is used again.
    pub(crate) next_own: u16,
}

/// One reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) oif: IfIndex,
    pub(crate) flow: FlowKey,
    pub(crate) session: Session,
    pub(crate) flowspec: FlowSpec,
    pub(crate) sender_tspec: Tspec,
    pub(crate) lifetime: Span,
    pub(crate) admitted: Rate,
    pub(crate) slot: SlotId,
    pub(crate) class: ClassId,
    pub(crate) bucket: BucketSpec,
    /// Adopted from an earlier life and not asked for again yet: until when it is kept.
    pub(crate) adopted_until: Option<Time>,
    /// Changes of the plane that it waits for.
    pub(crate) pending: u32,
}

impl Held {
    /// Its entry in the plane.
    pub(crate) fn entry(&self) -> FlowSpecEntry {
        FlowSpecEntry {
            class: self.class,
            bucket: self.bucket,
            shared: None,
            record: FlowRecord {
                session: self.session,
                flowspec: self.flowspec,
                sender_tspec: self.sender_tspec,
                admitted: self.admitted,
                lifetime: self.lifetime,
                priority: Default::default(),
            },
        }
    }
}

impl TrafficControl for Tc {
    fn add(&mut self, now: Time, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        let flow = self.check(request)?;
        if let Some(&handle) = self.by_flow.get(&(request.oif, flow)) {
            return self.take_over(now, handle, request);
        }
        let handle = self.open(now, flow, request)?;
        self.sync_reservation(handle);
        Ok(handle)
    }

    fn modify(&mut self, now: Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        let flow = self.check(request)?;
        match self.held.get(&handle) {
            Some(held) if held.oif == request.oif && held.flow == flow => self.change(now, handle, request),
            _ => Err(Refused::NotReservable { interface: request.oif }),
        }
    }

    fn remove(&mut self, now: Time, handle: RHandle) {
        if let Some(held) = self.close(now, handle) {
            self.sync(held.oif, &[held.class], &[held.flow], None);
        }
    }

    fn advertise(&self, _: Time, oif: IfIndex, arriving: &Adspec) -> Adspec {
        let Some(link) = self.links.get(&oif) else {
            return Adspec { break_bit: true, ..*arriving };
        };
        arriving.through(&Hop {
            bandwidth: link.ledger.free_then(),
            mtu: link.terms.spec.mtu,
            latency: None,
            guaranteed: link.terms.guaranteed,
        })
    }
}

impl Tc {
    /// What was said since; ask until `None`.
    pub fn poll(&mut self) -> Option<Said> {
        self.said.pop_front()
    }

    /// The ledger of an interface.
    pub(crate) fn ledger_mut(&mut self, oif: IfIndex) -> Option<&mut admit::Link> {
        self.links.get_mut(&oif).map(|link| &mut link.ledger)
    }

    pub(crate) fn say(&mut self, said: Said) {
        self.said.push_back(said);
    }

    /// What can be refused without asking the ledger.
    fn check(&self, request: &TcRequest<'_>) -> Result<FlowKey, Refused> {
        let interface = request.oif;
        let link = self.links.get(&interface).ok_or(Refused::NotReservable { interface })?;
        let [filter] = request.filters else {
            return Err(Refused::Limit { what: "filter specs of one reservation", limit: 1 });
        };
        let (asked, mtu) = (request.flowspec.tspec().M, link.terms.spec.mtu);
        if asked > mtu {
            return Err(Refused::Mtu { interface, asked, mtu });
        }
        match request.flowspec {
            FlowSpec::Guaranteed(..) if link.terms.guaranteed.is_none() => Err(Refused::NoDelayBound { interface }),
            _ => Ok(FlowKey::of(&request.session, filter)),
        }
    }

    /// Opens a slot and remembers the reservation; nothing is said to the plane yet.
    fn open(&mut self, now: Time, flow: FlowKey, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        let interface = request.oif;
        let link = self.links.get_mut(&interface).ok_or(Refused::NotReservable { interface })?;
        let class = link.class_for(&request.flowspec, None, self.plane.link(interface))?;
        let admitted = classes::demand(&link.terms.spec, &request.flowspec);
        let slot = link.ledger.open(now, admitted)?;
        let bucket = policer(&link.terms.spec, request);
        let handle = self.hold(Held {
            oif: interface,
            flow,
            session: request.session,
            flowspec: request.flowspec,
            sender_tspec: request.path_te,
            lifetime: request.lifetime,
            admitted,
            slot,
            class,
            bucket,
            adopted_until: None,
            pending: 0,
        });
        self.say(Said::Event(Event::Admitted { oif: interface, flow, rate: admitted }));
        Ok(handle)
    }

    /// Remembers a reservation whose slot is open.
    pub(crate) fn hold(&mut self, held: Held) -> RHandle {
        self.last_handle += 1;
        let handle = RHandle(self.last_handle);
        if let Some(link) = self.links.get_mut(&held.oif) {
            link.load = link.load.plus(&held.flowspec, held.admitted, &link.terms.spec);
            link.give(held.class, handle);
        }
        self.by_flow.insert((held.oif, held.flow), handle);
        self.held.insert(handle, held);
        handle
    }

    /// The flow is already held here. If it was adopted, its slot is the reservation's from now on; nothing counts
    /// twice and what is installed stays untouched where it is equal.
    fn take_over(&mut self, now: Time, handle: RHandle, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        let until = self.held.get(&handle).and_then(|held| held.adopted_until);
        let Some(until) = until else {
            return Err(Refused::Limit { what: "reservations of one flow on an interface", limit: 1 });
        };
        self.change(now, handle, request)?;
        self.deadlines.remove(&(until, handle));
        if let Some(held) = self.held.get_mut(&handle) {
            held.adopted_until = None;
        }
        Ok(handle)
    }

    /// Changes slot and reservation, or refuses and changes nothing.
    fn change(&mut self, now: Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        let interface = request.oif;
        let gone = Refused::NotReservable { interface };
        let old = self.held.get(&handle).cloned().ok_or(gone)?;
        let link = self.links.get_mut(&interface).ok_or(gone)?;
        let class = link.class_for(&request.flowspec, Some(old.class), self.plane.link(interface))?;
        let admitted = classes::demand(&link.terms.spec, &request.flowspec);
        if admitted != old.admitted {
            link.ledger.modify(now, old.slot, admitted)?;
        }
        let spec = link.terms.spec;
        let bucket = policer(&spec, request);
        let rest = link.load.minus(&old.flowspec, old.admitted, &spec);
        link.load = rest.plus(&request.flowspec, admitted, &spec);
        if class != old.class {
            link.own.remove(&old.class);
        }
        link.give(class, handle);
        if let Some(held) = self.held.get_mut(&handle) {
            held.flowspec = request.flowspec;
            held.sender_tspec = request.path_te;
            held.lifetime = request.lifetime;
            held.admitted = admitted;
            held.class = class;
            held.bucket = bucket;
        }
        if admitted != old.admitted {
            self.say(Said::Event(Event::Admitted { oif: interface, flow: old.flow, rate: admitted }));
        }
        self.sync(interface, &[old.class, class], &[old.flow], Some(handle));
        Ok(())
    }

    /// Gives the slot back and forgets the reservation; nothing is said to the plane yet.
    pub(crate) fn close(&mut self, now: Time, handle: RHandle) -> Option<Held> {
        let held = self.held.remove(&handle)?;
        self.by_flow.remove(&(held.oif, held.flow));
        if let Some(until) = held.adopted_until {
            self.deadlines.remove(&(until, handle));
        }
        if let Some(link) = self.links.get_mut(&held.oif) {
            let released = link.ledger.release(now, held.slot);
            debug_assert!(released.is_ok(), "every reservation held has a slot");
            link.load = link.load.minus(&held.flowspec, held.admitted, &link.terms.spec);
            link.own.remove(&held.class);
        }
        self.say(Said::Event(Event::Released { oif: held.oif, flow: held.flow, rate: held.admitted }));
        Some(held)
    }

    /// Brings the plane in line with a reservation that waits for it.
    fn sync_reservation(&mut self, handle: RHandle) {
        let Some(held) = self.held.get(&handle) else { return };
        let (oif, class, flow) = (held.oif, held.class, held.flow);
        self.sync(oif, &[class], &[flow], Some(handle));
    }

    /// Brings the base classes and these classes and flows in line, as soon as nothing else is under way on the
    /// interface. A reservation that waits for it (`waits`) is told when it is installed.
    pub(crate) fn sync(&mut self, oif: IfIndex, classes: &[ClassId], flows: &[FlowKey], waits: Option<RHandle>) {
        if let Some(held) = waits.and_then(|handle| self.held.get_mut(&handle)) {
            held.pending += 1;
        }
        let (classes, flows) = (classes.iter().copied().collect(), flows.iter().copied().collect());
        self.plane.put(oif, Due { classes, flows, all: false, waits: waits.into_iter().collect() });
        self.proceed(oif);
    }

    /// Says the next batch of an interface, if one is due and may be said.
    pub(crate) fn proceed(&mut self, oif: IfIndex) {
        let Some(due) = self.plane.take(oif) else { return };
        let ops = self.steps_for(oif, &due);
        if ops.is_empty() {
            self.tell_installed(&due.waits);
            return;
        }
        let id = self.plane.tell(oif, &ops, due);
        self.say(Said::Plan(id, ops));
    }

    /// What these reservations waited for is done: one answer for each call of `add` or `modify`.
    pub(crate) fn tell_installed(&mut self, waits: &[RHandle]) {
        for &handle in waits {
            if let Some(held) = self.held.get_mut(&handle) {
                held.pending = held.pending.saturating_sub(1);
                self.say(Said::Installed(handle, Ok(())));
            }
        }
    }

    pub(crate) fn steps_for(&self, oif: IfIndex, due: &Due) -> Vec<PlanOp> {
        let told = self.plane.link(oif);
        let Some(link) = self.links.get(&oif) else {
            return told.map(|_| PlanOp::DropLink { oif }).into_iter().collect();
        };
        let mut want = if due.all { self.want_all(oif, link) } else { link.base() };
        for &class in due.classes.iter().filter(|&&class| class >= ClassId::FIRST_OWN) {
            let whose = link.own.get(&class).and_then(|handle| self.held.get(handle));
            want.classes.insert(class, whose.map(|held| link.own_class(held)));
        }
        for &flow in &due.flows {
            let held = self.by_flow.get(&(oif, flow)).and_then(|handle| self.held.get(handle));
            want.flows.insert(flow, held.map(Held::entry));
        }
        order::steps(oif, told, &want)
    }
}

fn policer(link: &LinkSpec, request: &TcRequest<'_>) -> BucketSpec {
    let tspec = request.flowspec.tspec();
    if request.police.entry { classes::bucket(tspec) } else { classes::inner_bucket(link, tspec) }
}

impl Link {
    /// The root and the classes that every interface has.
    pub(crate) fn base(&self) -> Want {
        let spec = self.terms.spec;
        let classes = [
            (ClassId::BEST_EFFORT, Some(classes::best_effort(&spec, &self.load))),
            (ClassId::CONTROL, Some(classes::control(&spec))),
            (ClassId::CONTROLLED_LOAD, Some(classes::controlled_load(&spec, &self.load))),
        ];
        Want { link: spec, classes: classes.into_iter().collect(), flows: BTreeMap::new() }
    }

    pub(crate) fn own_class(&self, held: &Held) -> ClassSpec {
        classes::own(&self.terms.spec, &held.flowspec, held.admitted)
    }

    /// The class for a flowspec: the shared one, the one that it has (`keep`), or the next free one. An id is free
    /// only when neither a reservation nor the plane has it.
    pub(crate) fn class_for(
        &self,
        flowspec: &FlowSpec,
        keep: Option<ClassId>,
        told: Option<&LinkPlan>,
    ) -> Result<ClassId, Refused> {
        if let FlowSpec::ControlledLoad(_) = flowspec {
            return Ok(ClassId::CONTROLLED_LOAD);
        }
        if let Some(class) = keep.filter(|&class| class >= ClassId::FIRST_OWN) {
            return Ok(class);
        }
        let from = self.next_own.max(ClassId::FIRST_OWN.0);
        let is_free = |id: &ClassId| !self.own.contains_key(id) && !told.is_some_and(|t| t.classes.contains_key(id));
        let ids = (from..=LAST_OWN).chain(ClassId::FIRST_OWN.0..from);
        let full = Refused::Limit { what: "classes of an interface", limit: OWN_CLASSES };
        ids.map(ClassId).find(is_free).ok_or(full)
    }

    fn give(&mut self, class: ClassId, handle: RHandle) {
        if class >= ClassId::FIRST_OWN && self.own.insert(class, handle).is_none() {
            self.next_own = class.0 + 1;
        }
    }
}
