//! Traffic control (RFC 2205 section 3.11.2): admits in the ledger, keeps the reservations, changes the plan.
//!
//! `add` and `modify` admit at once, or change nothing; the plane's result comes back as
//! [`ControlOutput::Installed`]. Each reservation is one open slot of its interface's ledger, opened only here,
//! however many senders share it (RFC 2205 section 1.3): they share the slot, the class and one bucket in the plane.

mod apart;
mod displace;
mod grant;
mod interface;
pub mod measured;
pub mod status;
mod sync;

use crate::classes;
use crate::edges::{EdgeState, EdgeTurn};
use crate::held::{Flows, Held, MOST, Reservations, place};
use crate::io::Event;
use crate::link::Link;
use crate::order::Want;
use crate::outbox::Outbox;
pub use crate::outbox::{ControlOutput, SignalledFlow};
use crate::plane::{MOST_FLOWS, Plane};
use crate::resources::ResourceRegistry;
use crate::search::Search;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::ports::{RHandle, TcRequest, TrafficControl};
use terms::{Adspec, FlowKey, FlowSpec, HopExport, IfIndex, Rate, Refused, Style, Time};
use traffic::plan::{BucketId, BucketSpec, ClassId, FlowSpecEntry, LinkSpec};
use traffic::shapes::MOST_SHAPES;

/// The most senders that share one reservation.
pub const MOST_FILTERS: usize = 4_096;

/// Traffic control of one node.
#[derive(Debug, Default)]
pub struct Tc {
    links: BTreeMap<IfIndex, Link>,
    held: Reservations,
    /// Adopted reservations, and adopted flows that were not requested again, by the end of their lifetime.
    deadlines: BTreeSet<(Time, RHandle)>,
    /// The other flows of adopted reservations that were requested again for only some of their flows, and
    /// the end of their lifetime. Their senders' Paths come one after another.
    lingering: BTreeMap<RHandle, (Time, Vec<FlowKey>)>,
    plane: Plane,
    /// The searches for what made a batch fail.
    searches: BTreeMap<IfIndex, Search>,
    edges: EdgeState,
    /// The bookable resources.
    resources: ResourceRegistry,
    out: Outbox,
    last_bucket: u64,
    /// The last batch's memory, reused for the next.
    scratch: Want,
}

impl TrafficControl for Tc {
    fn add(&mut self, now: Time, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        let flows = self.check(request)?;
        self.read_ledger(now, request.oif);
        let adopted = self.holders(request.oif, &flows, None)?;
        let mut adopted = measured::drop_measured(self, now, adopted);
        let handle = if adopted.is_empty() {
            let handle = self.open(now, flows, request)?;
            self.sync_reservation(handle);
            handle
        } else {
            let handle = adopted.remove(0);
            self.take_over(now, handle, request, flows)?;
            handle
        };
        adopted.into_iter().for_each(|adopted| self.drop_reservation(now, adopted));
        self.read_ledger(now, request.oif);
        Ok(handle)
    }

    fn modify(&mut self, now: Time, handle: RHandle, request: &TcRequest<'_>) -> Result<(), Refused> {
        let flows = self.check(request)?;
        self.read_ledger(now, request.oif);
        let same = |held: &Held| held.oif == request.oif && held.session == request.session;
        if !self.held.get(handle).is_some_and(same) {
            return Err(Refused::NotReservable { interface: request.oif });
        }
        let adopted = self.holders(request.oif, &flows, Some(handle))?;
        let adopted = measured::drop_measured(self, now, adopted);
        self.change(now, handle, request, flows)?;
        adopted.into_iter().for_each(|adopted| self.drop_reservation(now, adopted));
        self.read_ledger(now, request.oif);
        Ok(())
    }

    fn remove(&mut self, now: Time, handle: RHandle) {
        self.drop_reservation(now, handle);
    }

    fn offers(&self, _: Time, oif: IfIndex, min_packet: u32) -> Rate {
        let Some(link) = self.links.get(&oif) else { return Rate::ZERO };
        // No packet is shorter than an IP header.
        let (m, overhead) = (u64::from(min_packet.max(20)), u64::from(link.terms.spec.overhead));
        link.free_now().share(m, m + overhead)
    }

