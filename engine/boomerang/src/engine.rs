//! The engine's state and its interface: `handle`, `poll`, `wake_at`.

use crate::auth::Keys;
use crate::chance::Chance;
use crate::half::{Half, State};
use crate::initiator::Initiator;
use crate::io::{Config, Event, Input, Output};
use crate::limit::Limits;
use crate::replay::Replays;
use crate::table::Table;
use crate::transit::Verdict;
use alloc::collections::VecDeque;
use hashbrown::HashTable;
use terms::ports::{RHandle, Route, TrafficControl};
use terms::probe::{Off, ProbeObserver};
use terms::{Fault, IfIndex, Time};
use wheel::Wheel;

/// The ports that the engine calls directly: routing and traffic control.
pub(crate) trait Env: Route + TrafficControl {}
impl<E: Route + TrafficControl> Env for E {}

/// A Boomerang node. `P` observes probe points; the default is [`Off`] (see [`Boomerang::with`]).
#[derive(Debug)]
pub struct Boomerang<P = Off> {
    pub(crate) config: Config,
    pub(crate) table: Table,
    pub(crate) timers: Wheel,
    handles: HashTable<(RHandle, u32)>,
    pub(crate) limits: Limits,
    pub(crate) keys: Keys,
    pub(crate) replays: Replays,
    pub(crate) secret: [u64; 2],
    pub(crate) initiator: Initiator,
    pub(crate) chance: Chance,
    pub(crate) now: Time,
    out: VecDeque<Output>,
    pub(crate) probe: P,
}

/// Resolution of the session blocks' timers: 67 ms, as in the kernel's table.
const TICK: u32 = 26;

impl Boomerang {
    /// A node without state. `seed` feeds jitter and keys the tables: take it from chance in a daemon, from the run's seed
    /// in a simulation.
    pub fn new(config: Config, seed: u64) -> Boomerang {
        Boomerang::with(config, seed, Off)
    }
}

impl<P: ProbeObserver> Boomerang<P> {
    /// Replaces secrets and the keys of the tables by these words: in a daemon, from the kernel's random
    /// source. Call it before the first input, because it empties the tables.
    pub fn keyed(&mut self, chance: &mut dyn FnMut() -> u64) {
        let mut pair = || [chance(), chance()];
        self.table = Table::new(pair());
        self.limits = Limits::new(self.config.per_source, pair());
        self.secret = pair();
    }

    /// As [`Boomerang::new`], with an observer of probe points.
    pub fn with(config: Config, seed: u64, probe: P) -> Boomerang<P> {
        let mut chance = Chance::new(seed);
        let mut pair = || [chance.next_u64(), chance.next_u64()];
        Boomerang {
            table: Table::new(pair()),
            timers: Wheel::new(TICK, Time::ZERO, 0),
            handles: HashTable::new(),
            limits: Limits::new(config.per_source, pair()),
            keys: Keys::new(&config.keys),
            replays: Replays::default(),
            secret: pair(),
            initiator: Initiator::new(),
            config,
            chance,
            now: Time::ZERO,
            out: VecDeque::new(),
            probe,
        }
    }

    /// The observer of probe points.
    pub fn probe_mut(&mut self) -> &mut P {
        &mut self.probe
    }

    /// Sets the configuration from now on. Reservations stay.
    pub fn configure(&mut self, config: Config) {
        self.keys = Keys::new(&config.keys);
        if config.per_source != self.config.per_source {
            self.limits = Limits::new(config.per_source, [self.chance.next_u64(), self.chance.next_u64()]);
        }
        self.config = config;
    }

    /// Takes one input.
    pub fn handle<E: Route + TrafficControl>(&mut self, now: Time, env: &mut E, input: Input<'_>) {
        debug_assert!(self.out.is_empty(), "one input, then drain");
        self.now = now;
        match input {
            Input::Packet { iif, packet } => {
                let verdict = self.packet(env, iif, packet);
                self.say(match verdict {
                    Verdict::Pass { oif, gateway } => Output::Pass { oif, gateway },
                    Verdict::Deliver => Output::Deliver,
                    Verdict::Dropped(why) => Output::Dropped(why),
                });
            }
            Input::Wake => {
                self.expire(env);
                self.wake_initiator(env);
            }
            Input::App(call) => self.call(env, call),
            Input::Installed { handle, result } => self.installed(env, handle, result),
            Input::Displaced { handle } => self.displaced(handle),
            Input::InterfaceGone(interface) => self.interface_gone(interface),
        }
    }

    /// The next thing that the engine says.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The time to come back with [`Input::Wake`], if there is no other input.
    pub fn wake_at(&self) -> Option<Time> {
        [self.timers.wake_at(), self.initiator.wake_at()].into_iter().flatten().min()
    }

    /// True if a handle of traffic control belongs to this engine.
    pub fn owns(&self, handle: RHandle) -> bool {
        self.whose(handle).is_some()
    }

    pub(crate) fn say(&mut self, output: Output) {
        self.out.push_back(output);
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.out.push_back(Output::Event(event));
    }

    pub(crate) fn whose(&self, handle: RHandle) -> Option<u32> {
        self.handles.find(hash(handle), |(other, _)| *other == handle).map(|(_, id)| *id)
    }

    pub(crate) fn note(&mut self, handle: RHandle, id: u32) {
        self.handles.insert_unique(hash(handle), (handle, id), |(handle, _)| hash(*handle));
    }

    pub(crate) fn unnote(&mut self, handle: RHandle) {
        if let Ok(entry) = self.handles.find_entry(hash(handle), |(other, _)| *other == handle) {
            entry.remove();
        }
    }

    fn installed(&mut self, env: &mut impl Env, handle: RHandle, result: Result<(), Fault>) {
        let Some(id) = self.whose(handle) else { return };
        if result.is_ok() {
            if let Some(half) = self.table.get_mut(id) {
                half.state = State::Installed;
            }
            return;
        }
        env.remove(self.now, handle);
        self.lost(id, handle);
    }

    fn displaced(&mut self, handle: RHandle) {
        if let Some(id) = self.whose(handle) {
            self.lost(id, handle);
        }
    }

    /// Records that a block has lost its reservation. Its initiating node learns it from the next message.
    fn lost(&mut self, id: u32, handle: RHandle) {
        self.unnote(handle);
        let Some(half) = self.table.get_mut(id) else { return };
        *half = Half { handle: None, rate: 0, state: State::Lost, ..*half };
        let Some((key, _)) = self.table.get(id) else { return };
        let (flow, oif) = (key.flow, key.oif);
        self.event(Event::Lost { flow, oif });
    }

    fn interface_gone(&mut self, interface: IfIndex) {
        let there = self.table.iter().filter(|(_, key, _)| key.oif == interface);
        let gone: alloc::vec::Vec<u32> = there.map(|(id, ..)| id).collect();
        for id in gone {
            self.timers.cancel(id);
            if let Some((key, half)) = self.table.remove(id) {
                half.handle.into_iter().for_each(|handle| self.unnote(handle));
                self.event(Event::Lost { flow: key.flow, oif: key.oif });
            }
        }
    }
}

fn hash(handle: RHandle) -> u64 {
    handle.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20)
}
