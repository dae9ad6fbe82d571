//! A participant's process: the engine as it is, its journal, and a host with a book of what is promised and made.

use super::At;
use super::counts::Seen;
use super::message::{COORDINATOR, Message, branch_of, places_of, transaction_of};
use commit::participant::{Config, DropReason, Input, Output, ParticipantRecord, PromisedChange, WriteId};
use commit::{Branch, Epoch, Participant, Vote};
use std::collections::{BTreeMap, VecDeque};
use terms::Time;

/// Records and a change of the book on their way to the disk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Write {
    id: WriteId,
    records: Vec<ParticipantRecord>,
    change: PromisedChange,
    /// A promise is dropped because its window has passed, and it has not.
    early: bool,
}

/// The fate of a part in the book.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// Promised and not decided.
    Promised,
    /// The change was made.
    Made,
    /// The promise was dropped.
    Dropped,
    /// The window of the promise passed without a decision.
    Moot,
}

/// A part in the book.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The amount that counts for it.
    pub amount: u8,
    /// Its fate so far.
    pub fate: Fate,
    /// It was made and dropped, or made twice, or promised again after it was made.
    pub twice: bool,
}

/// A participant's process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ParticipantSite {
    place: u8,
    pub engine: Participant,
    /// The present tick.
    pub tick: u8,
    /// The number of the newest epoch on the disk: messages of older ones are refused for ever.
    pub known: u64,
    disk: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The host's book, on the same disk: the parts by transaction.
    pub book: BTreeMap<u8, Part>,
    pending: VecDeque<Write>,
}

impl ParticipantSite {
    /// A participant that has never heard of a coordinator.
    pub fn new(at: &At, place: u8) -> ParticipantSite {
        let (disk, book, pending) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        let engine = Participant::new(config(at));
        let mut site = ParticipantSite { place, engine, tick: 0, known: 0, disk, book, pending };
        site.start(at);
        site
    }

    fn start(&mut self, at: &At) -> Vec<Message> {
        self.engine = Participant::new(config(at));
        for (key, value) in self.disk.clone() {
            let record = ParticipantRecord::read(&key, &value).expect("the journal is as it was written");
            if at.mutant.recovers(&record) {
                self.engine.handle(at.now, Input::Recovering(record));
            }
        }
        self.handle(at, Input::Recovered)
    }

    /// The process is killed when the first so many writes under way have reached the disk, and starts again.
    pub fn crash(&mut self, at: &At, durable: usize) -> Vec<Message> {
        at.saw(Seen::ParticipantCrash);
        at.saw_if(durable > 0, Seen::KeptUnsaid);
        at.saw_if(durable < self.pending.len(), Seen::LostRecord);
        let mut pending = std::mem::take(&mut self.pending);
        pending.drain(..durable).for_each(|write| self.keep(&write));
        self.start(at)
    }

    fn keep(&mut self, write: &Write) {
        for record in &write.records {
            match record.value() {
                Some(value) => self.disk.insert(record.key(), value),
                None => self.disk.remove(&record.key()),
            };
            if let ParticipantRecord::Known { epoch, .. } = record {
                self.known = epoch.number;
            }
        }
        match write.change {
            PromisedChange::Promise(branch) => self.promise(transaction_of(branch.transaction)),
            PromisedChange::Make(branch) => self.end(transaction_of(branch.transaction), Fate::Made),
            PromisedChange::Drop(branch, reason) => {
                let is_moot = reason == DropReason::Moot && !write.early;
                self.end(transaction_of(branch.transaction), if is_moot { Fate::Moot } else { Fate::Dropped });
            }
            PromisedChange::Nothing => {}
        }
    }

    /// The amount of a part is promised: if it was promised before, then once more.
    pub fn promise(&mut self, transaction: u8) {
        let new = Part { amount: 0, fate: Fate::Promised, twice: false };
        let part = self.book.entry(transaction).or_insert(new);
        part.amount += 1;
        part.twice |= part.fate == Fate::Made;
        part.fate = Fate::Promised;
    }

    fn end(&mut self, transaction: u8, fate: Fate) {
        let new = Part { amount: 0, fate, twice: true };
        let part = self.book.entry(transaction).or_insert(new);
        part.twice |= part.fate != Fate::Promised;
        part.fate = fate;
        if fate != Fate::Made {
            part.amount = 0;
        }
    }

    /// The amount that is promised or made, also by writes under way.
    pub fn used(&self) -> u8 {
        let promised = self.pending.iter().filter(|write| matches!(write.change, PromisedChange::Promise(_))).count();
        self.book.values().map(|part| part.amount).sum::<u8>() + promised as u8
    }