    fn set_up_rate(&self, oif: IfIndex) -> Option<Rate> {
        // The class of signalling is the first to borrow, so a quarter of the link is there as a rule.
        Some(self.links.get(&oif)?.terms.spec.rate.share(1, 4))
    }

    fn advertise(&self, _: Time, oif: IfIndex, arriving: &Adspec) -> Adspec {
        let Some(link) = self.links.get(&oif) else {
            return Adspec { break_bit: true, ..*arriving };
        };
        arriving.through(&HopExport {
            bandwidth: link.free_now(),
            mtu: link.terms.spec.mtu,
            latency: None,
            guaranteed: link.terms.guaranteed,
        })
    }
}

impl Tc {
    /// Traffic control with tables keyed by `key`, so that a stranger cannot choose flows that collide.
    pub fn new(key: [u64; 2]) -> Tc {
        Tc { plane: Plane::new(key), ..Tc::default() }
    }

    /// The next output, until `None`. Batches are drawn by [`Tc::end_turn`], and only then said.
    pub fn poll(&mut self) -> Option<ControlOutput> {
        self.out.poll()
    }

    /// Says that the resource of an interface has come, gone or changed. Under another name it is another resource,
    /// so its premium begins empty.
    pub(crate) fn name_resource(&mut self, oif: IfIndex, name: Option<&str>, changed: bool) {
        let before = self.resources.of(oif);
        let event = self.resources.link(oif, name);
        if self.resources.of(oif) != before
            && let Some(link) = self.links.get_mut(&oif)
        {
            link.ledger.set_premium(None);
            link.ledger.set_premium(self.resources.terms(oif).share);
        }
        if let Some(event) = event.filter(|_| changed) {
            self.out.event(event);
        }
    }

    /// The premium flows and the edges, to read.
    pub fn edges(&self) -> &EdgeState {
        &self.edges
    }

