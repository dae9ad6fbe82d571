//! Owners: names as small numbers, with the reservations of each.

use super::reservation::Number;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// All owners who have had a reservation.
#[derive(Clone, Default)]
pub(crate) struct Owners {
    names: BTreeMap<Box<str>, u32>,
    all: Vec<Owner>,
}

/// One owner.
#[derive(Clone)]
pub(crate) struct Owner {
    name: Box<str>,
    live: usize,
    held: usize,
    numbers: BTreeSet<Number>,
}

impl Owner {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reservations that are not over.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Reservations that are held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// All reservations, also those that are over.
    pub(crate) fn numbers(&self) -> &BTreeSet<Number> {
        &self.numbers
    }
}

impl Owners {
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    pub(crate) fn get(&self, place: u32) -> &Owner {
        &self.all[place as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Owner)> {
        self.all.iter().enumerate().map(|(place, owner)| (place as u32, owner))
    }

    /// The number of this name, which is a new one if the name is.
    pub(super) fn place(&mut self, name: &str) -> u32 {
        if let Some(place) = self.find(name) {
            return place;
        }
        let place = self.all.len() as u32;
        self.names.insert(name.into(), place);
        self.all.push(Owner { name: name.into(), live: 0, held: 0, numbers: BTreeSet::new() });
        place
    }

    /// The owner has this reservation from now on.
    pub(super) fn enter(&mut self, place: u32, number: Number) {
        self.all[place as usize].numbers.insert(number);
    }

    pub(super) fn leave(&mut self, place: u32, number: Number) {
        self.all[place as usize].numbers.remove(&number);
    }

    /// Counts a reservation that is not over.
    pub(super) fn count(&mut self, place: u32, held: bool) {
        let owner = &mut self.all[place as usize];
        owner.live += 1;
        owner.held += usize::from(held);
    }

    /// A reservation is over, which was held before or not.
    pub(super) fn uncount(&mut self, place: u32, held: bool) {
        let owner = &mut self.all[place as usize];
        owner.live -= 1;
        owner.held -= usize::from(held);
    }

    /// A held reservation is booked or promised.
    pub(super) fn committed(&mut self, place: u32) {
        self.all[place as usize].held -= 1;
    }

    /// The promise of a hold is withdrawn.
    pub(super) fn held_again(&mut self, place: u32) {
        self.all[place as usize].held += 1;
    }
}
