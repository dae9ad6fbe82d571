//! Resources: names as small numbers, with the ledger's number and the users of each.

use super::reservation::Number;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::book::{ResourceId, ResourceKind};
use terms::ports::Ledger;

/// All resources that a reservation has named.
#[derive(Clone, Default)]
pub(crate) struct Resources {
    names: BTreeMap<Box<str>, u32>,
    all: Vec<Resource>,
}

/// One resource.
#[derive(Clone)]
pub(crate) struct Resource {
    name: Box<str>,
    kind: ResourceKind,
    id: Option<ResourceId>,
    users: BTreeSet<Number>,
    missing: u64,
}

impl Resource {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn kind(&self) -> ResourceKind {
        self.kind
    }

    /// The ledger's number of it; `None`: it is not there at present.
    pub(crate) fn id(&self) -> Option<ResourceId> {
        self.id
    }

    /// Reservations with a part of it that are not over.
    pub(crate) fn users(&self) -> &BTreeSet<Number> {
        &self.users
    }
}

impl Resources {
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    pub(crate) fn get(&self, place: u32) -> &Resource {
        &self.all[place as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Resource)> {
        self.all.iter().enumerate().map(|(place, resource)| (place as u32, resource))
    }

    /// The number of this name, which is a new one if the name is.
    pub(super) fn place(&mut self, name: &str, ledger: &impl Ledger) -> u32 {
        if let Some(place) = self.find(name) {
            return place;
        }
        let place = self.all.len() as u32;
        self.names.insert(name.into(), place);
        let (kind, id) = (ResourceKind::of(name), ledger.resource(name));
        self.all.push(Resource { name: name.into(), kind, id, users: BTreeSet::new(), missing: 0 });
        place
    }

    /// The resource has come, gone, or has another ledger; false if nothing has changed.
    pub(super) fn set_id(&mut self, place: u32, id: Option<ResourceId>) -> bool {
        core::mem::replace(&mut self.all[place as usize].id, id) != id
    }

    /// Sets the shortage of a resource, and returns the shortage at the last report.
    pub(super) fn set_missing(&mut self, place: u32, missing: u64) -> u64 {
        core::mem::replace(&mut self.all[place as usize].missing, missing)
    }

    pub(super) fn used(&mut self, place: u32, by: Number) {
        self.all[place as usize].users.insert(by);
    }

    pub(super) fn unused(&mut self, place: u32, by: Number) {
        self.all[place as usize].users.remove(&by);
    }
}
