//! Coordinators under coordinators: a chain of three domains, each with one agent, under chance, loss, repetition,
//! kills between any two steps, and failed writes. All agents make the change or none does.

use commit::coordinator::{self, Output as Below, TransactionKind};
use commit::participant::{self, Output as Above, ParticipantRecord};
use commit::record::{CoordinatorRecord, MemberRecord};
use commit::subordinate::{AskedFromAbove, Input, Output, SubordinateBatch};
use commit::{Branch, Decision, Epoch, Participant, Subordinate, TransactionId, Vote};
use std::collections::{BTreeMap, VecDeque};
use terms::{Span, Time};

const DOMAINS: usize = 3;
const SEEDS: u64 = 3_000;
const STEPS: usize = 200;

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
    waiting: VecDeque<(B, Tables)>,
}

impl<B> Disk<B> {
    fn write(&mut self) -> Option<B> {
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
    counts: [u64; 4],
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
    fn new(seed: u64) -> World {
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
            counts: [0; 4],
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
        let records = broker.disk.rows[0].iter().map(|(key, value)| CoordinatorRecord::read(key, value).unwrap());
        let promises = broker.disk.rows[1].iter().map(|(key, value)| ParticipantRecord::read(key, value).unwrap());
        broker.engine.recover(records.collect(), promises.collect());
        broker.starts += 1;
        broker.engine.start(self.now, nonce);
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
        self.brokers[at].engine.handle(self.now, input);
        self.drain_broker(at);
    }

    fn drain_broker(&mut self, at: Place) {
        while let Some(output) = self.brokers[at].engine.poll() {
            match output {
                Output::Append { batch, records, promises, .. } => {
                    let content = [rows(&records), promise_rows(&promises)];
                    self.brokers[at].disk.waiting.push_back((batch, content));
                }
                Output::Below(Below::Prepare { branch, epoch, serial }) => {
                    let to = if branch.member == 0 { 10 + at } else { at + 1 };
                    self.messages.push(Message::Prepare { to, from: at, branch, epoch, serial });
                }
                Output::Below(Below::Decide { branch, epoch, decision, .. }) => {
                    let to = if branch.member == 0 { 10 + at } else { at + 1 };
                    self.messages.push(Message::Decide { to, from: at, branch, epoch, decision });
                }
                Output::Below(Below::Decided { decision, .. }) if at == 0 => {
                    let same = |told: Decision| (told == Decision::Abort) == (decision == Decision::Abort);
                    assert!(self.told.is_none_or(same), "the caller hears two decisions");
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
                Output::Above(Above::Contradicted { .. }) => panic!("nobody decides alone"),
                Output::Above(_) => {}
            }
        }
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
                    agent.disk.waiting.push_back((id, [Vec::new(), promise_rows(&records)]));
                }
                Above::Vote { branch, vote } => self.messages.push(Message::Voted { to: at, branch, vote }),
                Above::Acknowledge(branch) => self.messages.push(Message::Done { to: at, branch }),
                Above::Ask { branch, epoch, .. } => {
                    self.messages.push(Message::Ask { to: at, from: 10 + at, branch, epoch });
                }
                Above::Contradicted { .. } => panic!("nobody decides alone"),
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
                if let coordinator::Outcome::Decided(decision) = known.outcome(branch.transaction, epoch.number) {
                    self.messages.push(Message::Decide { to: from, from: to, branch, epoch: now, decision });
                }
            }
        }
    }

    /// The first write of a disk ends: well, or not.
    fn write(&mut self, at: Place) {
        let fails = self.faults && self.dice.below(40) == 0;
        if at >= 10 {
            let agent = &mut self.agents[at - 10];
            let batch = if fails { agent.disk.waiting.pop_front().map(|(batch, _)| batch) } else { agent.disk.write() };
            let Some(batch) = batch else { return };
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
        let Some(batch) = batch else { return };
        self.counts[3] += u64::from(fails);
        let input = if fails { Input::WriteFailed(batch, "full".into()) } else { Input::Written(batch) };
        self.broker(at, input);
    }

    /// A process dies; of its writes under way the first few are on the disk.
    fn kill(&mut self, at: Place) {
        self.counts[0] += 1;
        let some = self.dice.below(3);
        for _ in 0..some {
            if at >= 10 {
                let agent = &mut self.agents[at - 10];
                let Some(batch) = agent.disk.write() else { break };
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
                    0 => self.counts[1] += 1, // lost
                    1 => {
                        self.counts[2] += 1;
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

#[test]
fn three_domains_make_it_all_or_none() {
    let (mut counts, mut made, mut not) = ([0; 4], 0, 0);
    for seed in 1..=SEEDS {
        let mut world = World::new(seed);
        for at in 0..DOMAINS {
            world.brokers[at].disk.write();
            world.broker(at, Input::Written(SubordinateBatch(1)));
        }
        world.begin();
        (0..STEPS).for_each(|_| world.step());
        world.settle();
        let all: Vec<bool> = world.agents.iter().map(|agent| agent.made == Some(true)).collect();
        assert!(all.iter().all(|one| *one == all[0]), "seed {seed}: half: {all:?}");
        if let Some(told) = world.told {
            assert_eq!(told != Decision::Abort, all[0], "seed {seed}: the caller was told otherwise");
        }
        for at in 0..DOMAINS {
            let broker = &world.brokers[at].engine;
            assert_eq!(broker.coordinator().transactions().count(), 0, "seed {seed}: broker {at} does not end");
            assert_eq!(broker.participant().promises().count(), 0, "seed {seed}: broker {at} keeps a promise");
            assert_eq!(world.agents[at].engine.promises().count(), 0, "seed {seed}: agent {at} keeps a promise");
        }
        if all[0] {
            made += 1
        } else {
            not += 1
        }
        counts.iter_mut().zip(world.counts).for_each(|(all, one)| *all += one);
    }
    let [kills, lost, repeated, failed] = counts;
    println!(
        "{SEEDS} seeds: {made} made, {not} not; {kills} kills, {lost} lost, {repeated} repeated, {failed} failed writes"
    );
    assert!(made > SEEDS / 5 && not > SEEDS / 5);
    assert!([kills, lost, repeated, failed].iter().all(|count| *count > SEEDS / 10));
}
