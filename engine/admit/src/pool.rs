//! The sub-pool: a limit inside the table on what some of its slots take together (the premium of an interface).
//!
//! The name and the idea are those of traffic engineering for differentiated services (RFC 3564, RFC 4127): the
//! sub-pool is nested in the whole, so a slot in it counts in both, and what the sub-pool leaves unused is there for
//! every other slot. The two may have different measures, such as IP bytes inside and wire bytes outside, so a
//! booking names two amounts ([`Take`]), and a question brings the conversion from the whole's measure to the part's.
//! A slot that ends leaves both at once. `pooled` has the table's side.

use crate::capacity::Capacity;
use crate::counted::Counted;
use crate::slot::SlotId;
use crate::state::SlotState;
use alloc::collections::BTreeMap;
use terms::{Time, Window};

/// The amounts that one booking takes: of the whole table, and of its sub-pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Take<Q> {
    /// The amount in the measure of the table.
    pub whole: Q,
    /// The amount in the measure of the sub-pool. Without a sub-pool it counts nowhere.
    pub part: Q,
}

/// The limit, its use over time, and the part of each slot in it.
#[derive(Clone, Debug)]
pub(crate) struct SubPool {
    counted: Counted,
    parts: BTreeMap<SlotId, u64>,
}

impl SubPool {
    /// An empty one.
    pub(crate) fn new(limit: u64) -> SubPool {
        SubPool { counted: Counted::new(limit), parts: BTreeMap::new() }
    }

    /// The limit.
    pub(crate) fn limit(&self) -> u64 {
        self.counted.capacity().at(Time::ZERO)
    }

    /// Sets the limit. Slots stay.
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.counted.set_capacity(Capacity::constant(limit));
    }

    /// The limit and its use, for questions.
    pub(crate) fn counted(&self) -> &Counted {
        &self.counted
    }

    /// The part of a slot.
    pub(crate) fn part(&self, id: SlotId) -> Option<u64> {
        self.parts.get(&id).copied()
    }

    /// Counts a slot's part over its window.
    pub(crate) fn enter(&mut self, id: SlotId, window: Window, part: u64) {
        self.counted.add(window.start(), window.end(), part);
        self.parts.insert(id, part);
    }

    /// Takes a slot with this window out, if it is in.
    pub(crate) fn leave(&mut self, id: SlotId, window: Window) {
        if let Some(part) = self.parts.remove(&id) {
            self.counted.remove(window.start(), window.end(), part);
        }
    }

    /// Checks that a slot may have another window.
    pub(crate) fn may_move(&self, now: Time, id: SlotId, from: Window, to: Window) -> Result<(), (u64, u64)> {
        let Some(&part) = self.parts.get(&id) else { return Ok(()) };
        let pieces = [(to.start(), to.end().min(from.start())), (to.start().max(from.end()), to.end())];
        let pieces = pieces.into_iter().filter_map(|(start, end)| Window::new(start.max(now), end).ok());
        for piece in pieces {
            if !self.counted.fits(piece, part) {
                return Err((part, self.counted.available(piece.start(), piece.end())));
            }
        }
        Ok(())
    }

    /// Gives a slot another window.
    pub(crate) fn shift(&mut self, id: SlotId, from: Window, to: Window) {
        if let Some(&part) = self.parts.get(&id) {
            self.counted.remove(from.start(), from.end(), part);
            self.counted.add(to.start(), to.end(), part);
        }
    }

    /// Recomputes the use from the slots.
    pub(crate) fn audit(&self, slot: impl Fn(SlotId) -> Option<(Window, SlotState)>) -> Result<(), &'static str> {
        let mut anew = Counted::new(0);
        for (&id, &part) in &self.parts {
            match slot(id) {
                Some((window, state)) if state != SlotState::Open => anew.add(window.start(), window.end(), part),
                _ => return Err("a slot of the sub-pool that is over"),
            }
        }
        if !anew.profile().steps().eq(self.counted.profile().steps()) {
            return Err("profile of the sub-pool");
        }
        self.counted.profile().audit()
    }

    /// The numbers that make up its state.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let parts = self.parts.iter().flat_map(|(id, part)| [id.as_u64(), *part]);
        core::iter::once(self.limit()).chain(parts)
    }

    /// Memory, bytes: nodes of the map are two thirds full.
    pub(crate) fn bytes(&self) -> usize {
        self.counted.profile().bytes() + self.parts.len() * size_of::<(SlotId, u64)>() * 3 / 2
    }
}
