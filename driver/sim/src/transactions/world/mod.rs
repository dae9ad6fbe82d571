//! The world: takes events in order, and gives each to its process.

mod clients;
mod operators;
mod strikes;

use super::PlantedDefect;
use super::agent::{Agent, AgentDefects, AgentOutput, Key, WriteKind, branch};
use super::broker::{ANSWER, Broker, BrokerDefects, BrokerOutput};
use super::check::{Judge, Law};
use super::disk::DiskBatch;
use super::faults::{Moment, Plan, Strike};
use super::message::{Body, Message, Place};
use super::net::Net;
use super::tally::Tally;
use super::wish::{Change, Stage};
use crate::rng::Rng;
use commit::{Branch, Decision, Vote};
use std::collections::{BTreeMap, BTreeSet};
use terms::{Span, Time};

/// The instant at which a run begins.
pub(super) const BEGIN: Time = Time::from_nanos(1_795_269_600_000_000_000);
/// The time in which clients and faults act.
const ACTIVE: Span = Span::from_secs(3_600);
/// The time after it, in which nothing is wrong.
const QUIET: Span = Span::from_secs(1_500);
const BROKERS: usize = 2;
const AGENTS: usize = 3;
/// The time between two visits to an agent that answers, and to one that does not.
const IDLE: Span = Span::from_secs(30);
const BUSY: Span = Span::from_secs(4);

/// An event.
#[derive(Clone, Debug)]
enum Due {
    Deliver(Box<Message>),
    Disk(Place, u32),
    Wake(Place),
    Unanswered(usize, u32, Branch, bool),
    Visit(usize, u32, usize),
    Start(Place),
    Resume(Place),
    Client,
    Begin(usize, Change),
    Retry(usize),
    Strike(Strike),
    Operators,
    Accept(usize, u32),
}

impl Due {
    /// The process whose event it is.
    fn place(&self) -> Option<Place> {
        match self {
            Due::Deliver(message) => Some(message.to),
            Due::Disk(place, _) | Due::Wake(place) => Some(*place),
            Due::Unanswered(broker, ..) | Due::Visit(broker, ..) => Some(Place::Broker(*broker)),
            _ => None,
        }
    }
}

/// The world.
pub(super) struct TransactionWorld {
    now: Time,
    queue: BTreeMap<(Time, u64), Due>,
    count: u64,
    brokers: Vec<Broker>,
    agents: Vec<Agent>,
    net: Net,
    plan: Plan,
    tally: Tally,
    judge: Judge,
    /// Processes that stand still, and the events that wait for them.
    stopped: BTreeMap<Place, Vec<Due>>,
    alarms: BTreeMap<Place, Time>,
    /// Promises whose coordinator has lost them: an operator decides.
    resolving: BTreeSet<Branch>,
    /// Promises to these brokers are decided by guess.
    guessing: BTreeSet<usize>,
    /// Random numbers of the network, of clients, of everything else.
    of_net: Rng,
    of_clients: Rng,
    rng: Rng,
    calm: bool,
    messages: u64,
}

impl TransactionWorld {
    pub(super) fn new(seed: u64, planted: Option<PlantedDefect>) -> TransactionWorld {
        let (brokers, agents) = (BrokerDefects::of(planted), AgentDefects::of(planted));
        let mut rng = Rng::new(seed, 1 << 43);
        let plan = Plan::draw(&mut rng, BEGIN, ACTIVE, BROKERS, AGENTS);
        let mut world = TransactionWorld {
            now: BEGIN,
            queue: BTreeMap::new(),
            count: 0,
            brokers: (0..BROKERS).map(|n| Broker::new(n, AGENTS, brokers)).collect(),
            agents: (0..AGENTS).map(|n| Agent::new(n, agents)).collect(),
            net: Net::new(),
            plan,
            tally: Tally::default(),
            judge: Judge::new(AGENTS),
            stopped: BTreeMap::new(),
            alarms: BTreeMap::new(),
            resolving: BTreeSet::new(),
            guessing: BTreeSet::new(),
            of_net: Rng::new(seed, 1 << 44),
            of_clients: Rng::new(seed, 1 << 45),
            rng,
            calm: false,
            messages: 0,
        };
        world.places().into_iter().for_each(|place| world.start(place));
        for (at, strike) in std::mem::take(&mut world.plan.strikes) {
            world.put(at, Due::Strike(strike));
        }
        for _ in 0..14 + world.of_clients.below(14) {
            let at = Span::from_secs(5) + Span::from_nanos(world.of_clients.below(ACTIVE.as_nanos() - 100_000_000_000));
            world.put(BEGIN + at, Due::Client);
        }
        world.put(BEGIN + Span::from_secs(60), Due::Operators);
        world
    }

