//! The node side, which runs on every router: it finds, makes, manages and removes session blocks, each in a file
//! here, and rewrites and forwards messages. It originates nothing.

mod charge;
mod create;
mod expire;
mod far_end;
mod find;
mod gather;
mod group;
mod manage;
mod remove;
mod revert;
mod transit;

use crate::auth::{Keys, Proof};
use crate::blocks::Blocks;
use crate::io::{Config, Event, Output};
use crate::limit::Limits;
use alloc::collections::VecDeque;
use terms::ports::{RHandle, Route, TrafficControl};
use terms::probe::ProbeObserver;
use terms::{Fault, IfIndex, Time};

/// The ports that the engine calls directly: routing and traffic control.
pub(crate) trait Env: Route + TrafficControl {}
impl<E: Route + TrafficControl> Env for E {}

/// The keys that the tables and secrets of a node side are made from, in this order.
pub(crate) struct Secrets {
    pub table: [u64; 2],
    pub limits: [u64; 2],
    pub locks: [u64; 2],
}

/// The node side, with the outputs of the whole engine.
#[derive(Debug)]
pub(crate) struct NodeSide<P> {
    config: Config,
    now: Time,
    blocks: Blocks,
    limits: Limits,
    proof: Proof,
    /// Feeds the primes of locks.
    secret: [u64; 2],
    out: VecDeque<Output>,
    probe: P,
}

impl<P: ProbeObserver> NodeSide<P> {
    pub(crate) fn new(config: Config, secrets: Secrets, probe: P) -> NodeSide<P> {
        NodeSide {
            now: Time::ZERO,
            blocks: Blocks::new(secrets.table),
            limits: Limits::new(config.per_source, secrets.limits),
            proof: Proof::new(&config.keys),
            secret: secrets.locks,
            out: VecDeque::new(),
            probe,
            config,
        }
    }

    /// Other secrets, before the first input: the tables are empty.
    pub(crate) fn keyed(&mut self, secrets: Secrets) {
        self.blocks = Blocks::new(secrets.table);
        self.limits = Limits::new(self.config.per_source, secrets.limits);
        self.secret = secrets.locks;
    }

    /// Sets the configuration from now on. Reservations stay. `limits`: the keys of new limits, if they change.
    pub(crate) fn configure(&mut self, config: Config, limits: impl FnOnce() -> [u64; 2]) {
        self.proof.set_keys(&config.keys);
        if config.per_source != self.config.per_source {
            self.limits = Limits::new(config.per_source, limits());
        }
        self.config = config;
    }

    /// The clock goes on to this instant.
    pub(crate) fn at(&mut self, now: Time) {
        self.now = now;
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) fn keys(&self) -> &Keys {
        self.proof.keys()
    }

    pub(crate) fn probe_mut(&mut self) -> &mut P {
        &mut self.probe
    }

    pub(crate) fn say(&mut self, output: Output) {
        self.out.push_back(output);
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.say(Output::Event(event));
    }

    /// The next output.
    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// True if nothing waits to be fetched.
    pub(crate) fn is_drained(&self) -> bool {
        self.out.is_empty()
    }

    /// The plane has installed a reservation, or could not.
    pub(crate) fn installed(&mut self, env: &mut impl Env, handle: RHandle, result: Result<(), Fault>) {
        let Some(id) = self.blocks.whose(handle) else { return };
        if result.is_ok() {
            return self.blocks.installed(id);
        }
        env.remove(self.now, handle);
        self.lost(handle);
    }

    /// A block has lost its reservation. Its initiating node learns it from the next message.
    pub(crate) fn lost(&mut self, handle: RHandle) {
        if let Some((flow, oif)) = self.blocks.lose(handle) {
            self.event(Event::Lost { flow, oif });
        }
    }

    pub(crate) fn interface_gone(&mut self, interface: IfIndex) {
        for id in self.blocks.on(interface) {
            if let Some((key, _)) = self.blocks.remove(id) {
                self.event(Event::Lost { flow: key.flow, oif: key.oif });
            }
        }
    }
}
