//! `modify`: amounts and windows change while the reservation runs; if the change does not fit, the
//! reservation stays as it was (FAULTS.md T5, T6).
//!
//! Until the change is written, the ledger counts the greater of old and new at every instant, so that there
//! is room for either.

use super::permit::{rules, rules_of};
use crate::ask::{check_text, packet};
use crate::broker::Bookings;
use crate::io::{BookingChange, CallId, CallResult, EventKind};
use crate::journal::{Decided, Written};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservation::{Number, Part, Reservation, growth};
use crate::state::LifeStep;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use terms::book::{Caller, RateStep};
use terms::ports::book::{Demand, NoRoom, SlotKey};
use terms::ports::{Ledger, PolicyPort};
use terms::{Time, Window};

impl Bookings {
    pub(crate) fn modify<W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        id: CallId,
        number: Number,
        caller: &Caller,
        change: BookingChange,
    ) {
        let Some(r) = self.all.get(&number) else { return };
        if r.state.after(LifeStep::Modify).is_err() {
            return self.reply(id, Err(Refusal::plain(RefusalReason::WrongState(r.state))));
        }
        let mut decided = Decided { caller, verb: "modify", handle: Some(r.handle), rules: Vec::new() };
        let old = (**r).clone();
        let mut next = match self.changed(&old, &change) {
            Ok(next) => next,
            Err(refusal) => return self.reply(id, Err(refusal)),
        };
        if next.parts == old.parts && next.label == old.label {
            let view = self.view(world, number).map(CallResult::Reservation);
            return self.reply(id, view.ok_or_else(|| Refusal::plain(RefusalReason::UnknownHandle)));
        }
        let grown: Vec<Vec<RateStep>> =
            old.parts.iter().zip(&next.parts).map(|(o, n)| growth(&o.steps, &n.steps)).collect();
        let granted = self.may_grow(world, caller, &old, &mut next, &grown);
        match granted.and_then(|rules| Ok((rules, self.grow(world, &old, &grown)?))) {
            Ok((rules, slots)) => {
                decided.rules = rules;
                let (parts, label) = (next.parts.clone(), next.label.clone());
                let change = Written::Modify { number, next: parts, label, grown: slots };
                self.write(&next, change, &[EventKind::Modified], id, &decided);
            }
            Err(refusal) => {
                decided.rules = rules_of(&refusal);
                let refusal = self.with_other_changes(world, &old, &next, refusal);
                self.refuse(id, refusal, &decided);
            }
        }
    }

    /// The reservation after the change, if the change makes sense.
    fn changed(&self, old: &Reservation, change: &BookingChange) -> Result<Reservation, Refusal> {
        let today = self.today();
        let mut next = old.clone();
        next.version += 1;
        for &(n, kind, amount) in &change.amounts {
            let no = |text: &str| Err(Refusal::meaningless(Some(n), text));
            let Some(part) = next.parts.get_mut(n) else { return no("there is no such part") };
            if self.resources.get(part.resource).kind != kind {
                return no("that is not what this part is counted in");
            }
            if amount == 0 || amount > 1 << 62 {
                return no("an amount of zero, or more than any resource has");
            }
            if part.background.is_some_and(|background| background.floor > amount) {
                return no("the floor is above the most that is wanted");
            }
            part.steps.iter_mut().for_each(|step| step.amount = amount);
        }
        for (n, part) in next.parts.iter_mut().enumerate() {
            new_window(n, part, change, today, today.saturating_add(self.config.horizon))?;
        }
        if let Some(label) = &change.label {
            check_text("label", label, &self.config)?;
            next.label = label.as_str().into();
        }
        Ok(next)
    }

    /// Asks policy about a change. One that only shrinks needs no permission, if the label stays.
    fn may_grow<P: PolicyPort>(
        &mut self,
        policy: &P,
        caller: &Caller,
        old: &Reservation,
        next: &mut Reservation,
        grown: &[Vec<RateStep>],
    ) -> Result<Vec<Box<str>>, Refusal> {
        if grown.iter().all(|steps| steps.is_empty()) && old.label == next.label {
            return Ok(Vec::new());
        }
        self.clock_is_good()?;
        let granted = self.permitted_anew(policy, caller, old.owner, old, next)?;
        // Who changes what is another's does not take it out of the sums that the other's rule limits.
        if *self.owners.get(old.owner).name == *caller.name {
            for (part, grant) in next.parts.iter_mut().zip(&granted) {
                part.grant = self.grants.place(grant.clone());
            }
        }
        Ok(rules(&granted))
    }

    /// Books the growth in the ledger, or nothing.
    fn grow<L: Ledger>(
        &mut self,
        ledger: &mut L,
        old: &Reservation,
        grown: &[Vec<RateStep>],
    ) -> Result<Vec<(u32, SlotKey)>, Refusal> {
        let today = self.today();
        let mut slots: Vec<(u32, SlotKey)> = Vec::new();
        for (n, (part, steps)) in old.parts.iter().zip(grown).enumerate().filter(|(_, (p, _))| p.background.is_none()) {
            let named = self.resources.get(part.resource);
            let (kind, id) = (named.kind, named.id);
            for step in steps.iter().filter(|step| step.window.end() > today) {
                let want = Demand { amount: step.amount, packet: packet(kind, part.shape.packet) };
                let window = self.clock.agents_window(step.window).unwrap_or(step.window);
                let booked = match id {
                    Some(id) => ledger.book(self.now, id, window, want),
                    None => Err(NoRoom::Gone),
                };
                match booked {
                    Ok(slot) => slots.push((part.resource, slot)),
                    Err(why) => {
                        slots.into_iter().for_each(|(resource, slot)| self.give_back(ledger, resource, slot));
                        return Err(self.cannot_grow(n, part, step, why));
                    }
                }
            }
        }
        Ok(slots)
    }

    fn cannot_grow(&self, n: usize, part: &Part, step: &RateStep, why: NoRoom) -> Refusal {
        let resource = self.resources.get(part.resource).name.to_string();
        Refusal::plain(match why {
            NoRoom::Full { free } => {
                // The part's own amount counts as free for it.
                let had = terms::book::amount_at(&part.steps, step.window.start());
                let (asked, free) = (had.saturating_add(step.amount), had.saturating_add(free));
                RefusalReason::NoRoom { part: n, resource, asked, free, window: step.window }
            }
            NoRoom::Limit { limit } => RefusalReason::Limit { what: "slots of a resource", limit },
            NoRoom::Gone => RefusalReason::NoResource { part: n, name: resource },
            NoRoom::Meaningless(misuse) => return Refusal::meaningless(Some(n), misuse.to_string()),
        })
    }

    /// Applies a written change: the ledger counts the new amounts only.
    pub(crate) fn modified<L: Ledger>(
        &mut self,
        ledger: &mut L,
        number: Number,
        next: Vec<Part>,
        label: Box<str>,
        grown: Vec<(u32, SlotKey)>,
    ) {
        self.settled(number);
        grown.into_iter().for_each(|(resource, slot)| self.give_back(ledger, resource, slot));
        let Some(mut r) = self.all.remove(&number) else { return };
        (r.label, r.version) = (label, r.version + 1);
        for (part, next) in r.parts.iter_mut().zip(next) {
            for slot in core::mem::take(&mut part.slots) {
                self.give_back(ledger, part.resource, slot);
            }
            self.sum(r.owner, part, -1);
            // While it was written its resource may have gone and come back; the part it is for may not have changed.
            (part.steps, part.grant) = (next.steps, next.grant);
            self.sum(r.owner, part, 1);
            self.place_slots(ledger, part);
        }
        self.all.insert(number, r);
    }
}

