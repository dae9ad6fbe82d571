//! Coordinators under coordinators: a chain of three domains, each with one agent, under chance, loss, repetition,
//! kills between any two steps, and failed writes. All agents make the change or none does.

mod mutant;

pub use mutant::{NESTED_MUTANTS, NestedMutant};

use commit::coordinator::{self, Output as Below, TransactionKind};
use commit::participant::{self, Output as Above, ParticipantRecord};
use commit::record::{CoordinatorRecord, MemberRecord};
use commit::subordinate::{AskedFromAbove, Input, Output, SubordinateBatch};
use commit::{Branch, Decision, Epoch, Participant, Subordinate, TransactionId, Vote};
use std::collections::{BTreeMap, VecDeque};
use terms::{Span, Time};

const DOMAINS: usize = 3;
/// The plays of a chain without a defect, and the most of one with a defect.
pub const SEEDS: u64 = 3_000;
const STEPS: usize = 200;

/// What happened in a play, or in many.
#[derive(Clone, Copy, Default, Debug)]
pub struct Played {
    /// The plays in which all agents made the change.
    pub made: u64,
    /// Those in which none did.
    pub not: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Messages that were lost.
    pub lost: u64,
    /// Messages that came twice.
    pub repeated: u64,
    /// Writes that failed.
    pub failed: u64,
}

/// Chance, the same for each seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }
}

/// Domains have brokers 0, 1, 2 and agents 10, 11, 12.
type Place = usize;

#[derive(Clone, Debug)]
enum Message {
    Prepare { to: Place, from: Place, branch: Branch, epoch: Epoch, serial: coordinator::Serial },
    Voted { to: Place, branch: Branch, vote: Vote },
    Decide { to: Place, from: Place, branch: Branch, epoch: Epoch, decision: Decision },
    Done { to: Place, branch: Branch },
    Ask { to: Place, from: Place, branch: Branch, epoch: Epoch },
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// The changes of one batch by table: a key, and its row or none where the row goes.
type Tables = [Vec<(Vec<u8>, Option<Vec<u8>>)>; 2];

/// A disk: what is written, and what is on its way.
#[derive(Default)]
struct Disk<B> {
    rows: [Rows; 2],
    waiting: VecDeque<(Option<B>, Tables)>,
}

impl<B> Disk<B> {
    /// The first write reaches the disk. The outer `None`: there is none; the inner one: it is a part of a larger one.
    fn write(&mut self) -> Option<Option<B>> {
        let (batch, tables) = self.waiting.pop_front()?;
        for (rows, changes) in self.rows.iter_mut().zip(tables) {
            for (key, value) in changes {
                match value {
                    Some(value) => rows.insert(key, value),
                    None => rows.remove(&key),
                };
            }
        }
        Some(batch)
    }
}

struct Broker {
    engine: Subordinate,
    disk: Disk<SubordinateBatch>,
    starts: u64,
    begun: u64,
}

struct Agent {
    engine: Participant,
    disk: Disk<participant::WriteId>,
    made: Option<bool>,
    /// What the disk says: the change is in the same write as the records.
    changes: BTreeMap<participant::WriteId, bool>,
}

struct World {
    dice: Dice,
    now: Time,
    brokers: Vec<Broker>,
    agents: Vec<Agent>,
    messages: Vec<Message>,
    told: Option<Decision>,
    faults: bool,
    mutant: NestedMutant,
    /// The first property that did not hold.
    fault: Option<&'static str>,
    played: Played,
}

fn name(place: Place) -> String {
    place.to_string()
}

fn nested() -> Subordinate {
    Subordinate::new(coordinator::Config::default(), participant::Config::default())
}

fn rows(records: &[CoordinatorRecord]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    records.iter().map(|record| (record.key(), record.value())).collect()
}

fn promise_rows(records: &[ParticipantRecord]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    records.iter().map(|record| (record.key(), record.value())).collect()
}

impl World {
    fn new(seed: u64, mutant: NestedMutant) -> World {
        let broker = || Broker {
            engine: nested(),
            disk: Disk { rows: Default::default(), waiting: VecDeque::new() },
            starts: 0,
            begun: 0,
        };
        let agent = || Agent {
            engine: Participant::new(participant::Config::default()),
            disk: Disk { rows: Default::default(), waiting: VecDeque::new() },
            made: None,
            changes: BTreeMap::new(),
        };
        let mut world = World {
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: Time::ZERO,
            brokers: (0..DOMAINS).map(|_| broker()).collect(),
            agents: (0..DOMAINS).map(|_| agent()).collect(),
            messages: Vec::new(),
            told: None,
            faults: true,
            mutant,
            fault: None,
            played: Played::default(),
        };
        (0..DOMAINS).for_each(|at| world.start_broker(at));
        (0..DOMAINS).for_each(|at| world.start_agent(at));
        world
    }

