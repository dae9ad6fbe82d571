//! The coordinator of transactions.

use crate::record::{MemberRecord, Record};
use crate::{Branch, Decision, Epoch, TransactionId, Vote};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use terms::{Span, Time};

/// A batch of records on its way to the journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchId(pub u64);

/// Limits and times of a coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// The longest wait for votes; then the transaction is aborted.
    pub patience: Span,
    /// The first pause before a decision is sent again to a member that has not acknowledged it; it doubles.
    pub pause: Span,
    /// The longest pause.
    pub longest_pause: Span,
    /// The most transactions that are open at once.
    pub limit: usize,
}

impl Default for Config {
    /// 20 s for votes; 250 ms to 5 s between repetitions; 10,000 transactions.
    fn default() -> Config {
        let milliseconds = |ms: u64| Span::from_nanos(ms * 1_000_000);
        let (pause, longest_pause) = (milliseconds(250), milliseconds(5_000));
        Config { patience: Span::from_secs(20), pause, longest_pause, limit: 10_000 }
    }
}

/// The place of a transaction in its epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Serial {
    /// Its number in the epoch, from 1.
    pub number: u64,
    /// Every transaction of this epoch with a lower number has ended.
    pub floor: u64,
}

/// The two kinds of transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// All members are asked first; each may refuse.
    Vote,
    /// It is decided already, and no member can refuse it (a cancellation): written down, then driven to its
    /// end.
    Order,
}

/// An input of the coordinator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A record of the journal, before [`Input::Recovered`], in any order.
    Recovering(Record),
    /// The last record has come: a new epoch begins.
    Recovered {
        /// A number drawn by chance, for [`Epoch::nonce`].
        nonce: u64,
    },
    /// A new transaction.
    Begin {
        /// Its number.
        id: TransactionId,
        /// Its kind.
        kind: Kind,
        /// Its members, at least one.
        members: Vec<MemberRecord>,
        /// The caller's words about it, kept in the journal.
        note: Vec<u8>,
    },
    /// A member has voted.
    Voted {
        /// The member.
        branch: Branch,
        /// Its vote.
        vote: Vote,
    },
    /// A member has not answered Prepare, and may have promised.
    Lost {
        /// The member.
        branch: Branch,
        /// The reason, for people.
        why: String,
    },
    /// The caller does not want it any more. A transaction that is decided stays decided.
    GiveUp(TransactionId),
    /// A member has done what was decided, and this is on its disk.
    Acknowledged(Branch),
    /// A participant can be reached, perhaps again: its name. Decisions are sent again at once.
    Connected(String),
    /// A participant's open promises to this coordinator.
    Promises {
        /// The promises, each with the number of its epoch.
        promises: Vec<(Branch, u64)>,
        /// The participant.
        name: String,
    },
    /// A participant refuses this coordinator, because it knows a newer epoch or has seen more decisions.
    Outdated {
        /// What it knows.
        known: Epoch,
    },
    /// The operator says that the journal is an older copy, and that no other process uses the coordinator's
    /// name: go on after this epoch. Transactions that may have been lost are not presumed to be aborted.
    AcceptOlder {
        /// The newest epoch that participants know.
        known: Epoch,
        /// A number drawn by chance, for [`Epoch::nonce`].
        nonce: u64,
    },
    /// A batch, and every batch before it, is on the disk.
    Written(BatchId),
    /// A batch could not be written, and nothing of it is on the disk: the reason, for people.
    WriteFailed(BatchId, String),
    /// The time of `wake_at()` has come.
    Wake,
}