/// Changes the part's first start and last end, if the change names them.
fn new_window(n: usize, part: &mut Part, change: &BookingChange, today: Time, horizon: Time) -> Result<(), Refusal> {
    let no = |text: &str| Err(Refusal::meaningless(Some(n), text));
    let too_far = |t: Time| t != Time::FOREVER && t > horizon;
    // One window may move as a whole, past where it was.
    let (mut moved, moves) = (None, part.steps.len() == 1 && change.end.is_some());
    if let Some(start) = change.start
        && let Some(first) = part.steps.first_mut()
    {
        let begun = first.window.start() <= today;
        let start = start.max(today);
        match () {
            () if begun && start <= today => {}
            () if begun => return no("it has begun: its start cannot change any more"),
            () if too_far(start) => return no("that is further ahead than reservations are taken"),
            () if moves => moved = Some(start),
            () => match Window::new(start, first.window.end()) {
                Ok(window) => first.window = window,
                Err(_) => return no("its first window would be empty: it must end after it starts"),
            },
        }
    }
    if let Some(end) = change.end
        && let Some(last) = part.steps.last_mut()
    {
        if end <= today {
            return no("that end is over already: cancel it instead");
        }
        if too_far(end) {
            return no("that is further ahead than reservations are taken");
        }
        match Window::new(moved.unwrap_or(last.window.start()), end) {
            Ok(window) => last.window = window,
            Err(_) => return no("its last window would be empty: it must end after it starts"),
        }
    }
    Ok(())
}
