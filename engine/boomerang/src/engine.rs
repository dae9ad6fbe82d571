//! The engine's state and its interface: `handle`, `poll`, `wake_at`.

use crate::half::{EXACT, HalfKey};
use crate::initiator::{InitiatedSession, Initiator};
use crate::io::{Config, FailureReason, Input, Output};
use crate::node::{NodeSide, Secrets};
use crate::view::{self, HalfView};
use crate::work::Verdict;
use terms::Rng;
use terms::ports::{RHandle, Route, TrafficControl};
use terms::probe::{Off, ProbeObserver};
use terms::{FlowKey, IfIndex, Time};

/// A Boomerang node. `P` observes probe points; the default is [`Off`] (see [`Boomerang::with`]).
#[derive(Debug)]
pub struct Boomerang<P = Off> {
    node: NodeSide<P>,
    initiator: Initiator,
}

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
        self.node.keyed(secrets(chance));
    }

    /// As [`Boomerang::new`], with an observer of probe points.
    pub fn with(config: Config, seed: u64, probe: P) -> Boomerang<P> {
        let mut chance = Rng::seeded(seed);
        let secrets = secrets(&mut || chance.next_u64());
        Boomerang { node: NodeSide::new(config, secrets, probe), initiator: Initiator::new(chance) }
    }

    /// The observer of probe points.
    pub fn probe_mut(&mut self) -> &mut P {
        self.node.probe_mut()
    }

    /// Sets the configuration from now on. Reservations stay.
    pub fn configure(&mut self, config: Config) {
        let chance = self.initiator.chance();
        self.node.configure(config, || [chance.next_u64(), chance.next_u64()]);
    }

    /// Takes one input.
    pub fn handle<E: Route + TrafficControl>(&mut self, now: Time, env: &mut E, input: Input<'_>) {
        debug_assert!(self.node.is_drained(), "one input, then drain");
        self.node.at(now);
        match input {
            Input::Packet { iif, packet } => {
                let output = match self.node.packet(env, iif, packet) {
                    Verdict::Pass { oif, gateway } => Output::Pass { oif, gateway },
                    Verdict::Deliver => Output::Deliver,
                    Verdict::Answer { transaction } => {
                        let ours = self.initiator.answered(&mut self.node, env, transaction, packet);
                        if ours { Output::Dropped(FailureReason::Heard) } else { Output::Deliver }
                    }
                    Verdict::Dropped(why) => Output::Dropped(why),
                };
                self.node.say(output);
            }
            Input::Wake => {
                self.node.expire(env);
                self.initiator.wake(&mut self.node, env);
            }
            Input::App(call) => self.initiator.call(&mut self.node, env, call),
            Input::Installed { handle, result } => self.node.installed(env, handle, result),
            Input::Displaced { handle } => self.node.lost(handle),
            Input::InterfaceGone(interface) => self.node.interface_gone(interface),
        }
    }

    /// The next thing that the engine says.
    pub fn poll(&mut self) -> Option<Output> {
        self.node.poll()
    }

    /// The time to come back with [`Input::Wake`], if there is no other input.
    pub fn wake_at(&self) -> Option<Time> {
        [self.node.blocks().wake_at(), self.initiator.wake_at()].into_iter().flatten().min()
    }

    /// True if a handle of traffic control belongs to this engine.
    pub fn owns(&self, handle: RHandle) -> bool {
        self.node.blocks().whose(handle).is_some()
    }

    /// Every session block.
    pub fn halves(&self) -> impl Iterator<Item = HalfView> + '_ {
        view::halves(self.node.blocks())
    }

    /// True if there is a block of exactly this flow on this interface.
    pub fn holds(&self, oif: IfIndex, flow: &FlowKey) -> bool {
        self.node.blocks().table().find(&HalfKey { flow: *flow, oif, mask: EXACT }).is_some()
    }

    /// The number of session blocks.
    pub fn len(&self) -> usize {
        self.node.blocks().table().len()
    }

    /// True if there is no session block.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sessions of local applications.
    pub fn sessions(&self) -> impl Iterator<Item = InitiatedSession> + '_ {
        self.initiator.sessions()
    }
}

fn secrets(mut chance: impl FnMut() -> u64) -> Secrets {
    let mut pair = || [chance(), chance()];
    Secrets { table: pair(), limits: pair(), locks: pair() }
}
