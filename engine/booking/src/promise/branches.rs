//! The parts of transactions that this agent takes part in: the participant, the reservation of each part, and the
//! calls that wait for its answers.

use super::record::StoredPromise;
use crate::io::CallId;
use crate::refusal::{Refusal, RefusalReason};
use crate::reservations::Number;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use commit::participant::{Config, Input, Output};
use commit::{Branch, Epoch, Participant};
use terms::Time;

/// The parts of transactions. Each open one has its reservation here.
#[derive(Clone)]
pub(crate) struct Branches {
    participant: Participant,
    /// The reservation of each part that is promised, or whose decision has not been heard.
    numbers: BTreeMap<Branch, Number>,
    /// Calls that wait for a vote.
    votes: BTreeMap<Branch, Vec<CallId>>,
    /// Calls that wait until a decision is carried out.
    decisions: BTreeMap<Branch, Vec<CallId>>,
    /// The most calls that wait for one part.
    most: usize,
    /// Outputs of the participant that are not carried out yet.
    said: VecDeque<Output>,
    /// Changes that were read and have not met their reservations yet.
    found: Vec<StoredPromise>,
}

/// The answer that a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaits {
    Vote,
    Decision,
}

impl Branches {
    /// No promise so far; at most so many calls wait for one part.
    pub(crate) fn new(config: Config, most: usize) -> Branches {
        Branches {
            participant: Participant::new(config),
            numbers: BTreeMap::new(),
            votes: BTreeMap::new(),
            decisions: BTreeMap::new(),
            most,
            said: VecDeque::new(),
            found: Vec::new(),
        }
    }

    /// The participant, to be asked.
    pub(crate) fn participant(&self) -> &Participant {
        &self.participant
    }

    /// Tells the participant something. What it says is heard in order.
    pub(crate) fn tell(&mut self, now: Time, input: Input) {
        self.participant.handle(now, input);
        while let Some(output) = self.participant.poll() {
            self.said.push_back(output);
        }
    }

    /// The next thing that the participant says.
    pub(crate) fn hear(&mut self) -> Option<Output> {
        self.said.pop_front()
    }

    /// Checks that a coordinator may be believed: none of its name with a newer epoch is known, and this part is not
    /// another's.
    pub(crate) fn believe(&self, coordinator: &str, epoch: Epoch, branch: Option<Branch>) -> Result<(), Refusal> {
        let known = self.participant.known(coordinator);
        if !epoch.follows(known) {
            return Err(Refusal::plain(RefusalReason::Outdated { known }));
        }
        let other = branch.and_then(|branch| self.participant.coordinator(branch));
        if other.is_some_and(|other| other != coordinator) {
            let text = "this transaction is another coordinator's".into();
            return Err(Refusal::plain(RefusalReason::NotPromised { text }));
        }
        Ok(())
    }

    /// A part has this reservation.
    pub(crate) fn enter(&mut self, branch: Branch, number: Number) {
        self.numbers.insert(branch, number);
    }

    /// The reservation of a part.
    pub(crate) fn number(&self, branch: Branch) -> Option<Number> {
        self.numbers.get(&branch).copied()
    }

    /// A part is over here, or was never promised.
    pub(crate) fn leave(&mut self, branch: Branch) -> Option<Number> {
        self.numbers.remove(&branch)
    }

    /// Lets a call wait.
    ///
    /// # Errors
    /// [`Refusal`]: too many calls wait for this part.
    pub(crate) fn wait(&mut self, branch: Branch, awaits: Awaits, id: CallId) -> Result<(), Refusal> {
        let limit = self.most;
        let calls = self.calls(awaits).entry(branch).or_default();
        if calls.len() >= limit {
            return Err(Refusal::plain(RefusalReason::Limit { what: "calls that wait for one promise", limit }));
        }
        calls.push(id);
        Ok(())
    }

    /// The calls that waited for this.
    pub(crate) fn waited(&mut self, branch: Branch, awaits: Awaits) -> Vec<CallId> {
        self.calls(awaits).remove(&branch).unwrap_or_default()
    }

    fn calls(&mut self, awaits: Awaits) -> &mut BTreeMap<Branch, Vec<CallId>> {
        match awaits {
            Awaits::Vote => &mut self.votes,
            Awaits::Decision => &mut self.decisions,
        }
    }

    /// A change of an earlier run.
    pub(crate) fn restore(&mut self, found: StoredPromise) {
        self.found.push(found);
    }

    /// The changes of an earlier run.
    pub(crate) fn found(&mut self) -> Vec<StoredPromise> {
        core::mem::take(&mut self.found)
    }
}
