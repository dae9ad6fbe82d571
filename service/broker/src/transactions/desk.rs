//! The coordinator with its journal: one input, then its outputs, in order. What has to be said to agents comes
//! back as [`DeskEffect`]s.

use super::attempt::{Attempt, AttemptVerdict, ChangeKind, MemberOrder, Note};
use super::journal::CommitLog;
use commit::coordinator::{Config, Input, LogBatchId, Output, Phase, Serial, TransactionKind};
use commit::record::{CoordinatorRecord, MemberRecord};
use commit::{Branch, Coordinator, Decision, Epoch, TransactionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::{Completion, Error, Journal};
use terms::Time;

/// An action outside.
#[derive(Debug)]
pub enum DeskEffect {
    /// Ask a member for its vote.
    Prepare { attempt: Arc<Attempt>, branch: Branch, epoch: Epoch, serial: Serial },
    /// Tell a member a decision, or have it carry out its order.
    Decide { branch: Branch, agent: String, epoch: Epoch, decision: Decision, order: Option<Box<MemberOrder>> },
    /// Tell the operator.
    Say(String),
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
    coordinator: Coordinator,
    log: CommitLog,
    attempts: BTreeMap<TransactionId, Arc<Attempt>>,
    /// The open transactions of each reservation.
    of: BTreeMap<String, BTreeMap<TransactionId, ChangeKind>>,
    /// The reservation of each open transaction.
    about: BTreeMap<TransactionId, String>,
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
    pub fn new(records: Vec<CoordinatorRecord>, accept_older: bool) -> Desk {
        let mut desk = Desk {
            coordinator: Coordinator::new(Config::default()),
            log: CommitLog::default(),
            attempts: BTreeMap::new(),
            of: BTreeMap::new(),
            about: BTreeMap::new(),
            silent: BTreeSet::new(),
            telling: BTreeSet::new(),
            asking: BTreeMap::new(),
            accept_older,
            outdated: false,
            unresolved: BTreeSet::new(),
        };
        for record in records {
            desk.coordinator.handle(Time::ZERO, Input::Recovering(record));
        }
        let found: Vec<(TransactionId, Note)> = desk
            .coordinator
            .transactions()
            .filter_map(|(id, _, note)| Some((id, serde_json::from_slice(note).ok()?)))
            .collect();
        found.into_iter().for_each(|(id, note)| desk.enter(id, &note));
        desk
    }

    /// Begins an epoch with this journal.
    pub fn start(&mut self, now: Time, log: CommitLog, nonce: u64) -> Vec<DeskEffect> {
        self.log = log;
        self.take(now, Input::Recovered { nonce })
    }

    /// Begins a transaction.
    pub fn begin(
        &mut self,
        now: Time,
        id: TransactionId,
        kind: TransactionKind,
        members: Vec<MemberRecord>,
        note: &Note,
        attempt: Arc<Attempt>,
    ) -> Vec<DeskEffect> {
        // Our own documents have string keys: they can always be written.
        let text = serde_json::to_vec(note).unwrap_or_default();
        self.enter(id, note);
        self.attempts.insert(id, attempt);
        self.take(now, Input::Begin { id, kind, members, note: text })
    }

    /// Takes one input, and all that follows from it.
    pub fn take(&mut self, now: Time, input: Input) -> Vec<DeskEffect> {
        let mut effects = Vec::new();
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.coordinator.handle(now, input);
            while let Some(output) = self.coordinator.poll() {
                self.carry_out(now, output, &mut inputs, &mut effects);
            }
        }
        effects
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
            let batch = LogBatchId(ticket.0);
            let input = match result {
                Ok(()) => Input::Written(batch),
                Err(Error::Dead(why)) => return Err(format!("the journal of transactions has failed ({why})")),
                Err(error) => Input::WriteFailed(batch, error.to_string()),
            };
            effects.extend(self.take(now, input));
        }
        Ok(effects)
    }

    /// Everything that time has made due.
    pub fn wake(&mut self, now: Time) -> Vec<DeskEffect> {
        let mut effects = Vec::new();
        if self.log.wake_at().is_some_and(|at| at <= now) {
            for (batch, why) in self.log.flush() {
                effects.extend(self.take(now, Input::WriteFailed(batch, why)));
            }
        }
        effects.extend(self.take(now, Input::Wake));
        effects
    }

    /// The time for [`Desk::wake`].
    pub fn wake_at(&self) -> Option<Time> {
        self.coordinator.wake_at().into_iter().chain(self.log.wake_at()).min()
    }

    /// A member has been asked for its vote: this came of it.
    pub fn asked(&mut self, now: Time, branch: Branch, input: Input) -> Vec<DeskEffect> {
        let waits = self.asking.remove(&branch).flatten();
        let mut effects = self.take(now, input);
        match waits {
            Some(decide) if self.coordinator.phase(branch.transaction).is_some() => effects.push(decide),
            Some(_) => drop(self.telling.remove(&branch)),
            None => {}
        }
        effects
    }

    /// A member has been told a decision: it has done it, or has not answered.
    pub fn told(&mut self, now: Time, branch: Branch, done: bool) -> Vec<DeskEffect> {
        self.telling.remove(&branch);
        match done || self.coordinator.phase(branch.transaction).is_none() {
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
        &self.coordinator
    }

    /// The open transactions of a reservation.
    pub fn of(&self, reservation: &str) -> Vec<Open> {
        let open =
            |(id, kind): (&TransactionId, &ChangeKind)| Some(Open { kind: *kind, phase: self.coordinator.phase(*id)? });
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
        let waits = |id: &TransactionId| self.silent.range(first(id)..=last(id)).next().is_some();
        self.of.get(reservation).into_iter().flatten().all(|(id, _)| waits(id))
    }

    /// True if the epoch is neither on the disk nor refused by agents.
    pub fn is_reading(&self) -> bool {
        !self.coordinator.is_open() && !self.outdated
    }

    /// True if moreover nothing is being said to an agent.
    pub fn is_settled(&self) -> bool {
        !self.is_reading() && self.telling.is_empty()
    }

    /// The names of the members of a transaction that has not ended.
    pub fn members(&self, id: TransactionId) -> Vec<String> {
        let member = |member| self.coordinator.member(Branch { transaction: id, member });
        (0..).map_while(member).map(|record| record.name.clone()).collect()
    }

    /// Takes the journal away: nothing is begun or decided any more.
    pub fn close(&mut self) -> Option<Journal> {
        self.log.close()
    }

    fn enter(&mut self, id: TransactionId, note: &Note) {
        self.of.entry(note.id.clone()).or_default().insert(id, note.kind);
        self.about.insert(id, note.id.clone());
    }

    fn forget(&mut self, id: TransactionId) -> Option<Arc<Attempt>> {
        if let Some(reservation) = self.about.remove(&id)
            && let Some(open) = self.of.get_mut(&reservation)
        {
            open.remove(&id);
            if open.is_empty() {
                self.of.remove(&reservation);
            }
        }
        self.attempts.remove(&id)
    }

    fn carry_out(&mut self, now: Time, output: Output, inputs: &mut VecDeque<Input>, effects: &mut Vec<DeskEffect>) {
        match output {
            Output::Append { batch, records, forced } => {
                let refused = self.log.append(now, batch, &records, forced);
                inputs.extend(refused.into_iter().map(|(batch, why)| Input::WriteFailed(batch, why)));
            }
            Output::Prepare { branch, epoch, serial } => {
                if let Some(attempt) = self.attempt(branch.transaction) {
                    self.asking.insert(branch, None);
                    effects.push(DeskEffect::Prepare { attempt, branch, epoch, serial });
                }
            }
            Output::Decide { branch, name, epoch, decision } => {
                if self.telling.insert(branch) {
                    let order = self.coordinator.member(branch).filter(|member| !member.order.is_empty());
                    let order = order.and_then(|member| serde_json::from_slice(&member.order).ok()).map(Box::new);
                    let decide = DeskEffect::Decide { branch, agent: name, epoch, decision, order };
                    match self.asking.get_mut(&branch) {
                        Some(waits) => *waits = Some(decide),
                        None => effects.push(decide),
                    }
                }
            }
            Output::Decided { id, decision, why } => {
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

    fn outdated(&mut self, known: Epoch, inputs: &mut VecDeque<Input>, effects: &mut Vec<DeskEffect>) {
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
            Ok(nonce) => inputs.push_back(Input::AcceptOlder { known, nonce: u64::from_le_bytes(nonce) }),
            Err(error) => effects.push(DeskEffect::Say(format!("no randomness: {error}"))),
        }
    }
}
