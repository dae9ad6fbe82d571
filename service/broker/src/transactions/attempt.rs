//! The caller's side of a transaction that this process began: the changes that its members are asked for, and
//! their answers.

use super::legs::LegRecord;
use crate::id::ReservationId;
use crate::problem::{Answer, Problem};
use commit::TransactionId;
use documents::agent::Request;
use documents::book::{PrepareAskDoc, ReservationDoc};
use documents::legs::LegChange;
use documents::links::CallerDoc;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// The plain call that makes a change at one agent.
pub fn plain(change: PrepareAskDoc) -> Request {
    match change {
        PrepareAskDoc::Create(ask) => Request::BookCreate(ask),
        PrepareAskDoc::Hold { handle } => Request::BookCommit { handle, decided: false },
        PrepareAskDoc::Modify { handle, change } => Request::BookModify { handle, change },
        PrepareAskDoc::Bind { handle, part, binding } => Request::BookBind { handle, part, binding },
    }
}

/// A member's part of a transaction.
#[derive(Clone, PartialEq, Debug)]
pub enum MemberPart {
    /// An agent's.
    Agent {
        /// The agent's index.
        agent: usize,
        /// The change.
        change: Box<PrepareAskDoc>,
    },
    /// Another domain's: the last of a transaction; in a tree the last ones, the farthest domain's last.
    Domain(Box<DomainPart>),
}

/// The part of a transaction that another domain is asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct DomainPart {
    /// The index of the domain's broker.
    pub domain: usize,
    /// The kind of change.
    pub change: LegChange,
    /// The number of the change that the broker that asked first has drawn.
    pub origin: TransactionId,
    /// The domains that the question has come through, ours last.
    pub via: Vec<String>,
    /// For whom, as the next domain is told.
    pub owner: String,
    /// The groups that we vouch for.
    pub groups: Vec<String>,
    /// The token that the owner shows.
    pub token: Option<String>,
    /// The network of the border link.
    pub border: String,
    /// In a tree: the domain from which packets come; `None`: in a chain, ours.
    pub entry: Option<String>,
}

impl MemberPart {
    /// The part of the agent with this index: the change that it is asked for.
    pub fn at_agent(agent: usize, change: PrepareAskDoc) -> MemberPart {
        MemberPart::Agent { agent, change: Box::new(change) }
    }

    /// The agent's index.
    pub fn agent(&self) -> Option<usize> {
        match self {
            MemberPart::Agent { agent, .. } => Some(*agent),
            MemberPart::Domain(_) => None,
        }
    }
}

/// An order that an agent carries out sooner or later; the journal keeps it with its member.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemberOrder {
    /// The caller.
    pub caller: CallerDoc,
    /// The action.
    pub action: MemberAction,
}

/// The action of an order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberAction {
    /// Cancel all reservations with this group name.
    GiveBack(String),
    /// Have another domain give back its leg of this reservation.
    EndLeg(String),
    /// Make this call, which undoes a change that a broker before transactions had begun.
    Undo(Box<Request>),
}

/// The kinds of change, for those who look at a transaction that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A new reservation.
    Create,
    /// The booking of what was held.
    Book,
    /// Other amounts, another window or label.
    Modify,
    /// Other bindings.
    Bind,
    /// The end of a reservation.
    Cancel,
    /// The end of a change that a broker before transactions had begun.
    Undo,
}

/// The broker's words about a transaction, in the journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// The reservation.
    pub id: String,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The reservation's leg as it is after the change, if it crosses domains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leg: Option<Box<LegRecord>>,
}

impl Note {
    /// The words about a change of a reservation in this domain alone.
    pub fn new(id: &ReservationId, kind: ChangeKind) -> Note {
        Note { id: id.to_string(), kind, leg: None }
    }
}

/// The decision about an attempt.
#[derive(Clone, PartialEq, Debug)]
pub enum AttemptVerdict {
    /// It will be done at all members, whatever happens.
    Committed,
    /// It is done at none: the member that refused, if one did, and words for people.
    Aborted(Option<usize>, String),
    /// It was not begun.
    NotBegun(String),
}

