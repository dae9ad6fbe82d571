//! The table of reservations, with its indexes: by handle, key, owner, resource, binding, and next check; and the sums
//! for policy. Everything is changed here together, so that each index and sum agrees with the table.

mod access;
mod audit;
mod bound;
mod encoded;
pub(crate) mod grants;
mod owners;
pub(crate) mod promised;
pub(crate) mod reservation;
mod resources;
mod sums;

use crate::config::Config;
use crate::draw::{ByHandle, Draw};
use crate::io::BatchId;
use crate::state::{BookingState, LifeStep};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bound::Bound;
use core::ops::Bound as End;
pub(crate) use encoded::key_of;
use grants::Grants;
pub(crate) use grants::{Grant, accounts};
use hashbrown::HashMap;
use owners::Owners;
pub(crate) use promised::{Prepared, Promised};
pub(crate) use reservation::{KeyMark, Number, Part, Place, Reservation, growth};
pub(crate) use resources::Resources;
use sums::Sums;
use terms::book::{Binding, Handle, ResourceId};
use terms::ports::Ledger;
use terms::ports::book::SlotKey;
use terms::{Span, Time};

/// A slot that a part had in the ledger of a resource.
pub(crate) type Freed = (u32, SlotKey);

/// All reservations.
#[derive(Clone)]
pub(crate) struct Reservations {
    /// The time for which a reservation that is over is kept.
    retention: Span,
    draw: Draw,
    next_number: Number,
    all: BTreeMap<Number, Box<Reservation>>,
    handles: HashMap<Handle, Number, ByHandle>,
    keys: BTreeMap<(u32, Box<str>), Number>,
    /// Reservations that are not over.
    live: usize,
    /// Reservations that are over, oldest first.
    finished: BTreeSet<(Time, Number)>,
    /// The next check of each reservation; calendar time.
    agenda: BTreeSet<(Time, Number)>,
    owners: Owners,
    resources: Resources,
    grants: Grants,
    bound: Bound,
    sums: Sums,
}

impl Reservations {
    /// An empty table that draws handles from `seed`.
    pub(crate) fn new(config: &Config, seed: [u8; 32]) -> Reservations {
        Reservations {
            retention: config.retention,
            draw: Draw::new(seed),
            next_number: 1,
            all: BTreeMap::new(),
            handles: HashMap::default(),
            keys: BTreeMap::new(),
            live: 0,
            finished: BTreeSet::new(),
            agenda: BTreeSet::new(),
            owners: Owners::default(),
            resources: Resources::default(),
            grants: Grants::default(),
            bound: Bound::default(),
            sums: Sums::default(),
        }
    }

    /// Draws handles from another seed.
    pub(crate) fn keyed(&mut self, seed: [u8; 32]) {
        self.draw = Draw::new(seed);
    }

    pub(crate) fn get(&self, number: Number) -> Option<&Reservation> {
        self.all.get(&number).map(|r| &**r)
    }

    pub(crate) fn part(&self, (number, part): Place) -> Option<&Part> {
        self.get(number)?.parts.get(part)
    }

    /// All reservations after this place, in order of creation.
    pub(crate) fn after(&self, after: End<Number>) -> impl Iterator<Item = &Reservation> {
        self.all.range((after, End::Unbounded)).map(|(_, r)| &**r)
    }

    pub(crate) fn numbers(&self) -> Vec<Number> {
        self.all.keys().copied().collect()
    }

    pub(crate) fn number_of(&self, handle: Handle) -> Option<Number> {
        self.handles.get(&handle).copied()
    }

    /// The reservation that an owner created with this key.
    pub(crate) fn of_key(&self, owner: u32, key: &str) -> Option<Number> {
        self.keys.get(&(owner, key.into())).copied()
    }

