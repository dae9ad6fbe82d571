//! The record of a run: a hash of all events, which is equal for equal runs, and the events and upcalls of
//! nodes.

use crate::scenario::NodeId;
use node::io::{AppId, Event, Upcall};
use terms::Time;

/// The record of a run.
#[derive(Clone, Debug)]
pub struct RunTrace {
    hash: u64,
    events: u64,
    lines: Vec<TraceLine>,
}

/// One event or upcall of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceLine {
    /// The time.
    pub at: Time,
    /// The node.
    pub node: NodeId,
    /// The event.
    pub what: TraceEvent,
}

/// An entry of the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent {
    /// An event.
    Event(Event),
    /// An upcall to a local application.
    Upcall(AppId, Upcall),
    /// An upcall of Boomerang to a local application.
    Boomerang(boomerang::AppId, boomerang::BoomerangUpcall),
}

impl Default for RunTrace {
    fn default() -> RunTrace {
        RunTrace { hash: 0xcbf2_9ce4_8422_2325, events: 0, lines: Vec::new() }
    }
}

impl RunTrace {
    /// Adds numbers to the hash (FNV-1a by words).
    pub fn mark(&mut self, numbers: &[u64]) {
        let [first, rest @ ..] = numbers else { return self.events += 1 };
        self.mark_at(*first, rest);
    }

    /// Adds a time and numbers to the hash (FNV-1a by words).
    pub(crate) fn mark_at(&mut self, nanos: u64, numbers: &[u64]) {
        self.events += 1;
        for n in std::iter::once(&nanos).chain(numbers) {
            self.hash = (self.hash ^ n).wrapping_mul(0x0100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
    }

    /// Adds one number to the hash, quickly, for frequent events.
    #[inline]
    pub fn mark_word(&mut self, n: u64) {
        self.events += 1;
        self.hash = (self.hash ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash ^= self.hash >> 29;
    }

    /// Adds bytes to the hash.
    pub fn mark_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.hash = (self.hash ^ u64::from_be_bytes(word)).wrapping_mul(0x0100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
    }

    /// Adds an entry of a node.
    pub fn tell(&mut self, at: Time, node: NodeId, what: TraceEvent) {
        self.mark(&[at.as_nanos(), node.0 as u64, 7]);
        self.lines.push(TraceLine { at, node, what });
    }

    /// The hash. It is equal for equal runs.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The number of events, packets included.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// All entries, in order.
    pub fn lines(&self) -> &[TraceLine] {
        &self.lines
    }

    /// Takes the entries since the last call, so that a long run need not keep them.
    pub fn take_lines(&mut self) -> Vec<TraceLine> {
        std::mem::take(&mut self.lines)
    }

    /// The entries of one node, in order.
    pub fn of(&self, node: NodeId) -> impl Iterator<Item = &TraceLine> {
        self.lines.iter().filter(move |line| line.node == node)
    }
}