    /// The numbers of writes that can reach the disk at once. Nothing waits for one without a part of a
    /// transaction: it goes with the next that has one, or is kept or lost in a crash.
    pub fn writes(&self) -> impl Iterator<Item = usize> + '_ {
        let waits = |write: &Write| write.records.iter().any(|r| matches!(r, ParticipantRecord::Branch { .. }));
        self.pending.iter().enumerate().filter(move |(_, write)| waits(write)).map(|(place, _)| place + 1)
    }

    /// The number of writes on their way to the disk.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The first so many writes reach the disk.
    pub fn write(&mut self, at: &At, writes: usize) -> Vec<Message> {
        let mut last = None;
        for write in self.pending.drain(..writes).collect::<Vec<_>>() {
            self.keep(&write);
            last = Some(write.id);
        }
        last.map(|id| self.handle(at, Input::Written(id))).unwrap_or_default()
    }

    /// The first so many writes reach the disk, and the next one fails.
    pub fn fail(&mut self, at: &At, durable: usize) -> Vec<Message> {
        at.saw(Seen::FailedWrite);
        let mut sent = self.write(at, durable);
        if let Some(write) = self.pending.pop_front() {
            sent.extend(self.handle(at, Input::WriteFailed(write.id)));
        }
        sent
    }

    /// A message arrives.
    pub fn deliver(&mut self, at: &At, message: &Message) -> Vec<Message> {
        let coordinator = COORDINATOR.into();
        match *message {
            Message::Prepare { transaction, epoch, serial, .. } => {
                let branch = branch_of(transaction, self.place);
                let is_known = self.engine.earlier(branch).is_some();
                at.mutant.at_prepare(self, branch);
                let used = at.mutant.used(self);
                let granted =
                    if is_known || used < at.scope.capacity { Ok(()) } else { Err("there is no room".into()) };
                let until = at.until();
                self.handle(at, Input::Prepare { branch, coordinator, epoch, serial, granted, until })
            }
            Message::Decide { transaction, epoch, decision, .. } => {
                let branch = branch_of(transaction, self.place);
                self.handle(at, Input::Decide { branch, coordinator, epoch, decision })
            }
            _ => Vec::new(),
        }
    }

    /// The coordinator connects: what is said, and the open promises, each with the number of its epoch.
    pub fn connect(&mut self, at: &At, epoch: Epoch) -> (Vec<Message>, Vec<(Branch, u64)>) {
        let sent = self.handle(at, Input::Connected { coordinator: COORDINATOR.into(), epoch });
        (sent, self.engine.promises().map(|(branch, _, epoch)| (branch, epoch.number)).collect())
    }

    /// True if this part is promised, here or on the disk.
    pub fn is_promised(&self, transaction: u8) -> bool {
        let branch = branch_of(transaction, self.place);
        let is_open = self.engine.promises().any(|(of, ..)| of == branch);
        is_open || self.book.get(&transaction).is_some_and(|part| part.fate == Fate::Promised)
    }

    /// One input, then drain.
    pub fn handle(&mut self, at: &At, input: Input) -> Vec<Message> {
        let mut sent = Vec::new();
        for input in at.mutant.participant_inputs(at, &self.engine, input) {
            self.engine.handle(at.now, input);
            while let Some(output) = self.engine.poll() {
                let outputs = at.mutant.participant_outputs(output);
                outputs.into_iter().for_each(|output| self.carry_out(at, output, &mut sent));
            }
        }
        sent
    }

    fn carry_out(&mut self, at: &At, output: Output, sent: &mut Vec<Message>) {
        let from = self.place;
        match output {
            Output::Append { id, records, change } => {
                let is_moot = matches!(change, PromisedChange::Drop(_, DropReason::Moot));
                let early = is_moot && at.now < at.until();
                at.saw_if(is_moot, Seen::Moot);
                self.pending.push_back(Write { id, records, change, early });
            }
            Output::Vote { branch, vote } => {
                at.saw_if(vote == Vote::No("this transaction is over".into()), Seen::RefusedRepetition);
                let (transaction, yes) = (places_of(branch).0, vote == Vote::Yes);
                sent.push(Message::Vote { from, transaction, yes });
            }
            Output::Acknowledge(branch) => {
                sent.push(Message::Acknowledge { from, transaction: places_of(branch).0 });
            }
            Output::Outdated { known, .. } => {
                at.saw(Seen::RefusedEpoch);
                sent.push(Message::Outdated { from, known });
            }
            Output::Ask { branch, epoch, .. } => {
                sent.push(Message::Ask { from, transaction: places_of(branch).0, epoch: epoch.number });
            }
            Output::Contradicted { .. } => at.saw(Seen::Contradiction),
        }
    }
}

fn config(at: &At) -> Config {
    Config { promises: 10, coordinators: 2, pause: at.tick(), longest_pause: at.tick() }
}

/// The end of a window that does not end.
pub const OPEN: Time = Time::FOREVER;
