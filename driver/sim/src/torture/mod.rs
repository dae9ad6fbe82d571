//! A stress test of soft state over simulated days and years: a net of agents with every kind of fault, and
//! invariants that are checked all the time (RFC 2205 section 3.7; invariants I1, I22, I23).
//!
//! By default there are ten nodes and a hundred sessions, and R = 30 s. Messages are lost, doubled and
//! overtaken, links flap, nodes lose power, agents are killed and restarted, the net is partitioned and
//! heals, planes fail, clocks step, and applications come and go. No state may end before `L` after the last
//! refresh *that node* received, and none may outlive it by more than a tick. Ledger, plan and ports must
//! agree. After all applications have left, no state may remain.
//!
//! Memory is bounded, however long the run is: messages and events are judged and dropped slice by slice.
//! Reading order: this file, `net` (nodes and sessions), `fault_injector` (faults), `invariant` (checks).

mod fault_injector;
mod invariant;
mod net;

use crate::world::World;
use fault_injector::FaultInjector;
use invariant::Invariant;
use std::collections::BTreeMap;
use terms::{Rate, Span, Time};

/// The parameters of a stress test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Torture {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Number of nodes, at least three.
    pub nodes: usize,
    /// Number of sessions, each from one node to another.
    pub sessions: usize,
    /// R, the refresh period.
    pub refresh: Span,
    /// Simulated time, without the quiet end.
    pub length: Span,
}

/// The counts of a stress test.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Simulated time, with the quiet end.
    pub simulated: Span,
    /// The number of RSVP messages that reached an agent.
    pub messages: u64,
    /// The number of times that each kind of fault and each kind of outcome happened.
    pub kinds: BTreeMap<&'static str, u64>,
    /// The hash of the whole run. It is equal for equal seeds.
    pub hash: u64,
}

/// An invariant that did not hold, with all that is needed to reproduce it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The seed.
    pub seed: u64,
    /// The simulated time.
    pub at: Time,
    /// A description of the failure.
    pub what: String,
}

/// Kinds of faults that must all happen in a run that is long enough. A test that never saw one of them
/// proves nothing about it.
pub const KINDS: [&str; 17] = [
    "message lost",
    "message doubled",
    "message late",
    "cut on the link",
    "link down",
    "link up",
    "agent killed",
    "agent restarted",
    "power lost",
    "partition",
    "healed",
    "plane failed",
    "clock stepped",
    "path expired",
    "reservation expired",
    "reservation refused",
    "flow adopted",
];

/// The span of simulated time that is judged at once.
const SLICE: Span = Span::from_secs(60);

impl Torture {
    /// The usual test: ten nodes, a hundred sessions, R = 30 s.
    pub fn usual(seed: u64, length: Span) -> Torture {
        Torture { seed, nodes: 10, sessions: 100, refresh: Span::from_secs(30), length }
    }

    /// Plays the test.
    ///
    /// # Errors
    /// [`Broken`] names the first invariant that did not hold.
    pub fn play(&self) -> Result<FaultCounts, Broken> {
        let scenario = net::scenario(self);
        let wrong = |at: Time, what: String| Broken { seed: self.seed, at, what };
        let mut world = World::new(&scenario).map_err(|unplayable| wrong(Time::ZERO, unplayable.what))?;
        world.listen();
        let mut invariant = Invariant::new(self);
        let mut injector = FaultInjector::new(self, &scenario);
        let end = Time::ZERO + self.length;
        while world.now() < end {
            let until = (world.now() + SLICE).min(end);
            while let Some((at, action)) = injector.next(until) {
                world.run_until(at);
                invariant.judge(&mut world).map_err(|what| wrong(at, what))?;
                invariant.note(&action);
                world.act(&action);
            }
            world.run_until(until);
            invariant.judge(&mut world).map_err(|what| wrong(until, what))?;
            invariant.standing(&world).map_err(|what| wrong(until, what))?;
        }
        for action in injector.calm() {
            invariant.judge(&mut world).map_err(|what| wrong(end, what))?;
            invariant.note(&action);
            world.act(&action);
        }
        // Each node forgets at the latest one lifetime after its neighbour stopped refreshing it.
        let quiet = rsvp::lifetime::lifetime(self.refresh, net::KEEP).mul_div_ceil(2 * self.nodes as u64, 1);
        while world.now() < end + quiet {
            world.run_until((world.now() + SLICE).min(end + quiet));
            invariant.judge(&mut world).map_err(|what| wrong(world.now(), what))?;
        }
        invariant.standing(&world).map_err(|what| wrong(world.now(), what))?;
        if (world.reserved(), world.states()) != (Rate::ZERO, 0) {
            let (reserved, states) = (world.reserved(), world.states());
            return Err(wrong(world.now(), format!("everybody has gone, but {states} states and {reserved} are left")));
        }
        Ok(invariant.tally(&world))
    }
}

impl FaultCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &FaultCounts) {
        self.simulated = self.simulated.saturating_add(other.simulated);
        self.messages += other.messages;
        self.hash ^= other.hash;
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
    }

    /// The kinds of faults that have not happened.
    pub fn missing(&self) -> Vec<&'static str> {
        KINDS.into_iter().filter(|kind| self.kinds.get(kind).is_none_or(|&count| count == 0)).collect()
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}, {} s: {}", self.seed, self.at.as_secs(), self.what)
    }
}

impl std::error::Error for Broken {}
