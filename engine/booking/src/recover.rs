//! Recovery: promises are counted again after a start, the return of a resource, or a change of the clock.

use crate::broker::Bookings;
use crate::grants::accounts;
use crate::io::{CalendarOffset, Event, EventKind, JournalRecord, Output, RecordTable};
use crate::journal::key_of;
use crate::record::Stored;
use crate::reservation::{Number, Part, Reservation};
use alloc::boxed::Box;
use alloc::vec::Vec;
use terms::book::ResourceId;
use terms::ports::Ledger;
use terms::ports::book::Demand;
use terms::{Span, Time};

/// The change of calendar time against the agent's clock, in nanoseconds, above which the ledger is written
/// anew. A smaller one does not matter to a window's edges.
const MOVED: u64 = Span::from_millis(50).as_nanos();
/// An amount beyond every resource: sums under it cannot overflow.
const MOST: u64 = 1 << 62;
/// Most reservations that have an event of their own when their resource has less than was promised.
const TOLD_SHORT: usize = 1_024;

impl Bookings {
    /// Reads a record of an earlier run.
    pub(crate) fn recovering<L: Ledger>(&mut self, ledger: &L, record: JournalRecord) {
        let JournalRecord { table, key, value: Some(value) } = record else { return };
        let bad = match table {
            RecordTable::Reservation => match Stored::decode(&value) {
                Ok(stored) if key != key_of(stored.number) && key != stored.handle.0 => Some("its key is another's"),
                Ok(stored) if self.handles.contains_key(&stored.handle) => Some("it comes twice"),
                Ok(stored) if !self.is_possible(&stored) => Some("no book can have written it"),
                Ok(stored) => {
                    if key == stored.handle.0 {
                        self.doomed.push(JournalRecord { table, key: key.clone(), value: None });
                    }
                    self.restore(ledger, stored);
                    None
                }
                Err(corrupt) => Some(corrupt.0),
            },
            RecordTable::Event => match Event::decode(&value) {
                Ok(event) if event.seq.to_be_bytes()[..] != key[..] => Some("its key is another's"),
                Ok(event) if event.seq == u64::MAX => Some("no book can have written it"),
                Ok(event) => {
                    self.next_seq = self.next_seq.max(event.seq + 1);
                    self.events.push_back(event);
                    None
                }
                Err(corrupt) => Some(corrupt.0),
            },
            RecordTable::Audit => None,
        };
        if let Some(what) = bad {
            self.say(Output::Corrupt { table, key, what });
        }
    }

    /// True if a record can stand beside those that came before: its number and its key are its own, and its
    /// owner's sums are at most `MOST`.
    fn is_possible(&self, stored: &Stored) -> bool {
        let owner = self.owners.find(&stored.owner);
        let keyed = stored
            .key
            .as_ref()
            .zip(owner)
            .is_some_and(|(mark, owner)| self.keys.contains_key(&(owner, mark.key.clone())));
        let most = stored.parts.iter().filter(|part| part.background.is_none()).fold(0_u64, |sum, part| {
            let place = self.resources.find(&part.resource);
            let peak = part.steps.iter().map(|step| step.amount).max().unwrap_or(0);
            let together = owner.map_or(peak, |owner| self.owners.get(owner).together(place, &part.steps));
            sum.saturating_add(together)
        });
        let of_rules = stored.parts.iter().filter(|part| part.background.is_none()).flat_map(|part| {
            let place = self.resources.find(&part.resource);
            let sum =
                move |(rule, group): (Box<str>, Box<str>)| self.grants.together(&rule, &group, place, &part.steps);
            accounts(&part.grant).map(sum)
        });
        // Parts of one reservation on one resource come together at most so often.
        let of_rules = of_rules.fold(0_u64, u64::saturating_add);
        let most = most.max(of_rules);
        let free = stored.number < u64::MAX && !self.all.contains_key(&stored.number);
        free && !keyed && (stored.state.is_over() || most <= MOST)
    }

    fn restore<L: Ledger>(&mut self, ledger: &L, stored: Stored) {
        let parts = stored.parts.into_iter().map(|part| Part {
            resource: self.resources.place(&part.resource, ledger),
            steps: part.steps,
            slots: Vec::new(),
            background: part.background,
            shape: part.shape,
            binding: part.binding,
            grant: self.grants.place(part.grant),
        });
        let parts: Vec<Part> = parts.collect();
        let r = Reservation {
            handle: stored.handle,
            number: stored.number,
            owner: self.owners.place(&stored.owner),
            label: stored.label.into_boxed_str(),
            group: stored.group.into_boxed_str(),
            members: stored.members.into(),
            key: stored.key.map(Box::new),
            created: stored.created,
            over: stored.over,
            version: stored.version,
            state: stored.state,
            hold_until: stored.hold_until,
            parts,
            busy: None,
            look: Time::FOREVER,
            unborn: false,
        };
        self.next_number = self.next_number.max(r.number + 1);
        self.count(r);
    }

