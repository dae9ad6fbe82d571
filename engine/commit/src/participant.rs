//! The participant of transactions.
//!
//! Its host decides everything that can be refused before it tells [`Input::Prepare`], and makes the change
//! in the same write as the records of [`Output::Append`].

use crate::coordinator::Serial;
use crate::record::{read_epoch, write_epoch};
use crate::{Branch, CoordinatorName, Decision, Epoch, TransactionId, Vote};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use terms::codec::{Corrupt, Reader, Writer};
use terms::{Span, Time};

/// A write on its way to the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriteId(pub u64);

/// Limits and times of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// The most open promises to one coordinator.
    pub promises: usize,
    /// The most coordinators.
    pub coordinators: usize,
    /// The wait for a decision before the coordinator is asked; it doubles.
    pub pause: Span,
    /// The longest wait between two questions.
    pub longest_pause: Span,
}

impl Default for Config {
    /// 1,000 promises to each of 64 coordinators; asks after 2 s, and every 60 s at the latest.
    fn default() -> Config {
        Config { promises: 1_000, coordinators: 64, pause: Span::from_secs(2), longest_pause: Span::from_secs(60) }
    }
}

/// A record of a participant's journal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// The newest epoch of a coordinator, and the number of the newest decision that was heard from it.
    Known {
        /// The coordinator.
        coordinator: CoordinatorName,
        /// The epoch; `decisions` counts those that were heard since as well.
        epoch: Epoch,
    },
    /// A promise, or what became of it.
    Branch {
        /// The part of the transaction.
        branch: Branch,
        /// The coordinator.
        coordinator: CoordinatorName,
        /// The epoch in which it was promised.
        epoch: Epoch,
        /// The number of its transaction in the epoch.
        serial: u64,
        /// The instant at which the promise is moot.
        until: Time,
        /// `None`: promised. Otherwise: true if the change was made.
        made: Option<bool>,
    },
    /// The record of this part of a transaction is deleted.
    Forget(Branch),
}

/// The change that the host makes in the same write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Change {
    /// The part is promised: its amounts count, and no timer ends it.
    Promise(Branch),
    /// The promise comes true.
    Make(Branch),
    /// The promise is dropped: its amounts are free.
    Drop(Branch, DropReason),
    /// None.
    Nothing,
}

/// The reason for dropping a promise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// The coordinator decided so.
    Aborted,
    /// Its last window has passed without a decision.
    Moot,
    /// An operator decided so.
    Resolved,
}

/// An input of the participant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A record of the journal, before [`Input::Recovered`], in any order.
    Recovering(Record),
    /// The last record has come.
    Recovered,
    /// A coordinator asks for a vote, and the host has decided.
    Prepare {
        /// The part of the transaction.
        branch: Branch,
        /// The coordinator.
        coordinator: CoordinatorName,
        /// Its epoch.
        epoch: Epoch,
        /// The place of the transaction in the epoch.
        serial: Serial,
        /// The host's decision, or the reason of its refusal, for people.
        granted: Result<(), String>,
        /// The end of the last window that is promised; [`Time::FOREVER`]: it is open.
        until: Time,
    },
    /// A coordinator tells its decision.
    Decide {
        /// The part of the transaction.
        branch: Branch,
        /// The coordinator.
        coordinator: CoordinatorName,
        /// Its epoch.
        epoch: Epoch,
        /// The decision.
        decision: Decision,
    },
    /// A coordinator has connected.
    Connected {
        /// The coordinator.
        coordinator: CoordinatorName,
        /// Its epoch.
        epoch: Epoch,
    },
    /// An operator decides a promise.
    Resolve {
        /// The part of the transaction.
        branch: Branch,
        /// True: the promise comes true.
        commit: bool,
    },
    /// A write, and every write before it, is on the disk.
    Written(WriteId),
    /// A write failed, and nothing of it is on the disk.
    WriteFailed(WriteId),
    /// The time of `wake_at()` has come.
    Wake,
}

