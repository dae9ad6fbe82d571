//! A coordinator that is itself a participant: the broker of a domain that is asked for a part of another
//! domain's transaction.
//!
//! ```text
//!  above                 this domain                             its own members
//!    Prepare ---------->   begin a transaction   Prepare ----->    promise
//!                                                <----------- Yes
//!                          promise on the disk
//!            <----- Yes    (no timer from here on)
//!    Decide ----------->   decision on the disk  Decide ------>    carry it out
//!            <----- Acknowledge
//! ```
//!
//! A Yes leaves only when all members have said Yes and the promise is on the disk. The transaction of the
//! members and the promise are one record each, and both change in one write: a promise without its
//! transaction, or a decision of one of them alone, cannot be read back. An acknowledgement says that this
//! domain has the decision on its own disk; from then on it drives its members to their end by itself.

use crate::coordinator::{self, Coordinator, Serial, TransactionKind};
use crate::participant::{self, Participant, ParticipantRecord, PromisedChange, WriteId};
use crate::record::{CoordinatorRecord, MemberRecord};
use crate::{Branch, CoordinatorName, Decision, Epoch, TransactionId, Vote};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use terms::Time;

/// A write on its way to the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubordinateBatch(pub u64);

/// A question for a part of another coordinator's transaction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AskedFromAbove {
    /// The part.
    pub branch: Branch,
    /// The coordinator above.
    pub coordinator: CoordinatorName,
    /// Its epoch.
    pub epoch: Epoch,
    /// The place of its transaction in the epoch.
    pub serial: Serial,
    /// The end of the last window that is promised; [`Time::FOREVER`]: it is open.
    pub until: Time,
}

/// An input.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// For the coordinator of the members; not for its journal.
    Below(coordinator::Input),
    /// For the participant of the coordinator above; not for its journal, nor a question for a vote.
    Above(participant::Input),
    /// The coordinator above asks for a vote, and this transaction of our own members is to decide it.
    Ask {
        /// The question.
        asked: AskedFromAbove,
        /// Our own transaction: its number.
        id: TransactionId,
        /// Its kind.
        kind: TransactionKind,
        /// Its members, at least one.
        members: Vec<MemberRecord>,
        /// The caller's words about it.
        note: Vec<u8>,
    },
    /// The coordinator above asks for a vote, and the host refuses: the reason, for people.
    Refuse(AskedFromAbove, String),
    /// A write, and every write before it, is on the disk.
    Written(SubordinateBatch),
    /// A write failed, and nothing of it is on the disk: the reason, for people.
    WriteFailed(SubordinateBatch, String),
    /// The time of `wake_at()` has come.
    Wake,
}

/// An output.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Write these records, all or none; answer [`Input::Written`] or [`Input::WriteFailed`].
    Append {
        /// The write.
        batch: SubordinateBatch,
        /// The coordinator's records.
        records: Vec<CoordinatorRecord>,
        /// The participant's records.
        promises: Vec<ParticipantRecord>,
        /// False: nothing waits for it.
        forced: bool,
    },
    /// Of the coordinator; never a write.
    Below(coordinator::Output),
    /// Of the participant; never a write.
    Above(participant::Output),
}

/// The parts of one write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Parts {
    below: Option<coordinator::LogBatchId>,
    above: Option<WriteId>,
}

/// A coordinator that is itself a participant: see the module's description.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Subordinate {
    coordinator: Coordinator,
    participant: Participant,
    /// The questions whose members are being asked.
    asked: BTreeMap<TransactionId, AskedFromAbove>,
    /// Our own transaction for each part of another's that has not ended.
    below: BTreeMap<Branch, TransactionId>,
    writing: BTreeMap<SubordinateBatch, Parts>,
    next_batch: u64,
    out: VecDeque<Output>,
}

impl Subordinate {
    /// One without a past: tell it its journal by [`Subordinate::recover`].
    pub fn new(below: coordinator::Config, above: participant::Config) -> Subordinate {
        Subordinate {
            coordinator: Coordinator::new(below),
            participant: Participant::new(above),
            asked: BTreeMap::new(),
            below: BTreeMap::new(),
            writing: BTreeMap::new(),
            next_batch: 1,
            out: VecDeque::new(),
        }
    }

    /// Takes its journal, in any order. [`Subordinate::start`] follows.
    pub fn recover(&mut self, records: Vec<CoordinatorRecord>, promises: Vec<ParticipantRecord>) {
        for record in records {
            if let CoordinatorRecord::Transaction { id, above: Some(branch), .. } = &record {
                self.below.insert(*branch, *id);
            }
            self.coordinator.handle(Time::ZERO, coordinator::Input::Recovering(record));
        }
        for promise in promises {
            self.participant.handle(Time::ZERO, participant::Input::Recovering(promise));
        }
    }

