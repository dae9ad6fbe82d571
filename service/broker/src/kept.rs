//! Idle connections to an agent, kept for the next conversation to save a handshake, or on this machine the work of two
//! processes for a new one.
//!
//! A connection is kept only if the agent has answered all calls on it and will send nothing by itself, and
//! for a short time. Before one to another machine is used again, our own list of revocations is checked for the agent.
//! The next conversation begins with `speak_for`, which the agent decides anew: there a broker learns that policy or
//! revocation has shut it out.

use crate::wire::Wire;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::io::{BufReader, ReadHalf, WriteHalf};
use tokio::time::Instant;
use trust::{Identity, TrustGate};

/// The most idle connections of one agent: on another machine, whose places are few, and on this one.
const MOST: usize = 8;
const MOST_HERE: usize = 32;
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

/// The agents whose connections are kept.
#[derive(Clone, Debug)]
pub enum Kept {
    /// One on this machine: the file system says who may listen there.
    Here,
    /// One on another machine, which this gate checks.
    Afar(Arc<TrustGate>),
    /// None.
    Never,
}

/// The idle connections of one agent.
#[derive(Debug)]
pub struct ConnectionPool {
    of: Kept,
    waiting: Mutex<Vec<(Instant, KeptConnection)>>,
    /// True while a task ends those that are idle for too long.
    tended: AtomicBool,
}

impl ConnectionPool {
    /// An empty pool.
    pub fn new(of: Kept) -> ConnectionPool {
        ConnectionPool { of, waiting: Mutex::default(), tended: AtomicBool::new(false) }
    }

    fn most(&self) -> usize {
        match self.of {
            Kept::Here => MOST_HERE,
            Kept::Afar(_) => MOST,
            Kept::Never => 0,
        }
    }

    /// True if the agent of a connection may still be spoken to.
    fn admits(&self, identity: Option<&Identity>) -> bool {
        match &self.of {
            Kept::Here => identity.is_none(),
            Kept::Afar(gate) => identity.is_some_and(|identity| gate.admit(identity).is_ok()),
            Kept::Never => false,
        }
    }

    /// Takes the connection that was idle for the shortest time.
    pub fn take(&self) -> Option<KeptConnection> {
        self.expire();
        loop {
            let (_, talk) = self.locked().pop()?;
            if self.admits(talk.identity.as_ref()) {
                return Some(talk);
            }
        }
    }

    /// Keeps a connection, if it can serve again and there is room.
    pub fn put(self: &Arc<Self>, talk: KeptConnection) {
        if self.most() == 0 || !talk.is_quiet() {
            return;
        }
        let mut waiting = self.locked();
        if waiting.len() >= self.most() {
            waiting.remove(0);
        }
        waiting.push((Instant::now(), talk));
        drop(waiting);
        if !self.tended.swap(true, Ordering::AcqRel) {
            tokio::spawn(tend(Arc::downgrade(self)));
        }
    }

    fn expire(&self) {
        self.locked().retain(|(since, _)| since.elapsed() < PATIENCE);
    }

    fn locked(&self) -> MutexGuard<'_, Vec<(Instant, KeptConnection)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends connections that are idle for too long, while there are any.
async fn tend(pool: Weak<ConnectionPool>) {
    loop {
        tokio::time::sleep(PATIENCE).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.expire();
        if pool.locked().is_empty() {
            pool.tended.store(false, Ordering::Release);
            // One that came at this moment found us at work.
            if pool.locked().is_empty() || pool.tended.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }
}
