//! A broker: the coordinator with its journal, wired as the broker's program wires it. Records that nothing waits
//! for are gathered; a decision goes to a member once until it answers or is given up; agents are visited.

use super::PlantedDefect;
use super::disk::{Disk, DiskBatch};
use super::message::{Body, Message, Place, number};
use booking::promise::{DecideCall, PrepareAsk, PrepareCall, PromisesCall};
use commit::coordinator::{Config, Input, LogBatchId, Output, Phase, TransactionKind};
use commit::record::{CoordinatorRecord, MemberRecord};
use commit::{Branch, Coordinator, Decision, Epoch, TransactionId, Vote};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use terms::book::{Caller, CallerRole};
use terms::{Span, Time};

/// The longest time for which records that nothing waits for are gathered.
const GATHER: Span = Span::from_millis(100);
/// The wait for an agent's answer.
pub(super) const ANSWER: Span = Span::from_secs(10);
/// The age from which a clock is compared anew before a change begins.
const OLD: Span = Span::from_secs(5);
/// The largest difference of the clocks of two members.
pub(super) const MOST_SKEW: Span = Span::from_secs(2);

/// The change that a member is asked for.
#[derive(Clone, Debug)]
pub(super) struct MemberAsk {
    agent: usize,
    caller: Caller,
    ask: PrepareAsk,
}

impl MemberAsk {
    /// A change at an agent, for a caller.
    pub(super) fn new(agent: usize, caller: Caller, ask: PrepareAsk) -> MemberAsk {
        MemberAsk { agent, caller, ask }
    }
}

/// An act that a broker asks of its world; they are done in order.
#[derive(Debug)]
pub(super) enum BrokerOutput {
    Send(Box<Message>),
    /// The disk has batches; true: a decision to commit is among them.
    Write(bool),
    /// A member was asked or told: it must answer in time.
    Expect(Branch, bool),
    Decided(TransactionId, bool),
    NotBegun(TransactionId),
    Outdated,
    /// The journal has lost the outcome of this promise.
    Unresolved(Branch),
}

/// A coordinator's answer before the disk has answered: a planted defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BrokerDefects {
    /// The decision is told before it is on the disk.
    early: bool,
    /// A decision is told once, and no question is answered.
    silent: bool,
}

impl BrokerDefects {
    /// Those of a planted defect that brokers have.
    pub(super) fn of(planted: Option<PlantedDefect>) -> BrokerDefects {
        BrokerDefects {
            early: planted == Some(PlantedDefect::EarlyDecision),
            silent: planted == Some(PlantedDefect::SilentCoordinator),
        }
    }
}

/// A broker.
pub(super) struct Broker {
    number: usize,
    life: u32,
    coordinator: Option<Coordinator>,
    disk: Disk<Vec<u8>>,
    gathered: Vec<DiskBatch<Vec<u8>>>,
    hand_in: Option<Time>,
    /// Batches of which the coordinator was told too early.
    told_early: BTreeSet<u64>,
    asks: BTreeMap<TransactionId, Vec<MemberAsk>>,
    telling: BTreeSet<Branch>,
    told: BTreeSet<Branch>,
    unresolved: BTreeSet<Branch>,
    /// By agent: true if it did not answer the last time.
    silent: Vec<bool>,
    /// By agent: the least and the most that its clock is ahead of ours, and the time of the measurement.
    clocks: Vec<Option<(i128, i128, Time)>>,
    /// True: an older copy of the journal is used all the same.
    accepts_older: bool,
    /// True: its journal was restored from an older copy since it was last told to accept it.
    restored: bool,
    defects: BrokerDefects,
    nonces: u64,
}

impl Broker {
    pub(super) fn new(number: usize, agents: usize, defects: BrokerDefects) -> Broker {
        Broker {
            number,
            life: 0,
            coordinator: None,
            disk: Disk::new(),
            gathered: Vec::new(),
            hand_in: None,
            told_early: BTreeSet::new(),
            asks: BTreeMap::new(),
            telling: BTreeSet::new(),
            told: BTreeSet::new(),
            unresolved: BTreeSet::new(),
            silent: vec![true; agents],
            clocks: vec![None; agents],
            accepts_older: false,
            restored: false,
            defects,
            nonces: 0,
        }
    }

    pub(super) fn name(&self) -> String {
        format!("b{}", self.number)
    }

