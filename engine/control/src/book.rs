//! The ledgers of this agent, as the bookings see them. Their amounts are bare numbers, and the resource tells the
//! unit; here each gets it, and meets the ledger of its kind.

use crate::link::Link;
use crate::resources::{Bookable, Item, Resource, ResourceRegistry};
use crate::tc::Tc;
use admit::{Denied, Framing, Shortfall, SlotId};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::book::{Guarantee, PacketShape, ResourceId, ResourceKind};
use terms::ports::book::{
    BindQuestion, Demand, Missing, NoRoom, Offer, PolicyDecision, Question, SharedLimits, SlotKey,
};
use terms::ports::{Ledger, PolicyPort};
use terms::{Amount, IfIndex, Rate, Span, Time, Window};

impl Tc {
    /// Lets the bookings read and change the ledgers, under a policy. Displacements are outputs as after any
    /// other call.
    pub fn with_book<P: PolicyPort, T>(
        &mut self,
        now: Time,
        policy: &P,
        ask: impl FnOnce(&mut BookingPorts<'_, P>) -> T,
    ) -> T {
        let (resources, links) = self.ledgers_mut();
        let mut ports = BookingPorts { resources, links, touched: BTreeSet::new(), policy };
        let answer = ask(&mut ports);
        for oif in ports.touched {
            self.read_ledger(now, oif);
        }
        answer
    }

    /// The bookable resource of an interface.
    pub fn resource_of(&self, oif: IfIndex) -> Option<ResourceId> {
        self.resources().of(oif)
    }

    /// Adds a resource other than an interface, or changes its capacity; the caller must tell the bookings.
    pub fn add_resource(&mut self, now: Time, stock: Resource) -> ResourceId {
        self.ledgers_mut().0.add_resource(now, stock)
    }

    /// Sets the terms of bookings on an interface, and the configured guarantees of its classes. Call it
    /// before the first booking there.
    pub fn bookable(&mut self, now: Time, oif: IfIndex, bookable: Bookable) -> Option<ResourceId> {
        self.set_apart(now, oif, bookable.core);
        let (resources, links) = self.ledgers_mut();
        resources.set_terms(oif, bookable);
        if let Some(link) = links.get_mut(&oif) {
            // Without bookings there is nothing to count anew; with them the book must: the resource is another.
            link.ledger.set_premium(bookable.share);
        }
        resources.of(oif)
    }
}

/// The ports of the bookings: the ledgers of this agent, and a policy.
pub struct BookingPorts<'a, P> {
    resources: &'a mut ResourceRegistry,
    links: &'a mut BTreeMap<IfIndex, Link>,
    /// The interfaces whose ledger the bookings have changed.
    touched: BTreeSet<IfIndex>,
    policy: &'a P,
}

/// The way in: a booking or a hold must fit, an adopted one counts in any case.
#[derive(Clone, Copy)]
enum Entry {
    Book,
    Hold,
    Adopt,
}

/// The next step of a held slot.
#[derive(Clone, Copy)]
enum Firm {
    Promised,
    Committed,
}

