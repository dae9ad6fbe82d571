//! The decision about a promise: everything that can be refused is decided here, as for the plain call.

use super::PrepareAsk;
use crate::admission::{permitted_anew, rules, rules_of};
use crate::background::Background;
use crate::calendar::Calendar;
use crate::calls::create::{Earlier, Request};
use crate::calls::modify::Modify;
use crate::calls::{Outcome, Proposal, bind};
use crate::config::Config;
use crate::io::EventKind;
use crate::journal::{Change, Decided};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Freed, Number, Part, Prepared, Reservation, Reservations, growth};
use crate::state::LifeStep;
use alloc::boxed::Box;
use alloc::vec::Vec;
use terms::Time;
use terms::book::Caller;
use terms::ports::{Ledger, PolicyPort};

/// The name of the call in the audit.
const VERB: &str = "prepare";

/// A change that can be promised. What it needs of the ledger is held already.
pub(crate) struct Preparation<'c> {
    pub number: Number,
    pub change: Prepared,
    /// The reservation as it is written with the promise; `None`: as it is in the table.
    pub next: Option<Box<Reservation>>,
    pub events: Vec<EventKind>,
    pub decided: Decided<'c>,
    /// The end of the last window that is promised; calendar time.
    pub until: Time,
}

/// The parts of the bookings that a preparation concerns.
pub(crate) struct Preparing<'a> {
    pub table: &'a mut Reservations,
    pub background: &'a mut Background,
    pub config: &'a Config,
    pub calendar: Calendar,
}

/// The reason why nothing was prepared.
pub(crate) enum Unprepared<'c> {
    /// It is refused; a decision is for the audit.
    Refused(Box<(Refusal, Option<Decided<'c>>)>),
    /// A reservation with this key is on its way to the disk: ask again then.
    Later(Number),
}

impl Preparing<'_> {
    /// Decides about a change, and holds what it needs.
    ///
    /// # Errors
    /// [`Unprepared`]: nothing has changed.
    pub(crate) fn prepare<'c, W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        caller: &'c Caller,
        ask: &'c PrepareAsk,
        number: Option<Number>,
    ) -> Result<Preparation<'c>, Unprepared<'c>> {
        match (ask, number) {
            (PrepareAsk::Create { ask, key }, _) => self.create(world, Request::promised(caller, ask, key)),
            (PrepareAsk::Hold(_), Some(number)) => self.hold(world, caller, number),
            (PrepareAsk::Modify { change, .. }, Some(number)) => {
                let (table, background) = (&mut *self.table, &mut *self.background);
                let mut modify =
                    Modify { table, background, config: self.config, calendar: self.calendar, holds: true };
                let outcome = modify.modify(world, number, caller, change);
                self.prepared(number, outcome, || Decided::new(caller, VERB, None))
            }
            (PrepareAsk::Bind { part, binding, .. }, Some(number)) => {
                let outcome = bind::bind(self.table, world, number, caller, *part, binding.clone());
                let mut prepared = self.prepared(number, outcome, || Decided::new(caller, VERB, None))?;
                prepared.change = Prepared::Bind { part: *part, binding: binding.clone() };
                Ok(prepared)
            }
            (_, None) => Err(refused(RefusalReason::UnknownHandle)),
        }
    }

    fn create<'c, W: Ledger + PolicyPort>(
        &mut self,
        world: &mut W,
        request: Request<'c>,
    ) -> Result<Preparation<'c>, Unprepared<'c>> {
        match request.earlier(self.table) {
            Some(Earlier::Unborn(number)) => return Err(Unprepared::Later(number)),
            Some(Earlier::Refused(refusal)) => return Err(no(refusal, None)),
            // Another transaction or a plain call has made it: to join both would be one reservation with two lives.
            Some(Earlier::Same(number)) => {
                let r = self.table.get(number);
                let why = r.and_then(Reservation::undecided).unwrap_or(RefusalReason::KeyUsed);
                return Err(refused(why));
            }
            None => {}
        }
        let number = self.table.next_number();
        let outcome = request.create(self.table, world, self.config, self.calendar);
        let Proposal { next, events, decided, .. } = proposal(outcome)?;
        let until = self.table.get(number).map_or(Time::FOREVER, |r| r.span().1);
        Ok(Preparation { number, change: Prepared::Create, next, events, decided: decided.named(VERB), until })
    }

    /// Policy is asked anew about a hold: it may have changed since (FAULTS.md T13).
    fn hold<'c, P: PolicyPort>(
        &mut self,
        policy: &P,
        caller: &'c Caller,
        number: Number,
    ) -> Result<Preparation<'c>, Unprepared<'c>> {
        let Some(old) = self.table.get(number).cloned() else { return Err(refused(RefusalReason::UnknownHandle)) };
        let Ok(state) = old.state.after(LifeStep::Promise) else {
            return Err(refused(RefusalReason::WrongState(old.state)));
        };
        let decided = Decided::new(caller, VERB, Some(old.handle));
        self.calendar.is_certain(self.config.uncertainty).map_err(|refusal| no(refusal, None))?;
        match permitted_anew(self.table, policy, self.calendar, caller, &old, &old) {
            Ok(granted) => {
                let (until, mut next) = (old.span().1, Box::new(old));
                (next.state, next.version) = (state, next.version + 1);
                let (change, decided) = (Prepared::Hold, decided.by(rules(&granted)));
                Ok(Preparation { number, change, next: Some(next), events: Vec::new(), decided, until })
            }
            Err(refusal) => {
                let decided = decided.by(rules_of(&refusal));
                Err(no(refusal, Some(decided)))
            }
        }
    }

    /// The preparation of a change of a reservation that stays as it is until the decision.
    fn prepared<'c>(
        &self,
        number: Number,
        outcome: Outcome<'c>,
        plain: impl FnOnce() -> Decided<'c>,
    ) -> Result<Preparation<'c>, Unprepared<'c>> {
        let Some(r) = self.table.get(number) else { return Err(refused(RefusalReason::UnknownHandle)) };
        let (mut until, events) = (r.span().1, Vec::new());
        // A change that changes nothing is decided like any other.
        if let Outcome::Unchanged = outcome {
            let change = Prepared::Modify { next: r.parts.clone(), label: r.label.clone(), grown: Vec::new() };
            return Ok(Preparation { number, change, next: None, events, decided: plain().about(r.handle), until });
        }
        let Proposal { change, decided, .. } = proposal(outcome)?;
        let change = match change {
            Change::Modify { next, label, grown, .. } => {
                let last = next.iter().filter_map(|part| part.steps.last()).map(|step| step.window.end()).max();
                until = until.max(last.unwrap_or(until));
                Prepared::Modify { grown: grown_parts(r, &next, grown), next, label }
            }
            Change::Bind { part, binding, .. } => Prepared::Bind { part, binding },
            _ => return Err(refused(RefusalReason::UnknownHandle)),
        };
        Ok(Preparation { number, change, next: None, events, decided: decided.named(VERB), until })
    }
}

