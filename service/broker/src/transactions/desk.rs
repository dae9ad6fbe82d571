//! The coordinator with its journal: one input, then its outputs, in order. What has to be said to agents comes
//! back as [`DeskEffect`]s.

use super::above::AboveWaiters;
use super::attempt::{Attempt, AttemptVerdict, ChangeKind, MemberOrder, Note};
use super::journal::{CommitBatch, CommitLog, CommitPast};
use super::legs::{KeptLegs, LegRecord};
use commit::coordinator::{Config, Input, Output, Phase, Serial, TransactionKind};
use commit::record::{CoordinatorRecord, MemberRecord};
use commit::subordinate::{self, AskedFromAbove, SubordinateBatch};
use commit::{Branch, Coordinator, CoordinatorName, Decision, Epoch, Participant, Subordinate, TransactionId};
use linux::clock::Clock;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::{Completion, Error, Journal};
use terms::Time;
use tokio::sync::oneshot;

/// An action outside.
#[derive(Debug)]
pub enum DeskEffect {
    /// Ask a member for its vote.
    Prepare { attempt: Arc<Attempt>, branch: Branch, epoch: Epoch, serial: Serial },
    /// Tell a member a decision, or have it carry out its order.
    Decide { branch: Branch, agent: String, epoch: Epoch, decision: Decision, order: Option<Box<MemberOrder>> },
    /// Ask the coordinator of another domain for its decision.
    AskAbove { branch: Branch, coordinator: CoordinatorName, epoch: Epoch },
    /// Tell the operator.
    Say(String),
}

/// A new transaction.
#[derive(Debug)]
pub struct Beginning {
    /// Its number.
    pub id: TransactionId,
    /// Its kind.
    pub kind: TransactionKind,
    /// Its members.
    pub members: Vec<MemberRecord>,
    /// The part of another domain's transaction that it stands for.
    pub above: Option<AskedFromAbove>,
}

/// A transaction that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// The kind of change.
    pub kind: ChangeKind,
    /// How far it is.
    pub phase: Phase,
}

/// The coordinator, its journal, and those who wait for it.
#[derive(Debug)]
pub struct Desk {
    engine: Subordinate,
    log: CommitLog,
    clock: Clock,
    legs: KeptLegs,
    /// Those who wait here for what a broker of another domain has asked for.
    pub(super) waiters: AboveWaiters,
    attempts: BTreeMap<TransactionId, Arc<Attempt>>,
    /// The open transactions of each reservation.
    of: BTreeMap<String, BTreeMap<TransactionId, ChangeKind>>,
    /// The words about each open transaction.
    about: BTreeMap<TransactionId, Note>,
    /// The open transactions that are decided to be made.
    committed: BTreeSet<TransactionId>,
    /// Members that did not answer when they were last told a decision.
    silent: BTreeSet<Branch>,
    /// Decisions on their way to agents: no second one goes to the same member meanwhile.
    telling: BTreeSet<Branch>,
    /// Members that are being asked for their votes. A decision for one of them waits until its answer has come, or
    /// is given up: it must not overtake the question.
    asking: BTreeMap<Branch, Option<DeskEffect>>,
    accept_older: bool,
    /// Agents know a newer start, and no operator has said that this journal counts.
    outdated: bool,
    /// Promises that only an operator can decide, and the operator was told of.
    unresolved: BTreeSet<Branch>,
}

/// The most unresolved promises that are remembered so that each is told once.
const MAX_UNRESOLVED: usize = 10_000;

impl Desk {
    /// A desk that has read its journal. `accept_older`: a journal that was restored from an older copy is used
    /// all the same.
    pub fn new(past: CommitPast, accept_older: bool, clock: Clock) -> Desk {
        let mut desk = Desk {
            engine: Subordinate::new(Config::default(), commit::participant::Config::default()),
            log: CommitLog::default(),
            clock,
            legs: KeptLegs::new(past.legs),
            waiters: AboveWaiters::default(),
            attempts: BTreeMap::new(),
            of: BTreeMap::new(),
            about: BTreeMap::new(),
            committed: BTreeSet::new(),
            silent: BTreeSet::new(),
            telling: BTreeSet::new(),
            asking: BTreeMap::new(),
            accept_older,
            outdated: false,
            unresolved: BTreeSet::new(),
        };
        for record in &past.records {
            let CoordinatorRecord::Transaction { id, committed, note, .. } = record else { continue };
            desk.committed.extend(committed.map(|_| *id));
            if let Ok(note) = serde_json::from_slice(note) {
                desk.enter(*id, note);
            }
        }
        desk.engine.recover(past.records, past.promises);
        desk
    }