/// The state of an attempt. All lists are in the order of members.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AttemptProgress {
    /// The reservations as the agents showed them last.
    pub docs: Vec<Option<ReservationDoc>>,
    /// True: the member has said Yes.
    pub promised: Vec<bool>,
    /// The refusals.
    pub refused: Vec<Option<Box<Problem>>>,
    /// True: the member has done what was decided.
    pub done: Vec<bool>,
    /// The number of times that the member did not answer the decision.
    pub failures: Vec<u32>,
    /// The reason why this process gave it up, if it did.
    pub given_up: Option<Box<Problem>>,
    /// The decision.
    pub verdict: Option<AttemptVerdict>,
    /// True: all members have done what was decided.
    pub ended: bool,
}

/// The number of decisions without an answer after which callers do not wait for a member.
const FAILURES: u32 = 2;

impl AttemptProgress {
    fn of(members: usize) -> AttemptProgress {
        AttemptProgress {
            docs: vec![None; members],
            promised: vec![false; members],
            refused: vec![None; members],
            done: vec![false; members],
            failures: vec![0; members],
            ..AttemptProgress::default()
        }
    }

    /// True if there is nothing to wait for: every member has done what was decided, or does not answer.
    pub fn is_settled(&self) -> bool {
        let told = |member: usize| self.done[member] || self.failures[member] >= FAILURES;
        let settled = |member: usize| match self.verdict {
            // One that refused has nothing to be told; one that was not heard is told later.
            Some(AttemptVerdict::Aborted(..)) => {
                self.refused[member].is_some() || (self.promised[member] && told(member))
            }
            _ => told(member),
        };
        self.ended && self.verdict.is_some() || (0..self.done.len()).all(settled)
    }

    /// The problem that an abort is for the caller.
    pub fn problem(&self) -> Box<Problem> {
        match &self.verdict {
            Some(AttemptVerdict::Aborted(member, why)) => {
                // The first that refused, in the order of members: the same each time.
                let of_room = || self.refused.iter().flatten().find(|problem| problem.refusal.is_some()).cloned();
                let refused = self.given_up.clone().or_else(of_room);
                let refused = refused.or_else(|| member.and_then(|member| self.refused.get(member)?.clone()));
                refused.unwrap_or_else(|| Problem::unavailable(format!("{why}: nothing has changed")))
            }
            Some(AttemptVerdict::NotBegun(why)) => Problem::unavailable(format!("{why}: nothing has changed")),
            _ => Problem::unavailable("it is not decided yet"),
        }
    }
}

/// A transaction that a caller of this process waits for.
#[derive(Debug)]
pub struct Attempt {
    /// The caller.
    pub caller: CallerDoc,
    /// The parts; none of an order.
    pub parts: Vec<MemberPart>,
    /// The broker's words about it.
    pub note: Note,
    progress: watch::Sender<AttemptProgress>,
    /// The note with the acceptances, once they were checked.
    noted: Mutex<Option<Note>>,
}

impl Attempt {
    /// An attempt with so many members.
    pub fn new(caller: CallerDoc, parts: Vec<MemberPart>, members: usize, note: Note) -> Attempt {
        Attempt {
            caller,
            parts,
            note,
            progress: watch::Sender::new(AttemptProgress::of(members)),
            noted: Mutex::new(None),
        }
    }

    /// The broker's words about it, with the acceptances if they have come.
    pub fn noted(&self) -> Note {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        noted.unwrap_or_else(|| self.note.clone())
    }

    /// Notes the words with the acceptances.
    pub fn accept(&self, note: Note) {
        *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(note);
    }

    /// Notes something.
    pub fn note(&self, change: impl FnOnce(&mut AttemptProgress)) {
        self.progress.send_modify(change);
    }

    /// Waits until this is true of it.
    ///
    /// # Errors
    /// Never while the attempt is there.
    pub async fn until(&self, is: impl FnMut(&AttemptProgress) -> bool) -> Answer<AttemptProgress> {
        let mut seen = self.progress.subscribe();
        let found = seen.wait_for(is).await.map(|progress| progress.clone());
        found.map_err(|_| Problem::unavailable("the transaction is gone"))
    }

    /// The progress now.
    pub fn progress(&self) -> AttemptProgress {
        self.progress.borrow().clone()
    }
}
