//! The coordinator's process: the engine as it is, its journal, and what its caller was told.

use super::At;
use super::counts::Seen;
use super::message::{Message, branch_of, id_of, name_of, place_of, places_of, transaction_of};
use commit::coordinator::{Config, Input, LogBatchId, Outcome, Output, Phase, TransactionKind};
use commit::record::{CoordinatorRecord, MemberRecord};
use commit::{Branch, Coordinator, Decision};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Records on their way to the disk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Batch {
    id: LogBatchId,
    records: Vec<CoordinatorRecord>,
    forced: bool,
}

/// What the caller of a transaction was told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Told {
    /// It was committed.
    pub commit: bool,
    /// It was aborted.
    pub abort: bool,
}

/// The coordinator's process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CoordinatorSite {
    pub engine: Coordinator,
    /// The present tick.
    pub tick: u8,
    disk: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: VecDeque<Batch>,
    starts: u64,
    /// The transactions that callers have begun are those before this one.
    pub begun: u8,
    /// By transaction.
    pub told: Vec<Told>,
    /// The parts that were told a decision to commit. Only mutants that need it keep it.
    pub said: BTreeSet<Branch>,
}

impl CoordinatorSite {
    /// A coordinator that has opened its first epoch.
    pub fn new(at: &At) -> CoordinatorSite {
        let told = vec![Told::default(); at.scope.transactions.into()];
        let mut site = CoordinatorSite {
            engine: Coordinator::new(config(at)),
            tick: 0,
            disk: BTreeMap::new(),
            pending: VecDeque::new(),
            starts: 0,
            begun: 0,
            told,
            said: BTreeSet::new(),
        };
        site.start(at);
        site.write(at, site.pending.len());
        site
    }

    /// A new process reads the journal.
    fn start(&mut self, at: &At) -> Vec<Message> {
        self.starts += 1;
        self.engine = Coordinator::new(config(at));
        for (key, value) in self.disk.clone() {
            let record = CoordinatorRecord::read(&key, &value).expect("the journal is as it was written");
            self.engine.handle(at.now, Input::Recovering(at.mutant.recovered(record)));
        }
        self.handle(at, Input::Recovered { nonce: self.starts })
    }

    /// The process is killed when the first so many batches under way have reached the disk, and starts again.
    pub fn crash(&mut self, at: &At, durable: usize) -> Vec<Message> {
        at.saw(Seen::CoordinatorCrash);
        at.saw_if(durable > 0, Seen::KeptUnsaid);
        at.saw_if(durable < self.pending.len(), Seen::LostRecord);
        let mut pending = std::mem::take(&mut self.pending);
        pending.drain(..durable).for_each(|batch| self.keep(at, &batch.records));
        self.start(at)
    }

    fn keep(&mut self, at: &At, records: &[CoordinatorRecord]) {
        for record in records.iter().filter(|record| at.mutant.writes(record)) {
            match record.value() {
                Some(value) => self.disk.insert(record.key(), value),
                None => self.disk.remove(&record.key()),
            };
        }
    }

