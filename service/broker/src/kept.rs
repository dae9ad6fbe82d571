//! Connections to an agent on another machine that wait for the next question, so that not each costs a handshake.
//!
//! A connection is kept only if the agent has answered all that it was asked on it and will say nothing by itself, and for
//! a short time. Before it is used again our own list of revocations is asked about the agent; and the next conversation begins with
//! saying for whom it speaks, which the agent decides anew: a broker that its policy or its list of revocations has put out meanwhile learns it there.

use crate::wire::Wire;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{BufReader, ReadHalf, WriteHalf};
use tokio::time::Instant;
use trust::{Identity, TrustGate};

/// Most that wait, of one agent.
const MOST: usize = 8;
/// How long one waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection and how far it has been read.
#[derive(Debug)]
pub struct KeptConnection {
    pub reader: BufReader<ReadHalf<Box<dyn Wire>>>,
    pub writer: WriteHalf<Box<dyn Wire>>,
    /// What was read of a line that is not whole.
    pub line: Vec<u8>,
    pub next_id: u64,
    /// Something was asked, and the whole answer has not come.
    pub pending: bool,
    /// The agent says what happens, whenever that is.
    pub follows: bool,
    /// Whose it is; `None`: on this machine.
    identity: Option<Identity>,
}

impl KeptConnection {
    /// Over a new connection to whom the handshake showed.
    pub fn new(wire: Box<dyn Wire>, identity: Option<Identity>) -> KeptConnection {
        let (reader, writer) = tokio::io::split(wire);
        let reader = BufReader::new(reader);
        KeptConnection { reader, writer, line: Vec::new(), next_id: 1, pending: false, follows: false, identity }
    }

    /// Nothing can come that was not asked for by whoever has it next.
    fn is_quiet(&self) -> bool {
        !self.pending && !self.follows && self.line.is_empty() && self.reader.buffer().is_empty()
    }
}

/// Those of one agent.
#[derive(Debug)]
pub struct ConnectionPool {
    gate: Option<Arc<TrustGate>>,
    waiting: Mutex<Vec<(Instant, KeptConnection)>>,
}

impl ConnectionPool {
    /// None yet; `gate`: who passes. Without one none is kept.
    pub fn new(gate: Option<Arc<TrustGate>>) -> ConnectionPool {
        ConnectionPool { gate, waiting: Mutex::default() }
    }

    /// The one that waits for the shortest time.
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

    /// Keeps one, if it can serve again and there is room.
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