    /// The number of times that it has died: what was meant for an earlier life is dropped.
    pub(super) fn life(&self) -> u32 {
        self.life
    }

    /// Its disk.
    pub(super) fn disk(&self) -> &Disk<Vec<u8>> {
        &self.disk
    }

    /// Its disk, which the world makes write, fill and fail.
    pub(super) fn disk_mut(&mut self) -> &mut Disk<Vec<u8>> {
        &mut self.disk
    }

    /// Sets its disk back to the last copy. False if there is none.
    pub(super) fn restore(&mut self) -> bool {
        let copy = self.disk.restore().is_some();
        self.restored |= copy;
        copy
    }

    /// True if its disk was set back.
    pub(super) fn is_restored(&self) -> bool {
        self.restored
    }

    /// An operator says that its journal is an older copy, and to use it all the same. False if it is not.
    pub(super) fn accept_older(&mut self) -> bool {
        self.accepts_older |= self.restored;
        self.restored
    }

    pub(super) fn is_up(&self) -> bool {
        self.coordinator.is_some()
    }

    /// True if transactions can begin.
    pub(super) fn is_open(&self) -> bool {
        self.coordinator.as_ref().is_some_and(Coordinator::is_open)
    }

    /// The transactions that have not ended, with their phases.
    pub(super) fn open(&self) -> Vec<(TransactionId, Phase)> {
        let all = self.coordinator.iter().flat_map(|coordinator| coordinator.transactions());
        all.map(|(id, phase, _)| (id, phase)).collect()
    }

    /// Starts: reads the journal and begins an epoch. The nonce is drawn by chance.
    pub(super) fn start(&mut self, now: Time, nonce: u64) -> Vec<BrokerOutput> {
        let mut coordinator = Coordinator::new(Config::default());
        for (key, value) in self.disk.kept() {
            match CoordinatorRecord::read(key, value) {
                Ok(record) => coordinator.handle(now, Input::Recovering(record)),
                Err(corrupt) => unreachable!("our own record: {corrupt:?}"),
            }
        }
        for agent in 0..self.silent.len() {
            coordinator.handle(now, Input::Participant(format!("a{agent}")));
        }
        self.coordinator = Some(coordinator);
        self.nonces = nonce;
        self.take(now, Input::Recovered { nonce })
    }

    /// Dies. Returns the batches that are on the disk after all.
    pub(super) fn die(&mut self, now: Time, lucky: bool) -> Vec<DiskBatch<Vec<u8>>> {
        self.coordinator = None;
        self.life += 1;
        self.gathered.clear();
        self.hand_in = None;
        self.told_early.clear();
        self.asks.clear();
        self.telling.clear();
        self.told.clear();
        self.unresolved.clear();
        self.silent.fill(true);
        self.clocks.fill(None);
        self.disk.die(now, lucky)
    }

    /// The time for [`Broker::wake`].
    pub(super) fn wake_at(&self) -> Option<Time> {
        let coordinator = self.coordinator.as_ref().and_then(Coordinator::wake_at);
        coordinator.into_iter().chain(self.hand_in).min()
    }

    /// Everything that time has made due.
    pub(super) fn wake(&mut self, now: Time) -> Vec<BrokerOutput> {
        let mut said = Vec::new();
        if self.hand_in.is_some_and(|at| at <= now) {
            self.flush(&mut said, false);
        }
        said.extend(self.take(now, Input::Wake));
        said
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self, now: Time, id: TransactionId, asks: Vec<MemberAsk>) -> Vec<BrokerOutput> {
        let member = |ask: &MemberAsk| MemberRecord { name: format!("a{}", ask.agent), order: Vec::new() };
        let members = asks.iter().map(member).collect();
        self.asks.insert(id, asks);
        self.take(now, Input::Begin { id, kind: TransactionKind::Vote, members, note: Vec::new(), above: None })
    }

    /// Orders that everything of this owner's group is cancelled at these agents.
    pub(super) fn order(
        &mut self,
        now: Time,
        id: TransactionId,
        agents: &[usize],
        owner: &str,
        group: &str,
    ) -> Vec<BrokerOutput> {
        let order = format!("{owner} {group}").into_bytes();
        let member = |agent: &usize| MemberRecord { name: format!("a{agent}"), order: order.clone() };
        let members = agents.iter().map(member).collect();
        self.take(now, Input::Begin { id, kind: TransactionKind::Order, members, note: Vec::new(), above: None })
    }