    /// The numbers of batches that can reach the disk at once. Nothing waits for one that is not forced: it goes
    /// with the next that is, or is kept or lost in a crash.
    pub fn writes(&self) -> impl Iterator<Item = usize> + '_ {
        self.pending.iter().enumerate().filter(|(_, batch)| batch.forced).map(|(place, _)| place + 1)
    }

    /// True if the decision to commit this transaction is on the disk.
    pub fn is_committed(&self, transaction: u8) -> bool {
        let key = CoordinatorRecord::End(id_of(transaction)).key();
        let record = self.disk.get(&key).map(|value| CoordinatorRecord::read(&key, value));
        matches!(record, Some(Ok(CoordinatorRecord::Transaction { committed: Some(_), .. })))
    }

    /// True if no crash brings this transaction back, which was begun.
    pub fn has_gone(&self, transaction: u8) -> bool {
        let id = id_of(transaction);
        let names = |record: &CoordinatorRecord| match record {
            CoordinatorRecord::Transaction { id: of, .. } | CoordinatorRecord::End(of) => *of == id,
            CoordinatorRecord::Epoch { .. } => false,
        };
        let is_kept = self.disk.contains_key(&CoordinatorRecord::End(id).key());
        let is_gone = transaction < self.begun && self.engine.phase(id).is_none();
        is_gone && !is_kept && !self.pending.iter().any(|batch| batch.records.iter().any(names))
    }

    /// The number of batches on their way to the disk.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The first so many batches reach the disk.
    pub fn write(&mut self, at: &At, batches: usize) -> Vec<Message> {
        let mut last = None;
        for batch in self.pending.drain(..batches).collect::<Vec<_>>() {
            self.keep(at, &batch.records);
            last = Some(batch.id);
        }
        last.map(|id| self.handle(at, Input::Written(id))).unwrap_or_default()
    }

    /// The first so many writes reach the disk, and the next one fails.
    pub fn fail(&mut self, at: &At, durable: usize) -> Vec<Message> {
        at.saw(Seen::FailedWrite);
        let mut sent = self.write(at, durable);
        if let Some(batch) = self.pending.pop_front() {
            sent.extend(self.handle(at, Input::WriteFailed(batch.id, "no space".into())));
        }
        sent
    }

    /// A caller begins the next transaction.
    pub fn begin(&mut self, at: &At) -> Vec<Message> {
        let id = id_of(self.begun);
        self.begun += 1;
        let member = |place| MemberRecord { name: name_of(place), order: Vec::new() };
        let members = (0..at.scope.participants).map(member).collect();
        self.handle(at, Input::Begin { id, kind: TransactionKind::Vote, members, note: Vec::new(), above: None })
    }

    /// A message arrives.
    pub fn deliver(&mut self, at: &At, message: &Message) -> Vec<Message> {
        match *message {
            Message::Vote { from, transaction, yes } => {
                let vote = if yes { commit::Vote::Yes } else { commit::Vote::No("no room".into()) };
                let revived = yes && self.engine.phase(id_of(transaction)) == Some(Phase::Aborting);
                let mut sent = self.handle(at, Input::Voted { branch: branch_of(transaction, from), vote });
                sent.extend(at.mutant.answers_late_yes(&self.engine, transaction, from).filter(|_| revived));
                sent
            }
            Message::Acknowledge { from, transaction } => {
                self.handle(at, Input::Acknowledged(branch_of(transaction, from)))
            }
            Message::Ask { from, transaction, epoch } => self.asked(at, transaction, from, epoch).into_iter().collect(),
            Message::Outdated { known, .. } => self.handle(at, Input::Outdated { known }),
            Message::Prepare { .. } | Message::Decide { .. } => Vec::new(),
        }
    }

    /// A participant asks for the decision about its part, which it promised in the epoch of this number.
    pub fn asked(&self, at: &At, transaction: u8, to: u8, epoch: u64) -> Option<Message> {
        let outcome = self.engine.outcome(id_of(transaction), epoch);
        let is_known = self.engine.phase(id_of(transaction)).is_some();
        let Outcome::Decided(decision) = at.mutant.outcome(outcome, is_known) else { return None };
        Some(Message::Decide { to, transaction, epoch: self.engine.epoch(), decision })
    }

    /// A connection to a participant: its open promises, each with the number of its epoch.
    pub fn connected(&mut self, at: &At, from: u8, promises: Vec<(Branch, u64)>) -> Vec<Message> {
        let mut sent = self.handle(at, Input::Connected(name_of(from)));
        sent.extend(self.handle(at, Input::Promises { promises, name: name_of(from) }));
        sent
    }

    /// One input, then drain; and so for each input that follows from it.
    pub fn handle(&mut self, at: &At, input: Input) -> Vec<Message> {
        let mut sent = Vec::new();
        let mut inputs = VecDeque::from(at.mutant.coordinator_inputs(at, input));
        while let Some(input) = inputs.pop_front() {
            self.engine.handle(at.now, input);
            while let Some(output) = self.engine.poll() {
                let (outputs, more) = at.mutant.coordinator_outputs(at, &mut self.said, output);
                outputs.into_iter().for_each(|output| self.carry_out(at, output, &mut sent));
                inputs.extend(more);
            }
        }
        sent
    }

    fn carry_out(&mut self, at: &At, output: Output, sent: &mut Vec<Message>) {
        match output {
            Output::Append { batch, records, forced } => {
                self.pending.push_back(Batch { id: batch, records, forced });
            }
            Output::Prepare { branch, epoch, serial } => {
                let (transaction, to) = places_of(branch);
                sent.push(Message::Prepare { to, transaction, epoch, serial });
            }
            Output::Decide { branch, name, epoch, decision } => {
                let (transaction, to) = places_of(branch);
                assert_eq!(place_of(&name), to, "a decision goes to another participant");
                sent.push(Message::Decide { to, transaction, epoch, decision });
            }
            Output::Decided { id, decision, .. } => {
                let told = &mut self.told[usize::from(transaction_of(id))];
                match decision {
                    Decision::Commit { .. } => told.commit = true,
                    Decision::Abort => told.abort = true,
                }
                at.saw(if decision == Decision::Abort { Seen::Abort } else { Seen::Commit });
            }
            // The caller is told of neither.
            Output::NotBegun { .. } | Output::Ended(_) => {}
            // No transaction here stands for a part of another.
            Output::Prepared(_) => {}
            Output::Outdated { .. } | Output::Unresolved { .. } => at.saw(Seen::OutdatedCoordinator),
        }
    }
}

fn config(at: &At) -> Config {
    Config { patience: at.tick(), pause: at.tick(), longest_pause: at.tick(), limit: 10 }
}