/// An output of the coordinator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Write these records, all or none, in order; answer [`Input::Written`] or [`Input::WriteFailed`].
    Append {
        /// The batch.
        batch: BatchId,
        /// Its records.
        records: Vec<Record>,
        /// False: nothing waits for it.
        forced: bool,
    },
    /// Ask this member for its vote.
    Prepare {
        /// The member.
        branch: Branch,
        /// The epoch.
        epoch: Epoch,
        /// The place of the transaction in its epoch.
        serial: Serial,
    },
    /// Tell this member the decision. It is repeated until the member acknowledges it.
    Decide {
        /// The member.
        branch: Branch,
        /// The participant's name.
        name: String,
        /// The epoch.
        epoch: Epoch,
        /// The decision.
        decision: Decision,
    },
    /// The decision, for the caller. A commit is on the disk.
    Decided {
        /// The transaction.
        id: TransactionId,
        /// The decision.
        decision: Decision,
        /// The reason of an abort: the member that refused or was lost, if one was, and words for people.
        why: Option<(Option<u32>, String)>,
    },
    /// The transaction was not begun: the reason, for people.
    NotBegun {
        /// The transaction.
        id: TransactionId,
        /// The reason.
        why: String,
    },
    /// Every member has acknowledged.
    Ended(TransactionId),
    /// Participants know a newer epoch. Nothing is begun or decided any more until [`Input::AcceptOlder`].
    Outdated {
        /// What they know.
        known: Epoch,
    },
    /// A promise whose outcome this journal has lost: an operator must decide at the participant.
    Unresolved {
        /// The member.
        branch: Branch,
        /// The participant.
        name: String,
    },
}

/// The outcome of a transaction, for a participant that asks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// Not decided yet, or this coordinator cannot know: ask again later.
    Open,
    /// Decided.
    Decided(Decision),
    /// The journal has lost it: an operator must decide.
    Unknown,
}