    /// Reservations that are not over.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    pub(crate) fn owners(&self) -> &Owners {
        &self.owners
    }

    pub(crate) fn owner_of(&self, r: &Reservation) -> &str {
        self.owners.get(r.owner).name()
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    pub(crate) fn sums(&self) -> &Sums {
        &self.sums
    }

    /// The parts of a resource with this binding.
    pub(crate) fn bound(&self, resource: u32, binding: &Binding) -> &[Place] {
        self.bound.get(resource, binding)
    }

    /// The number of an owner's name.
    pub(crate) fn name_owner(&mut self, name: &str) -> u32 {
        self.owners.place(name)
    }

    /// The number of a resource's name.
    pub(crate) fn name_resource(&mut self, name: &str, ledger: &impl Ledger) -> u32 {
        self.resources.place(name, ledger)
    }

    /// The rule and groups of this number.
    pub(crate) fn grant(&self, place: u32) -> &Grant {
        self.grants.get(place)
    }

    /// The number of a grant.
    pub(crate) fn name_grant(&mut self, grant: Grant) -> u32 {
        self.grants.place(grant)
    }

    /// A resource has come, gone, or has another ledger; false if nothing has changed.
    pub(crate) fn set_resource(&mut self, resource: u32, id: Option<ResourceId>) -> bool {
        self.resources.set_id(resource, id)
    }

    /// Sets the shortage of a resource, and returns the shortage before.
    pub(crate) fn set_missing(&mut self, resource: u32, missing: u64) -> u64 {
        self.resources.set_missing(resource, missing)
    }

    /// The number of the next reservation.
    pub(crate) fn next_number(&self) -> Number {
        self.next_number
    }

    /// A handle that no reservation has, even if a driver used a seed twice.
    pub(crate) fn new_handle(&mut self) -> Handle {
        loop {
            let handle = self.draw.handle();
            if !self.handles.contains_key(&handle) {
                return handle;
            }
        }
    }

    /// Puts a reservation into the table, and counts it for its owner, its resources and its rules.
    pub(crate) fn insert(&mut self, r: Reservation) {
        let number = r.number;
        if r.state.is_over() {
            self.finished.insert((r.over, number));
        } else {
            self.live += 1;
            self.owners.count(r.owner, r.state == BookingState::Held);
            for (n, part) in r.parts.iter().enumerate() {
                self.sums.add(r.owner, self.grants.get(part.grant), part, 1);
                self.resources.used(part.resource, number);
                if let Some(binding) = &part.binding {
                    self.bound.insert(part.resource, binding, (number, n));
                }
            }
        }
        self.handles.insert(r.handle, number);
        self.owners.enter(r.owner, number);
        if let Some(mark) = &r.key {
            self.keys.insert((r.owner, mark.key.clone()), number);
        }
        self.next_number = self.next_number.max(number.saturating_add(1));
        self.all.insert(number, Box::new(r));
    }

    /// Takes a reservation that is not over out of all counts and sums, and returns its slots.
    fn uncount(&mut self, number: Number, was: BookingState) -> Vec<Freed> {
        let mut freed = Vec::new();
        let Some(r) = self.all.get_mut(&number) else { return freed };
        self.live -= 1;
        self.owners.uncount(r.owner, was == BookingState::Held);
        for (n, part) in r.parts.iter_mut().enumerate() {
            self.sums.add(r.owner, self.grants.get(part.grant), part, -1);
            self.resources.unused(part.resource, number);
            freed.extend(core::mem::take(&mut part.slots).into_iter().map(|slot| (part.resource, slot)));
            if let Some(binding) = &part.binding {
                self.bound.remove(part.resource, binding, (number, n));
            }
        }
        freed
    }

    /// Finishes a reservation, and returns its slots.
    pub(crate) fn finish(&mut self, number: Number, state: BookingState, today: Time) -> Vec<Freed> {
        let Some(r) = self.all.get_mut(&number).filter(|r| !r.state.is_over()) else { return Vec::new() };
        let was = core::mem::replace(&mut r.state, state);
        r.over = today;
        r.version += 1;
        self.finished.insert((today, number));
        self.uncount(number, was)
    }

    /// Removes a reservation whose creation could not be written, and returns its slots.
    pub(crate) fn unmake(&mut self, number: Number) -> Vec<Freed> {
        let Some(was) = self.get(number).map(|r| r.state) else { return Vec::new() };
        let freed = self.uncount(number, was);
        self.remove(number);
        freed
    }

    /// Removes a reservation that is over: it is not shown any more, and its key may be used again.
    pub(crate) fn forget(&mut self, number: Number) {
        let Some(over) = self.get(number).map(|r| r.over) else { return };
        self.finished.remove(&(over, number));
        self.remove(number);
    }

    fn remove(&mut self, number: Number) {
        let Some(r) = self.all.remove(&number) else { return };
        if r.look != Time::FOREVER {
            self.agenda.remove(&(r.look, number));
        }
        self.handles.remove(&r.handle);
        self.owners.leave(r.owner, number);
        if let Some(mark) = r.key {
            self.keys.remove(&(r.owner, mark.key));
        }
    }

    /// The reservation that has been over for the longest time, if there are more of those than `most`.
    pub(crate) fn surplus(&self, most: usize) -> Option<Number> {
        self.finished.first().filter(|_| self.finished.len() > most).map(|(_, number)| *number)
    }

    /// True if it is over, and has been kept for long enough.
    pub(crate) fn is_outdated(&self, r: &Reservation, today: Time) -> bool {
        r.state.is_over() && r.over.saturating_add(self.retention) <= today && r.busy.is_none()
    }

    /// A batch that creates or changes a reservation is on its way.
    pub(crate) fn set_busy(&mut self, number: Number, batch: BatchId) {
        if let Some(r) = self.all.get_mut(&number) {
            r.busy = Some(batch);
        }
    }

    /// No batch of this reservation is on its way any more.
    pub(crate) fn settle(&mut self, number: Number) {
        if let Some(r) = self.all.get_mut(&number) {
            r.busy = None;
        }
    }

    /// The batch that creates it is written.
    pub(crate) fn born(&mut self, number: Number) {
        if let Some(r) = self.all.get_mut(&number) {
            (r.unborn, r.busy) = (false, None);
        }
    }

    /// The batch that commits it is written.
    pub(crate) fn committed(&mut self, number: Number) {
        self.settle(number);
        let Some(r) = self.all.get_mut(&number) else { return };
        if r.state == BookingState::Held {
            self.owners.committed(r.owner);
        }
        r.state = BookingState::Booked;
        r.version += 1;
    }

    /// The owner is told of its present end.
    pub(crate) fn told(&mut self, number: Number) -> Option<Time> {
        let r = self.all.get_mut(&number)?;
        let end = r.span().1;
        r.notice.as_mut()?.told = end;
        Some(end)
    }

    /// A step in its life that does not finish it; false if its state does not allow it.
    pub(crate) fn step(&mut self, number: Number, step: LifeStep) -> bool {
        let Some(r) = self.all.get_mut(&number) else { return false };
        let next = r.state.after(step).ok().filter(|next| !next.is_over() && r.state.is_booked());
        next.map(|next| r.state = next).is_some()
    }

    /// The batch that binds a part is written.
    pub(crate) fn rebind(&mut self, (number, part): Place, binding: Option<Binding>) {
        self.settle(number);
        let Some(r) = self.all.get_mut(&number) else { return };
        r.version += 1;
        let Some(at) = r.parts.get_mut(part) else { return };
        if let Some(old) = &at.binding {
            self.bound.remove(at.resource, old, (number, part));
        }
        if let Some(new) = &binding {
            self.bound.insert(at.resource, new, (number, part));
        }
        at.binding = binding;
    }

    /// The batch that changes windows and amounts is written: the parts have those of `next`, and no slots.
    pub(crate) fn modified(&mut self, number: Number, next: Vec<Part>, label: Box<str>) -> Vec<Freed> {
        self.settle(number);
        let freed = self.take_slots(number, None);
        let Some(r) = self.all.get_mut(&number) else { return freed };
        (r.label, r.version) = (label, r.version + 1);
        for (part, next) in r.parts.iter_mut().zip(next) {
            self.sums.add(r.owner, self.grants.get(part.grant), part, -1);
            // While it was written its resource may have gone and come back; the part it is for may not have changed.
            (part.steps, part.grant) = (next.steps, next.grant);
            self.sums.add(r.owner, self.grants.get(part.grant), part, 1);
        }
        freed
    }

    /// Takes the slots of a reservation's parts: of one resource, or of all.
    pub(crate) fn take_slots(&mut self, number: Number, of: Option<u32>) -> Vec<Freed> {
        let mut freed = Vec::new();
        let Some(r) = self.all.get_mut(&number) else { return freed };
        for part in r.counted_mut().filter(|part| of.is_none_or(|of| part.resource == of)) {
            freed.extend(core::mem::take(&mut part.slots).into_iter().map(|slot| (part.resource, slot)));
        }
        freed
    }

    /// Gives slots to the parts of a reservation, each that of `slots`.
    pub(crate) fn put_slots(&mut self, number: Number, mut slots: impl FnMut(&Resources, &Part) -> Vec<SlotKey>) {
        let Some(r) = self.all.get_mut(&number).filter(|r| !r.state.is_over()) else { return };
        for part in r.counted_mut() {
            let more = slots(&self.resources, part);
            part.slots.extend(more);
        }
    }

    /// Keeps sums for policy from now on, or not.
    pub(crate) fn keep_sums(&mut self, wanted: bool) {
        if wanted == self.sums.kept() {
            return;
        }
        self.sums.clear(wanted);
        for r in self.all.values().filter(|r| wanted && !r.state.is_over()) {
            r.counted().for_each(|part| self.sums.add(r.owner, self.grants.get(part.grant), part, 1));
        }
    }

    /// Asks something while a reservation's parts do not count in the sums.
    pub(crate) fn without<T>(&mut self, r: &Reservation, ask: impl FnOnce(&Reservations) -> T) -> T {
        r.parts.iter().for_each(|part| self.sums.add(r.owner, self.grants.get(part.grant), part, -1));
        let answer = ask(self);
        r.parts.iter().for_each(|part| self.sums.add(r.owner, self.grants.get(part.grant), part, 1));
        answer
    }

    /// The time of the first check; calendar time.
    pub(crate) fn next_check(&self) -> Option<Time> {
        self.agenda.first().map(|(at, _)| *at)
    }

    /// The next reservation whose check is due.
    pub(crate) fn due(&mut self, today: Time) -> Option<Number> {
        let (_, number) = self.agenda.first().copied().filter(|(at, _)| *at <= today)?;
        self.agenda.pop_first();
        if let Some(r) = self.all.get_mut(&number) {
            r.look = Time::FOREVER;
        }
        Some(number)
    }

    /// Puts the next check of a reservation on the agenda.
    pub(crate) fn plan(&mut self, number: Number, today: Time) {
        let Some(r) = self.all.get_mut(&number) else { return };
        let next = next_look(r, today, self.retention).unwrap_or(Time::FOREVER);
        // While a change is on its way only the edges count; what the state missed follows when it is written.
        let at = if next <= today { r.next_edge(today).unwrap_or(Time::FOREVER) } else { next };
        if at == r.look {
            return;
        }
        if r.look != Time::FOREVER {
            self.agenda.remove(&(r.look, number));
        }
        r.look = at;
        if at != Time::FOREVER {
            self.agenda.insert((at, number));
        }
    }
}

/// The time of the next look at a reservation; calendar time.
fn next_look(r: &Reservation, today: Time, retention: Span) -> Option<Time> {
    let at = if r.state.is_over() {
        r.over.saturating_add(retention)
    } else if r.state == BookingState::Held {
        r.hold_until.min(r.span().1)
    } else if r.state == BookingState::Promised {
        r.span().1
    } else {
        r.notice_at().into_iter().chain(r.next_edge(today)).min()?
    };
    (at != Time::FOREVER).then_some(at)
}