    /// Begins an epoch; `nonce` is drawn by chance. A transaction that was not promised above is aborted. `participants`
    /// are those that may know a newer epoch ([`coordinator::Input::Participant`]).
    pub fn start(&mut self, now: Time, participants: Vec<String>, nonce: u64) {
        for name in participants {
            self.coordinator.handle(now, coordinator::Input::Participant(name));
        }
        self.participant.handle(now, participant::Input::Recovered);
        let lost = self.below.iter().filter(|(branch, _)| !self.participant.is_promised(**branch));
        for id in lost.map(|(_, id)| *id).collect::<Vec<_>>() {
            self.coordinator.handle(now, coordinator::Input::Decide(id, false));
        }
        self.coordinator.handle(now, coordinator::Input::Recovered { nonce });
        self.drain(now);
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Below(input) => self.coordinator.handle(now, input),
            Input::Above(input) => self.tell_participant(now, input),
            Input::Ask { asked, id, kind, members, note } => self.ask(now, asked, (id, kind, members, note)),
            Input::Refuse(asked, why) => self.vote(now, asked, Err(why)),
            Input::Written(batch) => self.written(now, batch),
            Input::WriteFailed(batch, why) => self.write_failed(now, batch, &why),
            Input::Wake => {
                self.coordinator.handle(now, coordinator::Input::Wake);
                self.participant.handle(now, participant::Input::Wake);
            }
        }
        self.drain(now);
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The time for [`Input::Wake`], if nothing else happens.
    pub fn wake_at(&self) -> Option<Time> {
        self.coordinator.wake_at().into_iter().chain(self.participant.wake_at()).min()
    }

    /// The coordinator of the members.
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// The participant of the coordinators above.
    pub fn participant(&self) -> &Participant {
        &self.participant
    }

    /// Our own transaction for a part of another's that has not ended here.
    pub fn below(&self, branch: Branch) -> Option<TransactionId> {
        self.below.get(&branch).copied()
    }

    fn ask(
        &mut self,
        now: Time,
        asked: AskedFromAbove,
        (id, kind, members, note): (TransactionId, TransactionKind, Vec<MemberRecord>, Vec<u8>),
    ) {
        let branch = asked.branch;
        if self.participant.earlier(branch).is_some() {
            return self.vote(now, asked, Ok(()));
        }
        if self.below.contains_key(&branch) {
            return self.vote(now, asked, Err("this part is being prepared already".into()));
        }
        self.below.insert(branch, id);
        self.asked.insert(id, asked);
        let begin = coordinator::Input::Begin { id, kind, members, note, above: Some(branch) };
        self.coordinator.handle(now, begin);
    }

    fn vote(&mut self, now: Time, asked: AskedFromAbove, granted: Result<(), String>) {
        let AskedFromAbove { branch, coordinator, epoch, serial, until } = asked;
        let prepare = participant::Input::Prepare { branch, coordinator, epoch, serial, granted, until };
        self.participant.handle(now, prepare);
    }

    fn tell_participant(&mut self, now: Time, input: participant::Input) {
        // An abort that comes while our members are being asked ends that as well.
        if let participant::Input::Decide { branch, coordinator, decision: Decision::Abort, .. } = &input
            && let Some(id) = self.below(*branch)
            && self.asked.get(&id).is_some_and(|asked| asked.coordinator == *coordinator)
        {
            self.coordinator.handle(now, coordinator::Input::GiveUp(id));
        }
        self.participant.handle(now, input);
    }

    /// Carries the outputs of one engine to the other, until both are silent.
    fn drain(&mut self, now: Time) {
        loop {
            if let Some(output) = self.coordinator.poll() {
                self.heard_below(now, output);
            } else if let Some(output) = self.participant.poll() {
                self.heard_above(now, output);
            } else {
                return;
            }
        }
    }

    fn heard_below(&mut self, now: Time, output: coordinator::Output) {
        match output {
            coordinator::Output::Append { batch, records, forced } => {
                let parts = Parts { below: Some(batch), above: None };
                return self.append(parts, records, Vec::new(), forced);
            }
            coordinator::Output::Prepared(id) => {
                if let Some(asked) = self.asked.remove(&id) {
                    self.vote(now, asked, Ok(()));
                }
                return;
            }
            coordinator::Output::Decided { id, decision: Decision::Abort, ref why } => {
                let why = why.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
                self.refuse(now, id, why);
            }
            coordinator::Output::NotBegun { id, ref why } => {
                let why = why.clone();
                self.refuse(now, id, why);
                self.below.retain(|_, of| *of != id);
            }
            coordinator::Output::Ended(id) => self.below.retain(|_, of| *of != id),
            _ => {}
        }
        self.out.push_back(Output::Below(output));
    }

