//! One file for each call. A call that may change a reservation decides, and returns an [`Outcome`]: nothing is
//! written here.

pub(crate) mod bind;
pub(crate) mod cancel;
pub(crate) mod commit;
pub(crate) mod create;
pub(crate) mod enquire;
pub(crate) mod may;
pub(crate) mod modify;
pub(crate) mod show;

use crate::io::{EventKind, Reply};
use crate::journal::{Change, Decided};
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::Reservation;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The outcome of a call that may change a reservation.
pub(crate) enum Outcome<'a> {
    /// Nothing changes, and nothing is written.
    Answer(Reply),
    /// Nothing changes: the answer is the reservation as it is.
    Unchanged,
    /// Policy or the ledger refused it, which goes into the audit.
    Refused(Refusal, Decided<'a>),
    /// The reservation changes as soon as this is written.
    Change(Proposal<'a>),
}

/// A change to be written.
pub(crate) struct Proposal<'a> {
    /// The reservation after the change; `None`: as it is in the table already.
    pub next: Option<Box<Reservation>>,
    pub change: Change,
    pub events: Vec<EventKind>,
    pub decided: Decided<'a>,
}

impl<'a> Outcome<'a> {
    /// A refusal that is not for the audit: the caller has made a mistake.
    pub(crate) fn no(why: Refusal) -> Outcome<'a> {
        Outcome::Answer(Err(why))
    }

    /// The reservation does not exist.
    pub(crate) fn unknown() -> Outcome<'a> {
        Outcome::no(Refusal::plain(RefusalReason::UnknownHandle))
    }

    fn change(next: Reservation, change: Change, event: EventKind, decided: Decided<'a>) -> Outcome<'a> {
        Outcome::Change(Proposal { next: Some(Box::new(next)), change, events: [event].into(), decided })
    }
}