    /// Plays the run.
    pub(super) fn play(mut self) -> (Tally, Judge, u64) {
        self.run_until(BEGIN + ACTIVE);
        self.calm_down();
        self.run_until(BEGIN + ACTIVE + QUIET);
        self.conclude();
        (self.tally, self.judge, self.messages)
    }

    fn run_until(&mut self, end: Time) {
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), due) = entry.remove_entry();
            self.now = at;
            self.happen(due);
        }
        self.now = end;
    }

    fn places(&self) -> Vec<Place> {
        (0..BROKERS).map(Place::Broker).chain((0..AGENTS).map(Place::Agent)).collect()
    }

    fn put(&mut self, at: Time, due: Due) {
        self.count += 1;
        self.queue.insert((at.max(self.now), self.count), due);
    }

    fn later(&mut self, span: Span, due: Due) {
        self.put(self.now + span, due);
    }

    fn life(&self, place: Place) -> u32 {
        match place {
            Place::Broker(n) => self.brokers[n].life(),
            Place::Agent(n) => self.agents[n].life(),
        }
    }

    fn is_up(&self, place: Place) -> bool {
        match place {
            Place::Broker(n) => self.brokers[n].is_up(),
            Place::Agent(n) => self.agents[n].is_up(),
        }
    }

    fn happen(&mut self, due: Due) {
        if let Some(waiting) = due.place().and_then(|place| self.stopped.get_mut(&place)) {
            return waiting.push(due);
        }
        match due {
            Due::Deliver(message) => self.deliver(*message),
            Due::Disk(place, life) if life == self.life(place) => self.disk_done(place),
            Due::Wake(place) => self.wake(place),
            Due::Unanswered(n, life, branch, decided) if life == self.brokers[n].life() => {
                let outputs = self.brokers[n].unanswered(self.now, branch, decided);
                self.brokers_say(n, outputs);
            }
            Due::Visit(n, life, agent) if life == self.brokers[n].life() => self.visit(n, agent),
            Due::Start(place) => self.start(place),
            Due::Resume(place) => self.resume(place),
            Due::Client => self.client_acts(),
            Due::Begin(wish, change) => self.begin_now(wish, change),
            Due::Retry(wish) => self.retry(wish),
            Due::Strike(strike) => self.strike(strike),
            Due::Operators => self.operators_look(),
            Due::Accept(n, life) if life == self.brokers[n].life() => self.accept_older(n),
            Due::Disk(..) | Due::Unanswered(..) | Due::Visit(..) | Due::Accept(..) => {}
        }
    }

    fn send(&mut self, message: Message) {
        for at in self.net.send(self.now, &message, &mut self.of_net, &mut self.tally) {
            self.put(at, Due::Deliver(Box::new(message.clone())));
        }
    }

    fn deliver(&mut self, message: Message) {
        self.messages += 1;
        match (message.from, message.to) {
            (Place::Broker(from), Place::Agent(to)) if self.agents[to].is_up() => {
                let outputs = self.agents[to].hear(self.now, from, message.body);
                self.agents_say(to, outputs);
            }
            (Place::Agent(from), Place::Broker(to)) if self.brokers[to].is_up() => {
                self.clients_hear(from, &message.body);
                let outputs = self.brokers[to].hear(self.now, from, message.body);
                self.brokers_say(to, outputs);
            }
            _ => {}
        }
    }

    /// Carries out what a broker says, in order, while it lives.
    fn brokers_say(&mut self, n: usize, outputs: Vec<BrokerOutput>) {
        let (place, life) = (Place::Broker(n), self.brokers[n].life());
        let commits =
            |output: &&BrokerOutput| matches!(output, BrokerOutput::Send(message) if is_commit(&message.body));
        let (all, mut told) = (outputs.iter().filter(commits).count(), 0);
        for output in outputs {
            if self.brokers[n].life() != life {
                return;
            }
            match output {
                BrokerOutput::Send(message) => {
                    let commit = is_commit(&message.body);
                    self.send(*message);
                    told += usize::from(commit);
                    match told {
                        told if commit && told == all => self.moment(place, Moment::AfterAllSends, None),
                        1 if commit => self.moment(place, Moment::AfterOneSend, None),
                        _ => {}
                    }
                }
                BrokerOutput::Write(decides) => {
                    if decides {
                        self.moment(place, Moment::BeforeLog, None);
                    }
                    self.begin_write(place);
                }
                BrokerOutput::Expect(branch, decided) => {
                    self.later(ANSWER, Due::Unanswered(n, life, branch, decided));
                }
                BrokerOutput::Decided(id, committed) => self.client_told(id, committed),
                BrokerOutput::NotBegun(id) => self.client_refused(id),
                BrokerOutput::Outdated => {
                    self.tally.count("C7 older coordinator refused", "");
                    if !self.brokers[n].is_restored() {
                        self.judge.broken(Law::Stuck, self.now, format!("b{n} is outdated, and was never set back"));
                    }
                    self.later(Span::from_secs(60), Due::Accept(n, life));
                }
                BrokerOutput::Unresolved(branch) => _ = self.resolving.insert(branch),
            }
        }
        self.set_alarm(place);
    }

    /// Carries out what an agent says, in order, while it lives.
    fn agents_say(&mut self, n: usize, outputs: Vec<AgentOutput>) {
        let (place, life) = (Place::Agent(n), self.agents[n].life());
        for output in outputs {
            if self.agents[n].life() != life {
                return;
            }
            match output {
                AgentOutput::Send(message) => {
                    let (to, yes) = (message.to, is_yes(&message.body));
                    if let Body::Acknowledge { branch, gone: true } = &message.body
                        && self.judge.is_decided(branch.transaction)
                    {
                        self.tally.count("C11 commit is answered with gone", "");
                    }
                    self.send(*message);
                    if yes {
                        self.moment(place, Moment::AfterVote, Some(to));
                    }
                }
                AgentOutput::Write(kind) => {
                    match kind {
                        WriteKind::Promise => self.moment(place, Moment::BeforePromise, None),
                        WriteKind::Apply => self.moment(place, Moment::InApply, None),
                        WriteKind::Other => {}
                    }
                    self.begin_write(place);
                }
                AgentOutput::Contradicted(what) => {
                    if self.judge.contradict(what.branch) {
                        self.tally.count("C10 operator decides otherwise, which is told", "");
                    }
                }
                AgentOutput::Corrupt(what) => {
                    self.judge.broken(Law::Lost, self.now, format!("a{n} cannot read a record: {what}"));
                }
                AgentOutput::Listed(promises) => self.operator_decides(n, promises),
            }
        }
        self.set_alarm(place);
    }

    fn begin_write(&mut self, place: Place) {
        let began = match place {
            Place::Broker(n) => self.brokers[n].disk_mut().begin(),
            Place::Agent(n) => self.agents[n].disk_mut().begin(),
        };
        if began {
            let (life, time) = (self.life(place), Span::from_micros(500 + self.rng.below(12_000)));
            self.later(time, Due::Disk(place, life));
        }
    }

    fn disk_done(&mut self, place: Place) {
        match place {
            Place::Broker(n) => self.broker_wrote(n),
            Place::Agent(n) => self.agent_wrote(n),
        }
        self.begin_write(place);
    }

    fn broker_wrote(&mut self, n: usize) {
        let (place, life) = (Place::Broker(n), self.brokers[n].life());
        let answers = self.brokers[n].disk_mut().end(self.now);
        let kept = |written: bool| answers.iter().filter(move |(_, is)| *is == written).map(|(batch, _)| batch);
        kept(true).for_each(|batch| self.judge.coordinator_wrote(self.now, &batch.changes));
        kept(false).for_each(|_| self.tally.count("D4 no space for a coordinator", ""));
        if kept(true).any(decides) {
            self.moment(place, Moment::AfterLog, None);
        }
        for (batch, written) in &answers {
            if self.brokers[n].life() != life {
                return;
            }
            let outputs = self.brokers[n].answered(self.now, batch.id, *written);
            self.brokers_say(n, outputs);
        }
    }

    fn agent_wrote(&mut self, n: usize) {
        let life = self.agents[n].life();
        let answers = self.agents[n].disk_mut().end(self.now);
        for (batch, _) in answers.iter().filter(|(_, written)| *written) {
            self.agent_has(n, batch);
        }
        for (batch, written) in &answers {
            if self.agents[n].life() != life {
                return;
            }
            if !written {
                let ends = batch.changes.iter().find_map(|((table, key), value)| branch(*table, key, value.as_deref()));
                match ends {
                    Some((_, None, _)) => self.tally.count("D4 no space for a promise", ""),
                    Some((_, Some(_), _)) => self.tally.count("D4 no space for a decision", ""),
                    None => {}
                }
            }
            if !self.agents[n].lies() {
                let outputs = self.agents[n].answered(self.now, batch.id, *written);
                self.agents_say(n, outputs);
            }
        }
    }

    /// A batch is on an agent's disk.
    fn agent_has(&mut self, n: usize, batch: &DiskBatch<Key>) {
        let calendar = self.agents[n].calendar(self.now);
        self.judge.agent_wrote(self.now, calendar, n, &batch.changes, &mut self.tally);
    }

    fn set_alarm(&mut self, place: Place) {
        let at = match place {
            Place::Broker(n) => self.brokers[n].wake_at(),
            Place::Agent(n) => self.agents[n].wake_at(),
        };
        let Some(at) = at else { return };
        let at = at.max(self.now);
        if self.alarms.get(&place).is_none_or(|set| at < *set) {
            self.alarms.insert(place, at);
            self.put(at, Due::Wake(place));
        }
    }

    fn wake(&mut self, place: Place) {
        if self.alarms.get(&place).is_some_and(|set| *set <= self.now) {
            self.alarms.remove(&place);
        }
        let now = self.now;
        match place {
            Place::Broker(n) if self.brokers[n].wake_at().is_some_and(|at| at <= now) => {
                let outputs = self.brokers[n].wake(now);
                self.brokers_say(n, outputs);
            }
            Place::Agent(n) if self.agents[n].wake_at().is_some_and(|at| at <= now) => {
                let outputs = self.agents[n].wake(now);
                self.agents_say(n, outputs);
            }
            _ => self.set_alarm(place),
        }
    }

    fn visit(&mut self, n: usize, agent: usize) {
        let outputs = self.brokers[n].visit(self.now, agent);
        let pause = if self.brokers[n].is_silent(agent) { BUSY } else { IDLE };
        self.later(pause, Due::Visit(n, self.brokers[n].life(), agent));
        self.brokers_say(n, outputs);
    }

    /// Starts a process that is down.
    fn start(&mut self, place: Place) {
        if self.is_up(place) {
            return;
        }
        match place {
            Place::Broker(n) if self.judge.gone.contains(&n) => {}
            Place::Broker(n) => {
                let nonce = self.rng.next_u64();
                let outputs = self.brokers[n].start(self.now, nonce);
                for agent in 0..AGENTS {
                    self.later(Span::from_millis(50), Due::Visit(n, self.brokers[n].life(), agent));
                }
                self.brokers_say(n, outputs);
            }
            Place::Agent(n) => {
                let seed = self.rng.next_u64();
                let outputs = self.agents[n].start(self.now, seed);
                self.agents_say(n, outputs);
            }
        }
    }

    /// Everything has been well for a while: nothing may be left open, and all must agree.
    fn conclude(&mut self) {
        let now = self.now;
        for n in 0..BROKERS {
            for (id, phase) in self.brokers[n].open() {
                self.judge.broken(Law::Stuck, now, format!("{id} of b{n} is still {phase:?}"));
            }
        }
        for n in 0..AGENTS {
            if let Err(what) = self.agents[n].audit() {
                self.judge.broken(Law::Overbooked, now, format!("a{n}: {what}"));
            }
            self.compare_room(n);
        }
        let waits = |stage: Stage| matches!(stage, Stage::Waiting(_) | Stage::Looking);
        for wish in 0..self.judge.wishes.len() {
            let of = self.judge.wishes[wish].clone();
            // Whoever asks by a key sees a broken reservation, if it may be broken.
            let shown = of.stage() == Stage::Looking && self.judge.may_be_broken(now, wish);
            if waits(of.stage()) && !shown && !self.judge.gone.contains(&of.broker()) {
                let what = format!("nobody told the client of {} its end: {:?}", of.group(), of.stage());
                self.judge.broken(Law::Stuck, now, what);
            }
        }
        self.judge.conclude(now);
    }

    /// Compares an agent's ledger: its free room at each instant is the capacity without the bookings on its disk.
    fn compare_room(&mut self, n: usize) {
        for (resource, window, free) in self.agents[n].room(self.now) {
            let booked = self.judge.booked(n, resource, window.start());
            let capacity = super::agent::RESOURCES[resource].2;
            if free + booked != capacity {
                let law = if free + booked > capacity { Law::Overbooked } else { Law::Stuck };
                let what = format!("a{n} has {free} free of {capacity} while {booked} are booked");
                self.judge.broken(law, self.now, what);
            }
        }
    }
}

fn decides(batch: &DiskBatch<Vec<u8>>) -> bool {
    use commit::record::CoordinatorRecord;
    batch.changes.iter().any(|(key, value)| {
        let record = value.as_ref().map(|value| CoordinatorRecord::read(key, value));
        matches!(record, Some(Ok(CoordinatorRecord::Transaction { committed: Some(_), .. })))
    })
}

fn is_commit(body: &Body) -> bool {
    matches!(body, Body::Decide(call) if matches!(call.decision, Decision::Commit { .. }))
}

fn is_yes(body: &Body) -> bool {
    matches!(body, Body::Vote { vote: Vote::Yes, .. })
}