    /// Begins an epoch with this journal. `participants`: those that may know a newer one.
    pub fn start(&mut self, now: Time, log: CommitLog, participants: Vec<String>, nonce: u64) -> Vec<DeskEffect> {
        self.log = log;
        self.engine.start(now, participants, nonce);
        self.drain(now)
    }

    /// Begins a transaction.
    pub fn begin(&mut self, now: Time, beginning: Beginning, attempt: Arc<Attempt>) -> Vec<DeskEffect> {
        let Beginning { id, kind, members, above } = beginning;
        let note = bytes(&attempt.note);
        self.enter(id, attempt.note.clone());
        self.attempts.insert(id, attempt);
        let input = match above {
            Some(asked) => subordinate::Input::Ask { asked, id, kind, members, note },
            None => subordinate::Input::Below(Input::Begin { id, kind, members, note, above: None }),
        };
        self.put(now, input)
    }

    /// Changes the words about a transaction that is not decided: they are written with the decision.
    pub fn note(&mut self, now: Time, id: TransactionId, note: Note) -> Vec<DeskEffect> {
        let input = Input::Noted { id, note: bytes(&note) };
        if let Some(known) = self.about.get_mut(&id) {
            *known = note;
        }
        self.take(now, input)
    }

    /// Takes one input of the coordinator, and all that follows from it.
    pub fn take(&mut self, now: Time, input: Input) -> Vec<DeskEffect> {
        self.put(now, subordinate::Input::Below(input))
    }

    /// Takes one input, and all that follows from it.
    pub fn put(&mut self, now: Time, input: subordinate::Input) -> Vec<DeskEffect> {
        self.engine.handle(now, input);
        self.drain(now)
    }

    fn drain(&mut self, now: Time) -> Vec<DeskEffect> {
        let (mut effects, mut inputs) = (Vec::new(), VecDeque::new());
        loop {
            while let Some(output) = self.engine.poll() {
                match output {
                    subordinate::Output::Append { batch, records, promises, forced } => {
                        let content = self.batch(records, promises);
                        let refused = self.log.append(now, batch, &content, forced);
                        let failed = |(batch, why)| subordinate::Input::WriteFailed(batch, why);
                        inputs.extend(refused.into_iter().map(failed));
                    }
                    subordinate::Output::Below(output) => self.carry_out(output, &mut inputs, &mut effects),
                    subordinate::Output::Above(output) => self.heard_above(output, &mut effects),
                }
            }
            match inputs.pop_front() {
                Some(input) => self.engine.handle(now, input),
                None => return effects,
            }
        }
    }

    /// Takes the journal's answers.
    ///
    /// # Errors
    /// The journal has failed: what is on the disk is unknown, and only the next start can tell.
    pub fn answered(&mut self, now: Time, answers: Vec<Completion>) -> Result<Vec<DeskEffect>, String> {
        let mut effects = Vec::new();
        if self.log.is_dead() {
            return Err("the journal of transactions is dead: its thread panicked".to_owned());
        }
        for Completion { ticket, result } in answers {
            let batch = SubordinateBatch(ticket.0);
            let input = match result {
                Ok(()) => subordinate::Input::Written(batch),
                Err(Error::Dead(why)) => return Err(format!("the journal of transactions has failed ({why})")),
                Err(error @ Error::Deposed(_)) => return Err(error.to_string()),
                Err(error) => subordinate::Input::WriteFailed(batch, error.to_string()),
            };
            effects.extend(self.put(now, input));
        }
        Ok(effects)
    }

    /// Everything that time has made due.
    pub fn wake(&mut self, now: Time) -> Vec<DeskEffect> {
        let mut effects = Vec::new();
        if self.log.wake_at().is_some_and(|at| at <= now) {
            for (batch, why) in self.log.flush() {
                effects.extend(self.put(now, subordinate::Input::WriteFailed(batch, why)));
            }
        }
        effects.extend(self.put(now, subordinate::Input::Wake));
        effects
    }

    /// The time for [`Desk::wake`].
    pub fn wake_at(&self) -> Option<Time> {
        self.engine.wake_at().into_iter().chain(self.log.wake_at()).min()
    }