/// An output of the participant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Write these records and the host's change, all or none; answer [`Input::Written`] or
    /// [`Input::WriteFailed`].
    Append {
        /// The write.
        id: WriteId,
        /// The records.
        records: Vec<Record>,
        /// The host's change.
        change: Change,
    },
    /// The vote. A Yes is on the disk.
    Vote {
        /// The part of the transaction.
        branch: Branch,
        /// The vote.
        vote: Vote,
    },
    /// The decision is carried out, and this is on the disk.
    Acknowledge(Branch),
    /// The coordinator is older than one that this participant has heard of, or has forgotten decisions: the
    /// message is refused.
    Outdated {
        /// The coordinator.
        coordinator: CoordinatorName,
        /// What this participant knows.
        known: Epoch,
    },
    /// Ask the coordinator for its decision.
    Ask {
        /// The part of the transaction.
        branch: Branch,
        /// The coordinator.
        coordinator: CoordinatorName,
        /// The epoch in which it was promised.
        epoch: Epoch,
    },
    /// The coordinator has decided otherwise than an operator did here, or than time did: people must know.
    Contradicted {
        /// The part of the transaction.
        branch: Branch,
        /// True: the others made the change.
        committed: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// On its way to the disk; `Some`: the decision that has come meanwhile.
    Promising(WriteId, Option<Decision>),
    /// On the disk. Nothing but a decision ends it.
    Promised,
    /// The decision is on its way to the disk.
    Applying(WriteId, End),
    /// The decision could not be written: again at this time.
    Again(Time, End),
    /// Over: true if the change was made. Kept so that a repeated Prepare is known.
    Done(bool),
}

/// How a promise ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum End {
    Make(Option<u64>),
    Drop(DropReason),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Promise {
    coordinator: CoordinatorName,
    epoch: Epoch,
    serial: u64,
    until: Time,
    state: State,
    ask_at: Time,
    pause: Span,
}

/// The participant of transactions: see the crate's description.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Participant {
    config: Config,
    started: bool,
    known: BTreeMap<CoordinatorName, Epoch>,
    promises: BTreeMap<Branch, Promise>,
    next_write: u64,
    out: VecDeque<Output>,
}

