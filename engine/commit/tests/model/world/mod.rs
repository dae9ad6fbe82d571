//! The model: the shipped engines, one coordinator and some participants, with their journals, on a network that loses,
//! repeats and reorders. Every order of events within a scope is searched.
//!
//! - The network keeps every message that was sent. Each may be delivered at any time and any number of times, so
//!   that loss, repetition and delay are all in one rule.
//! - A process may be killed between any two steps. Of the writes that are under way, any number of the first reach the disk,
//!   and the others are lost. A killed process starts again at once: one that is down for a while cannot be told from one that
//!   hears nothing for a while.
//! - Time is a number of ticks. A timer may go off late, and never early.

pub mod coordinator;
pub mod counts;
pub mod message;
pub mod mutant;
pub mod participant;
pub mod scopes;
mod search;
mod settle;
mod shared;

use commit::Epoch;
use commit::coordinator::Phase;
use coordinator::CoordinatorSite;
use counts::{Counts, Seen};
use message::{Message, id_of};
use mutant::Mutant;
use participant::{Fate, ParticipantSite};
pub use search::{Report, search};
use settle::Settled;
use shared::Shared;
use std::collections::{BTreeSet, VecDeque};
use terms::{Span, Time};

/// The size of a model: values are cut, faults are not.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Its name.
    pub name: &'static str,
    /// The number of participants.
    pub participants: u8,
    /// The number of transactions. Each has a part at every participant.
    pub transactions: u8,
    /// The most crashes, of all processes together.
    pub crashes: u8,
    /// The most writes that fail.
    pub failures: u8,
    /// The most ticks.
    pub ticks: u8,
    /// The parts for which a participant has room.
    pub capacity: u8,
    /// The tick at which the window of every promise has passed; `None`: it does not end.
    pub until: Option<u8>,
    /// The number of transactions, from the first, whose callers may give up: at any time before the decision.
    pub gives_up: u8,
    /// True: other events happen while a write is under way. False: they wait for it, or for a crash.
    pub overlaps: bool,
    /// The most messages, or bursts of messages to one process, that are lost, come late or come again; `None`: any
    /// number. The others come in the order in which they were sent.
    pub deviations: Option<u8>,
}

/// The surroundings of a step.
pub struct At<'a> {
    /// The size of the model.
    pub scope: &'a Scope,
    /// The defect that is tried.
    pub mutant: Mutant,
    /// The time.
    pub now: Time,
    counts: &'a Counts,
}

impl At<'_> {
    /// The length of a tick.
    pub fn tick(&self) -> Span {
        Span::from_secs(1)
    }

    /// The end of every window.
    pub fn until(&self) -> Time {
        self.scope.until.map_or(participant::OPEN, |tick| Time::ZERO + Span::from_secs(tick.into()))
    }

    /// Counts something.
    pub fn saw(&self, seen: Seen) {
        self.counts.add(seen);
    }

    /// Counts something, if it happened.
    pub fn saw_if(&self, happened: bool, seen: Seen) {
        if happened {
            self.saw(seen);
        }
    }
}

/// A process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Site {
    Coordinator,
    Participant(u8),
}

/// A state of the model.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct World {
    crashes: u8,
    failures: u8,
    deviations: u8,
    pub coordinator: Shared<CoordinatorSite>,
    pub participants: Vec<Shared<ParticipantSite>>,
    /// The messages that come next, if the number of deviations is limited.
    under_way: VecDeque<Message>,
    /// The messages that may come at any time.
    pub sent: Shared<BTreeSet<Message>>,
}

/// A step of the model.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// A caller begins the next transaction.
    Begin,
    /// A message arrives.
    Deliver(Message),
    /// All messages under way to this process are lost, or late.
    Miss(Site),
    /// So many writes reach the disk.
    Write(Site, usize),
    /// So many writes reach the disk, and the next one fails.
    Fail(Site, usize),
    /// The process is killed when so many writes under way have reached the disk, and starts again.
    Crash(Site, usize),
    /// Time passes at a process, and its timers go off.
    Wake(Site),
    /// The coordinator connects to a participant, and is told its open promises.
    Connect(u8),
    /// A participant asks for the decision about its part in a transaction: participant, transaction.
    Ask(u8, u8),
    /// A caller gives a transaction up, or it has waited long enough for its votes.
    GiveUp(u8),
}

/// A property that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// A transaction was made at one participant and not at another.
    Half,
    /// A part was made and dropped, or made twice, or the caller was told something else.
    Twice,
    /// A participant has promised and made more than it has room for.
    Overbooked,
    /// A promise or a transaction does not end although everybody is up.
    Stuck,
}

/// A model and its search.
pub struct Checked {
    pub scope: Scope,
    pub mutant: Mutant,
    pub counts: Counts,
    settled: Settled,
}

