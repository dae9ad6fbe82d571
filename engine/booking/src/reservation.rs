//! A reservation as the book keeps it.

use crate::journal::BatchId;
use crate::state::BookingState;
use alloc::boxed::Box;
use alloc::vec::Vec;
use terms::book::{Background, Binding, Handle, PacketShape, RateStep, amount_at};
use terms::ports::book::SlotKey;
use terms::{Time, Window};

/// A reservation's number: they grow with every creation.
pub(crate) type Number = u64;

/// What a request's key is remembered by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyMark {
    pub(crate) key: Box<str>,
    /// SHA-256 of the request.
    pub(crate) digest: [u8; 32],
}

/// A reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reservation {
    pub(crate) handle: Handle,
    pub(crate) number: Number,
    /// In the book's table of owners.
    pub(crate) owner: u32,
    pub(crate) label: Box<str>,
    pub(crate) group: Box<str>,
    /// All that its group has, itself as well; none: it stands alone, or nobody said.
    pub(crate) members: Box<[Box<str>]>,
    pub(crate) key: Option<Box<KeyMark>>,
    pub(crate) created: Time,
    /// When it was over; of no meaning before.
    pub(crate) over: Time,
    pub(crate) version: u64,
    pub(crate) state: BookingState,
    /// Of no meaning unless it is held.
    pub(crate) hold_until: Time,
    pub(crate) parts: Vec<Part>,
    /// The batch that creates or changes it and is not written yet.
    pub(crate) busy: Option<BatchId>,
    /// Its place on the agenda; [`Time::FOREVER`]: none.
    pub(crate) look: Time,
    /// Whether the batch that creates it is not written yet.
    pub(crate) unborn: bool,
}

/// A part of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// In the book's table of resources.
    pub(crate) resource: u32,
    pub(crate) steps: Vec<RateStep>,
    /// What the ledger counts, in no order; none of a background part.
    pub(crate) slots: Vec<SlotKey>,
    pub(crate) background: Option<Background>,
    pub(crate) shape: PacketShape,
    pub(crate) binding: Option<Binding>,
    /// By what it was granted: in the book's table of grants.
    pub(crate) grant: u32,
}

impl Reservation {
    /// From the first start to the last end.
    pub(crate) fn span(&self) -> (Time, Time) {
        let starts = self.parts.iter().filter_map(|part| part.steps.first()).map(|step| step.window.start());
        let ends = self.parts.iter().filter_map(|part| part.steps.last()).map(|step| step.window.end());
        (starts.min().unwrap_or(Time::FOREVER), ends.max().unwrap_or(Time::ZERO))
    }

    /// Whether a window of any part is open.
    pub(crate) fn is_open(&self, today: Time) -> bool {
        self.parts.iter().any(|part| part.is_open(today))
    }

    /// The next instant after `today` at which an amount changes.
    pub(crate) fn next_edge(&self, today: Time) -> Option<Time> {
        self.parts.iter().filter_map(|part| part.next_edge(today)).min()
    }
}

impl Part {
    pub(crate) fn is_open(&self, today: Time) -> bool {
        let after = self.steps.partition_point(|step| step.window.start() <= today);
        self.steps[..after].last().is_some_and(|step| step.window.contains(today))
    }

    /// What it is to have at this instant; of a background part, the most that it wants.
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

/// Where `new` is more than `old`, and by how much.
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
