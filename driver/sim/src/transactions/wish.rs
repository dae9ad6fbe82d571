//! The wishes of clients: a reservation that one of them wants, and how far it is.

use super::agent::RESOURCES;
use booking::io::BookingChange;
use booking::{BookingRequest, PartAsk, When};
use commit::TransactionId;
use terms::book::{Handle, PacketShape, ResourceKind};
use terms::{Span, Time};

/// The part of a wish at one agent.
#[derive(Clone, Debug)]
pub(super) struct WishPart {
    pub(super) agent: usize,
    /// The number of the resource in [`RESOURCES`].
    pub(super) resource: usize,
    pub(super) amount: u64,
    pub(super) handle: Option<Handle>,
    /// While clients look by their key: the answer.
    pub(super) looked: Option<(usize, bool)>,
}

/// How a wish comes true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WishKind {
    /// By one transaction.
    Create,
    /// Held at every agent, then booked by one transaction.
    Hold(Span),
    /// At one agent, by one call.
    Single,
}

/// How far a wish is, as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    New,
    /// The calls for holds are on their way, or the one call.
    Calling,
    Held,
    /// A transaction is under way.
    Waiting(TransactionId),
    Booked,
    /// The client asks by its key.
    Looking,
    /// Refused, cancelled, or given up.
    Over,
}

/// A wish.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) owner: &'static str,
    /// The name of its group, and its key.
    pub(super) group: String,
    pub(super) broker: usize,
    pub(super) kind: WishKind,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) parts: Vec<WishPart>,
    pub(super) stage: Stage,
    /// True: a client has been told that it is booked, by its one call.
    pub(super) acknowledged: bool,
    /// True: a client has asked for its end.
    pub(super) unwanted: bool,
    /// The number of times that a client will still ask by its key.
    pub(super) patience: u32,
}

/// The kinds of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Create,
    Book,
    Modify,
    Cancel,
}

/// A transaction as its client asked for it.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) wish: usize,
    pub(super) broker: usize,
    pub(super) change: Change,
    /// The agents, in order of members.
    pub(super) agents: Vec<usize>,
    /// The amount of each member after a modification.
    pub(super) amounts: Vec<u64>,
    /// The label that a creation or a modification gives.
    pub(super) label: String,
}

impl Wish {
    /// The request for one of its parts.
    pub(super) fn ask(&self, part: &WishPart, label: &str) -> BookingRequest {
        let shape = PacketShape::default();
        let (resource, amount) = (RESOURCES[part.resource].0.to_owned(), part.amount);
        let ask = PartAsk { resource, amount, least: amount, background: None, shape, binding: None };
        let members = self.parts.iter().map(|part| format!("{}.a{}", self.group, part.agent)).collect();
        BookingRequest {
            parts: vec![ask],
            when: When::Window { start: Some(self.start), end: Some(self.end) },
            label: label.to_owned(),
            group: self.group.clone(),
            members,
        }
    }

    /// Another amount for one of its parts.
    pub(super) fn change(part: &WishPart, amount: u64, label: &str) -> BookingChange {
        let kind = ResourceKind::of(RESOURCES[part.resource].0);
        let amounts = vec![(0, kind, amount)];
        BookingChange { amounts, start: None, end: None, label: Some(label.to_owned()) }
    }
}