impl World {
    /// The number of writes of a process that are under way.
    fn pending(&self, site: Site) -> usize {
        match site {
            Site::Coordinator => self.coordinator.pending(),
            Site::Participant(place) => self.participants[usize::from(place)].pending(),
        }
    }

    /// The numbers of writes of a process that can reach the disk at once.
    fn writes(&self, site: Site) -> Vec<usize> {
        match site {
            Site::Coordinator => self.coordinator.writes().collect(),
            Site::Participant(place) => self.participants[usize::from(place)].writes().collect(),
        }
    }

    /// The time of the next timer of a process.
    fn wake_at(&self, site: Site) -> Option<Time> {
        match site {
            Site::Coordinator => self.coordinator.engine.wake_at(),
            Site::Participant(place) => self.participants[usize::from(place)].engine.wake_at(),
        }
    }

    /// The local time of a process.
    fn tick(&self, site: Site) -> u8 {
        match site {
            Site::Coordinator => self.coordinator.tick,
            Site::Participant(place) => self.participants[usize::from(place)].tick,
        }
    }

    /// True if the coordinator waits for votes.
    fn is_preparing(&self, transaction: u8) -> bool {
        self.coordinator.engine.phase(id_of(transaction)) == Some(Phase::Preparing)
    }
}

impl Checked {
    /// A model that was not searched yet.
    pub fn new(scope: Scope, mutant: Mutant) -> Checked {
        Checked { scope, mutant, counts: Counts::default(), settled: Settled::default() }
    }

