//! Tables of owners and resources: names as small numbers, with the sums of each.

use crate::reservation::{Number, Part};
use admit::profile::UseProfile;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use terms::book::{Background, RateStep, ResourceId, ResourceKind};
use terms::ports::Ledger;
use terms::ports::book::SlotKey;

/// All owners who have had a reservation.
#[derive(Clone)]
pub(crate) struct Owners {
    names: BTreeMap<Box<str>, u32>,
    all: Vec<Owner>,
    /// True if the sums of each owner are kept.
    summed: bool,
}

impl Default for Owners {
    fn default() -> Owners {
        Owners { names: BTreeMap::new(), all: Vec::new(), summed: true }
    }
}

/// One owner.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) name: Box<str>,
    /// Reservations that are not over.
    pub(crate) live: usize,
    /// Reservations that are held.
    pub(crate) held: usize,
    /// All reservations, also those that are over.
    pub(crate) numbers: BTreeSet<Number>,
    /// The sums of the owner's foreground parts, by resource.
    pub(crate) totals: BTreeMap<u32, UseProfile>,
}

impl Owners {
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    pub(crate) fn place(&mut self, name: &str) -> u32 {
        if let Some(place) = self.find(name) {
            return place;
        }
        let place = self.all.len() as u32;
        self.names.insert(name.into(), place);
        self.all.push(Owner { name: name.into(), live: 0, held: 0, numbers: BTreeSet::new(), totals: BTreeMap::new() });
        place
    }

    pub(crate) fn get(&self, place: u32) -> &Owner {
        &self.all[place as usize]
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Owner {
        &mut self.all[place as usize]
    }

    /// True if the sums of each owner are kept.
    pub(crate) fn summed(&self) -> bool {
        self.summed
    }

    /// Clears the sums, and keeps them from now on or not.
    pub(crate) fn set_summed(&mut self, summed: bool) {
        self.summed = summed;
        self.all.iter_mut().for_each(|owner| owner.totals.clear());
    }

    /// Adds an owner's part to the sums, if they are kept (or, with a sign of -1, takes it out).
    pub(crate) fn sum(&mut self, owner: u32, part: &Part, sign: i64) {
        if !self.summed || part.background.is_some() {
            return;
        }
        let total = self.get_mut(owner).totals.entry(part.resource).or_default();
        for step in &part.steps {
            total.add(step.window.start(), step.window.end(), sign * step.amount as i64);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Owner)> {
        self.all.iter().enumerate().map(|(place, owner)| (place as u32, owner))
    }
}

impl Owner {
    /// The most that the owner has of a resource at any instant of these steps, with these steps added.
    pub(crate) fn together(&self, resource: Option<u32>, steps: &[RateStep]) -> u64 {
        most_of(resource.and_then(|resource| self.totals.get(&resource)), steps)
    }
}

/// The most of a sum at any instant of these steps, with these steps added.
pub(crate) fn most_of(total: Option<&UseProfile>, steps: &[RateStep]) -> u64 {
    let had = |step: &RateStep| total.map_or(0, |total| total.peak(step.window.start(), step.window.end()));
    steps.iter().map(|step| had(step).saturating_add(step.amount)).max().unwrap_or(0)
}

/// All resources that a reservation has named.
#[derive(Clone, Default)]
pub(crate) struct Resources {
    names: BTreeMap<Box<str>, u32>,
    all: Vec<Named>,
}

/// One resource.
#[derive(Clone)]
pub(crate) struct Named {
    pub(crate) name: Box<str>,
    pub(crate) kind: ResourceKind,
    /// The ledger's number of it; `None`: it is not there at present.
    pub(crate) id: Option<ResourceId>,
    /// Reservations with a part of it that are not over.
    pub(crate) users: BTreeSet<Number>,
    /// The due amount of its foreground parts at this instant.
    pub(crate) foreground: u64,
    /// Its background parts whose window is open.
    pub(crate) sharing: BTreeMap<(Number, usize), Sharer>,
    /// The amount that background could share at the last division, and the slot of background's sum, where
    /// that is promised.
    pub(crate) grant: u64,
    pub(crate) lent: Option<SlotKey>,
    /// Orders under way that take something away.
    pub(crate) lowering: usize,
    /// The shortage at the last report.
    pub(crate) missing: u64,
}

/// A background part that shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sharer {
    pub(crate) terms: Background,
    /// The most that it wants.
    pub(crate) most: u64,
    /// The share.
    pub(crate) share: u64,
    /// The least size of its packets.
    pub(crate) packet: u32,
    /// True if the share has been told.
    pub(crate) told: bool,
}

impl Resources {
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    pub(crate) fn place(&mut self, name: &str, ledger: &impl Ledger) -> u32 {
        if let Some(place) = self.find(name) {
            return place;
        }
        let place = self.all.len() as u32;
        self.names.insert(name.into(), place);
        self.all.push(Named {
            name: name.into(),
            kind: ResourceKind::of(name),
            id: ledger.resource(name),
            users: BTreeSet::new(),
            foreground: 0,
            sharing: BTreeMap::new(),
            grant: 0,
            lent: None,
            lowering: 0,
            missing: 0,
        });
        place
    }

    pub(crate) fn get(&self, place: u32) -> &Named {
        &self.all[place as usize]
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Named {
        &mut self.all[place as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Named)> {
        self.all.iter().enumerate().map(|(place, named)| (place as u32, named))
    }
}