    /// A member has been asked for its vote: this came of it.
    pub fn asked(&mut self, now: Time, branch: Branch, input: Input) -> Vec<DeskEffect> {
        let waits = self.asking.remove(&branch).flatten();
        let mut effects = self.take(now, input);
        match waits {
            Some(decide) if self.engine.coordinator().phase(branch.transaction).is_some() => effects.push(decide),
            Some(_) => drop(self.telling.remove(&branch)),
            None => {}
        }
        effects
    }

    /// A member has been told a decision: it has done it, or has not answered.
    pub fn told(&mut self, now: Time, branch: Branch, done: bool) -> Vec<DeskEffect> {
        self.telling.remove(&branch);
        match done || self.engine.coordinator().phase(branch.transaction).is_none() {
            true => self.silent.remove(&branch),
            false => self.silent.insert(branch),
        };
        if let Some(attempt) = self.attempts.get(&branch.transaction) {
            attempt.note(|progress| {
                let member = branch.member as usize;
                match (progress.done.get_mut(member), progress.failures.get_mut(member)) {
                    (Some(is), _) if done => *is = true,
                    (_, Some(failures)) => *failures += 1,
                    _ => {}
                }
            });
        }
        if done { self.take(now, Input::Acknowledged(branch)) } else { Vec::new() }
    }

    /// The attempt of a transaction that this process began.
    pub fn attempt(&self, id: TransactionId) -> Option<Arc<Attempt>> {
        self.attempts.get(&id).cloned()
    }

    /// The coordinator.
    pub fn coordinator(&self) -> &Coordinator {
        self.engine.coordinator()
    }

    /// The participant of other domains' coordinators.
    pub fn participant(&self) -> &Participant {
        self.engine.participant()
    }

    /// The leg of a reservation as it is, or as it is becoming by a change that is decided.
    pub fn leg(&self, reservation: &str) -> Option<LegRecord> {
        let open = self.of.get(reservation).into_iter().flatten();
        let decided = open.filter(|(id, kind)| self.committed.contains(id) && **kind != ChangeKind::Cancel);
        let leg = decided.filter_map(|(id, _)| self.about.get(id)?.leg.as_deref()).next();
        leg.or_else(|| self.legs.get(reservation)).cloned()
    }

    /// All legs whose decision is on the disk and carried out.
    pub fn legs(&self) -> Vec<LegRecord> {
        self.legs.all().cloned().collect()
    }

    /// The open transactions of a reservation.
    pub fn of(&self, reservation: &str) -> Vec<Open> {
        let open = |(id, kind): (&TransactionId, &ChangeKind)| {
            Some(Open { kind: *kind, phase: self.engine.coordinator().phase(*id)? })
        };
        self.of.get(reservation).into_iter().flatten().filter_map(open).collect()
    }

    /// True if no caller of this process waits for a decision.
    pub fn is_idle(&self) -> bool {
        self.attempts.values().all(|attempt| Arc::strong_count(attempt) == 1)
    }

    /// True if every open transaction of a reservation waits for a member that does not answer.
    pub fn waits_for_silent(&self, reservation: &str) -> bool {
        let first = |id: &TransactionId| Branch { transaction: *id, member: 0 };
        let last = |id: &TransactionId| Branch { transaction: *id, member: u32::MAX };
        let held = |id: &TransactionId| self.engine.coordinator().is_held(*id);
        let waits = |id: &TransactionId| held(id) || self.silent.range(first(id)..=last(id)).next().is_some();
        self.of.get(reservation).into_iter().flatten().all(|(id, _)| waits(id))
    }

    /// True if the epoch is neither on the disk nor refused by agents.
    pub fn is_reading(&self) -> bool {
        !self.engine.coordinator().is_open() && !self.outdated
    }

    /// True if moreover nothing is being said to an agent.
    pub fn is_settled(&self) -> bool {
        !self.is_reading() && self.telling.is_empty()
    }

    /// The names of the members of a transaction that has not ended.
    pub fn members(&self, id: TransactionId) -> Vec<String> {
        let member = |member| self.engine.coordinator().member(Branch { transaction: id, member });
        (0..).map_while(member).map(|record| record.name.clone()).collect()
    }

    /// Hands in a small document.
    pub fn keep(&mut self, name: &str, text: &[u8]) -> oneshot::Receiver<Result<(), String>> {
        self.log.keep(name, text)
    }

    /// Takes the journal away: nothing is begun or decided any more.
    pub fn close(&mut self) -> Option<Journal> {
        self.log.close()
    }