    fn at(&self, tick: u8) -> At<'_> {
        let now = Time::ZERO + Span::from_secs(tick.into());
        At { scope: &self.scope, mutant: self.mutant, now, counts: &self.counts }
    }

    /// The first state: the coordinator is open, and has connected to every participant.
    fn start(&self) -> World {
        let at = self.at(0);
        let coordinator = CoordinatorSite::new(&at);
        let epoch = coordinator.engine.epoch();
        let participants = (0..self.scope.participants).map(|place| {
            let mut site = ParticipantSite::new(&at, place);
            site.connect(&at, epoch);
            site.write(&at, site.pending());
            Shared::new(site)
        });
        World {
            crashes: 0,
            failures: 0,
            deviations: 0,
            under_way: VecDeque::new(),
            coordinator: Shared::new(coordinator),
            participants: participants.collect(),
            sent: Shared::new(BTreeSet::new()),
        }
    }

    /// Changes the coordinator.
    fn coordinator<T>(&self, world: &mut World, change: impl FnOnce(&mut CoordinatorSite, &At) -> T) -> T {
        let mut site = (*world.coordinator).clone();
        let tick = site.tick;
        let result = change(&mut site, &self.at(tick));
        world.coordinator = Shared::new(site);
        result
    }

    /// Changes a participant.
    fn participant<T>(&self, world: &mut World, place: u8, change: impl FnOnce(&mut ParticipantSite, &At) -> T) -> T {
        let old = &mut world.participants[usize::from(place)];
        let mut site = (**old).clone();
        let tick = site.tick;
        let result = change(&mut site, &self.at(tick));
        *old = Shared::new(site);
        result
    }

    /// A message arrives. `None`: it changes nothing.
    fn deliver(&self, world: &mut World, message: &Message) -> Option<Vec<Message>> {
        let (sent, changed) = match *message {
            Message::Prepare { to, .. } | Message::Decide { to, .. } => {
                let before = world.participants[usize::from(to)].digest();
                let sent = self.participant(world, to, |site, at| site.deliver(at, message));
                (sent, before != world.participants[usize::from(to)].digest())
            }
            _ => {
                let before = world.coordinator.digest();
                let sent = self.coordinator(world, |site, at| site.deliver(at, message));
                (sent, before != world.coordinator.digest())
            }
        };
        (changed || !sent.is_empty()).then_some(sent)
    }

    fn write(&self, world: &mut World, site: Site, writes: usize) -> Vec<Message> {
        match site {
            Site::Coordinator => self.coordinator(world, |site, at| site.write(at, writes)),
            Site::Participant(place) => self.participant(world, place, |site, at| site.write(at, writes)),
        }
    }

    /// Time passes at a process.
    fn wake(&self, world: &mut World, site: Site) -> Vec<Message> {
        match site {
            Site::Coordinator => {
                self.coordinator(world, |site, _| site.tick += 1);
                self.coordinator(world, |site, at| site.handle(at, commit::coordinator::Input::Wake))
            }
            Site::Participant(place) => {
                self.participant(world, place, |site, _| site.tick += 1);
                self.participant(world, place, |site, at| site.handle(at, commit::participant::Input::Wake))
            }
        }
    }

    /// The coordinator connects to a participant.
    fn connect(&self, world: &mut World, place: u8) -> Vec<Message> {
        let epoch = world.coordinator.engine.epoch();
        let (mut sent, promises) = self.participant(world, place, |site, at| site.connect(at, epoch));
        sent.extend(self.coordinator(world, |site, at| site.connected(at, place, promises)));
        sent
    }

    /// The messages go to the network.
    fn send(&self, world: &mut World, messages: Vec<Message>) {
        let coordinator = world.coordinator.engine.epoch();
        let is_new = |message: &Message| match message {
            // Every question is asked at every time, see `Step::Ask`.
            Message::Ask { .. } => false,
            // A coordinator of this epoch does not heed it, nor does one of a later epoch.
            Message::Outdated { known, .. } if coordinator.follows(*known) => false,
            message if self.scope.deviations.is_some() => !world.under_way.contains(message),
            message => !world.sent.contains(message),
        };
        let mut new = messages.into_iter().filter(is_new).collect::<Vec<_>>();
        if self.scope.deviations.is_some() {
            world.under_way.extend(new.drain(..));
        }
        let has_dead = world.sent.iter().any(|message| self.is_dead(world, message));
        if new.is_empty() && !has_dead {
            return;
        }
        let mut sent = (*world.sent).clone();
        sent.extend(new);
        world.sent = Shared::new(sent);
        let sent = world.sent.iter().filter(|message| !self.is_dead(world, message)).cloned().collect();
        world.sent = Shared::new(sent);
    }

    /// True if this message can never have an effect again, in this state and all that follow.
    fn is_dead(&self, world: &World, message: &Message) -> bool {
        match *message {
            Message::Prepare { to, epoch, .. } => self.is_refused(world, to, epoch),
            Message::Decide { to, transaction, epoch, .. } => {
                self.is_refused(world, to, epoch) || self.is_over(world, to, transaction)
            }
            // What is no longer being prepared never is again, also after a crash.
            Message::Vote { transaction, yes: true, .. } => {
                !world.is_preparing(transaction) && self.mutant != Mutant::LateYesRevives
            }
            Message::Vote { transaction, yes: false, .. } => {
                world.coordinator.is_committed(transaction) || world.coordinator.has_gone(transaction)
            }
            Message::Acknowledge { transaction, .. } => world.coordinator.has_gone(transaction),
            Message::Ask { .. } | Message::Outdated { .. } => false,
        }
    }

    /// True if a participant has ended its part, on the disk, and the coordinator will know it: another decision changes
    /// nothing, because a part that has ended is never promised again.
    fn is_over(&self, world: &World, place: u8, transaction: u8) -> bool {
        let site = &world.participants[usize::from(place)];
        let acknowledged = Message::Acknowledge { from: place, transaction };
        let is_known = world.sent.contains(&acknowledged) || world.coordinator.has_gone(transaction);
        is_known && site.book.contains_key(&transaction) && !site.is_promised(transaction)
    }

    /// True if a participant refuses messages of this epoch for ever, because a newer one is on its disk.
    fn is_refused(&self, world: &World, place: u8, epoch: Epoch) -> bool {
        epoch.number < world.participants[usize::from(place)].known && self.mutant != Mutant::EpochUnchecked
    }

    /// The first property that does not hold in a state.
    fn fault(&self, world: &World) -> Option<Fault> {
        let room = usize::from(self.scope.capacity);
        for site in &world.participants {
            if site.book.values().any(|part| part.twice) {
                return Some(Fault::Twice);
            }
            if usize::from(site.used()) > room || site.book.values().any(|part| part.amount > 1) {
                return Some(Fault::Overbooked);
            }
        }
        (0..self.scope.transactions).find_map(|transaction| {
            let told = world.coordinator.told[usize::from(transaction)];
            let fates = || world.participants.iter().map(|site| site.book.get(&transaction).map(|part| part.fate));
            let is_made = fates().any(|fate| fate == Some(Fate::Made));
            let is_missing = fates().any(|fate| matches!(fate, None | Some(Fate::Dropped)));
            let is_otherwise = told.commit && (told.abort || is_missing) || told.abort && is_made;
            match (is_made && is_missing, is_otherwise) {
                (true, _) => Some(Fault::Half),
                (_, true) => Some(Fault::Twice),
                _ => None,
            }
        })
    }

    /// At the end of all transactions: one that is made at one participant and still promised at another.
    fn unequal(&self, world: &World) -> Option<Fault> {
        let is_half = (0..self.scope.transactions).any(|transaction| {
            let fates = || world.participants.iter().map(|site| site.book.get(&transaction).map(|part| part.fate));
            let is_made = fates().any(|fate| fate == Some(Fate::Made));
            is_made && fates().any(|fate| !matches!(fate, Some(Fate::Made | Fate::Moot)))
                || fates().any(|fate| fate == Some(Fate::Promised))
        });
        is_half.then_some(Fault::Half)
    }
}