impl Participant {
    /// A participant without a past: tell it its journal.
    pub fn new(config: Config) -> Participant {
        let (known, promises) = (BTreeMap::new(), BTreeMap::new());
        Participant { config, started: false, known, promises, next_write: 1, out: VecDeque::new() }
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Recovering(record) => self.recover(record),
            Input::Recovered => self.started = true,
            Input::Prepare { branch, coordinator, epoch, serial, granted, until } => {
                if self.believes(&coordinator, epoch) {
                    let forgets = self.raise(&coordinator, epoch, serial.floor);
                    let promise = self.promise(coordinator, epoch, serial.number, until);
                    self.prepare(branch, promise, granted, serial.floor, forgets);
                }
            }
            Input::Decide { branch, coordinator, epoch, decision } => {
                if self.believes(&coordinator, epoch) {
                    let forgets = self.raise(&coordinator, epoch, 0);
                    self.decide(branch, &coordinator, decision);
                    self.note(forgets, &coordinator);
                }
            }
            Input::Connected { coordinator, epoch } => {
                if self.believes(&coordinator, epoch) {
                    let forgets = self.raise(&coordinator, epoch, 0);
                    self.note(forgets, &coordinator);
                }
            }
            Input::Resolve { branch, commit } => {
                let end = if commit { End::Make(None) } else { End::Drop(DropReason::Resolved) };
                if self.promises.get(&branch).is_some_and(|promise| promise.state == State::Promised) {
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
        let of = |promise: &Promise| match promise.state {
            State::Promised => Some(promise.ask_at.min(promise.until)),
            State::Again(at, _) => Some(at),
            _ => None,
        };
        self.promises.values().filter_map(of).min()
    }

    /// The newest epoch that was heard of a coordinator.
    pub fn known(&self, coordinator: &str) -> Epoch {
        self.known.get(coordinator).copied().unwrap_or_default()
    }

    /// The open promises, with their coordinator and epoch.
    pub fn promises(&self) -> impl Iterator<Item = (Branch, &CoordinatorName, Epoch)> + '_ {
        let open = self.promises.iter().filter(|(_, promise)| promise.is_open());
        open.map(|(branch, promise)| (*branch, &promise.coordinator, promise.epoch))
    }

    /// True if this part is promised and not decided.
    pub fn is_promised(&self, branch: Branch) -> bool {
        self.promises.get(&branch).is_some_and(|promise| promise.state == State::Promised)
    }

    /// The vote of a part that was asked before: a host need not decide again. `None`: it is new.
    pub fn earlier(&self, branch: Branch) -> Option<Vote> {
        let promise = self.promises.get(&branch)?;
        Some(if promise.is_open() { Vote::Yes } else { over() })
    }

    fn recover(&mut self, record: Record) {
        match record {
            Record::Known { coordinator, epoch } => drop(self.known.insert(coordinator, epoch)),
            Record::Branch { branch, coordinator, epoch, serial, until, made } => {
                let state = made.map_or(State::Promised, State::Done);
                let promise = Promise { state, ..self.promise(coordinator, epoch, serial, until) };
                self.promises.insert(branch, promise);
            }
            Record::Forget(_) => {}
        }
    }

    /// A promise that is not yet on the disk. The coordinator is asked soon after a recovery.
    fn promise(&self, coordinator: CoordinatorName, epoch: Epoch, serial: u64, until: Time) -> Promise {
        let (state, pause) = (State::Promising(WriteId(0), None), self.config.pause);
        Promise { coordinator, epoch, serial, until, state, ask_at: Time::ZERO, pause }
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
    fn raise(&mut self, coordinator: &CoordinatorName, epoch: Epoch, floor: u64) -> Vec<Record> {
        let known = self.known(coordinator);
        let newer = epoch.number > known.number;
        if newer && (self.known.contains_key(coordinator) || self.known.len() < self.config.coordinators) {
            self.known.insert(coordinator.clone(), epoch);
        }
        let over = |promise: &Promise| {
            let older = promise.epoch.number < epoch.number || promise.serial < floor;
            promise.coordinator == *coordinator && matches!(promise.state, State::Done(_)) && older
        };
        let gone: Vec<Branch> = self.promises.iter().filter(|(_, promise)| over(promise)).map(|(b, _)| *b).collect();
        gone.iter().for_each(|branch| drop(self.promises.remove(branch)));
        let mut records: Vec<Record> = gone.into_iter().map(Record::Forget).collect();
        if newer {
            records.push(self.known_record(coordinator));
        }
        records
    }

    fn known_record(&self, coordinator: &CoordinatorName) -> Record {
        Record::Known { coordinator: coordinator.clone(), epoch: self.known(coordinator) }
    }

    /// Writes records that belong to no change.
    fn note(&mut self, records: Vec<Record>, _coordinator: &CoordinatorName) {
        if !records.is_empty() {
            self.append(records, Change::Nothing);
        }
    }

    fn append(&mut self, records: Vec<Record>, change: Change) -> WriteId {
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
        floor: u64,
        mut records: Vec<Record>,
    ) {
        let coordinator = promise.coordinator.clone();
        let vote = match self.promises.get(&branch).map(|promise| promise.state) {
            Some(State::Promising(..)) => None,
            Some(State::Done(_)) => Some(over()),
            Some(_) => Some(Vote::Yes),
            None if promise.serial < floor => Some(over()),
            None if self.open_of(&coordinator) >= self.config.promises => {
                Some(Vote::No("too many promises to this coordinator are open".into()))
            }
            None if !self.known.contains_key(&coordinator) => Some(Vote::No("too many coordinators are known".into())),
            None => match granted {
                Err(why) => Some(Vote::No(why)),
                Ok(()) => {
                    self.promises.insert(branch, promise);
                    records.push(self.record(branch, None));
                    let id = self.append(core::mem::take(&mut records), Change::Promise(branch));
                    self.set(branch, State::Promising(id, None));
                    None
                }
            },
        };
        if let Some(vote) = vote {
            self.out.push_back(Output::Vote { branch, vote });
        }
        self.note(records, &coordinator);
    }

    fn open_of(&self, coordinator: &CoordinatorName) -> usize {
        self.promises.values().filter(|promise| promise.is_open() && promise.coordinator == *coordinator).count()
    }

    fn record(&self, branch: Branch, made: Option<bool>) -> Record {
        let Some(Promise { coordinator, epoch, serial, until, .. }) = self.promises.get(&branch).cloned() else {
            return Record::Forget(branch);
        };
        Record::Branch { branch, coordinator, epoch, serial, until, made }
    }

    fn set(&mut self, branch: Branch, state: State) {
        if let Some(promise) = self.promises.get_mut(&branch) {
            promise.state = state;
        }
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
            State::Applying(..) | State::Again(..) => {}
            State::Done(made) => {
                if made != committed {
                    self.out.push_back(Output::Contradicted { branch, committed });
                }
                self.out.push_back(Output::Acknowledge(branch));
            }
        }
    }

    /// Writes how a promise ends.
    fn apply(&mut self, branch: Branch, end: End) {
        let made = matches!(end, End::Make(_));
        let Some(coordinator) = self.promises.get(&branch).map(|promise| promise.coordinator.clone()) else { return };
        let mut records = Vec::new();
        if let (End::Make(Some(number)), Some(known)) = (end, self.known.get_mut(&coordinator))
            && number > known.decisions
        {
            known.decisions = number;
            records.push(self.known_record(&coordinator));
        }
        records.push(self.record(branch, Some(made)));
        let change = match end {
            End::Make(_) => Change::Make(branch),
            End::Drop(reason) => Change::Drop(branch, reason),
        };
        let id = self.append(records, change);
        self.set(branch, State::Applying(id, end));
    }

    fn written(&mut self, now: Time, id: WriteId) {
        let due: Vec<Branch> = self.promises.iter().filter(|(_, p)| p.waits_for(id)).map(|(b, _)| *b).collect();
        for branch in due {
            let Some(promise) = self.promises.get_mut(&branch) else { continue };
            match promise.state {
                State::Promising(_, decision) => {
                    promise.state = State::Promised;
                    promise.ask_at = now.saturating_add(promise.pause);
                    self.out.push_back(Output::Vote { branch, vote: Vote::Yes });
                    if let Some(decision) = decision {
                        self.apply(branch, End::of(decision));
                    }
                }
                State::Applying(_, end) => {
                    promise.state = State::Done(matches!(end, End::Make(_)));
                    if !matches!(end, End::Drop(DropReason::Moot | DropReason::Resolved) | End::Make(None)) {
                        self.out.push_back(Output::Acknowledge(branch));
                    }
                }
                _ => {}
            }
        }
    }

    fn write_failed(&mut self, now: Time, id: WriteId) {
        let failed = |promise: &Promise| match promise.state {
            State::Promising(of, _) | State::Applying(of, _) => of == id,
            _ => false,
        };
        let due: Vec<Branch> = self.promises.iter().filter(|(_, p)| failed(p)).map(|(b, _)| *b).collect();
        for branch in due {
            match self.promises.get(&branch).map(|promise| promise.state) {
                Some(State::Promising(_, decision)) => {
                    self.promises.remove(&branch);
                    let vote = Vote::No("the promise could not be written".into());
                    self.out.push_back(Output::Vote { branch, vote });
                    if decision.is_some() {
                        self.out.push_back(Output::Acknowledge(branch));
                    }
                }
                Some(State::Applying(_, end)) => {
                    self.set(branch, State::Again(now.saturating_add(Span::from_secs(1)), end));
                }
                _ => {}
            }
        }
    }

    /// Everything that time has made due.
    fn catch_up(&mut self, now: Time) {
        let mut due = Vec::new();
        for (branch, promise) in &mut self.promises {
            match promise.state {
                State::Promised if promise.until <= now => due.push((*branch, End::Drop(DropReason::Moot))),
                State::Promised if promise.ask_at <= now => {
                    promise.ask_at = now.saturating_add(promise.pause);
                    promise.pause = promise.pause.saturating_add(promise.pause).min(self.config.longest_pause);
                    let (coordinator, epoch) = (promise.coordinator.clone(), promise.epoch);
                    self.out.push_back(Output::Ask { branch: *branch, coordinator, epoch });
                }
                State::Again(at, end) if at <= now => due.push((*branch, end)),
                _ => {}
            }
        }
        due.into_iter().for_each(|(branch, end)| self.apply(branch, end));
    }
}

fn over() -> Vote {
    Vote::No("this transaction is over".into())
}

impl End {
    fn of(decision: Decision) -> End {
        match decision {
            Decision::Commit { number } => End::Make(Some(number)),
            Decision::Abort => End::Drop(DropReason::Aborted),
        }
    }
}

impl Promise {
    fn is_open(&self) -> bool {
        !matches!(self.state, State::Done(_))
    }