/// The pieces of each part that exceed the old ones; each resource's slots are with one of them.
pub(crate) fn grown_parts(old: &Reservation, next: &[Part], slots: Vec<Freed>) -> Vec<Part> {
    let each = old.parts.iter().zip(next);
    let piece = |(old, next): (&Part, &Part)| Part {
        steps: growth(&old.steps, &next.steps),
        slots: Vec::new(),
        binding: None,
        ..next.clone()
    };
    let mut grown: Vec<Part> = each.map(piece).collect();
    for (resource, slot) in slots {
        if let Some(part) = grown.iter_mut().find(|part| part.resource == resource && part.background.is_none()) {
            part.slots.push(slot);
        }
    }
    grown
}

fn refused<'c>(why: RefusalReason) -> Unprepared<'c> {
    no(Refusal::plain(why), None)
}

fn no<'c>(refusal: Refusal, decided: Option<Decided<'c>>) -> Unprepared<'c> {
    Unprepared::Refused(Box::new((refusal, decided)))
}

fn proposal(outcome: Outcome<'_>) -> Result<Proposal<'_>, Unprepared<'_>> {
    match outcome {
        Outcome::Change(proposal) => Ok(proposal),
        Outcome::Refused(refusal, decided) => Err(no(refusal, Some(decided.named(VERB)))),
        Outcome::Answer(Err(refusal)) => Err(no(refusal, None)),
        Outcome::Answer(Ok(_)) | Outcome::Unchanged => Err(refused(RefusalReason::UnknownHandle)),
    }
}
