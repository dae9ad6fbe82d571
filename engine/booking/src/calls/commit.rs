//! `commit`: a hold becomes a booking. Policy is asked again, because it may have changed since (FAULTS.md
//! T13). It is not asked if a coordinator has decided over several agents: if one member refused then, the
//! others would have booked already.

use super::Outcome;
use crate::admission::{permitted_anew, rules, rules_of};
use crate::calendar::Calendar;
use crate::config::Config;
use crate::io::EventKind;
use crate::journal::{Change, Decided};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::{Number, Reservations};
use crate::state::LifeStep;
use terms::book::Caller;
use terms::ports::PolicyPort;

/// In the audit, in place of a rule: the group's coordinator decided.
const DECIDED: &str = "(decided when all held)";

/// Commits a reservation, if policy still allows it.
pub(crate) fn commit<'a, P: PolicyPort>(
    table: &mut Reservations,
    policy: &P,
    (config, calendar): (&Config, Calendar),
    number: Number,
    caller: &'a Caller,
) -> Outcome<'a> {
    let Some(r) = table.get(number) else { return Outcome::unknown() };
    if r.state.after(LifeStep::Commit).is_err() {
        return again(table, number);
    }
    let decided = Decided::new(caller, "commit", Some(r.handle));
    if let Err(refusal) = calendar.is_certain(config.uncertainty) {
        return Outcome::no(refusal);
    }
    let old = r.clone();
    match permitted_anew(table, policy, calendar, caller, &old, &old) {
        Ok(granted) => booked(table, number, decided.by(rules(&granted))),
        Err(refusal) => {
            let decided = decided.by(rules_of(&refusal));
            Outcome::Refused(refusal, decided)
        }
    }
}

/// Commits a reservation as its coordinator decided.
pub(crate) fn decided<'a>(table: &Reservations, number: Number, caller: &'a Caller) -> Outcome<'a> {
    let Some(r) = table.get(number) else { return Outcome::unknown() };
    if r.state.after(LifeStep::Commit).is_err() {
        return again(table, number);
    }
    booked(table, number, Decided::new(caller, "commit", Some(r.handle)).by([DECIDED.into()]))
}

/// The answer to a commit of a reservation that is not held.
fn again<'a>(table: &Reservations, number: Number) -> Outcome<'a> {
    match table.get(number) {
        // The same again: it is booked.
        Some(r) if !r.state.is_over() => Outcome::Unchanged,
        Some(r) => Outcome::no(Refusal::plain(RefusalReason::WrongState(r.state))),
        None => Outcome::unknown(),
    }
}

fn booked<'a>(table: &Reservations, number: Number, decided: Decided<'a>) -> Outcome<'a> {
    let Some(r) = table.get(number) else { return Outcome::unknown() };
    let Ok(state) = r.state.after(LifeStep::Commit) else { return again(table, number) };
    let mut next = r.clone();
    (next.state, next.version) = (state, next.version + 1);
    Outcome::change(next, Change::Commit(number), EventKind::Committed, decided)
}