    /// Ends the reading: counts everything in order of creation, and applies the changes by time since then.
    pub(crate) fn recovered<L: Ledger>(&mut self, ledger: &mut L) {
        self.started = true;
        let old = core::mem::take(&mut self.doomed);
        self.move_records(old);
        self.events.make_contiguous().sort_unstable_by_key(|event| event.seq);
        self.lost_events = self.events.front().is_some_and(|event| event.seq > 1);
        while self.events.len() > self.config.events {
            let Some(old) = self.events.pop_front() else { break };
            self.doomed.push(JournalRecord {
                table: RecordTable::Event,
                key: old.seq.to_be_bytes().to_vec(),
                value: None,
            });
        }
        let numbers: Vec<Number> = self.all.keys().copied().collect();
        for &number in &numbers {
            self.place_all(ledger, number);
        }
        for number in numbers {
            self.follow(ledger, number);
        }
    }

    /// Counts a reservation's promises in the ledger; none of them is counted yet.
    fn place_all<L: Ledger>(&mut self, ledger: &mut L, number: Number) {
        let Some(mut r) = self.all.remove(&number) else { return };
        if !r.state.is_over() {
            r.parts.iter_mut().for_each(|part| self.place_slots(ledger, part));
        }
        self.all.insert(number, r);
    }

    /// Counts a part that has no slots. It was promised, so it is counted even if it does not fit.
    pub(crate) fn place_slots<L: Ledger>(&self, ledger: &mut L, part: &mut Part) {
        let named = self.resources.get(part.resource);
        let (Some(id), None) = (named.id, part.background) else { return };
        let (today, packet) = (self.today(), crate::ask::packet(named.kind, part.shape.packet));
        for step in part.steps.iter().filter(|step| step.window.end() > today) {
            let window = self.clock.agents_window(step.window).unwrap_or(step.window);
            part.slots.extend(ledger.adopt(self.now, id, window, Demand { amount: step.amount, packet }));
        }
    }

    /// Sets the difference between calendar time and the agent's clock.
    pub(crate) fn set_clock<L: Ledger>(&mut self, ledger: &mut L, clock: CalendarOffset) {
        self.clock.uncertainty = clock.uncertainty;
        if self.started && clock.ahead_ns.abs_diff(self.clock.ahead_ns) <= MOVED {
            return;
        }
        self.clock.ahead_ns = clock.ahead_ns;
        if !self.started {
            return;
        }
        let numbers: Vec<Number> = self.all.keys().copied().collect();
        for number in &numbers {
            let Some(mut r) = self.all.remove(number) else { continue };
            for part in &mut r.parts {
                for slot in core::mem::take(&mut part.slots) {
                    self.give_back(ledger, part.resource, slot);
                }
            }
            self.all.insert(*number, r);
        }
        for &number in &numbers {
            self.place_all(ledger, number);
        }
        // What lies ahead again is looked at again.
        for number in numbers {
            self.follow(ledger, number);
        }
    }

    /// A resource has come, gone, or changed.
    pub(crate) fn resource_changed<L: Ledger>(&mut self, ledger: &mut L, id: ResourceId) {
        let place = match ledger.offer(id) {
            Some(offer) => self.resources.find(&offer.name),
            None => self.resources.iter().find(|(_, named)| named.id == Some(id)).map(|(place, _)| place),
        };
        let Some(place) = place else { return };
        let is = ledger.resource(&self.resources.get(place).name);
        if is != self.resources.get(place).id {
            self.resources.get_mut(place).id = is;
            self.replace(ledger, place);
        }
        self.force.touched.insert(place);
        self.tell_short(ledger, place);
    }

    /// Handles a resource with another ledger, or none: makes its slots anew, and issues its orders again.
    fn replace<L: Ledger>(&mut self, ledger: &mut L, place: u32) {
        let users: Vec<Number> = self.resources.get(place).users.iter().copied().collect();
        for number in users {
            let Some(mut r) = self.all.remove(&number) else { continue };
            for part in r.parts.iter_mut().filter(|part| part.resource == place) {
                part.slots.clear();
                self.place_slots(ledger, part);
            }
            let parts = r.parts.len();
            self.all.insert(number, r);
            (0..parts).for_each(|part| self.force.untold(place, (number, part)));
        }
    }

    /// Reports a shortage to the reservations whose window is open at its first instant (FAULTS.md T4).
    fn tell_short<L: Ledger>(&mut self, ledger: &L, place: u32) {
        let named = self.resources.get(place);
        let missing = named.id.and_then(|id| ledger.missing(id));
        let worst = missing.map_or(0, |missing| missing.worst);
        let (kind, before) = (named.kind, named.missing);
        self.resources.get_mut(place).missing = worst;
        let Some(missing) = missing.filter(|_| worst > before) else { return };
        let first = self.clock.calendar(missing.first);
        let users: Vec<Number> = self.resources.get(place).users.iter().copied().collect();
        let mut told = 0;
        for number in users {
            let Some(r) = self.all.get(&number) else { continue };
            let concerned =
                |part: &&Part| part.resource == place && part.background.is_none() && part.amount(first) > 0;
            let Some(part) = r.parts.iter().position(|part| concerned(&part)) else { continue };
            self.fact(number, EventKind::Short { part, kind, first, missing: worst });
            told += 1;
            if told >= TOLD_SHORT {
                return;
            }
        }
    }
}
