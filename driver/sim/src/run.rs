//! The course of a run: its clock and pending events, its record, and its seed.

use crate::agenda::Agenda;
use crate::run_trace::{RunTrace, TraceEvent, TraceLine};
use crate::scenario::NodeId;
use terms::Time;

/// A pending event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// The first packet on a wire comes out.
    Wire { hop: u32, age: u32 },
    /// A packet that travels by itself comes out.
    Stray { hop: u32, age: u32, packet: u32 },
    /// A shaper releases a packet.
    Release { hop: u32 },
    /// A connection begins.
    Open(u32),
    /// A connection ends its new data.
    Stop(u32),
    /// A sender's timer.
    Sender(u32),
    /// A receiver's timer.
    Receiver(u32),
    /// An edge of the measured window.
    Edge(u8),
    /// A port's link is free again.
    Free { node: u32, interface: u32 },
    /// A port wants to be asked again.
    Look { node: u32, interface: u32 },
    /// A source sends.
    Source(u32),
    /// The pool takes its next step.
    Pool,
    /// An agent's alarm.
    Alarm { node: u32, life: u32 },
    /// A data plane has carried out its oldest batch.
    PlaneDone { node: u32, life: u32 },
    /// A disk has written its oldest batch.
    Written { node: u32, life: u32 },
    /// A data plane has carried out the oldest order of the bookings.
    Enforced { node: u32, life: u32 },
    /// An action of the script.
    Script(u32),
}

/// An invariant that did not hold. To reproduce it, play the scenario with that seed for that number of
/// events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The simulated time.
    pub at: Time,
    /// The node, if it concerns one.
    pub node: Option<NodeId>,
    /// The invariant.
    pub law: &'static str,
    /// The scenario's seed.
    pub seed: u64,
    /// The number of events played until then.
    pub step: u64,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Broken { at, node, law, seed, step } = self;
        write!(f, "{law}, at {at:?} of simulated time")?;
        if let Some(node) = node {
            write!(f, " at node {}", node.0)?;
        }
        write!(f, " (seed {seed}, step {step})")
    }
}

/// The clock of a run with all pending events, and the record of the past ones.
pub(crate) struct Run {
    agenda: Agenda<Due>,
    story: RunTrace,
    seed: u64,
}

impl Run {
    /// A run at time zero, without events.
    pub(crate) fn new(seed: u64) -> Run {
        Run { agenda: Agenda::default(), story: RunTrace::default(), seed }
    }

    /// Simulated time.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.agenda.now()
    }

    /// The seed of all random numbers.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The number of events played so far.
    pub(crate) fn taken(&self) -> u64 {
        self.agenda.taken()
    }

    /// Puts an event in. An event in the past is due now.
    #[inline]
    pub(crate) fn put(&mut self, at: Time, due: Due) {
        self.agenda.put(at, due);
    }

    /// Takes the next event due at `until` or before, and moves time to it.
    #[inline]
    pub(crate) fn take(&mut self, until: Time) -> Option<Due> {
        self.agenda.take(until)
    }

    /// Moves time to `until`. No event may be due before it.
    pub(crate) fn pass(&mut self, until: Time) {
        self.agenda.pass(until);
    }

    /// Adds numbers to the record's hash, after the present time.
    pub(crate) fn mark<const N: usize>(&mut self, numbers: [u64; N]) {
        let now = self.now().as_nanos();
        self.story.mark_at(now, &numbers);
    }

    /// Adds one number to the record's hash, quickly, for frequent events.
    #[inline]
    pub(crate) fn mark_word(&mut self, n: u64) {
        self.story.mark_word(n);
    }

    /// Adds bytes to the record's hash.
    pub(crate) fn mark_bytes(&mut self, bytes: &[u8]) {
        self.story.mark_bytes(bytes);
    }

    /// Adds an entry of a node to the record.
    pub(crate) fn tell(&mut self, node: NodeId, what: TraceEvent) {
        self.story.tell(self.agenda.now(), node, what);
    }

    /// The record.
    pub(crate) fn story(&self) -> &RunTrace {
        &self.story
    }

    /// Takes the entries of the record since the last call.
    pub(crate) fn take_lines(&mut self) -> Vec<TraceLine> {
        self.story.take_lines()
    }

    /// The error for an invariant that does not hold now.
    pub(crate) fn broke(&self, node: Option<NodeId>, law: &'static str) -> Broken {
        Broken { at: self.now(), node, law, seed: self.seed, step: self.taken() }
    }
}
