//! The coordinator of transactions.

mod epochs;
mod io;
mod transaction;

use crate::record::{CoordinatorRecord, MemberRecord};
use crate::{Branch, Decision, Epoch, TransactionId, Vote};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use terms::Time;
use transaction::{Member, Transaction};

pub use io::{Config, Input, LogBatchId, Outcome, Output, Phase, Serial, TransactionKind};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Readiness {
    Reading,
    /// The epoch is on its way to the disk.
    Opening(LogBatchId),
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
    /// The time at which each transaction has something to do.
    due: BTreeSet<(Time, TransactionId)>,
    /// The numbers of the open transactions of this epoch.
    serials: BTreeSet<u64>,
    /// Participants that have not confirmed the present epoch.
    unheard: BTreeSet<String>,
    /// Transactions that are presumed to be aborted and whose members are not told yet ([`Coordinator::is_held`]).
    held: BTreeSet<TransactionId>,
    /// Decisions on their way to the disk.
    deciding: BTreeMap<LogBatchId, TransactionId>,
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
            due: BTreeSet::new(),
            serials: BTreeSet::new(),
            unheard: BTreeSet::new(),
            held: BTreeSet::new(),
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
            Input::Participant(name) => {
                self.unheard.insert(name);
            }
            Input::Recovered { nonce } => {
                self.epoch.nonce = nonce;
                let lost = self.forget_lost();
                self.open(lost);
            }
            Input::Begin { id, kind, members, note, above } => self.begin(now, id, kind, members, (note, above)),
            Input::Noted { id, note } => {
                if let Some(of) = self.transactions.get_mut(&id).filter(|of| of.phase == Phase::Preparing) {
                    of.note = note;
                }
            }
            Input::Decide(id, commit) => self.decide_as_told(now, id, commit),
            Input::Voted { branch, vote: Vote::Yes } => self.agreed(branch),
            Input::Voted { branch, vote: Vote::No(why) } => self.refused(now, branch, why, true),
            Input::Lost { branch, why } => self.refused(now, branch, why, false),
            Input::GiveUp(id) => self.abort(now, id, None, "its caller gave it up".into()),
            Input::Acknowledged(branch) => self.acknowledged(branch),
            Input::Connected(name) => self.connected(now, &name),
            Input::Confirmed(name) => self.confirmed(now, &name),
            Input::Promises { promises, name } => self.promised(promises, &name),
            Input::Outdated { known } => self.outdated(now, known),
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
        self.due.first().map(|(at, _)| *at)
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

    /// The record of a transaction that has not ended.
    pub fn record(&self, id: TransactionId) -> Option<CoordinatorRecord> {
        self.transactions.get(&id).map(|of| of.record(id))
    }

    /// True if a transaction is presumed to be aborted, and its members are not told yet: one of them has not
    /// confirmed the present epoch.
    pub fn is_held(&self, id: TransactionId) -> bool {
        self.held.contains(&id)
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
            Some(_) if self.is_held(id) => Outcome::Open,
            Some(of) => of.decision().map_or(Outcome::Open, Outcome::Decided),
            // A newer start of this coordinator knows.
            None if epoch > self.epoch.number => Outcome::Open,
            None if self.has_lost(epoch) => Outcome::Unknown,
            // Its other members are not known here: any participant may have heard that it was committed.
            None if epoch < self.epoch.number && !self.unheard.is_empty() => Outcome::Open,
            None => Outcome::Decided(Decision::Abort),
        }
    }

    fn remove(&mut self, id: TransactionId) {
        let Some(of) = self.transactions.remove(&id) else { return };
        self.held.remove(&id);
        self.serials.remove(&of.serial);
        if let Some(wake) = of.wake {
            self.due.remove(&(wake, id));
        }
    }

    /// Brings the index of times up to date after a change of this transaction.
    fn schedule(&mut self, id: TransactionId) {
        let Some(of) = self.transactions.get_mut(&id) else { return };
        let wake = if self.held.contains(&id) { None } else { of.wake_at() };
        if wake == of.wake {
            return;
        }
        if let Some(old) = core::mem::replace(&mut of.wake, wake) {
            self.due.remove(&(old, id));
        }
        if let Some(wake) = wake {
            self.due.insert((wake, id));
        }
    }

    fn tell(&mut self, id: TransactionId, phase: Phase, now: Time) {
        let Some(of) = self.transactions.get_mut(&id) else { return };
        of.phase = phase;
        of.members.iter_mut().for_each(|member| member.due = now);
        if self.transactions.get(&id).is_some_and(|of| self.holds(of)) {
            self.held.insert(id);
        } else {
            self.held.remove(&id);
        }
        self.schedule(id);
    }

    fn epoch_record(&self) -> CoordinatorRecord {
        CoordinatorRecord::Epoch { number: self.epoch.number, decisions: self.decisions, forgotten: self.forgotten }
    }

    fn append(&mut self, records: Vec<CoordinatorRecord>, forced: bool) -> LogBatchId {
        let batch = LogBatchId(self.next_batch);
        self.next_batch += 1;
        self.out.push_back(Output::Append { batch, records, forced });
        batch
    }

    fn begin(
        &mut self,
        now: Time,
        id: TransactionId,
        kind: TransactionKind,
        members: Vec<MemberRecord>,
        (note, above): (Vec<u8>, Option<Branch>),
    ) {
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
        let members = Member::all(members, Time::FOREVER, self.config.pause);
        let deadline = now.saturating_add(self.config.patience);
        self.serial += 1;
        self.serials.insert(self.serial);
        let above = above.filter(|_| kind != TransactionKind::Order);
        let of = Transaction { serial: self.serial, deadline, ..Transaction::new(self.epoch, members, note, above) };
        if kind == TransactionKind::Order {
            self.transactions.insert(id, of);
            return self.decide(id);
        }
        let (last, chained) = (of.members.len() - 1, kind == TransactionKind::Chain && of.members.len() > 1);
        let record = of.record(id);
        self.append([record].into(), false);
        self.transactions.insert(id, Transaction { chained, ..of });
        self.schedule(id);
        self.ask(id, if chained { last..last + 1 } else { 0..last + 1 });
    }

    /// Asks members for their votes.
    fn ask(&mut self, id: TransactionId, members: core::ops::Range<usize>) {
        let Some(of) = self.transactions.get(&id) else { return };
        let (epoch, number) = (of.epoch, of.serial);
        let serial = Serial { number, floor: self.serials.first().copied().unwrap_or(number) };
        let branch = |member| Branch { transaction: id, member: member as u32 };
        self.out.extend(members.map(|member| Output::Prepare { branch: branch(member), epoch, serial }));
    }

    /// All members have said Yes.
    fn complete(&mut self, id: TransactionId) {
        let Some(of) = self.transactions.get_mut(&id) else { return };
        if of.above.is_none() {
            return self.decide(id);
        }
        of.phase = Phase::Prepared;
        self.schedule(id);
        self.out.push_back(Output::Prepared(id));
    }

    /// Nothing else decides what was promised above.
    fn decide_as_told(&mut self, now: Time, id: TransactionId, commit: bool) {
        let Some(of) = self.transactions.get_mut(&id) else { return };
        match (of.phase, commit) {
            (Phase::Prepared, true) => return self.decide(id),
            (Phase::Prepared, false) => of.phase = Phase::Preparing,
            _ if commit => return,
            _ => {}
        }
        self.abort(now, id, None, "the coordinator above has decided so".into());
    }

    /// Writes the decision to commit. It becomes true when it is on the disk.
    fn decide(&mut self, id: TransactionId) {
        let Some(of) = self.transactions.get_mut(&id) else { return };
        self.decisions += 1;
        (of.phase, of.number) = (Phase::Deciding, self.decisions);
        let record = of.record(id);
        let batch = self.append([record, self.epoch_record()].into(), true);
        self.deciding.insert(batch, id);
        self.schedule(id);
    }

    fn agreed(&mut self, branch: Branch) {
        let Some(of) = self.transactions.get_mut(&branch.transaction) else { return };
        let Some(member) = of.members.get_mut(branch.member as usize) else { return };
        if of.phase != Phase::Preparing {
            return;
        }
        member.yes = true;
        if of.chained && of.members.last().is_some_and(|last| last.yes) {
            of.chained = false;
            let last = of.members.len() - 1;
            self.ask(branch.transaction, 0..last);
        } else if of.members.iter().all(|member| member.yes) {
            self.complete(branch.transaction);
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
        // Those that were not asked have nothing to be told.
        let unasked = if of.chained { of.members.len() - 1 } else { 0 };
        of.members[..unasked].iter_mut().for_each(|member| member.acknowledged = true);
        self.tell(id, Phase::Aborting, now);
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
        self.schedule(id);
        if self.transactions.get(&id).is_some_and(over) {
            self.remove(id);
            self.append([CoordinatorRecord::End(id)].into(), false);
            self.out.push_back(Output::Ended(id));
        }
    }

    fn connected(&mut self, now: Time, name: &str) {
        let pause = self.config.pause;
        let mut touched = Vec::new();
        for (id, of) in
            self.transactions.iter_mut().filter(|(id, of)| of.decision().is_some() && !self.held.contains(id))
        {
            for member in of.members.iter_mut().filter(|member| member.record.name == name && !member.acknowledged) {
                (member.due, member.pause) = (now, pause);
                touched.push(*id);
            }
        }
        touched.into_iter().for_each(|id| self.schedule(id));
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

    fn written(&mut self, now: Time, batch: LogBatchId) {
        if matches!(self.readiness, Readiness::Opening(opening) if opening <= batch) {
            self.readiness = Readiness::Open;
            let all = self.transactions.iter().map(|(id, of)| (*id, of.phase)).collect::<Vec<_>>();
            all.into_iter().for_each(|(id, phase)| self.tell(id, phase, now));
        }
        while let Some(entry) = self.deciding.first_entry().filter(|entry| *entry.key() <= batch) {
            let id = entry.remove();
            let Some(of) = self.transactions.get(&id) else { continue };
            let decision = Decision::Commit { number: of.number };
            self.tell(id, Phase::Committing, now);
            self.out.push_back(Output::Decided { id, decision, why: None });
        }
    }

    fn write_failed(&mut self, now: Time, batch: LogBatchId, why: String) {
        if self.readiness == Readiness::Opening(batch) {
            // The number is not used by anybody: the next attempt may have it too.
            self.epoch.number -= 1;
            self.readiness = Readiness::Closed(now.saturating_add(self.config.longest_pause));
        }
        if let Some(id) = self.deciding.remove(&batch)
            && let Some(of) = self.transactions.get_mut(&id)
        {
            of.number = 0;
            if of.above.is_some() {
                // The coordinator above has decided, and says so again.
                of.phase = Phase::Prepared;
                return;
            }
            // Of an order nobody was asked: there is nobody to tell.
            of.members.iter_mut().for_each(|member| member.acknowledged |= !member.yes);
            self.tell(id, Phase::Aborting, now);
            self.out.push_back(Output::Decided { id, decision: Decision::Abort, why: Some((None, why)) });
            self.end(id);
        }
    }

    /// Everything that time has made due.
    fn catch_up(&mut self, now: Time) {
        if matches!(self.readiness, Readiness::Closed(again) if again <= now) {
            self.open(Vec::new());
        }
        if self.readiness != Readiness::Open {
            return;
        }
        let last = TransactionId([u8::MAX; 16]);
        let due = self.due.range(..=(now, last)).map(|(_, id)| *id).collect::<Vec<_>>();
        for id in due {
            self.abort(now, id, None, "not all members answered in time".into());
            let Some(of) = self.transactions.get_mut(&id) else { continue };
            let Some(decision) = of.decision() else { continue };
            for (place, member) in of.members.iter_mut().enumerate().filter(|(_, m)| !m.acknowledged && m.due <= now) {
                member.due = now.saturating_add(member.pause);
                member.pause = member.pause.saturating_add(member.pause).min(self.config.longest_pause);
                let branch = Branch { transaction: id, member: place as u32 };
                let name = member.record.name.clone();
                self.out.push_back(Output::Decide { branch, name, epoch: self.epoch, decision });
            }
            self.schedule(id);
        }
    }
}
