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
    agent: usize,
    /// The number of the resource in [`RESOURCES`].
    resource: usize,
    amount: u64,
    handle: Option<Handle>,
    /// While clients look by their key: the number of reservations there, and true if one is not decided.
    looked: Option<(usize, bool)>,
}

impl WishPart {
    /// A part of which no agent has heard yet.
    pub(super) fn new(agent: usize, resource: usize, amount: u64) -> WishPart {
        WishPart { agent, resource, amount, handle: None, looked: None }
    }

    /// The number of its agent.
    pub(super) fn agent(&self) -> usize {
        self.agent
    }

    /// The number of its resource in [`RESOURCES`].
    pub(super) fn resource(&self) -> usize {
        self.resource
    }

    /// The amount that its client wished for first, in the unit of the resource.
    pub(super) fn amount(&self) -> u64 {
        self.amount
    }

    /// The reservation, once the client knows it.
    pub(super) fn handle(&self) -> Option<Handle> {
        self.handle
    }
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

/// A wish. What its client learns moves it from stage to stage; nothing else does.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    owner: &'static str,
    /// The name of its group, and its key.
    group: String,
    broker: usize,
    kind: WishKind,
    start: Time,
    end: Time,
    parts: Vec<WishPart>,
    stage: Stage,
    /// True: a client has been told that it is booked, by its one call.
    acknowledged: bool,
    /// True: a client has asked for its end.
    unwanted: bool,
    /// The number of times that a client will still ask by its key.
    patience: u32,
    /// The time at which its client asks next.
    asks_at: Option<Time>,
}

/// The number of times that a client asks again by its key.
const PATIENCE: u32 = 200;

/// The next act of a client that has heard something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextStep {
    /// Nothing, for the present.
    None,
    /// It asks again later.
    Later,
    /// It asks for this change.
    Ask(Change),
    /// Its one call is answered: it is booked.
    Booked,
}

/// The kinds of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Create,
    Book,
    Modify,
    Cancel,
}

/// A transaction as its client asked for it. It does not change.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    wish: usize,
    broker: usize,
    change: Change,
    agents: Vec<usize>,
    amounts: Vec<u64>,
    label: String,
}

impl Transaction {
    /// A transaction over these agents, in order of members. `amounts`: of each member after a modification. `label`:
    /// the one that a creation or a modification gives.
    pub(super) fn new(
        (wish, broker): (usize, usize),
        change: Change,
        agents: &[usize],
        amounts: &[u64],
        label: &str,
    ) -> Transaction {
        let (agents, amounts) = (agents.to_vec(), amounts.to_vec());
        Transaction { wish, broker, change, agents, amounts, label: label.to_owned() }
    }

    /// The number of its wish.
    pub(super) fn wish(&self) -> usize {
        self.wish
    }

    /// The number of its coordinator.
    pub(super) fn broker(&self) -> usize {
        self.broker
    }

    /// The kind of change.
    pub(super) fn change(&self) -> Change {
        self.change
    }

    /// The agents, in order of members.
    pub(super) fn agents(&self) -> &[usize] {
        &self.agents
    }

    /// The amount of a member after a modification.
    pub(super) fn amount(&self, member: u32) -> Option<u64> {
        self.amounts.get(member as usize).copied()
    }

    /// The label that a creation or a modification gives.
    pub(super) fn label(&self) -> &str {
        &self.label
    }
}

impl Wish {
    /// Wish number `number` of an owner, with a broker, over a window.
    pub(super) fn new(
        (owner, number): (&'static str, usize),
        broker: usize,
        kind: WishKind,
        (start, end): (Time, Time),
        parts: Vec<WishPart>,
    ) -> Wish {
        let (group, stage) = (format!("w{number}"), Stage::New);
        let (acknowledged, unwanted) = (false, false);
        let (patience, asks_at) = (PATIENCE, None);
        Wish { owner, group, broker, kind, start, end, parts, stage, acknowledged, unwanted, patience, asks_at }
    }

    /// The name of its owner.
    pub(super) fn owner(&self) -> &'static str {
        self.owner
    }

    /// The name of its group, which is its key too.
    pub(super) fn group(&self) -> &str {
        &self.group
    }

    /// The number of its broker.
    pub(super) fn broker(&self) -> usize {
        self.broker
    }

    /// How it comes true.
    pub(super) fn kind(&self) -> WishKind {
        self.kind
    }

    /// The end of its window.
    pub(super) fn end(&self) -> Time {
        self.end
    }

    /// Its parts.
    pub(super) fn parts(&self) -> &[WishPart] {
        &self.parts
    }

