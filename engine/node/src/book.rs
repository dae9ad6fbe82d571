//! The slot tables of this agent, as the bookings see them: every interface's ledger, which signalled reservations
//! use too, and the tables of processor, disks and counted resources. This file only converts units.
//!
//! On an interface, bookings count IP bytes and the ledger counts wire bytes: a demanded amount gets the link's
//! overhead for each packet of the stated least size, and the free amount is reported without it, rounded down.

use crate::core::Core;
use crate::io::Event;
use crate::tc::Tc;
use admit::{Denied, Limits, LinkLedger, Shortfall, SlotId, SlotOffer as Capacity, SlotTable};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use terms::book::{Guarantee, PacketShape, ResourceId, ResourceKind};
use terms::ports::book::{
    BindQuestion, Demand, Missing, NoRoom, Offer, PolicyDecision, Question, SharedLimits, SlotKey,
};
use terms::ports::{Ledger, PolicyPort};
use terms::{IfIndex, Rate, Span, Time, Window};

/// The terms of bookings on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bookable {
    /// The most that bookings may have together, in IP bit/s; `None`: all that the ledger has.
    pub share: Option<Rate>,
    /// The part of the share for foreground and background together while there is background, in thousandths.
    pub background: u32,
    /// The guarantees of the code point classes, whatever is booked.
    pub core: Core,
}

impl Default for Bookable {
    /// The whole ledger, and nine tenths of it while there is background (GARA section 5.2).
    fn default() -> Bookable {
        Bookable { share: None, background: 900, core: Core::default() }
    }
}

/// A resource other than an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// The name: `cpu`, `disk/NAME`, `licence/NAME`.
    pub name: String,
    /// The kind of guarantee that a promise gives.
    pub guarantee: Guarantee,
    /// The capacity, in the unit of its kind.
    pub capacity: u64,
    /// The part for foreground and background together while there is background; zero: no background.
    pub shared: u64,
}

/// The bookable resources, beside the ledgers of the interfaces.
#[derive(Debug, Default)]
pub(crate) struct ResourceRegistry {
    names: BTreeMap<String, ResourceId>,
    all: BTreeMap<ResourceId, Item>,
    bookable: BTreeMap<IfIndex, Bookable>,
    /// The last number. None is used twice: a resource that returns is a new one, with an empty ledger.
    next: u32,
    /// The interfaces whose ledger the bookings have changed.
    touched: BTreeSet<IfIndex>,
}

#[derive(Debug)]
enum Item {
    Link { name: String, oif: IfIndex, premium: Option<Share> },
    Stock { stock: Resource, table: SlotTable },
}

/// The share of an interface for bookings, in IP bytes; it is counted beside the interface's ledger.
#[derive(Debug)]
struct Share {
    table: SlotTable,
    /// The share's slot of each slot of the ledger.
    slots: BTreeMap<SlotId, SlotId>,
}

impl ResourceRegistry {
    fn number(&mut self) -> ResourceId {
        self.next += 1;
        ResourceId(self.next)
    }

    /// The resource of an interface.
    pub(crate) fn of(&self, oif: IfIndex) -> Option<ResourceId> {
        let is = |item: &Item| matches!(item, Item::Link { oif: at, .. } if *at == oif);
        self.all.iter().find(|(_, item)| is(item)).map(|(id, _)| *id)
    }

    /// Sets the name under which an interface takes reservations, or none. Returns the change, if there is one.
    pub(crate) fn link(&mut self, oif: IfIndex, name: Option<&str>) -> Option<Event> {
        let name = name.map(|name| alloc::format!("net/{name}"));
        let known = self.of(oif);
        let same = known.is_some_and(|id| name.as_ref().and_then(|name| self.names.get(name)) == Some(&id));
        if same || (known.is_none() && name.is_none()) {
            return known.map(|resource| Event::Resource { resource });
        }
        if let Some(id) = known {
            self.all.remove(&id);
            self.names.retain(|_, at| *at != id);
        }
        let Some(name) = name else { return known.map(|resource| Event::Resource { resource }) };
        let id = self.number();
        let share = self.bookable.get(&oif).and_then(|bookable| bookable.share);
        self.names.insert(name.clone(), id);
        self.all.insert(id, Item::Link { name, oif, premium: share.map(Share::new) });
        Some(Event::Resource { resource: id })
    }