    fn waits_for(&self, id: WriteId) -> bool {
        matches!(self.state, State::Promising(of, _) | State::Applying(of, _) if of <= id)
    }
}

impl Record {
    /// The key under which the journal keeps it.
    pub fn key(&self) -> Vec<u8> {
        let mut w = Writer::default();
        match self {
            Record::Known { coordinator, .. } => {
                w.byte(0);
                w.raw(coordinator.as_bytes());
            }
            Record::Branch { branch, .. } | Record::Forget(branch) => {
                w.byte(1);
                w.raw(&branch.transaction.0);
                w.number(branch.member.into());
            }
        }
        w.into_bytes()
    }

    /// The value; `None`: the key is deleted.
    pub fn value(&self) -> Option<Vec<u8>> {
        let mut w = Writer::default();
        w.byte(1);
        match self {
            Record::Forget(_) => return None,
            Record::Known { epoch, .. } => write_epoch(&mut w, *epoch),
            Record::Branch { coordinator, epoch, serial, until, made, .. } => {
                w.text(coordinator);
                write_epoch(&mut w, *epoch);
                w.number(*serial);
                w.number(until.as_nanos());
                w.option(made, |w, made| w.byte(u8::from(*made)));
            }
        }
        Some(w.into_bytes())
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`Corrupt`]: it breaks its form.
    pub fn read(key: &[u8], value: &[u8]) -> Result<Record, Corrupt> {
        let (mut k, mut r) = (Reader::new(key), Reader::new(value));
        if r.byte()? != 1 {
            return Err(Corrupt("a newer program wrote it"));
        }
        let record = if k.byte()? == 0 {
            let name = core::str::from_utf8(&key[1..]).map_err(|_| Corrupt("text is not UTF-8"))?;
            Record::Known { coordinator: name.into(), epoch: read_epoch(&mut r)? }
        } else {
            let branch = Branch { transaction: TransactionId(k.array()?), member: k.small()? };
            k.end()?;
            Record::Branch {
                branch,
                coordinator: r.text()?.into(),
                epoch: read_epoch(&mut r)?,
                serial: r.number()?,
                until: Time::from_nanos(r.number()?),
                made: r.option(|r| match r.byte()? {
                    0 => Ok(false),
                    1 => Ok(true),
                    _ => Err(Corrupt("neither made nor not")),
                })?,
            }
        };
        r.end()?;
        Ok(record)
    }
}