    /// Our members did not all say Yes.
    fn refuse(&mut self, now: Time, id: TransactionId, why: String) {
        if let Some(asked) = self.asked.remove(&id) {
            self.vote(now, asked, Err(why));
        }
    }

    /// Ends what was asked for in starts of a coordinator that it has forgotten itself.
    fn give_up(&mut self, now: Time, coordinator: &str, known: Epoch) {
        let old = |(branch, id): (&Branch, &TransactionId)| {
            let promised = self.participant.earlier(*branch).is_some();
            let of = self.asked.get(id);
            let is = of.is_none_or(|asked| &*asked.coordinator == coordinator && !asked.epoch.follows(known));
            (!promised && is).then_some(*id)
        };
        for id in self.below.iter().filter_map(old).collect::<Vec<_>>() {
            self.coordinator.handle(now, coordinator::Input::Decide(id, false));
        }
    }

    fn heard_above(&mut self, now: Time, output: participant::Output) {
        match output {
            participant::Output::Append { id, records, change } => self.promised_change(now, id, records, change),
            // The participant refuses by itself too: a limit, a newer start of the coordinator above, a failed write.
            participant::Output::Vote { branch, vote: Vote::No(why) } => {
                if let Some(id) = self.below(branch) {
                    self.coordinator.handle(now, coordinator::Input::Decide(id, false));
                }
                let output = participant::Output::Vote { branch, vote: Vote::No(why) };
                self.out.push_back(Output::Above(output));
            }
            participant::Output::Outdated { coordinator, known } => {
                self.give_up(now, &coordinator, known);
                self.out.push_back(Output::Above(participant::Output::Outdated { coordinator, known }));
            }
            output => self.out.push_back(Output::Above(output)),
        }
    }

    /// Writes the participant's records, and in the same write what becomes of our own transaction.
    fn promised_change(&mut self, now: Time, id: WriteId, promises: Vec<ParticipantRecord>, change: PromisedChange) {
        let mut parts = Parts { below: None, above: Some(id) };
        let mut records = Vec::new();
        match change {
            PromisedChange::Promise(branch) => {
                let of = self.below(branch);
                records.extend(of.and_then(|id| self.coordinator.record(id)));
            }
            PromisedChange::Make(branch) => {
                if let Some(id) = self.below(branch) {
                    self.coordinator.handle(now, coordinator::Input::Decide(id, true));
                    let append = self.coordinator.poll();
                    match append {
                        Some(coordinator::Output::Append { batch, records: of, .. }) => {
                            (parts.below, records) = (Some(batch), of);
                        }
                        // It was made before: nothing is to be written.
                        Some(other) => self.heard_below(now, other),
                        None => {}
                    }
                }
            }
            PromisedChange::Drop(branch, _) => {
                if let Some(id) = self.below(branch) {
                    self.coordinator.handle(now, coordinator::Input::Decide(id, false));
                }
            }
            PromisedChange::Nothing => {}
        }
        self.append(parts, records, promises, true);
    }

    fn append(
        &mut self,
        parts: Parts,
        records: Vec<CoordinatorRecord>,
        promises: Vec<ParticipantRecord>,
        forced: bool,
    ) {
        let batch = SubordinateBatch(self.next_batch);
        self.next_batch += 1;
        self.writing.insert(batch, parts);
        self.out.push_back(Output::Append { batch, records, promises, forced });
    }

    fn written(&mut self, now: Time, batch: SubordinateBatch) {
        while let Some(entry) = self.writing.first_entry().filter(|entry| *entry.key() <= batch) {
            let parts = entry.remove();
            if let Some(below) = parts.below {
                self.coordinator.handle(now, coordinator::Input::Written(below));
            }
            if let Some(above) = parts.above {
                self.participant.handle(now, participant::Input::Written(above));
            }
        }
    }

    fn write_failed(&mut self, now: Time, batch: SubordinateBatch, why: &str) {
        let Some(parts) = self.writing.remove(&batch) else { return };
        // What was written before is told first, so that each engine hears its writes in order.
        if let Some(below) = parts.below {
            self.coordinator.handle(now, coordinator::Input::WriteFailed(below, why.into()));
        }
        if let Some(above) = parts.above {
            self.participant.handle(now, participant::Input::WriteFailed(above));
        }
    }
}
