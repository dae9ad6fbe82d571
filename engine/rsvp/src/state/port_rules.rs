//! Port rules of RFC 2205 section 3.2: what has a port is not mixed with what has none, as no classifier can tell the two
//! apart.

use super::session::SessionState;
use super::table::{BlockId, BlockTable};
use core::hash::Hash;
use core::net::IpAddr;
use terms::Session;

/// The numbers of sessions and of senders that have a port.
pub(super) struct PortRules {
    /// Sessions, by destination and protocol.
    sessions: BlockTable<(IpAddr, u8), u32>,
    /// Senders, by session and source address.
    senders: BlockTable<(BlockId<SessionState>, IpAddr), u32>,
}

impl PortRules {
    /// Nothing has a port. The hashes of both tables are keyed.
    pub fn new(sessions: (u64, u64), senders: (u64, u64)) -> PortRules {
        PortRules { sessions: BlockTable::new(sessions), senders: BlockTable::new(senders) }
    }

    /// True if a session of this destination and protocol has a port.
    pub fn has_session(&self, session: &Session) -> bool {
        self.sessions.find(&(session.dst, session.protocol)).is_some()
    }

    /// True if a sender of this session and address has a port.
    pub fn has_sender(&self, session: BlockId<SessionState>, src: IpAddr) -> bool {
        self.senders.find(&(session, src)).is_some()
    }

    /// A session comes.
    pub fn session_came(&mut self, session: &Session) {
        if session.dst_port != 0 {
            add(&mut self.sessions, (session.dst, session.protocol));
        }
    }

    /// A session goes.
    pub fn session_goes(&mut self, session: &Session) {
        if session.dst_port != 0 {
            take(&mut self.sessions, (session.dst, session.protocol));
        }
    }

    /// A sender comes.
    pub fn sender_came(&mut self, session: BlockId<SessionState>, src: IpAddr, port: u32) {
        if port != 0 {
            add(&mut self.senders, (session, src));
        }
    }

    /// A sender goes.
    pub fn sender_goes(&mut self, session: BlockId<SessionState>, src: IpAddr, port: u32) {
        if port != 0 {
            take(&mut self.senders, (session, src));
        }
    }
}

fn add<K: Copy + Eq + Hash>(counts: &mut BlockTable<K, u32>, key: K) {
    match counts.find(&key) {
        Some(count) => counts[count] += 1,
        None => drop(counts.insert_alone(key, 1)),
    }
}

fn take<K: Copy + Eq + Hash>(counts: &mut BlockTable<K, u32>, key: K) {
    let Some(count) = counts.find(&key) else { return };
    counts[count] -= 1;
    if counts[count] == 0 {
        counts.remove_alone(count);
    }
}