    fn start_broker(&mut self, at: Place) {
        let nonce = self.dice.below(u64::MAX);
        let broker = &mut self.brokers[at];
        broker.disk.waiting.clear();
        broker.engine = nested();
        let (records, promises) = self.mutant.recovered(&broker.disk.rows);
        broker.engine.recover(records, promises);
        broker.starts += 1;
        broker.engine.start(self.now, Vec::new(), nonce);
        self.drain_broker(at);
    }

    fn start_agent(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        agent.disk.waiting.clear();
        agent.engine = Participant::new(participant::Config::default());
        for (key, value) in &agent.disk.rows[1] {
            let record = ParticipantRecord::read(key, value).unwrap();
            agent.engine.handle(Time::ZERO, participant::Input::Recovering(record));
        }
        agent.engine.handle(self.now, participant::Input::Recovered);
        self.drain_agent(at);
    }

    fn broker(&mut self, at: Place, input: Input) {
        for input in self.mutant.inputs(&self.brokers[at].engine, input) {
            self.brokers[at].engine.handle(self.now, input);
        }
        self.drain_broker(at);
    }

    fn drain_broker(&mut self, at: Place) {
        while let Some(output) = self.brokers[at].engine.poll() {
            let outputs = self.mutant.outputs(&self.brokers[at].engine, output);
            outputs.into_iter().for_each(|output| self.broker_says(at, output));
        }
    }

    fn broker_says(&mut self, at: Place, output: Output) {
        // Member 0 is the domain's agent, member 1 the next domain's broker.
        let member = |branch: Branch| if branch.member == 0 { 10 + at } else { at + 1 };
        match output {
            Output::Append { batch, records, promises, .. } => {
                let mut writes = self.mutant.writes(&records, &promises);
                let last = writes.pop();
                let first = writes.into_iter().map(|tables| (None, tables));
                self.brokers[at].disk.waiting.extend(first.chain(last.map(|tables| (Some(batch), tables))));
            }
            Output::Below(Below::Prepare { branch, epoch, serial }) => {
                self.messages.push(Message::Prepare { to: member(branch), from: at, branch, epoch, serial });
            }
            Output::Below(Below::Decide { branch, epoch, decision, .. }) if member(branch) != DOMAINS => {
                self.messages.push(Message::Decide { to: member(branch), from: at, branch, epoch, decision });
            }
            Output::Below(Below::Decided { decision, .. }) if at == 0 => {
                let same = |told: Decision| (told == Decision::Abort) == (decision == Decision::Abort);
                self.fault_if(!self.told.is_none_or(same), "the caller hears two decisions");
                self.told = Some(decision);
            }
            Output::Below(_) => {}
            Output::Above(Above::Vote { branch, vote }) => {
                self.messages.push(Message::Voted { to: at - 1, branch, vote });
            }
            Output::Above(Above::Acknowledge(branch)) => self.messages.push(Message::Done { to: at - 1, branch }),
            Output::Above(Above::Ask { branch, epoch, .. }) => {
                self.messages.push(Message::Ask { to: at - 1, from: at, branch, epoch });
            }
            Output::Above(Above::Contradicted { .. }) => self.fault_if(true, "a domain has decided alone"),
            Output::Above(_) => {}
        }
    }

    fn fault_if(&mut self, wrong: bool, what: &'static str) {
        self.fault = self.fault.or(wrong.then_some(what));
    }

    fn drain_agent(&mut self, at: usize) {
        while let Some(output) = self.agents[at].engine.poll() {
            match output {
                Above::Append { id, records, change } => {
                    let agent = &mut self.agents[at];
                    match change {
                        participant::PromisedChange::Make(_) => drop(agent.changes.insert(id, true)),
                        participant::PromisedChange::Drop(..) => drop(agent.changes.insert(id, false)),
                        _ => {}
                    }
                    agent.disk.waiting.push_back((Some(id), [Vec::new(), promise_rows(&records)]));
                }
                Above::Vote { branch, vote } => self.messages.push(Message::Voted { to: at, branch, vote }),
                Above::Acknowledge(branch) => self.messages.push(Message::Done { to: at, branch }),
                Above::Ask { branch, epoch, .. } => {
                    self.messages.push(Message::Ask { to: at, from: 10 + at, branch, epoch });
                }
                Above::Contradicted { .. } => self.fault_if(true, "an agent has decided alone"),
                Above::Outdated { .. } => {}
            }
        }
    }

