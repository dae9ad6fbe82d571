//! The bookable resources of an agent: each interface, whose ledger signalled reservations use too, and the stocks:
//! processors, disks and counted resources, each with a ledger in its own unit.

use crate::core::Core;
use crate::io::Event;
use admit::{Limits, StockLedger};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use terms::book::{Guarantee, ResourceId};
use terms::{Amount, IfIndex, Rate, Time};

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
    /// The capacity. All bookings have its unit.
    pub capacity: Amount,
    /// The part for foreground and background together while there is background; zero: no background.
    pub shared: Amount,
}

/// The bookable resources, beside the ledgers of the interfaces.
#[derive(Debug, Default)]
pub(crate) struct ResourceRegistry {
    names: BTreeMap<String, ResourceId>,
    all: BTreeMap<ResourceId, Item>,
    bookable: BTreeMap<IfIndex, Bookable>,
    /// The last number. None is used twice: a resource that returns is a new one, with an empty ledger.
    next: u32,
}

#[derive(Debug)]
pub(crate) enum Item {
    /// An interface of this name. Its ledger is that of the link.
    Link(String, IfIndex),
    /// Any other resource, with its ledger.
    Stock(Resource, Box<StockLedger>),
}

impl ResourceRegistry {
    fn insert(&mut self, name: String, item: Item) -> ResourceId {
        self.next += 1;
        let id = ResourceId(self.next);
        self.names.insert(name, id);
        self.all.insert(id, item);
        id
    }

    fn remove(&mut self, id: ResourceId) {
        self.all.remove(&id);
        self.names.retain(|_, at| *at != id);
    }

    /// The resource of an interface.
    pub(crate) fn of(&self, oif: IfIndex) -> Option<ResourceId> {
        let is = |item: &Item| matches!(item, Item::Link(_, at) if *at == oif);
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
            self.remove(id);
        }
        let Some(name) = name else { return known.map(|resource| Event::Resource { resource }) };
        Some(Event::Resource { resource: self.insert(name.clone(), Item::Link(name, oif)) })
    }

    /// Sets the terms of bookings on an interface from now on; existing bookings stay.
    pub(crate) fn set_terms(&mut self, oif: IfIndex, terms: Bookable) {
        self.bookable.insert(oif, terms);
    }

    /// The terms of bookings on an interface.
    pub(crate) fn terms(&self, oif: IfIndex) -> Bookable {
        self.bookable.get(&oif).copied().unwrap_or_default()
    }

    /// Adds a resource other than an interface, or changes its capacity. With another unit it is another resource.
    pub(crate) fn add_resource(&mut self, now: Time, stock: Resource) -> ResourceId {
        if let Some(&id) = self.names.get(&stock.name)
            && let Some(Item::Stock(known, ledger)) = self.all.get_mut(&id)
        {
            if ledger.unit() == stock.capacity.unit() {
                // One step of capacity always has room: the old one, at the same instant, makes way.
                let _ = ledger.set_capacity(now, stock.capacity);
                *known = stock;
                return id;
            }
            self.remove(id);
        }
        let ledger = StockLedger::new(stock.capacity, Limits::default());
        self.insert(stock.name.clone(), Item::Stock(stock, Box::new(ledger)))
    }

    /// A resource.
    pub(crate) fn item(&self, id: ResourceId) -> Option<&Item> {
        self.all.get(&id)
    }

    /// The same, to change it.
    pub(crate) fn item_mut(&mut self, id: ResourceId) -> Option<&mut Item> {
        self.all.get_mut(&id)
    }

    /// The resource of this name.
    pub(crate) fn id(&self, name: &str) -> Option<ResourceId> {
        self.names.get(name).copied()
    }

    /// All resources.
    pub(crate) fn ids(&self) -> Vec<ResourceId> {
        self.all.keys().copied().collect()
    }
}
