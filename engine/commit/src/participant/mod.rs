//! The participant of transactions.
//!
//! Its host decides everything that can be refused before it tells [`Input::Prepare`], and makes the change
//! in the same write as the records of [`Output::Append`].

mod io;
mod promise;
mod record;

use crate::{Branch, CoordinatorName, Decision, Epoch, TransactionId, Vote};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use promise::{End, Promise, State};
use terms::Time;

pub use io::{Config, DropReason, Input, Output, PromisedChange, WriteId};
pub use record::ParticipantRecord;

/// A coordinator as this participant knows it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Known {
    epoch: Epoch,
    /// Transactions of the epoch with lower numbers have ended.
    floor: u64,
    /// The number of promises whose decision has not been carried out.
    open: usize,
    /// The promises that are over, by epoch and number: forgotten when no message can name them any more.
    over: BTreeSet<(u64, u64, Branch)>,
}

/// The participant of transactions: see the crate's description.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Participant {
    config: Config,
    started: bool,
    coordinators: BTreeMap<CoordinatorName, Known>,
    promises: BTreeMap<Branch, Promise>,
    /// The promises that wait for a write. A write has at most one.
    writing: BTreeMap<WriteId, Branch>,
    /// The time at which each promise has something to do.
    due: BTreeSet<(Time, Branch)>,
    next_write: u64,
    out: VecDeque<Output>,
}

const FIRST: Branch = Branch { transaction: TransactionId([0; 16]), member: 0 };
const LAST: Branch = Branch { transaction: TransactionId([u8::MAX; 16]), member: u32::MAX };

