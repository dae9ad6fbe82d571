//! What happened: a hash of everything, for "same seed, same story", and the lines that a person would tell.

use crate::scenario::NodeId;
use node::io::{AppId, Event, Upcall};
use terms::Time;

/// The story of a run.
#[derive(Clone, Debug)]
pub struct RunTrace {
    hash: u64,
    events: u64,
    lines: Vec<TraceLine>,
}

/// One thing that a node said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceLine {
    /// When.
    pub at: Time,
    /// Who.
    pub node: NodeId,
    /// What.
    pub what: TraceEvent,
}

/// What a node can say to people.
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
    /// Takes numbers into the hash (FNV-1a by words).
    pub fn mark(&mut self, numbers: &[u64]) {
        self.events += 1;
        for n in numbers {
            self.hash = (self.hash ^ n).wrapping_mul(0x0100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
    }

    /// Takes one number into the hash: something that happens often.
    #[inline]
    pub fn mark_word(&mut self, n: u64) {
        self.events += 1;
        self.hash = (self.hash ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash ^= self.hash >> 29;
    }

    /// Takes bytes into the hash.
    pub fn mark_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.hash = (self.hash ^ u64::from_be_bytes(word)).wrapping_mul(0x0100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
    }

    /// A node said something.
    pub fn tell(&mut self, at: Time, node: NodeId, what: TraceEvent) {
        self.mark(&[at.as_nanos(), node.0 as u64, 7]);
        self.lines.push(TraceLine { at, node, what });
    }

    /// Equal for equal stories.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Things that happened, packets included.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What nodes said, in order.
    pub fn lines(&self) -> &[TraceLine] {
        &self.lines
    }

    /// What nodes said since this was last asked, so that a long run need not keep it.
    pub fn take_lines(&mut self) -> Vec<TraceLine> {
        std::mem::take(&mut self.lines)
    }

    /// What one node said, in order.
    pub fn of(&self, node: NodeId) -> impl Iterator<Item = &TraceLine> {
        self.lines.iter().filter(move |line| line.node == node)
    }
}