impl<P> BookingPorts<'_, P> {
    /// A slot that is as firm already, or over, is no mistake.
    fn firm(&mut self, now: Time, resource: ResourceId, slot: SlotKey, firm: Firm) {
        let slot = SlotId::from_u64(slot.0);
        match self.resources.item_mut(resource) {
            Some(Item::Stock(_, ledger)) => match firm {
                Firm::Promised => _ = ledger.promise(now, slot),
                Firm::Committed => _ = ledger.commit(now, slot),
            },
            Some(Item::Link(_, oif)) => {
                let Some(link) = self.links.get_mut(oif) else { return };
                match firm {
                    Firm::Promised => _ = link.ledger.promise_booked(now, slot),
                    Firm::Committed => _ = link.ledger.commit_booked(now, slot),
                }
            }
            None => {}
        }
    }

    fn put(
        &mut self,
        now: Time,
        resource: ResourceId,
        window: Window,
        want: Demand,
        entry: Entry,
    ) -> Result<SlotKey, NoRoom> {
        let booked = match self.resources.item_mut(resource).ok_or(NoRoom::Gone)? {
            Item::Stock(_, ledger) => {
                let amount = Amount::new(want.amount, ledger.unit());
                let booked = match entry {
                    Entry::Book => ledger.book(now, window, amount),
                    Entry::Hold => ledger.hold(now, window, amount),
                    Entry::Adopt => ledger.adopt(now, window, amount),
                };
                booked.map_err(|denied| no(denied, Amount::count))
            }
            Item::Link(_, oif) => {
                let link = self.links.get_mut(oif).ok_or(NoRoom::Gone)?;
                self.touched.insert(*oif);
                let (ip, framing) = (Rate::from_bps(want.amount), framing(link, want.packet));
                let booked = match entry {
                    Entry::Book => link.ledger.book(now, window, ip, framing),
                    Entry::Hold => link.ledger.hold_booked(now, window, ip, framing),
                    Entry::Adopt => link.ledger.adopt_booked(now, window, ip, framing),
                };
                booked.map_err(|denied| no(denied, Rate::as_bps))
            }
        };
        booked.map(|slot| SlotKey(slot.as_u64()))
    }
}

/// The framing of packets of at least this size on a link.
fn framing(link: &Link, packet: u32) -> Framing {
    Framing { overhead: link.terms.spec.overhead, packet }
}

/// A refusal, with the bare number of what is free.
fn no<Q: Copy>(denied: Denied<Q>, number: impl Fn(Q) -> u64) -> NoRoom {
    match denied {
        Denied::Capacity { free, .. } | Denied::Pool { free, .. } => NoRoom::Full { free: number(free) },
        Denied::Limit { limit, .. } => NoRoom::Limit { limit },
        Denied::Misuse(misuse) => NoRoom::Meaningless(misuse),
    }
}

/// A shortfall, with the bare number of what is missing: at least one.
fn missing<Q: Copy>(short: Shortfall<Q>, number: impl Fn(Q) -> u64) -> Missing {
    Missing { first: short.first, worst: number(short.worst).max(1) }
}

/// Windows with the bare numbers.
fn numbers<Q>(found: Vec<(Window, Q)>, number: impl Fn(Q) -> u64) -> Vec<(Window, u64)> {
    found.into_iter().map(|(window, free)| (window, number(free))).collect()
}

