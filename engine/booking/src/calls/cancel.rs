//! `cancel`: the amounts are free as soon as the change is written.

use super::Outcome;
use crate::io::EventKind;
use crate::journal::{Change, Decided};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::Reservation;
use crate::state::{BookingState, LifeStep};
use terms::Time;
use terms::book::Caller;

pub(crate) fn cancel<'a>(r: &Reservation, today: Time, caller: &'a Caller) -> Outcome<'a> {
    let state = match r.state.after(LifeStep::Cancel) {
        Ok(state) => state,
        // The same again.
        Err(_) if r.state == BookingState::Cancelled => return Outcome::Unchanged,
        Err(_) => return Outcome::no(Refusal::plain(RefusalReason::WrongState(r.state))),
    };
    let decided = Decided::new(caller, "cancel", Some(r.handle));
    let mut next = r.clone();
    (next.state, next.over, next.version) = (state, today, next.version + 1);
    Outcome::change(next, Change::Cancel(r.number), EventKind::Over(state), decided)
}
