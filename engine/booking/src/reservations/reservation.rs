//! A reservation in memory: plain data. Outside of its table it is only read, because the table lends it shared.

use super::promised::{Prepared, Promised};
use crate::io::BatchId;
use crate::notice::Notice;
use crate::refusal::RefusalReason;
use crate::state::BookingState;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use terms::book::{Background, Binding, Handle, PacketShape, RateStep, amount_at};
use terms::ports::book::SlotKey;
use terms::{Time, Window};

/// A reservation's number: they grow with every creation.
pub(crate) type Number = u64;

/// The key of a request, and the request's digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyMark {
    pub key: Box<str>,
    /// SHA-256 of the request.
    pub digest: [u8; 32],
}

/// A reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reservation {
    pub handle: Handle,
    pub number: Number,
    /// The index in the table of owners.
    pub owner: u32,
    pub label: Box<str>,
    pub group: Box<str>,
    /// All members of its group, itself included; empty: no group, or its members are not known.
    pub members: Box<[Box<str>]>,
    pub key: Option<Box<KeyMark>>,
    pub created: Time,
    /// The instant at which it was over; meaningless before.
    pub over: Time,
    pub version: u64,
    pub state: BookingState,
    /// The end of the hold; meaningless unless it is held.
    pub hold_until: Time,
    /// The notice before its end that its owner asked for.
    pub notice: Option<Notice>,
    pub parts: Vec<Part>,
    /// The batch that creates or changes it and is not written yet.
    pub busy: Option<BatchId>,
    /// The change that is promised to a coordinator. While there is one, no timer ends the reservation.
    pub promise: Option<Box<Promised>>,
    /// Its time on the agenda; [`Time::FOREVER`]: none.
    pub look: Time,
    /// True until the batch that creates it is written.
    pub unborn: bool,
}

/// The place of a part: its reservation's number, and its own from 0.
pub(crate) type Place = (Number, usize);

/// A part of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The index in the table of resources.
    pub resource: u32,
    pub steps: Vec<RateStep>,
    /// The slots in the ledger, in any order; a background part has none.
    pub slots: Vec<SlotKey>,
    pub background: Option<Background>,
    pub shape: PacketShape,
    pub binding: Option<Binding>,
    /// The index of the rule and groups in the table of grants.
    pub grant: u32,
}

impl Reservation {
    /// The reason why it cannot be changed: a change of it is promised and not decided.
    pub(crate) fn undecided(&self) -> Option<RefusalReason> {
        let promised = self.promise.as_ref()?;
        let (coordinator, transaction) = (promised.coordinator.to_string(), promised.branch.transaction);
        Some(RefusalReason::Undecided { coordinator, transaction })
    }

    /// Everything of it that counts: its parts, and what they grow by if a promised change comes true.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().chain(self.promise.iter().flat_map(|promised| promised.change.grown()))
    }

    /// The same, to be changed.
    pub(super) fn counted_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        let grown = match self.promise.as_deref_mut().map(|promised| &mut promised.change) {
            Some(Prepared::Modify { grown, .. }) => grown.as_mut_slice(),
            _ => &mut [],
        };
        self.parts.iter_mut().chain(grown)
    }

    /// The first start and the last end of its windows.
    pub(crate) fn span(&self) -> (Time, Time) {
        let starts = self.parts.iter().filter_map(|part| part.steps.first()).map(|step| step.window.start());
        let ends = self.parts.iter().filter_map(|part| part.steps.last()).map(|step| step.window.end());
        (starts.min().unwrap_or(Time::FOREVER), ends.max().unwrap_or(Time::ZERO))
    }

    /// When its owner is told of its end; `None`: not any more, or never.
    pub(crate) fn notice_at(&self) -> Option<Time> {
        self.notice.filter(|_| self.state.is_booked())?.due(self.span().1)
    }

    /// True if a window of any part is open.
    pub(crate) fn is_open(&self, today: Time) -> bool {
        self.parts.iter().any(|part| part.is_open(today))
    }

    /// The next instant after `today` at which an amount changes.
    pub(crate) fn next_edge(&self, today: Time) -> Option<Time> {
        self.parts.iter().filter_map(|part| part.next_edge(today)).min()
    }
}

impl Part {
    /// Takes its slots.
    pub(crate) fn take_slots(&mut self) -> impl Iterator<Item = (u32, SlotKey)> + use<> {
        let resource = self.resource;
        core::mem::take(&mut self.slots).into_iter().map(move |slot| (resource, slot))
    }

    pub(crate) fn is_open(&self, today: Time) -> bool {
        let after = self.steps.partition_point(|step| step.window.start() <= today);
        self.steps[..after].last().is_some_and(|step| step.window.contains(today))
    }

    /// The amount that it is to have at this instant; for a background part, the most that it wants.
    pub(crate) fn amount(&self, today: Time) -> u64 {
        amount_at(&self.steps, today)
    }

    fn next_edge(&self, today: Time) -> Option<Time> {
        let after = self.steps.partition_point(|step| step.window.end() <= today);
        let step = self.steps.get(after)?;
        let at = if step.window.start() > today { step.window.start() } else { step.window.end() };
        (at != Time::FOREVER).then_some(at)
    }
}

/// The pieces of `new` that exceed `old`, with the difference as their amount.
pub(crate) fn growth(old: &[RateStep], new: &[RateStep]) -> Vec<RateStep> {
    let mut grown: Vec<RateStep> = Vec::new();
    for step in new {
        let mut at = step.window.start();
        while at < step.window.end() {
            let first = old.partition_point(|o| o.window.end() <= at);
            let (had, until) = match old.get(first) {
                Some(o) if o.window.start() <= at => (o.amount, o.window.end()),
                Some(o) => (0, o.window.start()),
                None => (0, Time::FOREVER),
            };
            let until = until.min(step.window.end());
            if step.amount > had
                && let Ok(window) = Window::new(at, until)
            {
                grown.push(RateStep { window, amount: step.amount - had });
            }
            at = until;
        }
    }
    grown
}