impl Participant {
    /// A participant without a past: tell it its journal.
    pub fn new(config: Config) -> Participant {
        Participant {
            config,
            started: false,
            coordinators: BTreeMap::new(),
            promises: BTreeMap::new(),
            writing: BTreeMap::new(),
            due: BTreeSet::new(),
            next_write: 1,
            out: VecDeque::new(),
        }
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.hold_pauses(now);
        match input {
            Input::Recovering(record) => self.recover(record),
            Input::Recovered => self.started = true,
            Input::Prepare { branch, coordinator, epoch, serial, granted, until } => {
                if self.believes(&coordinator, epoch) {
                    let records = self.raise(&coordinator, epoch, serial.floor);
                    let promise = self.promise(coordinator, epoch, serial.number, until);
                    self.prepare(branch, promise, granted, records);
                }
            }
            Input::Decide { branch, coordinator, epoch, decision } => {
                if self.believes(&coordinator, epoch) {
                    let records = self.raise(&coordinator, epoch, 0);
                    self.decide(branch, &coordinator, decision);
                    self.note(records);
                }
            }
            Input::Connected { coordinator, epoch } => {
                if self.believes(&coordinator, epoch) {
                    let records = self.raise(&coordinator, epoch, 0);
                    self.note(records);
                }
            }
            Input::Resolve { branch, commit } => {
                let end = if commit { End::Make(None) } else { End::Drop(DropReason::Resolved) };
                if self.is_promised(branch) {
                    self.apply(branch, end);
                }
            }
            Input::Written(id) => self.written(now, id),
            Input::WriteFailed(id) => self.write_failed(now, id),
            Input::Wake => {}
        }
        if self.started {
            self.catch_up(now);
        }
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The time for [`Input::Wake`], if nothing else happens.
    pub fn wake_at(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The newest epoch that was heard of a coordinator.
    pub fn known(&self, coordinator: &str) -> Epoch {
        self.coordinators.get(coordinator).map(|known| known.epoch).unwrap_or_default()
    }

    /// The promises whose decision has not been carried out, with their coordinator and epoch: also those that
    /// time or an operator has ended and whose decision has not been heard. A coordinator that connects is
    /// told all of them.
    pub fn promises(&self) -> impl Iterator<Item = (Branch, &CoordinatorName, Epoch)> + '_ {
        let open = self.promises.iter().filter(|(_, promise)| !matches!(promise.state, State::Done(_)));
        open.map(|(branch, promise)| (*branch, &promise.coordinator, promise.epoch))
    }

    /// The coordinator of a part that is promised here, or was and is not forgotten.
    pub fn coordinator(&self, branch: Branch) -> Option<&str> {
        self.promises.get(&branch).map(|promise| &*promise.coordinator)
    }

    /// True if this part is promised and not decided.
    pub fn is_promised(&self, branch: Branch) -> bool {
        self.promises.get(&branch).is_some_and(|promise| promise.state == State::Promised)
    }

    /// The vote of a part that was asked before: a host need not decide again, and tells [`Input::Prepare`] as
    /// granted. `None`: it is new. A promise that is on its way to the disk is a Yes here: only
    /// [`Output::Vote`] is the answer to the coordinator.
    pub fn earlier(&self, branch: Branch) -> Option<Vote> {
        Some(match self.promises.get(&branch)?.state {
            State::Alone(_) | State::Hearing(..) | State::Done(_) => over(),
            _ => Vote::Yes,
        })
    }

    fn recover(&mut self, record: ParticipantRecord) {
        match record {
            ParticipantRecord::Known { coordinator, epoch, floor } => {
                let known = self.coordinators.entry(coordinator).or_default();
                // A promise of a newer epoch may have been told already.
                if epoch.number >= known.epoch.number {
                    (known.epoch, known.floor) = (epoch, floor);
                }
            }
            ParticipantRecord::Branch { branch, coordinator, epoch, serial, until, made, alone } => {
                let known = self.coordinators.entry(coordinator.clone()).or_default();
                if epoch.number > known.epoch.number {
                    let decisions = epoch.decisions.max(known.epoch.decisions);
                    (known.epoch, known.floor) = (Epoch { decisions, ..epoch }, 0);
                }
                let state = match made {
                    None => State::Promised,
                    Some(made) if alone => State::Alone(made),
                    Some(made) => State::Done(made),
                };
                let promise = self.promise(coordinator, epoch, serial, until);
                self.insert(branch, promise);
                self.set(branch, state);
            }
            ParticipantRecord::Forget(_) => {}
        }
    }

    /// A promise that is not yet on the disk. The coordinator is asked soon after a recovery.
    fn promise(&self, coordinator: CoordinatorName, epoch: Epoch, serial: u64, until: Time) -> Promise {
        let (state, pause) = (State::Promising(WriteId(0), None), self.config.pause);
        Promise { coordinator, epoch, serial, until, state, ask_at: Time::ZERO, pause, wake: None }
    }

    /// True if a coordinator of this epoch may be believed; otherwise it is told.
    fn believes(&mut self, coordinator: &CoordinatorName, epoch: Epoch) -> bool {
        let known = self.known(coordinator);
        if epoch.follows(known) {
            return true;
        }
        self.out.push_back(Output::Outdated { coordinator: coordinator.clone(), known });
        false
    }

    /// Takes over a newer epoch, and forgets what no message can name any more. Returns the records to write.
    fn raise(&mut self, coordinator: &CoordinatorName, epoch: Epoch, floor: u64) -> Vec<ParticipantRecord> {
        if !self.coordinators.contains_key(coordinator) {
            if self.coordinators.len() >= self.config.coordinators {
                return Vec::new();
            }
            self.coordinators.insert(coordinator.clone(), Known::default());
        }
        let Some(known) = self.coordinators.get_mut(coordinator) else { return Vec::new() };
        let newer = epoch.number > known.epoch.number;
        if newer {
            (known.epoch, known.floor) = (epoch, 0);
        }
        known.floor = known.floor.max(floor);
        let rest = known.over.split_off(&(epoch.number, known.floor, FIRST));
        let gone = core::mem::replace(&mut known.over, rest);
        let mut records = Vec::new();
        for (_, _, branch) in gone {
            self.promises.remove(&branch);
            records.push(ParticipantRecord::Forget(branch));
        }
        // A Prepare of what is forgotten may still be on its way: the floor refuses it, also after a crash.
        if newer || !records.is_empty() {
            records.push(self.known_record(coordinator));
        }
        records
    }

    fn known_record(&self, coordinator: &CoordinatorName) -> ParticipantRecord {
        let (epoch, floor) = self.coordinators.get(coordinator).map(|k| (k.epoch, k.floor)).unwrap_or_default();
        ParticipantRecord::Known { coordinator: coordinator.clone(), epoch, floor }
    }

    /// Writes records that belong to no change.
    fn note(&mut self, records: Vec<ParticipantRecord>) {
        if !records.is_empty() {
            self.append(records, PromisedChange::Nothing);
        }
    }

    fn append(&mut self, records: Vec<ParticipantRecord>, change: PromisedChange) -> WriteId {
        let id = WriteId(self.next_write);
        self.next_write += 1;
        self.out.push_back(Output::Append { id, records, change });
        id
    }

    fn prepare(
        &mut self,
        branch: Branch,
        promise: Promise,
        granted: Result<(), String>,
        mut records: Vec<ParticipantRecord>,
    ) {
        let known = self.coordinators.get(&promise.coordinator).map(|known| (known.open, known.floor));
        let vote = match (self.promises.get(&branch).map(|promise| promise.state), known) {
            (Some(State::Promising(..)), _) => None,
            (Some(State::Done(_) | State::Alone(_) | State::Hearing(..)), _) => Some(over()),
            (Some(_), _) => Some(Vote::Yes),
            (None, None) => Some(Vote::No("too many coordinators are known".into())),
            (None, Some((_, floor))) if promise.serial < floor => Some(over()),
            (None, Some((open, _))) if open >= self.config.promises => {
                Some(Vote::No("too many promises to this coordinator are open".into()))
            }
            (None, Some(_)) => match granted {
                Err(why) => Some(Vote::No(why)),
                Ok(()) => {
                    records.push(promise.record(branch, None, false));
                    let id = self.append(core::mem::take(&mut records), PromisedChange::Promise(branch));
                    self.insert(branch, promise);
                    self.wait(branch, id, State::Promising(id, None));
                    None
                }
            },
        };
        if let Some(vote) = vote {
            self.out.push_back(Output::Vote { branch, vote });
        }
        self.note(records);
    }

    fn insert(&mut self, branch: Branch, promise: Promise) {
        if let Some(known) = self.coordinators.get_mut(&promise.coordinator) {
            known.open += 1;
        }
        self.promises.insert(branch, promise);
    }

    /// A promise that could not be written.
    fn remove(&mut self, branch: Branch) {
        if let Some(promise) = self.promises.remove(&branch)
            && let Some(known) = self.coordinators.get_mut(&promise.coordinator)
        {
            known.open -= 1;
        }
    }

    /// Changes the state of a promise, and keeps the indexes.
    fn set(&mut self, branch: Branch, state: State) {
        let Some(promise) = self.promises.get_mut(&branch) else { return };
        promise.state = state;
        let wake = promise.wake_at();
        let old = core::mem::replace(&mut promise.wake, wake);
        if let (State::Done(_), Some(known)) = (state, self.coordinators.get_mut(&promise.coordinator)) {
            known.open -= 1;
            known.over.insert((promise.epoch.number, promise.serial, branch));
        }
        if old != wake {
            old.map(|at| self.due.remove(&(at, branch)));
            wake.map(|at| self.due.insert((at, branch)));
        }
    }

    fn wait(&mut self, branch: Branch, id: WriteId, state: State) {
        self.writing.insert(id, branch);
        self.set(branch, state);
    }

    fn decide(&mut self, branch: Branch, coordinator: &CoordinatorName, decision: Decision) {
        let committed = matches!(decision, Decision::Commit { .. });
        let Some(promise) = self.promises.get(&branch) else {
            // It was never promised here, or it was carried out and is forgotten.
            return self.out.push_back(Output::Acknowledge(branch));
        };
        if promise.coordinator != *coordinator {
            return;
        }
        match promise.state {
            State::Promising(id, _) => self.set(branch, State::Promising(id, Some(decision))),
            State::Promised => self.apply(branch, End::of(decision)),
            // The acknowledgement follows when it is written.
            State::Applying(..) | State::Again(..) | State::Hearing(..) => {}
            State::Alone(made) => {
                if made != committed {
                    self.out.push_back(Output::Contradicted { branch, committed });
                }
                self.hear(branch, made, decision);
            }
            // A late answer to a question may say Abort of what was committed, carried out and forgotten there.
            State::Done(_) => self.out.push_back(Output::Acknowledge(branch)),
        }
    }

    /// Writes that the coordinator's decision is known: it is acknowledged then, and not asked for any more.
    fn hear(&mut self, branch: Branch, made: bool, decision: Decision) {
        let Some(promise) = self.promises.get(&branch) else { return };
        let (coordinator, record) = (promise.coordinator.clone(), promise.record(branch, Some(made), false));
        let mut records = self.count(&coordinator, decision);
        records.push(record);
        let id = self.append(records, PromisedChange::Nothing);
        self.wait(branch, id, State::Hearing(id, made));
    }

    /// Counts a decision that was heard. The record is in every write of a decision, so that a write that failed
    /// and is repeated has it too.
    fn count(&mut self, coordinator: &CoordinatorName, decision: Decision) -> Vec<ParticipantRecord> {
        let Decision::Commit { number } = decision else { return Vec::new() };
        if let Some(known) = self.coordinators.get_mut(coordinator) {
            known.epoch.decisions = known.epoch.decisions.max(number);
        }
        [self.known_record(coordinator)].into()
    }

    /// Writes how a promise ends.
    fn apply(&mut self, branch: Branch, end: End) {
        let Some(promise) = self.promises.get(&branch) else { return };
        let coordinator = promise.coordinator.clone();
        let record = promise.record(branch, Some(matches!(end, End::Make(_))), end.is_alone());
        let mut records = match end {
            End::Make(Some(number)) => self.count(&coordinator, Decision::Commit { number }),
            _ => Vec::new(),
        };
        records.push(record);
        let change = match end {
            End::Make(_) => PromisedChange::Make(branch),
            End::Drop(reason) => PromisedChange::Drop(branch, reason),
        };
        let id = self.append(records, change);
        self.wait(branch, id, State::Applying(id, end));
    }

    fn written(&mut self, now: Time, id: WriteId) {
        while let Some(entry) = self.writing.first_entry().filter(|entry| *entry.key() <= id) {
            let branch = entry.remove();
            let Some(promise) = self.promises.get_mut(&branch) else { continue };
            match promise.state {
                State::Promising(_, decision) => {
                    promise.ask_at = now.saturating_add(promise.pause);
                    self.set(branch, State::Promised);
                    self.out.push_back(Output::Vote { branch, vote: Vote::Yes });
                    if let Some(decision) = decision {
                        self.apply(branch, End::of(decision));
                    }
                }
                State::Applying(_, end) if end.is_alone() => {
                    self.set(branch, State::Alone(matches!(end, End::Make(_))));
                }
                State::Applying(_, end) => {
                    self.set(branch, State::Done(matches!(end, End::Make(_))));
                    self.out.push_back(Output::Acknowledge(branch));
                }
                State::Hearing(_, made) => {
                    self.set(branch, State::Done(made));
                    self.out.push_back(Output::Acknowledge(branch));
                }
                _ => {}
            }
        }
    }

    fn write_failed(&mut self, now: Time, id: WriteId) {
        let Some(branch) = self.writing.remove(&id) else { return };
        let Some(promise) = self.promises.get_mut(&branch) else { return };
        match promise.state {
            State::Promising(_, decision) => {
                self.remove(branch);
                let vote = Vote::No("the promise could not be written".into());
                self.out.push_back(Output::Vote { branch, vote });
                if decision.is_some() {
                    self.out.push_back(Output::Acknowledge(branch));
                }
            }
            State::Applying(_, end) => {
                let again = now.saturating_add(self.config.pause);
                self.set(branch, State::Again(again, end));
            }
            State::Hearing(_, made) => {
                promise.ask_at = now.saturating_add(promise.pause);
                self.set(branch, State::Alone(made));
            }
            _ => {}
        }
    }

    /// No pause is longer than the longest. One that is was begun before the clock was set back: it ends earlier.
    fn hold_pauses(&mut self, now: Time) {
        let latest = now.saturating_add(self.config.longest_pause);
        while let Some((at, branch)) = self.due.last().copied().filter(|(at, _)| *at > latest) {
            let Some(promise) = self.promises.get_mut(&branch) else {
                self.due.remove(&(at, branch));
                continue;
            };
            promise.ask_at = promise.ask_at.min(now.saturating_add(promise.pause)).min(latest);
            let state = match promise.state {
                State::Again(again, end) => State::Again(again.min(latest), end),
                other => other,
            };
            self.set(branch, state);
        }
    }

    /// Everything that time has made due.
    fn catch_up(&mut self, now: Time) {
        let due = self.due.range(..=(now, LAST)).map(|(_, branch)| *branch).collect::<Vec<_>>();
        for branch in due {
            let Some(promise) = self.promises.get_mut(&branch) else { continue };
            match promise.state {
                State::Promised if promise.until <= now => self.apply(branch, End::Drop(DropReason::Moot)),
                State::Again(_, end) => self.apply(branch, end),
                state @ (State::Promised | State::Alone(_)) => {
                    promise.ask_at = now.saturating_add(promise.pause);
                    promise.pause = promise.pause.saturating_add(promise.pause).min(self.config.longest_pause);
                    let (coordinator, epoch) = (promise.coordinator.clone(), promise.epoch);
                    self.out.push_back(Output::Ask { branch, coordinator, epoch });
                    self.set(branch, state);
                }
                _ => {}
            }
        }
    }
}

fn over() -> Vote {
    Vote::No("this transaction is over".into())
}