    /// The agents among these whose clocks were not compared a moment ago.
    pub(super) fn old_clocks(&self, now: Time, agents: &[usize]) -> Vec<usize> {
        let is_old = |agent: &&usize| self.clocks[**agent].is_none_or(|(_, _, at)| at.saturating_add(OLD) < now);
        agents.iter().filter(is_old).copied().collect()
    }

    /// True if two of these agents' clocks are further apart than is allowed, whatever time their answers took.
    pub(super) fn are_apart(&self, agents: &[usize]) -> bool {
        let known = || agents.iter().filter_map(|agent| self.clocks[*agent]);
        let (behind, ahead) = (known().map(|(_, most, _)| most).min(), known().map(|(least, ..)| least).max());
        let (Some(behind), Some(ahead)) = (behind, ahead) else { return false };
        ahead - behind > i128::from(MOST_SKEW.as_nanos())
    }

    /// Visits an agent: it is told of this coordinator, and asked for its promises and its time.
    pub(super) fn visit(&mut self, now: Time, agent: usize) -> Vec<BrokerOutput> {
        let mut said = Vec::new();
        if self.silent[agent] {
            said = self.take(now, Input::Connected(format!("a{agent}")));
        }
        let Some(coordinator) = &self.coordinator else { return said };
        let call = PromisesCall { coordinator: self.name().into(), epoch: coordinator.epoch(), after: None };
        if coordinator.is_open() {
            said.push(self.send(agent, Body::Promises(call, now)));
        }
        said
    }

    /// True if the agent did not answer the last time.
    pub(super) fn is_silent(&self, agent: usize) -> bool {
        self.silent[agent]
    }

    /// A member has not answered in time.
    pub(super) fn unanswered(&mut self, now: Time, branch: Branch, decided: bool) -> Vec<BrokerOutput> {
        if decided {
            if self.telling.remove(&branch)
                && let Some(member) = self.coordinator.as_ref().and_then(|coordinator| coordinator.member(branch))
            {
                self.silent[number(&member.name)] = true;
            }
            return Vec::new();
        }
        self.take(now, Input::Lost { branch, why: "no answer".into() })
    }

    /// A message has come.
    pub(super) fn hear(&mut self, now: Time, from: usize, body: Body) -> Vec<BrokerOutput> {
        match body {
            Body::Vote { branch, vote, .. } => self.take(now, Input::Voted { branch, vote }),
            Body::Acknowledge { branch, .. } | Body::Done { branch } => {
                self.telling.remove(&branch);
                self.take(now, Input::Acknowledged(branch))
            }
            Body::PromiseList { promises, shown, sent } => {
                let nanos = |time: Time| i128::from(time.as_nanos());
                self.clocks[from] = Some((nanos(shown) - nanos(now), nanos(shown) - nanos(sent), now));
                self.silent[from] = false;
                if self.defects.silent {
                    return Vec::new();
                }
                let mut said = self.take(now, Input::Confirmed(format!("a{from}")));
                said.extend(self.take(now, Input::Promises { promises, name: format!("a{from}") }));
                said
            }
            Body::Outdated(known) => self.take(now, Input::Outdated { known }),
            Body::Question(question) if !self.defects.silent => {
                let Some(coordinator) = &self.coordinator else { return Vec::new() };
                let (branch, epoch) = (question.branch, coordinator.epoch());
                let outcome = coordinator.outcome(branch.transaction, question.epoch.number);
                [self.send(from, Body::Answer { branch, epoch, outcome })].into()
            }
            _ => Vec::new(),
        }
    }

    /// The disk has answered a batch.
    pub(super) fn answered(&mut self, now: Time, batch: u64, written: bool) -> Vec<BrokerOutput> {
        if self.told_early.remove(&batch) {
            return Vec::new();
        }
        let id = LogBatchId(batch);
        let input = if written { Input::Written(id) } else { Input::WriteFailed(id, "no space left".into()) };
        self.take(now, input)
    }

