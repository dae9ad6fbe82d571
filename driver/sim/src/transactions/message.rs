//! Messages between brokers and agents, and their kinds.

use booking::Call;
use booking::promise::{DecideCall, DecisionQuestion, PrepareCall, PromisesCall};
use commit::coordinator::Outcome;
use commit::{Branch, Epoch, Vote};
use terms::Time;
use terms::book::{Caller, Handle};

/// A process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    Broker(usize),
    Agent(usize),
}

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) from: Place,
    pub(super) to: Place,
    pub(super) body: Body,
}

/// The content of a message.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// A broker asks an agent for its vote.
    Prepare(Caller, Box<PrepareCall>),
    /// The answer, with the reservation's handle.
    Vote { branch: Branch, vote: Vote, handle: Option<Handle> },
    /// A broker tells its decision.
    Decide(Box<DecideCall>),
    /// The decision is carried out. `gone`: no reservation is left of it.
    Acknowledge { branch: Branch, gone: bool },
    /// A broker asks for the open promises. It was sent at this time.
    Promises(PromisesCall, Time),
    /// The answer, and the agent's calendar time.
    PromiseList { promises: Vec<(Branch, u64)>, shown: Time, sent: Time },
    /// The broker is older than one that the agent knows.
    Outdated(Epoch),
    /// An agent asks for a decision.
    Question(DecisionQuestion),
    /// The answer, in this epoch.
    Answer { branch: Branch, epoch: Epoch, outcome: Outcome },
    /// An order: cancel every reservation of this group.
    Order { branch: Branch, caller: Caller, group: String },
    /// The order is carried out.
    Done { branch: Branch },
    /// A call that concerns this agent alone, about this wish of a client.
    Call { wish: usize, caller: Caller, call: Call },
    /// The answer: the handle, or `None` for a refusal.
    Answered { wish: usize, handle: Option<Handle> },
    /// A client asks again by its key: what is there of this group?
    Look { wish: usize, caller: Caller, group: String },
    /// The handles that are booked, and true if something is not decided yet.
    Looked { wish: usize, booked: Vec<Handle>, open: bool },
}

/// The kinds of message that carry the protocol.
pub(super) const PROTOCOL: [&str; 8] =
    ["prepare", "vote", "decide", "acknowledge", "promises", "promise list", "question", "answer"];

impl Body {
    /// The name of its kind.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Body::Prepare(..) => "prepare",
            Body::Vote { .. } => "vote",
            Body::Decide(_) => "decide",
            Body::Acknowledge { .. } => "acknowledge",
            Body::Promises(..) => "promises",
            Body::PromiseList { .. } => "promise list",
            Body::Outdated(_) => "outdated",
            Body::Question(_) => "question",
            Body::Answer { .. } => "answer",
            Body::Order { .. } => "order",
            Body::Done { .. } => "done",
            Body::Call { .. } => "call",
            Body::Answered { .. } => "answered",
            Body::Look { .. } => "look",
            Body::Looked { .. } => "looked",
        }
    }

    /// True if it does not fit into a small packet: a path whose largest packet is smaller swallows it.
    pub(super) fn is_large(&self) -> bool {
        matches!(self, Body::Prepare(..) | Body::PromiseList { .. } | Body::Vote { .. } | Body::Call { .. })
    }
}

/// The number of a name such as `b1` or `a2`.
pub(super) fn number(name: &str) -> usize {
    name[1..].parse().unwrap_or_else(|_| unreachable!("a name of ours: {name}"))
}
