//! Idle connections to an agent on another machine, kept for the next conversation to save a handshake.
//!
//! A connection is kept only if the agent has answered all calls on it and will send nothing by itself, and
//! for a short time. Before it is used again, our own list of revocations is checked for the agent. The next
//! conversation begins with `speak_for`, which the agent decides anew: there a broker learns that policy or
//! revocation has shut it out.

use crate::wire::Wire;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{BufReader, ReadHalf, WriteHalf};
use tokio::time::Instant;
use trust::{Identity, TrustGate};

/// The most idle connections of one agent.
const MOST: usize = 8;
/// The longest time for which one is kept idle.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection and its read position.
#[derive(Debug)]
pub struct KeptConnection {
    pub reader: BufReader<ReadHalf<Box<dyn Wire>>>,
    pub writer: WriteHalf<Box<dyn Wire>>,
    /// The part of a line that has come so far.
    pub line: Vec<u8>,
    pub next_id: u64,
    /// True if the answer to a call has not come whole.
    pub pending: bool,
    /// True if the agent sends events at any time.
    pub follows: bool,
    /// The agent's identity; `None`: on this machine.
    identity: Option<Identity>,
}

impl KeptConnection {
    /// A new connection to the agent that the handshake identified.
    pub fn new(wire: Box<dyn Wire>, identity: Option<Identity>) -> KeptConnection {
        let (reader, writer) = tokio::io::split(wire);
        let reader = BufReader::new(reader);
        KeptConnection { reader, writer, line: Vec::new(), next_id: 1, pending: false, follows: false, identity }
    }

    /// The agent's identity; `None`: it is on this machine.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// True if nothing can come that the next user did not ask for.
    fn is_quiet(&self) -> bool {
        !self.pending && !self.follows && self.line.is_empty() && self.reader.buffer().is_empty()
    }
}

/// The idle connections of one agent.
#[derive(Debug)]
pub struct ConnectionPool {
    gate: Option<Arc<TrustGate>>,
    waiting: Mutex<Vec<(Instant, KeptConnection)>>,
}

impl ConnectionPool {
    /// An empty pool; `gate` checks the agents. Without a gate no connection is kept.
    pub fn new(gate: Option<Arc<TrustGate>>) -> ConnectionPool {
        ConnectionPool { gate, waiting: Mutex::default() }
    }

    /// Takes the connection that was idle for the shortest time.
    pub fn take(&self) -> Option<KeptConnection> {
        let gate = self.gate.as_ref()?;
        self.expire();
        loop {
            let (_, talk) = self.locked().pop()?;
            if talk.identity.as_ref().is_some_and(|identity| gate.admit(identity).is_ok()) {
                return Some(talk);
            }
        }
    }

    /// Keeps a connection, if it can serve again and there is room.
    pub fn put(self: &Arc<Self>, talk: KeptConnection) {
        if self.gate.is_none() || !talk.is_quiet() {
            return;
        }
        let mut waiting = self.locked();
        if waiting.len() == MOST {
            waiting.remove(0);
        }
        waiting.push((Instant::now(), talk));
        drop(waiting);
        let kept = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            if let Some(kept) = kept.upgrade() {
                kept.expire();
            }
        });
    }

    fn expire(&self) {
        self.locked().retain(|(since, _)| since.elapsed() < PATIENCE);
    }

    fn locked(&self) -> MutexGuard<'_, Vec<(Instant, KeptConnection)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