    fn begin(&mut self) {
        let members = self.members(0);
        let id = TransactionId([1; 16]);
        let input =
            coordinator::Input::Begin { id, kind: TransactionKind::Chain, members, note: Vec::new(), above: None };
        self.broker(0, Input::Below(input));
    }

    fn members(&self, at: Place) -> Vec<MemberRecord> {
        let member = |place: Place| MemberRecord { name: name(place), order: Vec::new() };
        let mut all = vec![member(10 + at)];
        all.extend((at + 1 < DOMAINS).then(|| member(at + 1)));
        all
    }

    fn deliver(&mut self, message: Message) {
        let grants = !self.faults || self.dice.below(40) > 0;
        match message {
            Message::Prepare { to, from, branch, epoch, serial } if to >= 10 => {
                let granted = if grants { Ok(()) } else { Err("no room".into()) };
                let coordinator = name(from).into();
                let until = Time::FOREVER;
                let input = participant::Input::Prepare { branch, coordinator, epoch, serial, granted, until };
                self.agents[to - 10].engine.handle(self.now, input);
                self.drain_agent(to - 10);
            }
            Message::Prepare { to, from, branch, epoch, serial } => {
                let asked =
                    AskedFromAbove { branch, coordinator: name(from).into(), epoch, serial, until: Time::FOREVER };
                self.brokers[to].begun += 1;
                let mut id = [to as u8 + 1; 16];
                id[8..].copy_from_slice(&(self.brokers[to].begun << 16 | self.brokers[to].starts).to_be_bytes());
                let (members, kind) = (self.members(to), TransactionKind::Chain);
                let input = match grants {
                    true => Input::Ask { asked, id: TransactionId(id), kind, members, note: Vec::new() },
                    false => Input::Refuse(asked, "not here".into()),
                };
                self.broker(to, input);
                if let Some(vote) = self.mutant.votes_at_once() {
                    self.messages.push(Message::Voted { to: from, branch, vote });
                }
            }
            Message::Voted { to, branch, vote } => {
                self.broker(to, Input::Below(coordinator::Input::Voted { branch, vote }));
            }
            Message::Decide { to, from, branch, epoch, decision } => {
                let input = participant::Input::Decide { branch, coordinator: name(from).into(), epoch, decision };
                if to >= 10 {
                    self.agents[to - 10].engine.handle(self.now, input);
                    self.drain_agent(to - 10);
                } else {
                    self.broker(to, Input::Above(input));
                }
            }
            Message::Done { to, branch } => self.broker(to, Input::Below(coordinator::Input::Acknowledged(branch))),
            Message::Ask { to, from, branch, epoch } => {
                let known = self.brokers[to].engine.coordinator();
                let now = known.epoch();
                let outcome = self.mutant.outcome(known.outcome(branch.transaction, epoch.number));
                if let coordinator::Outcome::Decided(decision) = outcome {
                    self.messages.push(Message::Decide { to: from, from: to, branch, epoch: now, decision });
                }
            }
        }
    }

    /// The first write of a disk ends: well, or not.
    fn write(&mut self, at: Place) {
        let fails = self.faults && self.dice.below(40) == 0;
        if at >= 10 {
            let disk = &mut self.agents[at - 10].disk;
            let batch = if fails { disk.waiting.pop_front().map(|(batch, _)| batch) } else { disk.write() };
            let Some(Some(batch)) = batch else { return };
            let agent = &mut self.agents[at - 10];
            if let (false, Some(made)) = (fails, agent.changes.remove(&batch)) {
                agent.made = Some(made);
            }
            let input = match fails {
                true => participant::Input::WriteFailed(batch),
                false => participant::Input::Written(batch),
            };
            agent.engine.handle(self.now, input);
            return self.drain_agent(at - 10);
        }
        let disk = &mut self.brokers[at].disk;
        let batch = if fails { disk.waiting.pop_front().map(|(batch, _)| batch) } else { disk.write() };
        let Some(Some(batch)) = batch else { return };
        self.played.failed += u64::from(fails);
        let input = if fails { Input::WriteFailed(batch, "full".into()) } else { Input::Written(batch) };
        self.broker(at, input);
    }

