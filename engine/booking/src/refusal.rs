//! Why the book says no, and what it could do instead. A refusal changes nothing.

use alloc::string::String;
use alloc::vec::Vec;
use terms::book::{RateStep, ResourceKind};
use terms::{Span, Time, Window};

/// No, and what would be possible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Why not.
    pub why: RefusalReason,
    /// What would be accepted now, at most three, each of another sort. Nothing of it is held.
    pub alternatives: Vec<Alternative>,
}

/// Why not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefusalReason {
    /// More was asked of a resource than is free.
    NoRoom {
        /// Which part of the request, from 0.
        part: usize,
        /// Which resource.
        resource: String,
        /// What was asked at that time.
        asked: u64,
        /// What is free at every instant of `window`.
        free: u64,
        /// The first stretch in which there is not enough, within what was asked for; calendar time.
        window: Window,
    },
    /// Policy says no.
    Policy {
        /// Which part.
        part: usize,
        /// Which rule; empty: no rule allows it.
        rule: String,
        /// Its words.
        text: String,
    },
    /// No resource of this name here.
    NoResource {
        /// Which part.
        part: usize,
        /// The name.
        name: String,
    },
    /// No such reservation, or it is somebody else's: the answer is the same.
    UnknownHandle,
    /// The reservation is past the point at which this makes sense.
    WrongState(crate::BookingState),
    /// The key was used for another request.
    KeyUsed,
    /// What the key made is over; it does not come back.
    KeyOver {
        /// That.
        handle: terms::book::Handle,
        /// How it ended.
        state: crate::BookingState,
    },
    /// These packets or processes have a reservation at that time already.
    Taken {
        /// Which part.
        part: usize,
        /// That reservation and its owner; `None`: somebody else's, whom the caller may not see.
        by: Option<(terms::book::Handle, String)>,
        /// Until when it has them; calendar time.
        until: Time,
    },
    /// A limit is reached.
    Limit {
        /// Of what.
        what: &'static str,
        /// How many.
        limit: usize,
    },
    /// The request means nothing.
    Meaningless {
        /// Which part; `None`: the request as a whole.
        part: Option<usize>,
        /// What is wrong, and what would be right.
        text: String,
    },
    /// The clock is not certain enough for promises about times of day.
    Clock {
        /// How far it may be off.
        uncertainty: Span,
        /// How far it may be off at most.
        bound: Span,
    },
    /// It could not be written down, and is undone.
    NotWritten {
        /// What the store said.
        text: String,
    },
    /// The book is being read; soon.
    Starting,
}

/// Something near what was asked that would be accepted now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative {
    /// In which way it differs.
    pub sort: AlternativeKind,
    /// What each part would get.
    pub parts: Vec<OfferedPart>,
}

/// What a part would get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfferedPart {
    /// What its amounts count.
    pub kind: ResourceKind,
    /// How much and when; calendar time.
    pub steps: Vec<RateStep>,
}

/// In which way an alternative differs from what was asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlternativeKind {
    /// As much, as long, at a later time.
    Later,
    /// At the same time, less.
    Slower,
    /// From the same start, as much, not as long.
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
        }
    }
}

impl Refusal {
    /// With no alternatives.
    pub fn plain(why: RefusalReason) -> Refusal {
        Refusal { why, alternatives: Vec::new() }
    }

    /// Nothing that is asked at this time makes sense.
    pub fn meaningless(part: Option<usize>, text: impl Into<String>) -> Refusal {
        Refusal::plain(RefusalReason::Meaningless { part, text: text.into() })
    }

    /// When the first alternative of this sort would start; calendar time.
    pub fn starts(&self, sort: AlternativeKind) -> Option<Time> {
        let alternative = self.alternatives.iter().find(|alternative| alternative.sort == sort)?;
        alternative.parts.iter().filter_map(|offered| offered.steps.first()).map(|step| step.window.start()).min()
    }
}