    /// Its agents, in the order of its parts.
    pub(super) fn agents(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.agent).collect()
    }

    /// How far it is, as its client knows.
    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// True if its one call was answered: it is booked.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// The same wish with its parts in another order: the one `first` comes first.
    pub(super) fn in_turn(mut self, first: usize) -> Wish {
        self.parts.rotate_left(first);
        self
    }

    /// Its plain calls are on their way.
    pub(super) fn calls(&mut self) {
        self.stage = Stage::Calling;
    }

    /// Its client asks for its end.
    pub(super) fn give_up(&mut self) {
        self.unwanted = true;
    }

    /// A transaction about it is under way.
    pub(super) fn begins(&mut self, id: TransactionId) {
        self.stage = Stage::Waiting(id);
    }

    /// Its broker could not begin a change.
    pub(super) fn not_begun(&mut self, change: Change) -> NextStep {
        match (self.stage, change) {
            (Stage::New, _) => self.stage = Stage::Over,
            (Stage::Looking, _) => return NextStep::Later,
            (Stage::Booked, Change::Cancel) => self.unwanted = false,
            _ => {}
        }
        NextStep::None
    }

    /// Its broker has refused the transaction that it waits for: nothing has changed.
    pub(super) fn refused(&mut self, id: TransactionId, change: Change) {
        if self.stage == Stage::Waiting(id) {
            self.stage = match change {
                Change::Create => Stage::Over,
                Change::Book => Stage::Held,
                Change::Modify | Change::Cancel => Stage::Booked,
            };
            self.unwanted &= change != Change::Cancel;
        }
    }

    /// Its client is told the end of a transaction.
    pub(super) fn told(&mut self, id: TransactionId, change: Change, committed: bool) {
        if self.stage == Stage::Waiting(id) {
            self.stage = match (change, committed) {
                (Change::Modify, _) | (Change::Create | Change::Book, true) => Stage::Booked,
                (Change::Cancel, false) => Stage::Booked,
                (Change::Create | Change::Book, false) | (Change::Cancel, true) => Stage::Over,
            };
        }
    }

    /// The broker has died over it: its client asks by its key.
    pub(super) fn looks(&mut self) {
        (self.stage, self.patience) = (Stage::Looking, PATIENCE);
    }

    /// Its client is to ask at this time. False if it asks earlier anyway.
    pub(super) fn asks_at(&mut self, at: Time) -> bool {
        let earlier = self.asks_at.is_none_or(|known| at < known);
        if earlier {
            self.asks_at = Some(at);
        }
        earlier
    }

    /// True if this is the time at which its client asks. The next one is not known yet.
    pub(super) fn is_time_to_ask(&mut self, now: Time) -> bool {
        self.asks_at.take_if(|at| *at == now).is_some()
    }

    /// Its client would ask once more by its key. False if it has lost its patience, or if the broker is gone for ever.
    pub(super) fn asks_once_more(&mut self, gone: bool) -> bool {
        self.patience = self.patience.saturating_sub(1);
        if self.patience > 0 && gone {
            self.stage = Stage::Over;
        }
        self.patience > 0 && !gone
    }

    /// Its client asks all of its agents by its key.
    pub(super) fn looks_everywhere(&mut self) {
        self.parts.iter_mut().for_each(|part| part.looked = None);
    }

    /// An agent has promised its part in the transaction that would create it.
    pub(super) fn promised(&mut self, id: TransactionId, agent: usize, handle: Option<Handle>) {
        if self.stage == Stage::Waiting(id) {
            self.parts.iter_mut().filter(|part| part.agent == agent).for_each(|part| part.handle = handle);
        }
    }

    /// A plain call is answered; `None`: refused.
    pub(super) fn answered(&mut self, agent: usize, handle: Option<Handle>) -> NextStep {
        if self.stage != Stage::Calling {
            return NextStep::None;
        }
        let Some(handle) = handle else {
            self.stage = Stage::Over;
            return NextStep::None;
        };
        self.parts.iter_mut().filter(|part| part.agent == agent).for_each(|part| part.handle = Some(handle));
        if self.parts.iter().any(|part| part.handle.is_none()) {
            return NextStep::None;
        }
        if self.kind == WishKind::Single {
            (self.stage, self.acknowledged) = (Stage::Booked, true);
            return NextStep::Booked;
        }
        self.stage = Stage::Held;
        NextStep::Ask(Change::Book)
    }

    /// An agent says which reservations it has under the key. `open`: one of them is not decided.
    pub(super) fn looked(&mut self, now: Time, agent: usize, booked: &[Handle], open: bool) -> NextStep {
        if self.stage != Stage::Looking {
            return NextStep::None;
        }
        let Some(part) = self.parts.iter_mut().find(|part| part.agent == agent) else { return NextStep::None };
        part.looked = Some((booked.len(), open));
        part.handle = booked.first().copied().or(part.handle);
        let Some(all) = self.parts.iter().map(|part| part.looked).collect::<Option<Vec<_>>>() else {
            return NextStep::None;
        };
        if all.iter().any(|(_, open)| *open) {
            return NextStep::None;
        }
        let whole = all.iter().all(|(booked, _)| *booked > 0);
        let none = all.iter().all(|(booked, _)| *booked == 0);
        let over = self.end <= now;
        match () {
            () if whole && !self.unwanted => self.stage = Stage::Booked,
            () if !none && self.unwanted => return NextStep::Ask(Change::Cancel),
            () if none && !self.unwanted && !over && self.kind == WishKind::Create => {
                return NextStep::Ask(Change::Create);
            }
            () if none => self.stage = Stage::Over,
            // Some have it: a decision is on its way, or one of them is over by time.
            () if over => self.stage = Stage::Over,
            () => {}
        }
        NextStep::None
    }

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
            notice: None,
        }
    }

    /// Another amount for one of its parts.
    pub(super) fn change(part: &WishPart, amount: u64, label: &str) -> BookingChange {
        let kind = ResourceKind::of(RESOURCES[part.resource].0);
        let amounts = vec![(0, kind, amount)];
        BookingChange { amounts, start: None, end: None, label: Some(label.to_owned()), ..BookingChange::default() }
    }
}
