//! `modify`: amounts and windows change while the reservation runs; if the change does not fit, the
//! reservation stays as it was (FAULTS.md T5, T6).
//!
//! Until the change is written, the ledger counts the greater of old and new at every instant, so that there
//! is room for either.

use super::Outcome;
use crate::admission::{OtherChanges, check_text, packet, permitted_anew, rules, rules_of};
use crate::background::Background;
use crate::calendar::Calendar;
use crate::config::Config;
use crate::io::{BookingChange, EventKind};
use crate::journal::{Change, Decided};
use crate::record::AuditedAsk;
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Freed, Number, Part, Reservation, Reservations, Resources, growth};
use crate::slots;
use crate::state::LifeStep;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use terms::book::{Caller, RateStep};
use terms::ports::book::NoRoom;
use terms::ports::{Ledger, PolicyPort};
use terms::{Time, Window};

/// The parts of the bookings that a change concerns.
pub(crate) struct Modify<'a> {
    pub table: &'a mut Reservations,
    pub background: &'a mut Background,
    pub config: &'a Config,
    pub calendar: Calendar,
    /// True if the growth is held until a coordinator decides; false: it is booked.
    pub holds: bool,
}

impl Modify<'_> {
    pub(crate) fn modify<'c, W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        number: Number,
        caller: &'c Caller,
        change: &BookingChange,
    ) -> Outcome<'c> {
        let Some(r) = self.table.get(number) else { return Outcome::unknown() };
        if r.state.after(LifeStep::Modify).is_err() {
            return Outcome::no(Refusal::plain(RefusalReason::WrongState(r.state)));
        }
        let decided = Decided::new(caller, "modify", Some(r.handle));
        let old = r.clone();
        let mut next = match changed(self.table.resources(), self.config, self.calendar.today(), &old, change) {
            Ok(next) => next,
            Err(refusal) => return Outcome::no(refusal),
        };
        if next.parts == old.parts && next.label == old.label {
            return Outcome::Unchanged;
        }
        let decided = decided.asking(AuditedAsk::changed(self.table.resources(), &old.parts, &next.parts));
        let grown: Vec<Vec<RateStep>> =
            old.parts.iter().zip(&next.parts).map(|(o, n)| growth(&o.steps, &n.steps)).collect();
        let granted = self.may_grow(world, caller, &old, &mut next, &grown);
        match granted.and_then(|rules| Ok((rules, self.grow(world, &old, &grown)?))) {
            Ok((rules, grown)) => {
                let (parts, label) = (next.parts.clone(), next.label.clone());
                let change = Change::Modify { number, next: parts, label, grown };
                Outcome::change(next, change, EventKind::Modified, decided.by(rules))
            }
            Err(refusal) => {
                let decided = decided.by(rules_of(&refusal));
                let others = OtherChanges::new(world, self.config, self.calendar, self.table.resources());
                Outcome::Refused(others.offer(&old, &next, refusal), decided)
            }
        }
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
        self.calendar.is_certain(self.config.uncertainty)?;
        let granted = permitted_anew(self.table, policy, self.calendar, caller, old, next)?;
        // Who changes what is another's does not take it out of the sums that the other's rule limits.
        if *self.table.owner_of(old) == *caller.name {
            for (part, permission) in next.parts.iter_mut().zip(&granted) {
                part.grant = self.table.name_grant(permission.clone().into_grant());
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
    ) -> Result<Vec<Freed>, Refusal> {
        let resources = self.table.resources();
        let today = self.calendar.today();
        let mut booked: Vec<Freed> = Vec::new();
        for (n, (part, steps)) in old.parts.iter().zip(grown).enumerate().filter(|(_, (p, _))| p.background.is_none()) {
            let resource = resources.get(part.resource);
            let packet = packet(resource.kind(), part.shape.packet);
            for step in steps.iter().filter(|step| step.window.end() > today) {
                let slot = match resource.id() {
                    Some(id) if self.holds => slots::hold(ledger, self.calendar, id, packet, step),
                    Some(id) => slots::book(ledger, self.calendar, id, packet, step),
                    None => Err(NoRoom::Gone),
                };
                match slot {
                    Ok(slot) => booked.push((part.resource, slot)),
                    Err(why) => {
                        slots::give_back(ledger, resources, self.background, self.calendar.now(), booked);
                        return Err(cannot_grow(resources, n, part, step, why));
                    }
                }
            }
        }
        Ok(booked)
    }
}

/// The reservation after the change, if the change makes sense.
fn changed(
    resources: &Resources,
    config: &Config,
    today: Time,
    old: &Reservation,
    change: &BookingChange,
) -> Result<Reservation, Refusal> {
    let mut next = old.clone();
    next.version += 1;
    for &(n, kind, amount) in &change.amounts {
        let no = |text: &str| Err(Refusal::meaningless(Some(n), text));
        let Some(part) = next.parts.get_mut(n) else { return no("there is no such part") };
        if resources.get(part.resource).kind().written_as() != kind.written_as() {
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
    if change.without.len() > config.steps {
        return Err(Refusal::meaningless(None, "more windows than a reservation may have"));
    }
    give_back_windows(&mut next, &change.without, today)?;
    for (n, part) in next.parts.iter_mut().enumerate() {
        new_window(n, part, change, today, today.saturating_add(config.horizon))?;
    }
    if let Some(label) = &change.label {
        check_text("label", label, config)?;
        next.label = label.as_str().into();
    }
    Ok(next)
}

/// Takes the windows out that the change gives back.
fn give_back_windows(next: &mut Reservation, windows: &[Window], today: Time) -> Result<(), Refusal> {
    let is_given_back = |step: &RateStep| windows.iter().any(|window| window.overlaps(&step.window));
    let is_over = |step: &RateStep| step.window.end() <= today;
    let steps = || next.parts.iter().flat_map(|part| part.steps.iter());
    let no = |text: &str| Err(Refusal::meaningless(None, text));
    for window in windows {
        let given_back = || steps().filter(|step| window.overlaps(&step.window));
        match given_back().count() {
            0 => return no("none of its windows is at that time"),
            _ if given_back().all(is_over) => return no("that window is over already"),
            _ => {}
        }
    }
    if !windows.is_empty() && steps().all(|step| is_over(step) || is_given_back(step)) {
        return no("no window would be left: cancel it instead");
    }
    for part in &mut next.parts {
        part.steps.retain_mut(|step| {
            if is_over(step) || !is_given_back(step) {
                return true;
            }
            let left = Window::new(step.window.start(), today);
            left.map(|left| step.window = left).is_ok()
        });
        if part.steps.is_empty() {
            return no("one of its parts would have no window left: cancel it instead");
        }
    }
    Ok(())
}

fn cannot_grow(resources: &Resources, n: usize, part: &Part, step: &RateStep, why: NoRoom) -> Refusal {
    let resource = resources.get(part.resource).name().to_string();
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