    /// Sets the terms of bookings on an interface from now on; existing bookings stay.
    pub(crate) fn set_bookable(&mut self, now: Time, oif: IfIndex, terms: Bookable) -> Option<ResourceId> {
        self.bookable.insert(oif, terms);
        let id = self.of(oif)?;
        if let Some(Item::Link { premium, .. }) = self.all.get_mut(&id) {
            match (premium.as_mut(), terms.share) {
                (Some(share), Some(rate)) => share.resize(now, rate),
                // Without bookings there is nothing to count anew; with them the book must: the resource is another.
                _ => *premium = terms.share.map(Share::new),
            }
        }
        Some(id)
    }

    /// Adds a resource other than an interface, or changes its capacity.
    pub(crate) fn add_resource(&mut self, now: Time, stock: Resource) -> ResourceId {
        if let Some(&id) = self.names.get(&stock.name)
            && let Some(Item::Stock { stock: known, table }) = self.all.get_mut(&id)
        {
            resize(table, now, Rate::from_bps(stock.capacity));
            *known = stock;
            return id;
        }
        let id = self.number();
        self.names.insert(stock.name.clone(), id);
        let table = SlotTable::new(Capacity::of(Rate::from_bps(stock.capacity)), Limits::default());
        self.all.insert(id, Item::Stock { stock, table });
        id
    }

    /// The interfaces whose ledger has changed since the last call.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<IfIndex> {
        core::mem::take(&mut self.touched)
    }
}

impl Share {
    fn new(rate: Rate) -> Share {
        Share { table: SlotTable::new(Capacity::of(rate), Limits::default()), slots: BTreeMap::new() }
    }

    fn resize(&mut self, now: Time, rate: Rate) {
        resize(&mut self.table, now, rate);
    }

    fn at(&mut self, now: Time) -> &mut SlotTable {
        told(&mut self.table, now)
    }
}

fn resize(table: &mut SlotTable, now: Time, rate: Rate) {
    if let Ok(ever) = Window::open(now) {
        // One step of capacity always has room: the old one, at the same instant, makes way.
        let changed = told(table, now).set_capacity(ever, rate);
        debug_assert!(changed.is_ok(), "a capacity that never has more than one step");
    }
}

/// The table after the time was told. Its own notices are dropped, because the bookings know them.
fn told(table: &mut SlotTable, now: Time) -> &mut SlotTable {
    table.expire(now);
    while table.poll().is_some() {}
    table
}

/// The ports of the bookings: the tables of this agent, and a policy.
pub struct BookingPorts<'a, P> {
    pub(crate) tc: &'a mut Tc,
    pub(crate) shelf: &'a mut ResourceRegistry,
    pub(crate) policy: &'a P,
}

impl<P> BookingPorts<'_, P> {
    fn ledger(&self, oif: IfIndex) -> Option<(&LinkLedger, u32)> {
        self.tc.links.get(&oif).map(|link| (&link.ledger, link.terms.spec.overhead))
    }

    fn put(
        &mut self,
        now: Time,
        resource: ResourceId,
        want: Demand,
        book: impl Fn(&mut SlotTable, Rate) -> Result<SlotId, Denied>,
    ) -> Result<SlotKey, NoRoom> {
        match self.shelf.all.get_mut(&resource).ok_or(NoRoom::Gone)? {
            Item::Stock { table, .. } => {
                let booked = book(told(table, now), Rate::from_bps(want.amount)).map_err(|denied| no(denied, |r| r));
                booked.map(|slot| SlotKey(slot.as_u64()))
            }
            Item::Link { oif, premium, .. } => {
                let link = self.tc.links.get_mut(oif).ok_or(NoRoom::Gone)?;
                let overhead = link.terms.spec.overhead;
                let share = match premium {
                    Some(share) => Some(book(share.at(now), Rate::from_bps(want.amount)).map_err(|d| no(d, |r| r))?),
                    None => None,
                };
                link.ledger.expire(now);
                let rate = Rate::from_bps(want.amount).with_overhead(overhead, want.packet);
                let booked = book(link.ledger.table_mut(), rate);
                self.shelf.touched.insert(*oif);
                match (booked, premium, share) {
                    (Ok(slot), Some(premium), Some(share)) => {
                        premium.slots.insert(slot, share);
                        Ok(SlotKey(slot.as_u64()))
                    }
                    (Ok(slot), ..) => Ok(SlotKey(slot.as_u64())),
                    (Err(denied), premium, share) => {
                        if let (Some(premium), Some(share)) = (premium, share) {
                            // Booked a moment ago, so it is there.
                            let _ = premium.at(now).release(share);
                        }
                        Err(no(denied, |rate| without(rate, overhead, want.packet)))
                    }
                }
            }
        }
    }
}