    /// The premium flows and the edges, to change: orders, and the plane's answers to them.
    pub fn edge_turn(&mut self) -> EdgeTurn<'_> {
        let Tc { edges, links, plane, out, .. } = self;
        EdgeTurn { edges, links, plane, out }
    }

    /// The bookable resources and the links whose ledgers hold the bookings, to change.
    pub(crate) fn ledgers_mut(&mut self) -> (&mut ResourceRegistry, &mut BTreeMap<IfIndex, Link>) {
        (&mut self.resources, &mut self.links)
    }

    /// The bookable resources.
    pub(crate) fn resources(&self) -> &ResourceRegistry {
        &self.resources
    }

    /// Makes the refusals that do not need the ledger.
    fn check(&self, request: &TcRequest<'_>) -> Result<Flows, Refused> {
        let interface = request.oif;
        let link = self.links.get(&interface).ok_or(Refused::NotReservable { interface })?;
        let flows = flows_of(request)?;
        if let Some(shadow) = self.plane.link(interface) {
            if !shadow.has_room(flows.as_slice().len()) {
                return Err(Refused::Limit { what: "flows of an interface", limit: MOST_FLOWS });
            }
            if !shadow.has_room_for_shape(&flows.first()) {
                let what = "lengths of prefixes, with ports and without, on an interface";
                return Err(Refused::Limit { what, limit: MOST_SHAPES });
            }
        }
        let (asked, mtu) = (request.flowspec.tspec().M, link.terms.spec.mtu);
        if asked > mtu {
            return Err(Refused::Mtu { interface, asked, mtu });
        }
        match request.flowspec {
            FlowSpec::Guaranteed(..) if link.terms.guaranteed.is_none() && !is_guaranteed(self, interface, &flows) => {
                Err(Refused::NoDelayBound { interface })
            }
            _ => Ok(flows),
        }
    }

    /// The adopted reservations, other than `but`, with any of these flows. Reservations that were requested
    /// in this run keep their flows. Those that never signalled and were only recognised do not: who asks for them has more
    /// right to them.
    fn holders(&self, oif: IfIndex, flows: &Flows, but: Option<RHandle>) -> Result<Vec<RHandle>, Refused> {
        let mut adopted = Vec::new();
        let Some(shadow) = self.plane.link(oif) else { return Ok(adopted) };
        for place in flows.as_slice().iter().filter_map(|flow| shadow.whose(flow)) {
            let Some((handle, held)) = self.held.at(place).filter(|(handle, _)| Some(*handle) != but) else { continue };
            if held.adopted_until.is_none() && !held.recognised {
                return Err(Refused::Limit { what: "reservations of one flow on an interface", limit: 1 });
            }
            if !adopted.contains(&handle) {
                adopted.push(handle);
            }
        }
        Ok(adopted)
    }

    /// Opens a slot and records the reservation; the plane is not updated yet.
    fn open(&mut self, now: Time, flows: Flows, request: &TcRequest<'_>) -> Result<RHandle, Refused> {
        let interface = request.oif;
        if self.held.len() >= MOST {
            return Err(Refused::Limit { what: "reservations of a node", limit: MOST });
        }
        let link = self.links.get(&interface).ok_or(Refused::NotReservable { interface })?;
        let class = link.class_for(&request.flowspec, None, self.plane.link(interface))?;
        let admitted = classes::demand(&link.terms.spec, &classes::charged(&request.session, &request.flowspec));
        let bucket = policer(&link.terms.spec, request);
        let (class, slot) = if measured::admits(self, interface, &request.flowspec) {
            measured::take(self, interface, admitted)?;
            (ClassId::MEASURED, None)
        } else {
            (class, Some(self.slot_for(now, request, admitted, None)?))
        };
        let shared = (request.style == Style::Se).then(|| self.next_bucket());
        let flow = flows.first();
        let handle = self.hold(Held {
            oif: interface,
            session: request.session,
            flows,
            shared,
            flowspec: request.flowspec,
            sender_tspec: request.path_te,
            lifetime: request.lifetime,
            admitted,
            slot,
            recognised: false,
            class,
            bucket,
            priority: request.priority.unwrap_or_default(),
            rank: 0,
            adopted_until: None,
            pending: 0,
        });
        measured::say(self, handle);
        self.out.event(Event::Admitted { oif: interface, flow, rate: admitted });
        Ok(handle)
    }

    /// A new bucket number.
    fn next_bucket(&mut self) -> BucketId {
        self.last_bucket += 1;
        BucketId(self.last_bucket)
    }

    /// Records a reservation whose slot is open.
    pub(crate) fn hold(&mut self, held: Held) -> RHandle {
        let oif = held.oif;
        let handle = self.held.insert(held);
        self.count(handle);
        let Some(held) = self.held.get(handle) else { return handle };
        let shadow = self.plane.link_mut(oif);
        held.flows.as_slice().iter().for_each(|flow| shadow.give(*flow, place(handle)));
        handle
    }

    /// Counts a reservation in its link's sums.
    pub(crate) fn count(&mut self, handle: RHandle) {
        let Some(held) = self.held.get_mut(handle) else { return };
        if let Some(link) = self.links.get_mut(&held.oif) {
            link.count(held, handle, place(handle));
        }
    }

    /// Removes a reservation from its link's sums.
    pub(crate) fn uncount(&mut self, handle: RHandle) {
        let Some(held) = self.held.get(handle) else { return };
        let Some(link) = self.links.get_mut(&held.oif) else { return };
        let (rank, moved) = (held.rank, link.uncount(held));
        if let Some(moved) = moved.and_then(|place| self.held.at_mut(place)) {
            moved.rank = rank;
        }
    }

    /// Passes an adopted reservation to a new request: it takes over the slot, so nothing counts twice and equal
    /// parts stay installed untouched. Other senders of the reservation are kept for the rest of their lifetime.
    fn take_over(&mut self, now: Time, handle: RHandle, request: &TcRequest<'_>, flows: Flows) -> Result<(), Refused> {
        let Some(held) = self.held.get(handle) else { return Ok(()) };
        let until = held.adopted_until.unwrap_or(now);
        if request.style == Style::Se {
            let unnamed = held.flows.as_slice().iter().filter(|flow| !flows.contains(flow)).copied();
            let unnamed: Vec<FlowKey> = unnamed.collect();
            if !unnamed.is_empty() {
                self.lingering.insert(handle, (until, unnamed));
            }
        }
        let changed = self.change(now, handle, request, flows);
        if changed.is_err() {
            self.lingering.remove(&handle);
            return changed;
        }
        if !self.lingering.contains_key(&handle) {
            self.deadlines.remove(&(until, handle));
        }
        if let Some(held) = self.held.get_mut(handle) {
            held.adopted_until = None;
        }
        Ok(())
    }

    /// Changes slot and reservation, or refuses and changes nothing.
    fn change(&mut self, now: Time, handle: RHandle, request: &TcRequest<'_>, asked: Flows) -> Result<(), Refused> {
        let interface = request.oif;
        let gone = Refused::NotReservable { interface };
        let (link, old) = self.links.get(&interface).zip(self.held.get(handle)).ok_or(gone)?;
        let class = link.class_for(&request.flowspec, Some(old.class), self.plane.link(interface))?;
        let admitted = classes::demand(&link.terms.spec, &classes::charged(&request.session, &request.flowspec));
        let bucket = policer(&link.terms.spec, request);
        let (before, old_slot, old_shared, was) = (old.entry(), old.slot, old.shared, old.admitted);
        // It stays what it was admitted as; guaranteed service is exact always.
        let by_measurement = old_slot.is_none() && matches!(request.flowspec, FlowSpec::ControlledLoad(_));
        let class = if by_measurement { ClassId::MEASURED } else { class };
        let slot = match old_slot {
            None if by_measurement => {
                measured::take(self, interface, admitted.saturating_sub(was))?;
                None
            }
            Some(slot) if admitted == was => Some(slot),
            _ => Some(self.slot_for(now, request, admitted, old_slot.map(|slot| (handle, slot)))?),
        };
        if admitted != was {
            let flow = asked.first();
            self.out.event(Event::Admitted { oif: interface, flow, rate: admitted });
        }
        let flows = self.with_lingering(handle, asked);
        let shared = (request.style == Style::Se).then(|| old_shared.unwrap_or_else(|| self.next_bucket()));
        self.uncount(handle);
        if class != before.class {
            self.links.get_mut(&interface).map(|link| link.own.remove(&before.class));
        }
        let Some(held) = self.held.get_mut(handle) else { return Err(gone) };
        let had = core::mem::replace(&mut held.flows, flows);
        held.shared = shared;
        held.flowspec = request.flowspec;
        held.sender_tspec = request.path_te;
        held.lifetime = request.lifetime;
        held.admitted = admitted;
        held.slot = slot;
        held.class = class;
        held.bucket = bucket;
        held.priority = request.priority.unwrap_or_default();
        self.count(handle);
        self.note_flows(handle, &had, &before);
        match (by_measurement, old_slot) {
            (true, _) if admitted != was => measured::say(self, handle),
            (false, None) => self.out.say(ControlOutput::ByMeasurement(SignalledFlow::Gone { handle, oif: interface })),
            _ => {}
        }
        self.sync(interface, &[before.class, class], Some(handle));
        Ok(())
    }

    /// Records the differences of a reservation that had these flows, each with this entry.
    pub(crate) fn note_flows(&mut self, handle: RHandle, had: &Flows, before: &FlowSpecEntry) {
        let Some(held) = self.held.get(handle) else { return };
        let changed = held.entry() != *before;
        let shadow = self.plane.link_mut(held.oif);
        for flow in had.as_slice() {
            if !held.flows.contains(flow) {
                shadow.differs(flow, before, Some(place(handle)));
            } else if changed {
                shadow.differs(flow, before, None);
            }
        }
        for flow in held.flows.as_slice().iter().filter(|flow| !had.contains(flow)) {
            if let Some((_, other)) = shadow.whose(flow).and_then(|whose| self.held.at(whose)) {
                shadow.differs(flow, &other.entry(), None);
            }
            shadow.give(*flow, place(handle));
        }
    }

    /// The requested flows, and those of an earlier run that wait for a new request.
    fn with_lingering(&mut self, handle: RHandle, asked: Flows) -> Flows {
        let Some((until, unnamed)) = self.lingering.get_mut(&handle) else { return asked };
        unnamed.retain(|flow| !asked.contains(flow));
        if unnamed.is_empty() {
            let until = *until;
            self.lingering.remove(&handle);
            self.deadlines.remove(&(until, handle));
            return asked;
        }
        let mut all = [asked.as_slice(), unnamed].concat();
        all.sort_unstable();
        Flows::Several(all)
    }

    /// Releases a reservation and updates the plane.
    pub(crate) fn drop_reservation(&mut self, now: Time, handle: RHandle) {
        if let Some(held) = self.close(now, handle) {
            self.sync(held.oif, &[held.class], None);
            self.read_ledger(now, held.oif);
        }
    }

    /// Releases the slot and forgets the reservation; the plane is not updated yet.
    pub(crate) fn close(&mut self, now: Time, handle: RHandle) -> Option<Held> {
        let held = self.forget(handle)?;
        if let Some(link) = self.links.get_mut(&held.oif) {
            // If a booking has displaced it at this very instant, there is nothing left to release.
            let _ = held.slot.map(|slot| link.ledger.release(now, slot));
        }
        Some(held)
    }

    /// Forgets a reservation whose slot has ended, or will at once.
    pub(crate) fn forget(&mut self, handle: RHandle) -> Option<Held> {
        self.uncount(handle);
        let held = self.held.remove(handle)?;
        let entry = held.entry();
        let shadow = self.plane.link_mut(held.oif);
        held.flows.as_slice().iter().for_each(|flow| shadow.differs(flow, &entry, Some(place(handle))));
        let lingered = self.lingering.remove(&handle).map(|(until, _)| until);
        if let Some(until) = held.adopted_until.or(lingered) {
            self.deadlines.remove(&(until, handle));
        }
        if let Some(link) = self.links.get_mut(&held.oif) {
            link.own.remove(&held.class);
        }
        if held.slot.is_none() && !held.recognised {
            self.out.say(ControlOutput::ByMeasurement(SignalledFlow::Gone { handle, oif: held.oif }));
        }
        let flow = held.flows.first();
        self.out.event(Event::Released { oif: held.oif, flow, rate: held.admitted });
        Some(held)
    }
}