    /// The content of a batch: legs are kept with the end of the transaction that made them.
    fn batch(
        &mut self,
        records: Vec<CoordinatorRecord>,
        promises: Vec<commit::participant::ParticipantRecord>,
    ) -> CommitBatch {
        let mut content = CommitBatch { promises, ..CommitBatch::default() };
        let today = self.clock.today();
        for record in &records {
            let CoordinatorRecord::End(id) = record else { continue };
            if let (true, Some(note)) = (self.committed.remove(id), self.about.get(id))
                && let Some(leg) = note.leg.as_deref().cloned()
            {
                content.forgotten.extend(self.legs.keep(leg.clone(), today));
                content.legs.push(leg);
            }
        }
        content.records = records;
        content
    }

    fn enter(&mut self, id: TransactionId, note: Note) {
        self.of.entry(note.id.clone()).or_default().insert(id, note.kind);
        self.about.insert(id, note);
    }

    fn forget(&mut self, id: TransactionId) -> Option<Arc<Attempt>> {
        if let Some(note) = self.about.remove(&id)
            && let Some(open) = self.of.get_mut(&note.id)
        {
            open.remove(&id);
            if open.is_empty() {
                self.of.remove(&note.id);
            }
        }
        self.attempts.remove(&id)
    }

    fn carry_out(&mut self, output: Output, inputs: &mut VecDeque<subordinate::Input>, effects: &mut Vec<DeskEffect>) {
        match output {
            // The engine writes and votes by itself.
            Output::Append { .. } | Output::Prepared(_) => {}
            Output::Prepare { branch, epoch, serial } => {
                if let Some(attempt) = self.attempt(branch.transaction) {
                    self.asking.insert(branch, None);
                    effects.push(DeskEffect::Prepare { attempt, branch, epoch, serial });
                }
            }
            Output::Decide { branch, name, epoch, decision } => {
                if self.telling.insert(branch) {
                    let order = self.engine.coordinator().member(branch).filter(|member| !member.order.is_empty());
                    let order = order.and_then(|member| serde_json::from_slice(&member.order).ok()).map(Box::new);
                    let decide = DeskEffect::Decide { branch, agent: name, epoch, decision, order };
                    match self.asking.get_mut(&branch) {
                        Some(waits) => *waits = Some(decide),
                        None => effects.push(decide),
                    }
                }
            }
            Output::Decided { id, decision, why } => {
                if decision != Decision::Abort {
                    self.committed.insert(id);
                }
                if let Some(attempt) = self.attempts.get(&id) {
                    let (member, words) = why.unwrap_or_default();
                    let verdict = match decision {
                        Decision::Commit { .. } => AttemptVerdict::Committed,
                        Decision::Abort => AttemptVerdict::Aborted(member.map(|member| member as usize), words),
                    };
                    attempt.note(|progress| progress.verdict = Some(verdict));
                }
            }
            Output::NotBegun { id, why } => {
                if let Some(attempt) = self.forget(id) {
                    attempt.note(|progress| {
                        (progress.verdict, progress.ended) = (Some(AttemptVerdict::NotBegun(why)), true)
                    });
                }
            }
            Output::Ended(id) => {
                if let Some(attempt) = self.forget(id) {
                    attempt.note(|progress| progress.ended = true);
                }
            }
            Output::Outdated { known } => self.outdated(known, inputs, effects),
            Output::Unresolved { branch, name } => {
                if self.unresolved.len() < MAX_UNRESOLVED && self.unresolved.insert(branch) {
                    effects.push(DeskEffect::Say(format!(
                        "the agent {name} has promised a part of transaction {}, which this journal has lost: \
                         decide it there by `sluice resolve`",
                        branch.transaction
                    )));
                }
            }
        }
    }

    fn outdated(&mut self, known: Epoch, inputs: &mut VecDeque<subordinate::Input>, effects: &mut Vec<DeskEffect>) {
        if !self.accept_older {
            self.outdated = true;
            return effects.push(DeskEffect::Say(format!(
                "agents know start {} of this broker, and its journal is older: it was restored from a copy, or another \
                 broker uses this name. Nothing is reserved over several agents. If no other broker runs by this name, \
                 start this one with --accept-older-journal",
                known.number
            )));
        }
        match super::draw::<8>() {
            Ok(nonce) => inputs
                .push_back(subordinate::Input::Below(Input::AcceptOlder { known, nonce: u64::from_le_bytes(nonce) })),
            Err(error) => effects.push(DeskEffect::Say(format!("no randomness: {error}"))),
        }
    }
}

/// Our own documents have string keys and finite numbers: they can always be written.
fn bytes(note: &Note) -> Vec<u8> {
    serde_json::to_vec(note).unwrap_or_default()
}