/// A refusal, with the free amount in the unit of the request.
fn no(denied: Denied, unit: impl Fn(Rate) -> Rate) -> NoRoom {
    match denied {
        Denied::Capacity { free, .. } => NoRoom::Full { free: unit(free).as_bps() },
        Denied::Limit { limit, .. } => NoRoom::Limit { limit },
        Denied::Misuse(misuse) => NoRoom::Meaningless(misuse),
    }
}

/// A wire rate in IP bytes, if no packet is shorter: rounded down, because it is supply.
fn without(wire: Rate, overhead: u32, packet: u32) -> Rate {
    let packet = u64::from(packet.max(1));
    wire.share(packet, packet + u64::from(overhead))
}

impl<P> Ledger for BookingPorts<'_, P> {
    fn resource(&self, name: &str) -> Option<ResourceId> {
        self.shelf.names.get(name).copied()
    }

    fn resources(&self) -> Vec<ResourceId> {
        self.shelf.all.keys().copied().collect()
    }

    fn offer(&self, resource: ResourceId) -> Option<Offer> {
        Some(match self.shelf.all.get(&resource)? {
            Item::Stock { stock, table } => Offer {
                name: stock.name.clone(),
                kind: ResourceKind::of(&stock.name),
                guarantee: stock.guarantee,
                capacity: table.capacity().as_bps(),
                shared: stock.shared,
            },
            Item::Link { name, oif, premium } => {
                let (link, overhead) = self.ledger(*oif)?;
                let whole = without(link.table().capacity(), overhead, PacketShape::default().packet);
                let share = premium.as_ref().map_or(whole, |share| share.table.capacity().min(whole));
                let of = self.shelf.bookable.get(oif).copied().unwrap_or_default().background;
                Offer {
                    name: name.clone(),
                    kind: ResourceKind::Network,
                    guarantee: Guarantee::Reserved,
                    capacity: share.as_bps(),
                    shared: share.share(of.into(), 1_000).as_bps(),
                }
            }
        })
    }

    fn book(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        self.put(now, resource, want, |table, rate| table.grant(window, rate))
    }

    fn adopt(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        self.put(now, resource, want, |table, rate| table.adopt_booked(window, rate))
    }

    fn release(&mut self, now: Time, resource: ResourceId, slot: SlotKey) {
        let slot = SlotId::from_u64(slot.0);
        // A slot that is over is no mistake of the caller's: windows end by themselves.
        match self.shelf.all.get_mut(&resource) {
            Some(Item::Stock { table, .. }) => _ = told(table, now).release(slot),
            Some(Item::Link { oif, premium, .. }) => {
                if let Some(share) = premium
                    && let Some(slot) = share.slots.remove(&slot)
                {
                    let _ = share.at(now).release(slot);
                }
                if let Some(link) = self.tc.links.get_mut(oif) {
                    let _ = link.ledger.release(now, slot);
                    self.shelf.touched.insert(*oif);
                }
            }
            None => {}
        }
    }

    fn free(&self, resource: ResourceId, window: Window, packet: u32) -> u64 {
        let (start, end) = (window.start(), window.end());
        match self.shelf.all.get(&resource) {
            Some(Item::Stock { table, .. }) => table.available(start, end).as_bps(),
            Some(Item::Link { oif, premium, .. }) => {
                let Some((link, overhead)) = self.ledger(*oif) else { return 0 };
                let free = without(link.table().available(start, end), overhead, packet);
                premium.as_ref().map_or(free, |share| share.table.available(start, end).min(free)).as_bps()
            }
            None => 0,
        }
    }

    fn spare(&self, now: Time, resource: ResourceId, packet: u32) -> u64 {
        match self.shelf.all.get(&resource) {
            Some(Item::Stock { table, .. }) => table.spare(now).as_bps(),
            Some(Item::Link { oif, premium, .. }) => {
                let Some((link, overhead)) = self.ledger(*oif) else { return 0 };
                let spare = without(link.table().spare(now), overhead, packet);
                premium.as_ref().map_or(spare, |share| share.table.spare(now).min(spare)).as_bps()
            }
            None => 0,
        }
    }

    /// With a share of the link for bookings, the background's part of it is promised: reservations see it as
    /// taken. Without one, or if bookings may displace reservations, background uses only the idle rate.
    fn lend(&mut self, now: Time, resource: ResourceId, by: Time, want: Demand) -> Option<SlotKey> {
        let Some(Item::Link { oif, premium: Some(share), .. }) = self.shelf.all.get_mut(&resource) else { return None };
        let link = self.tc.links.get_mut(oif).filter(|link| link.terms.assumed_holding.is_none())?;
        link.ledger.expire(now);
        let wire = Rate::from_bps(want.amount).with_overhead(link.terms.spec.overhead, want.packet);
        let by = share.at(now).lasts(Rate::from_bps(want.amount), by)?;
        let by = link.ledger.table().lasts(wire, by)?;
        let oif = *oif;
        let key = self.book(now, resource, Window::new(now, by).ok()?, want).ok()?;
        if let Some(link) = self.tc.links.get_mut(&oif) {
            link.lent = Some(SlotId::from_u64(key.0));
        }
        Some(key)
    }

    fn find(&self, resource: ResourceId, want: Demand, span: Span, earliest: Time, latest: Time) -> Option<Time> {
        let amount = Rate::from_bps(want.amount);
        match self.shelf.all.get(&resource)? {
            Item::Stock { table, .. } => table.find(amount, span, earliest, latest).ok()?,
            Item::Link { oif, premium, .. } => {
                let (link, overhead) = self.ledger(*oif)?;
                let wire = amount.with_overhead(overhead, want.packet);
                let mut start = earliest;
                // Each says when it would be possible at the earliest, until both say the same.
                loop {
                    let found = link.table().find(wire, span, start, latest).ok()??;
                    let Some(share) = premium else { return Some(found) };
                    start = share.table.find(amount, span, found, latest).ok()??;
                    if start == found {
                        return Some(found);
                    }
                }
            }
        }
    }

    fn stretches(&self, resource: ResourceId, window: Window, packet: u32, most: usize) -> Vec<(Window, u64)> {
        let (start, end) = (window.start(), window.end());
        let plain = |table: &SlotTable| table.stretches(start, end, most);
        let bps = |found: Vec<(Window, Rate)>| found.into_iter().map(|(w, rate)| (w, rate.as_bps())).collect();
        match self.shelf.all.get(&resource) {
            Some(Item::Stock { table, .. }) => bps(plain(table)),
            Some(Item::Link { oif, premium, .. }) => {
                let Some((link, overhead)) = self.ledger(*oif) else { return Vec::new() };
                let wire = plain(link.table());
                let ip = wire.into_iter().map(|(w, rate)| (w, without(rate, overhead, packet))).collect();
                bps(match premium {
                    Some(share) => meet(ip, plain(&share.table), most),
                    None => ip,
                })
            }
            None => Vec::new(),
        }
    }

    fn missing(&self, resource: ResourceId) -> Option<Missing> {
        let of = |short: Shortfall, rate: Rate| Missing { first: short.first, worst: rate.as_bps().max(1) };
        match self.shelf.all.get(&resource)? {
            Item::Stock { table, .. } => table.shortfall().map(|short| of(short, short.worst)),
            Item::Link { oif, premium, .. } => {
                let (link, overhead) = self.ledger(*oif)?;
                let packet = PacketShape::default().packet;
                let wire = link.table().shortfall().map(|s| of(s, without(s.worst, overhead, packet)));
                let share = premium.as_ref().and_then(|share| share.table.shortfall()).map(|s| of(s, s.worst));
                [wire, share].into_iter().flatten().max_by_key(|missing| missing.worst)
            }
        }
    }
}

/// The free rate of both profiles, window by window.
fn meet(a: Vec<(Window, Rate)>, b: Vec<(Window, Rate)>, most: usize) -> Vec<(Window, Rate)> {
    let (mut out, mut i, mut j) = (Vec::new(), 0, 0);
    while let (Some((x, in_a)), Some((y, in_b))) = (a.get(i), b.get(j)) {
        if out.len() >= most {
            break;
        }
        if let Ok(both) = Window::new(x.start().max(y.start()), x.end().min(y.end())) {
            out.push((both, *in_a.min(in_b)));
        }
        if x.end() <= y.end() {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}

impl<P: PolicyPort> PolicyPort for BookingPorts<'_, P> {
    fn sums(&self) -> bool {
        self.policy.sums()
    }

    fn decide(&self, question: &Question<'_>) -> PolicyDecision {
        self.policy.decide(question)
    }

    fn shared(&self, question: &Question<'_>) -> SharedLimits {
        self.policy.shared(question)
    }

    fn may_bind(&self, question: &BindQuestion<'_>) -> PolicyDecision {
        self.policy.may_bind(question)
    }
}