/// The flows that a request is for.
fn flows_of(request: &TcRequest<'_>) -> Result<Flows, Refused> {
    let too_many = |limit| Refused::Limit { what: "filter specs of one reservation", limit };
    match (request.style, request.filters) {
        (Style::Ff, [filter]) => {
            Ok(Flows::One(FlowKey { wild: request.wild, ..FlowKey::of(&request.session, filter) }))
        }
        (Style::Ff, _) => Err(too_many(1)),
        (Style::Wf, []) => Ok(Flows::One(FlowKey::of_any_sender(&request.session))),
        (Style::Wf, _) => Err(too_many(0)),
        (Style::Se, filters) if filters.is_empty() || filters.len() > MOST_FILTERS => Err(too_many(MOST_FILTERS)),
        (Style::Se, filters) => {
            let mut flows: Vec<FlowKey> = filters.iter().map(|filter| FlowKey::of(&request.session, filter)).collect();
            flows.sort_unstable();
            flows.dedup();
            Ok(Flows::Several(flows))
        }
    }
}

fn policer(link: &LinkSpec, request: &TcRequest<'_>) -> BucketSpec {
    let charged = classes::charged(&request.session, &request.flowspec);
    let tspec = charged.tspec();
    if request.police.entry { classes::bucket(tspec) } else { classes::inner_bucket(link, tspec) }
}

/// True if all these flows have guaranteed service already: a plane that did not keep its bound takes no more of them, and
/// gives up none.
fn is_guaranteed(tc: &Tc, oif: IfIndex, flows: &Flows) -> bool {
    let Some(shadow) = tc.plane.link(oif) else { return false };
    let is = |held: &Held| matches!(held.flowspec, FlowSpec::Guaranteed(..));
    let of = |flow: &FlowKey| tc.held.at(shadow.whose(flow)?).map(|(_, held)| held);
    flows.as_slice().iter().all(|flow| of(flow).is_some_and(is))
}