    /// Takes one input, and all that follows from it.
    fn take(&mut self, now: Time, input: Input) -> Vec<BrokerOutput> {
        let mut said = Vec::new();
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let Some(coordinator) = &mut self.coordinator else { return said };
            coordinator.handle(now, input);
            let outputs: Vec<Output> = std::iter::from_fn(|| coordinator.poll()).collect();
            for output in outputs {
                self.carry_out(now, output, &mut inputs, &mut said);
            }
        }
        said
    }

    fn carry_out(&mut self, now: Time, output: Output, inputs: &mut VecDeque<Input>, said: &mut Vec<BrokerOutput>) {
        match output {
            Output::Append { batch, records, forced } => self.append(now, batch, &records, forced, inputs, said),
            Output::Prepare { branch, epoch, serial } => {
                let asked = self.asks.get(&branch.transaction).and_then(|asks| asks.get(branch.member as usize));
                let Some(MemberAsk { agent, caller, ask }) = asked.cloned() else { return };
                let coordinator = self.name().into();
                let call = PrepareCall { branch, coordinator, epoch, serial, ask };
                said.push(self.send(agent, Body::Prepare(caller, Box::new(call))));
                said.push(BrokerOutput::Expect(branch, false));
            }
            Output::Decide { branch, name, epoch, decision } => self.tell(branch, &name, epoch, decision, said),
            Output::Decided { id, decision, .. } => {
                said.push(BrokerOutput::Decided(id, matches!(decision, Decision::Commit { .. })));
            }
            Output::NotBegun { id, .. } => said.push(BrokerOutput::NotBegun(id)),
            Output::Ended(id) => _ = self.asks.remove(&id),
            // No transaction here stands for a part of another.
            Output::Prepared(_) => {}
            Output::Outdated { known } if self.accepts_older => {
                self.nonces = self.nonces.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                inputs.push_back(Input::AcceptOlder { known, nonce: self.nonces });
            }
            Output::Outdated { .. } => said.push(BrokerOutput::Outdated),
            Output::Unresolved { branch, .. } => {
                if self.unresolved.insert(branch) {
                    said.push(BrokerOutput::Unresolved(branch));
                }
            }
        }
    }

    fn append(
        &mut self,
        now: Time,
        batch: LogBatchId,
        records: &[CoordinatorRecord],
        forced: bool,
        inputs: &mut VecDeque<Input>,
        said: &mut Vec<BrokerOutput>,
    ) {
        let decides =
            |record: &CoordinatorRecord| matches!(record, CoordinatorRecord::Transaction { committed: Some(_), .. });
        let (id, decided) = (batch.0, records.iter().any(decides));
        let urgent = records.iter().all(|record| matches!(record, CoordinatorRecord::End(_)));
        let changes = records.iter().map(|record| (record.key(), record.value())).collect();
        self.gathered.push(DiskBatch { id, changes, urgent });
        if self.defects.early && decided {
            self.told_early.insert(id);
            inputs.push_back(Input::Written(batch));
        }
        if forced {
            self.flush(said, decided);
        } else {
            self.hand_in.get_or_insert(now.saturating_add(GATHER));
        }
    }

    fn flush(&mut self, said: &mut Vec<BrokerOutput>, decided: bool) {
        self.hand_in = None;
        for batch in std::mem::take(&mut self.gathered) {
            self.disk.queue(batch);
        }
        said.push(BrokerOutput::Write(decided));
    }

    fn tell(&mut self, branch: Branch, name: &str, epoch: Epoch, decision: Decision, said: &mut Vec<BrokerOutput>) {
        let again = !self.told.insert(branch);
        if !self.telling.insert(branch) || (again && self.defects.silent) {
            return;
        }
        let order = self.coordinator.as_ref().and_then(|coordinator| coordinator.member(branch));
        let order = order.filter(|member| !member.order.is_empty());
        let body = match order.and_then(|member| std::str::from_utf8(&member.order).ok()?.split_once(' ')) {
            Some((owner, group)) => Body::Order { branch, caller: caller(owner), group: group.to_owned() },
            None => {
                let coordinator = self.name().into();
                Body::Decide(Box::new(DecideCall { branch, coordinator, epoch, decision }))
            }
        };
        said.push(self.send(number(name), body));
        said.push(BrokerOutput::Expect(branch, true));
    }

    fn send(&self, agent: usize, body: Body) -> BrokerOutput {
        let (from, to) = (Place::Broker(self.number), Place::Agent(agent));
        BrokerOutput::Send(Box::new(Message { from, to, body }))
    }
}

/// An owner as a caller.
pub(super) fn caller(name: &str) -> Caller {
    Caller { name: name.to_owned(), groups: Vec::new(), role: CallerRole::Owner, token: None }
}

/// A No with these words.
pub(super) fn no(why: &str) -> Vote {
    Vote::No(why.to_owned())
}