impl<P> Ledger for BookingPorts<'_, P> {
    fn resource(&self, name: &str) -> Option<ResourceId> {
        self.resources.id(name)
    }

    fn resources(&self) -> Vec<ResourceId> {
        self.resources.ids()
    }

    fn offer(&self, resource: ResourceId) -> Option<Offer> {
        Some(match self.resources.item(resource)? {
            Item::Stock(stock, ledger) => Offer {
                name: stock.name.clone(),
                kind: ResourceKind::of(&stock.name),
                guarantee: stock.guarantee,
                capacity: ledger.capacity().count(),
                shared: stock.shared.count(),
            },
            Item::Link(name, oif) => {
                let link = self.links.get(oif)?;
                let capacity = link.ledger.bookable(framing(link, PacketShape::default().packet));
                let of = self.resources.terms(*oif).background;
                Offer {
                    name: name.clone(),
                    kind: ResourceKind::Network,
                    guarantee: Guarantee::Reserved,
                    capacity: capacity.as_bps(),
                    shared: capacity.share(of.into(), 1_000).as_bps(),
                }
            }
        })
    }

    fn book(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        self.put(now, resource, window, want, Entry::Book)
    }

    fn hold(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        self.put(now, resource, window, want, Entry::Hold)
    }

    fn promise(&mut self, now: Time, resource: ResourceId, slot: SlotKey) {
        self.firm(now, resource, slot, Firm::Promised);
    }

    fn commit(&mut self, now: Time, resource: ResourceId, slot: SlotKey) {
        self.firm(now, resource, slot, Firm::Committed);
    }

    fn adopt(&mut self, now: Time, resource: ResourceId, window: Window, want: Demand) -> Result<SlotKey, NoRoom> {
        self.put(now, resource, window, want, Entry::Adopt)
    }

    fn release(&mut self, now: Time, resource: ResourceId, slot: SlotKey) {
        let slot = SlotId::from_u64(slot.0);
        // A slot that is over is no mistake of the caller's: windows end by themselves.
        match self.resources.item_mut(resource) {
            Some(Item::Stock(_, ledger)) => _ = ledger.release(now, slot),
            Some(Item::Link(_, oif)) => {
                if let Some(link) = self.links.get_mut(oif) {
                    let _ = link.ledger.release(now, slot);
                    self.touched.insert(*oif);
                }
            }
            None => {}
        }
    }

    fn free(&self, resource: ResourceId, window: Window, packet: u32) -> u64 {
        match self.resources.item(resource) {
            Some(Item::Stock(_, ledger)) => ledger.free(window).count(),
            Some(Item::Link(_, oif)) => {
                let free = |link: &Link| link.ledger.free_to_book(window, framing(link, packet)).as_bps();
                self.links.get(oif).map_or(0, free)
            }
            None => 0,
        }
    }

    fn spare(&self, now: Time, resource: ResourceId, packet: u32) -> u64 {
        match self.resources.item(resource) {
            Some(Item::Stock(_, ledger)) => ledger.spare(now).count(),
            Some(Item::Link(_, oif)) => {
                let spare = |link: &Link| link.ledger.spare_to_book(now, framing(link, packet)).as_bps();
                self.links.get(oif).map_or(0, spare)
            }
            None => 0,
        }
    }

    /// With a share of the link for bookings, the background's part of it is promised: reservations see it as
    /// taken. Without one, or if bookings may displace reservations, background uses only the idle rate.
    fn lend(&mut self, now: Time, resource: ResourceId, by: Time, want: Demand) -> Option<SlotKey> {
        let Some(Item::Link(_, oif)) = self.resources.item(resource) else { return None };
        let link = self.links.get_mut(oif).filter(|link| link.terms.assumed_holding.is_none())?;
        link.ledger.premium()?;
        link.ledger.expire(now);
        let (ip, framing) = (Rate::from_bps(want.amount), framing(link, want.packet));
        let by = link.ledger.lasts_booked(ip, by, framing)?;
        self.touched.insert(*oif);
        let slot = link.ledger.book(now, Window::new(now, by).ok()?, ip, framing).ok()?;
        link.lend(slot);
        Some(SlotKey(slot.as_u64()))
    }

    fn find(&self, resource: ResourceId, want: Demand, span: Span, earliest: Time, latest: Time) -> Option<Time> {
        match self.resources.item(resource)? {
            Item::Stock(_, ledger) => {
                ledger.find(Amount::new(want.amount, ledger.unit()), span, earliest, latest).ok()?
            }
            Item::Link(_, oif) => {
                let link = self.links.get(oif)?;
                let ip = Rate::from_bps(want.amount);
                link.ledger.find_to_book(ip, span, earliest, latest, framing(link, want.packet))
            }
        }
    }

    fn stretches(&self, resource: ResourceId, window: Window, packet: u32, most: usize) -> Vec<(Window, u64)> {
        match self.resources.item(resource) {
            Some(Item::Stock(_, ledger)) => numbers(ledger.stretches(window, most), Amount::count),
            Some(Item::Link(_, oif)) => {
                let Some(link) = self.links.get(oif) else { return Vec::new() };
                numbers(link.ledger.stretches_to_book(window, most, framing(link, packet)), Rate::as_bps)
            }
            None => Vec::new(),
        }
    }

    fn missing(&self, resource: ResourceId) -> Option<Missing> {
        match self.resources.item(resource)? {
            Item::Stock(_, ledger) => ledger.shortfall().map(|short| missing(short, Amount::count)),
            Item::Link(_, oif) => {
                let link = self.links.get(oif)?;
                let short = link.ledger.booked_shortfall(framing(link, PacketShape::default().packet));
                short.map(|short| missing(short, Rate::as_bps))
            }
        }
    }
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