    /// A process dies; of its writes under way the first few are on the disk.
    fn kill(&mut self, at: Place) {
        self.played.kills += 1;
        let some = self.dice.below(3);
        for _ in 0..some {
            if at >= 10 {
                let agent = &mut self.agents[at - 10];
                let Some(Some(batch)) = agent.disk.write() else { break };
                agent.made = agent.changes.remove(&batch).or(agent.made);
            } else {
                self.brokers[at].disk.write();
            }
        }
        if at >= 10 { self.start_agent(at - 10) } else { self.start_broker(at) }
    }

    fn pass(&mut self, span: Span) {
        self.now = self.now.saturating_add(span);
        for at in 0..DOMAINS {
            self.broker(at, Input::Wake);
            self.agents[at].engine.handle(self.now, participant::Input::Wake);
            self.drain_agent(at);
        }
    }

    fn step(&mut self) {
        let places = [0, 1, 2, 10, 11, 12];
        match self.dice.below(160) {
            0..2 => {
                let at = places[self.dice.below(6) as usize];
                self.kill(at);
            }
            2..4 => self.pass(Span::from_millis(600)),
            4..80 => {
                let at = places[self.dice.below(6) as usize];
                self.write(at);
            }
            _ if self.messages.is_empty() => self.pass(Span::from_millis(300)),
            _ => {
                let n = self.dice.below(self.messages.len() as u64) as usize;
                let message = self.messages.swap_remove(n);
                match self.dice.below(30) {
                    0 => self.played.lost += 1,
                    1 => {
                        self.played.repeated += 1;
                        self.messages.push(message.clone());
                        self.deliver(message);
                    }
                    _ => self.deliver(message),
                }
            }
        }
    }

    /// Everybody is up, nothing is lost: everything comes to its end.
    fn settle(&mut self) {
        self.faults = false;
        for _ in 0..400 {
            while let Some(message) = self.messages.pop() {
                self.deliver(message);
            }
            for at in [0, 1, 2, 10, 11, 12] {
                for _ in 0..64 {
                    self.write(at);
                }
            }
            if self.messages.is_empty() {
                self.pass(Span::from_secs(1));
            }
        }
    }
}

/// Plays a chain once.
///
/// # Errors
/// The property that does not hold.
pub fn play(seed: u64, mutant: NestedMutant) -> Result<Played, &'static str> {
    let mut world = World::new(seed, mutant);
    for at in 0..DOMAINS {
        world.brokers[at].disk.write();
        world.broker(at, Input::Written(SubordinateBatch(1)));
    }
    world.begin();
    (0..STEPS).for_each(|_| world.step());
    world.settle();
    let all: Vec<bool> = world.agents.iter().map(|agent| agent.made == Some(true)).collect();
    world.fault_if(all.iter().any(|one| *one != all[0]), "half: some agents made it and some did not");
    let other = world.told.is_some_and(|told| (told != Decision::Abort) != all[0]);
    world.fault_if(other, "the caller was told otherwise");
    for at in 0..DOMAINS {
        let broker = &world.brokers[at].engine;
        let (open, promised) = (broker.coordinator().transactions().count(), broker.participant().promises().count());
        let kept = world.agents[at].engine.promises().count();
        world.fault_if(open > 0, "a broker's transaction does not end");
        world.fault_if(promised > 0, "a broker keeps a promise");
        world.fault_if(kept > 0, "an agent keeps a promise");
    }
    let made = u64::from(all[0]);
    world.fault.map_or(Ok(Played { made, not: 1 - made, ..world.played }), Err)
}

/// Plays many chains: what happened in all of them.
///
/// # Errors
/// The first seed, and the property that does not hold.
pub fn plays(mutant: NestedMutant) -> Result<Played, (u64, &'static str)> {
    let mut all = Played::default();
    for seed in 1..=SEEDS {
        let Played { made, not, kills, lost, repeated, failed } = play(seed, mutant).map_err(|why| (seed, why))?;
        all.made += made;
        all.not += not;
        all.kills += kills;
        all.lost += lost;
        all.repeated += repeated;
        all.failed += failed;
    }
    Ok(all)
}