/// The phase of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phase {
    /// Members are asked for their votes.
    Preparing,
    /// The decision is on its way to the disk.
    Deciding,
    /// It is decided, and members are told.
    Committing,
    /// It is aborted, and members are told.
    Aborting,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Member {
    record: MemberRecord,
    yes: bool,
    acknowledged: bool,
    due: Time,
    pause: Span,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Transaction {
    epoch: Epoch,
    phase: Phase,
    number: u64,
    /// Its number in this coordinator's present epoch; 0: it is of an earlier one.
    serial: u64,
    members: Vec<Member>,
    note: Vec<u8>,
    deadline: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Readiness {
    Reading,
    /// The epoch is on its way to the disk.
    Opening(BatchId),
    Open,
    /// The epoch could not be written: again at this time.
    Closed(Time),
    Outdated,
}

/// The coordinator of transactions: see the crate's description.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Coordinator {
    config: Config,
    readiness: Readiness,
    epoch: Epoch,
    decisions: u64,
    forgotten: (u64, u64),
    transactions: BTreeMap<TransactionId, Transaction>,
    /// Decisions on their way to the disk.
    deciding: BTreeMap<BatchId, TransactionId>,
    next_batch: u64,
    /// The number of transactions that began in this epoch.
    serial: u64,
    out: VecDeque<Output>,
}

impl Coordinator {
    /// A coordinator without a past: tell it its journal.
    pub fn new(config: Config) -> Coordinator {
        Coordinator {
            config,
            readiness: Readiness::Reading,
            epoch: Epoch::default(),
            decisions: 0,
            forgotten: (0, 0),
            transactions: BTreeMap::new(),
            deciding: BTreeMap::new(),
            next_batch: 1,
            serial: 0,
            out: VecDeque::new(),
        }
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Recovering(record) => self.recover(record),
            Input::Recovered { nonce } => {
                self.epoch.nonce = nonce;
                self.open();
            }
            Input::Begin { id, kind, members, note } => self.begin(now, id, kind, members, note),
            Input::Voted { branch, vote: Vote::Yes } => self.agreed(branch),
            Input::Voted { branch, vote: Vote::No(why) } => self.refused(now, branch, why, true),
            Input::Lost { branch, why } => self.refused(now, branch, why, false),
            Input::GiveUp(id) => self.abort(now, id, None, "its caller gave it up".into()),
            Input::Acknowledged(branch) => self.acknowledged(branch),
            Input::Connected(name) => self.connected(now, &name),
            Input::Promises { promises, name } => self.promised(promises, &name),
            Input::Outdated { known } => self.outdated(known),
            Input::AcceptOlder { known, nonce } => self.accept_older(known, nonce),
            Input::Written(batch) => self.written(now, batch),
            Input::WriteFailed(batch, why) => self.write_failed(now, batch, why),
            Input::Wake => {}
        }
        self.catch_up(now);
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The time for [`Input::Wake`], if nothing else happens.
    pub fn wake_at(&self) -> Option<Time> {
        let closed = if let Readiness::Closed(again) = self.readiness { Some(again) } else { None };
        if self.readiness != Readiness::Open {
            return closed;
        }
        self.transactions.values().filter_map(Transaction::wake_at).min()
    }

    /// True if transactions can begin.
    pub fn is_open(&self) -> bool {
        self.readiness == Readiness::Open
    }

    /// The present epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The transactions that have not ended: number, phase, the caller's words.
    pub fn transactions(&self) -> impl Iterator<Item = (TransactionId, Phase, &[u8])> + '_ {
        self.transactions.iter().map(|(id, of)| (*id, of.phase, &*of.note))
    }

    /// The phase of a transaction that has not ended.
    pub fn phase(&self, id: TransactionId) -> Option<Phase> {
        self.transactions.get(&id).map(|of| of.phase)
    }

    /// A member of a transaction that has not ended.
    pub fn member(&self, branch: Branch) -> Option<&MemberRecord> {
        Some(&self.transactions.get(&branch.transaction)?.members.get(branch.member as usize)?.record)
    }

    /// The outcome of a transaction, for a participant that promised in the epoch of this number.
    pub fn outcome(&self, id: TransactionId, epoch: u64) -> Outcome {
        if self.readiness != Readiness::Open {
            return Outcome::Open;
        }
        match self.transactions.get(&id) {
            Some(of) => of.decision().map_or(Outcome::Open, Outcome::Decided),
            // A newer start of this coordinator knows.
            None if epoch > self.epoch.number => Outcome::Open,
            None if self.forgotten.0 <= epoch && epoch <= self.forgotten.1 => Outcome::Unknown,
            None => Outcome::Decided(Decision::Abort),
        }
    }

    fn recover(&mut self, record: Record) {
        match record {
            Record::Epoch { number, decisions, forgotten } => {
                self.epoch = Epoch { number, decisions, nonce: 0 };
                (self.decisions, self.forgotten) = (decisions, forgotten);
            }
            Record::Transaction { id, epoch, committed, members, note } => {
                let phase = if committed.is_some() { Phase::Committing } else { Phase::Aborting };
                let number = committed.unwrap_or(0);
                let (deadline, members) = (Time::FOREVER, self.members(members, Time::ZERO));
                self.transactions.insert(id, Transaction { epoch, phase, number, serial: 0, members, note, deadline });
            }
            Record::End(_) => {}
        }
    }

    fn members(&self, records: Vec<MemberRecord>, due: Time) -> Vec<Member> {
        let pause = self.config.pause;
        let member = |record| Member { record, yes: false, acknowledged: false, due, pause };
        records.into_iter().map(member).collect()
    }

    /// Starts an epoch: nothing is said in it before it is on the disk.
    fn open(&mut self) {
        (self.epoch.number, self.epoch.decisions, self.serial) = (self.epoch.number + 1, self.decisions, 0);
        let batch = self.append([self.epoch_record()].into(), true);
        self.readiness = Readiness::Opening(batch);
    }

    fn epoch_record(&self) -> Record {
        Record::Epoch { number: self.epoch.number, decisions: self.decisions, forgotten: self.forgotten }
    }

    fn append(&mut self, records: Vec<Record>, forced: bool) -> BatchId {
        let batch = BatchId(self.next_batch);
        self.next_batch += 1;
        self.out.push_back(Output::Append { batch, records, forced });
        batch
    }

    fn begin(&mut self, now: Time, id: TransactionId, kind: Kind, members: Vec<MemberRecord>, note: Vec<u8>) {
        let why = match self.readiness {
            Readiness::Outdated => {
                Some("participants know a newer start of this coordinator, or its journal is an older copy")
            }
            Readiness::Open if self.transactions.contains_key(&id) => Some("a transaction of this number is open"),
            Readiness::Open if self.transactions.len() >= self.config.limit => Some("too many transactions are open"),
            Readiness::Open if members.is_empty() => Some("it has no members"),
            Readiness::Open => None,
            _ => Some("the coordinator is starting, or cannot write its journal"),
        };
        if let Some(why) = why {
            return self.out.push_back(Output::NotBegun { id, why: why.into() });
        }
        let members = self.members(members, Time::FOREVER);
        let deadline = now.saturating_add(self.config.patience);
        let (epoch, phase) = (self.epoch, Phase::Preparing);
        self.serial += 1;
        let of = Transaction { epoch, phase, number: 0, serial: self.serial, members, note, deadline };
        if kind == Kind::Order {
            self.transactions.insert(id, of);
            return self.decide(id);
        }
        let record = of.record(id);
        self.append([record].into(), false);
        let members = of.members.len() as u32;
        self.transactions.insert(id, of);
        let open = self.transactions.values().map(|of| of.serial).filter(|serial| *serial > 0);
        let serial = Serial { number: self.serial, floor: open.min().unwrap_or(self.serial) };
        for member in 0..members {
            self.out.push_back(Output::Prepare { branch: Branch { transaction: id, member }, epoch, serial });
        }
    }

    /// Writes the decision to commit. It becomes true when it is on the disk.
    fn decide(&mut self, id: TransactionId) {
        let Some(of) = self.transactions.get_mut(&id) else { return };
        self.decisions += 1;
        (of.phase, of.number) = (Phase::Deciding, self.decisions);
        let record = of.record(id);
        let batch = self.append([record, self.epoch_record()].into(), true);
        self.deciding.insert(batch, id);
    }

    fn agreed(&mut self, branch: Branch) {
        let Some(of) = self.transactions.get_mut(&branch.transaction) else { return };
        let Some(member) = of.members.get_mut(branch.member as usize) else { return };
        if of.phase != Phase::Preparing {
            return;
        }
        member.yes = true;
        if of.members.iter().all(|member| member.yes) {
            self.decide(branch.transaction);
        }
    }

    fn refused(&mut self, now: Time, branch: Branch, why: String, keeps_nothing: bool) {
        let Some(of) = self.transactions.get_mut(&branch.transaction) else { return };
        let Some(member) = of.members.get_mut(branch.member as usize) else { return };
        // A member that has said Yes keeps a promise, whatever a late or repeated message says.
        if matches!(of.phase, Phase::Preparing | Phase::Aborting) && !member.yes && keeps_nothing {
            member.acknowledged = true;
        }
        self.abort(now, branch.transaction, Some(branch.member), why);
        self.end(branch.transaction);
    }

    fn abort(&mut self, now: Time, id: TransactionId, member: Option<u32>, why: String) {
        let Some(of) = self.transactions.get_mut(&id) else { return };
        if of.phase != Phase::Preparing {
            return;
        }
        of.tell(Phase::Aborting, now);
        self.out.push_back(Output::Decided { id, decision: Decision::Abort, why: Some((member, why)) });
    }

    fn acknowledged(&mut self, branch: Branch) {
        let Some(of) = self.transactions.get_mut(&branch.transaction) else { return };
        let Some(member) = of.members.get_mut(branch.member as usize) else { return };
        if of.phase > Phase::Deciding {
            member.acknowledged = true;
            self.end(branch.transaction);
        }
    }

    /// Forgets a transaction that every member has acknowledged.
    fn end(&mut self, id: TransactionId) {
        let over = |of: &Transaction| of.phase > Phase::Deciding && of.members.iter().all(|m| m.acknowledged);
        if self.transactions.get(&id).is_some_and(over) {
            self.transactions.remove(&id);
            self.append([Record::End(id)].into(), false);
            self.out.push_back(Output::Ended(id));
        }
    }

    fn connected(&mut self, now: Time, name: &str) {
        let pause = self.config.pause;
        let members = self.transactions.values_mut().flat_map(|of| &mut of.members);
        for member in members.filter(|member| member.record.name == name && !member.acknowledged) {
            if member.due != Time::FOREVER {
                (member.due, member.pause) = (now, pause);
            }
        }
    }

    fn promised(&mut self, promises: Vec<(Branch, u64)>, name: &str) {
        for (branch, epoch) in promises {
            let name = name.into();
            match self.outcome(branch.transaction, epoch) {
                Outcome::Open => {}
                Outcome::Decided(decision) => {
                    self.out.push_back(Output::Decide { branch, name, epoch: self.epoch, decision });
                }
                Outcome::Unknown => self.out.push_back(Output::Unresolved { branch, name }),
            }
        }
    }

    fn outdated(&mut self, known: Epoch) {
        if self.readiness == Readiness::Open && !self.epoch.follows(known) {
            self.readiness = Readiness::Outdated;
            self.out.push_back(Output::Outdated { known });
        }
    }

    fn accept_older(&mut self, known: Epoch, nonce: u64) {
        if self.readiness != Readiness::Outdated {
            return;
        }
        // Everything of the last epoch that the copy has, and of those after it, may have been decided since.
        let first = self.epoch.number.saturating_sub(1).max(1);
        let from = if self.forgotten == (0, 0) { first } else { self.forgotten.0.min(first) };
        self.forgotten = (from, known.number.max(self.epoch.number));
        self.epoch.number = self.forgotten.1;
        self.decisions = self.decisions.max(known.decisions);
        // What the copy shows as undecided may have been decided since as well: only a commit is certain.
        self.transactions.retain(|_, of| of.phase == Phase::Committing);
        self.transactions.values_mut().for_each(|of| of.serial = 0);
        self.epoch.nonce = nonce;
        self.open();
    }

    fn written(&mut self, now: Time, batch: BatchId) {
        if matches!(self.readiness, Readiness::Opening(opening) if opening <= batch) {
            self.readiness = Readiness::Open;
            for of in self.transactions.values_mut() {
                of.tell(of.phase, now);
            }
        }
        while let Some(entry) = self.deciding.first_entry().filter(|entry| *entry.key() <= batch) {
            let id = entry.remove();
            let Some(of) = self.transactions.get_mut(&id) else { continue };
            of.tell(Phase::Committing, now);
            let decision = Decision::Commit { number: of.number };
            self.out.push_back(Output::Decided { id, decision, why: None });
        }
    }

    fn write_failed(&mut self, now: Time, batch: BatchId, why: String) {
        if self.readiness == Readiness::Opening(batch) {
            // The number is not used by anybody: the next attempt may have it too.
            self.epoch.number -= 1;
            self.readiness = Readiness::Closed(now.saturating_add(self.config.longest_pause));
        }
        if let Some(id) = self.deciding.remove(&batch)
            && let Some(of) = self.transactions.get_mut(&id)
        {
            of.number = 0;
            of.tell(Phase::Aborting, now);
            self.out.push_back(Output::Decided { id, decision: Decision::Abort, why: Some((None, why)) });
        }
    }

    /// Everything that time has made due.
    fn catch_up(&mut self, now: Time) {
        if matches!(self.readiness, Readiness::Closed(again) if again <= now) {
            self.open();
        }
        if self.readiness != Readiness::Open {
            return;
        }
        let late = self.transactions.iter().filter(|(_, of)| of.phase == Phase::Preparing && of.deadline <= now);
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.abort(now, id, None, "not all members answered in time".into());
        }
        for (id, of) in &mut self.transactions {
            let Some(decision) = of.decision() else { continue };
            for (place, member) in of.members.iter_mut().enumerate().filter(|(_, m)| !m.acknowledged && m.due <= now) {
                member.due = now.saturating_add(member.pause);
                member.pause = member.pause.saturating_add(member.pause).min(self.config.longest_pause);
                let branch = Branch { transaction: *id, member: place as u32 };
                let name = member.record.name.clone();
                self.out.push_back(Output::Decide { branch, name, epoch: self.epoch, decision });
            }
        }
    }
}

impl Transaction {
    fn record(&self, id: TransactionId) -> Record {
        let committed = (self.number > 0).then_some(self.number);
        let members = self.members.iter().map(|member| member.record.clone()).collect();
        Record::Transaction { id, epoch: self.epoch, committed, members, note: self.note.clone() }
    }

    /// The decision, if it may be told.
    fn decision(&self) -> Option<Decision> {
        match self.phase {
            Phase::Preparing | Phase::Deciding => None,
            Phase::Committing => Some(Decision::Commit { number: self.number }),
            Phase::Aborting => Some(Decision::Abort),
        }
    }

    fn tell(&mut self, phase: Phase, now: Time) {
        self.phase = phase;
        self.members.iter_mut().for_each(|member| member.due = now);
    }

    fn wake_at(&self) -> Option<Time> {
        match self.phase {
            Phase::Preparing => Some(self.deadline),
            Phase::Deciding => None,
            _ => self.members.iter().filter(|member| !member.acknowledged).map(|member| member.due).min(),
        }
    }
}
