//! Refusals: the reason, and alternatives. A refusal changes nothing.

use alloc::string::String;
use alloc::vec::Vec;
use terms::book::{RateStep, ResourceKind};
use terms::{Span, Time, Window};

/// A refusal, with alternatives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The reason.
    pub why: RefusalReason,
    /// Requests that would be accepted now, at most three, each of another kind. Nothing of them is held.
    pub alternatives: Vec<Alternative>,
}

/// The reason for a refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefusalReason {
    /// More was asked of a resource than is free.
    NoRoom {
        /// The part of the request, from 0.
        part: usize,
        /// The resource's name.
        resource: String,
        /// The amount that was asked at that time.
        asked: u64,
        /// The amount that is free at every instant of `window`.
        free: u64,
        /// The first stretch of the requested time that has too little; calendar time.
        window: Window,
    },
    /// Policy refused it.
    Policy {
        /// The part, from 0.
        part: usize,
        /// The name of the rule; empty: no rule allows it.
        rule: String,
        /// The policy's text.
        text: String,
    },
    /// This agent has no resource of this name.
    NoResource {
        /// The part, from 0.
        part: usize,
        /// The name.
        name: String,
    },
    /// The reservation does not exist, or the caller has no right to it: the answer is the same.
    UnknownHandle,
    /// The reservation's state does not allow this call.
    WrongState(crate::BookingState),
    /// The key was used for another request.
    KeyUsed,
    /// The reservation that the key made is over; it does not come back.
    KeyOver {
        /// The handle of that reservation.
        handle: terms::book::Handle,
        /// Its final state.
        state: crate::BookingState,
    },
    /// Another reservation has these packets or processes at that time.
    Taken {
        /// The part, from 0.
        part: usize,
        /// That reservation and its owner; `None`: the caller may not see it.
        by: Option<(terms::book::Handle, String)>,
        /// The end of its last window; calendar time.
        until: Time,
    },
    /// A limit is reached.
    Limit {
        /// The limited quantity, in words.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The request makes no sense.
    Meaningless {
        /// The part, from 0; `None`: the request as a whole.
        part: Option<usize>,
        /// The mistake, and the remedy.
        text: String,
    },
    /// The clock is not certain enough for promises about times of day.
    Clock {
        /// The clock's largest error.
        uncertainty: Span,
        /// The largest error that is accepted.
        bound: Span,
    },
    /// It could not be written down, and is undone.
    NotWritten {
        /// The store's reason, for people.
        text: String,
    },
    /// The bookings are still being read; try again soon.
    Starting,
    /// A change of the reservation is promised to a coordinator that has not decided yet.
    Undecided {
        /// The coordinator.
        coordinator: String,
        /// The transaction.
        transaction: commit::TransactionId,
    },
    /// The coordinator is older than one of its name that is known here, or has forgotten decisions.
    Outdated {
        /// The newest epoch of the coordinator that is known.
        known: commit::Epoch,
    },
    /// It cannot be promised: the reason, for people.
    NotPromised {
        /// The reason.
        text: String,
    },
}

/// A request near the refused one that would be accepted now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative {
    /// The kind of difference.
    pub sort: AlternativeKind,
    /// The grant of each part.
    pub parts: Vec<OfferedPart>,
}

/// The grant of one part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfferedPart {
    /// The kind, and so the unit of its amounts.
    pub kind: ResourceKind,
    /// Its windows with their amounts; calendar time.
    pub steps: Vec<RateStep>,
}

/// The difference between an alternative and the request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlternativeKind {
    /// The same amount and length, at a later time.
    Later,
    /// The same time, a smaller amount.
    Slower,
    /// The same start and amount, a shorter time.
    Shorter,
}

impl RefusalReason {
    /// Its name in documents.
    pub const fn name(&self) -> &'static str {
        match self {
            RefusalReason::NoRoom { .. } => "no_room",
            RefusalReason::Policy { .. } => "policy",
            RefusalReason::NoResource { .. } => "no_resource",
            RefusalReason::UnknownHandle => "unknown_handle",
            RefusalReason::WrongState(_) => "wrong_state",
            RefusalReason::KeyUsed => "key_used",
            RefusalReason::KeyOver { .. } => "key_over",
            RefusalReason::Taken { .. } => "taken",
            RefusalReason::Limit { .. } => "limit",
            RefusalReason::Meaningless { .. } => "meaningless",
            RefusalReason::Clock { .. } => "clock",
            RefusalReason::NotWritten { .. } => "not_written",
            RefusalReason::Starting => "starting",
            RefusalReason::Undecided { .. } => "undecided",
            RefusalReason::Outdated { .. } => "outdated",
            RefusalReason::NotPromised { .. } => "not_promised",
        }
    }
}

impl Refusal {
    /// A refusal without alternatives.
    pub fn plain(why: RefusalReason) -> Refusal {
        Refusal { why, alternatives: Vec::new() }
    }

    /// A refusal of a request that makes no sense.
    pub fn meaningless(part: Option<usize>, text: impl Into<String>) -> Refusal {
        Refusal::plain(RefusalReason::Meaningless { part, text: text.into() })
    }

    /// The start of the first alternative of this kind; calendar time.
    pub fn starts(&self, sort: AlternativeKind) -> Option<Time> {
        let alternative = self.alternatives.iter().find(|alternative| alternative.sort == sort)?;
        alternative.parts.iter().filter_map(|offered| offered.steps.first()).map(|step| step.window.start()).min()
    }
}
