//! The tables of state blocks, with the chains of each session and the indexes by handle and port.
//!
//! Blocks come and go by typed calls of [`super::State`] alone; everything else may read.

use super::keys::{PsbKey, RsbKey, TcsbKey};
use super::port_rules::PortRules;
use super::psb::Psb;
use super::rsb::Rsb;
use super::session::SessionState;
use super::table::{BlockId, BlockTable};
use super::tcsb::Tcsb;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut, Range};
use terms::ports::RHandle;
use terms::{SenderTemplate, Session};

/// The state blocks of all sessions.
pub(crate) struct Blocks {
    sessions: BlockTable<Session, SessionState>,
    psbs: BlockTable<PsbKey, Psb>,
    rsbs: BlockTable<RsbKey, Rsb>,
    tcsbs: BlockTable<TcsbKey, Tcsb>,
    handles: BlockTable<RHandle, BlockId<Tcsb>>,
    ports: PortRules,
}

/// A state block: it has a key, and a place in one of the tables.
pub(crate) trait Block: Sized {
    /// Its key.
    type Key;
    /// The key of a block.
    fn key(blocks: &Blocks, id: BlockId<Self>) -> Self::Key;
    /// The block of this number, if it has not been taken out.
    fn get(blocks: &Blocks, id: BlockId<Self>) -> Option<&Self>;
    /// The block of this number.
    fn of(blocks: &Blocks, id: BlockId<Self>) -> &Self;
    /// The same, mutably.
    fn of_mut(blocks: &mut Blocks, id: BlockId<Self>) -> &mut Self;
    /// The block of this number, if it has not been taken out, mutably.
    fn get_mut(blocks: &mut Blocks, id: BlockId<Self>) -> Option<&mut Self>;
}

macro_rules! blocks {
    ($block:ty, $key:ty, $table:ident) => {
        impl Block for $block {
            type Key = $key;
            #[inline]
            fn key(blocks: &Blocks, id: BlockId<$block>) -> $key {
                blocks.$table.key(id)
            }
            #[inline]
            fn get(blocks: &Blocks, id: BlockId<$block>) -> Option<&$block> {
                blocks.$table.get(id)
            }
            #[inline]
            fn of(blocks: &Blocks, id: BlockId<$block>) -> &$block {
                &blocks.$table[id]
            }
            #[inline]
            fn of_mut(blocks: &mut Blocks, id: BlockId<$block>) -> &mut $block {
                &mut blocks.$table[id]
            }
            #[inline]
            fn get_mut(blocks: &mut Blocks, id: BlockId<$block>) -> Option<&mut $block> {
                blocks.$table.get_mut(id)
            }
        }
    };
}

blocks!(SessionState, Session, sessions);
blocks!(Psb, PsbKey, psbs);
blocks!(Rsb, RsbKey, rsbs);
blocks!(Tcsb, TcsbKey, tcsbs);

impl<B: Block> Index<BlockId<B>> for Blocks {
    type Output = B;
    #[inline]
    fn index(&self, id: BlockId<B>) -> &B {
        B::of(self, id)
    }
}

impl<B: Block> IndexMut<BlockId<B>> for Blocks {
    #[inline]
    fn index_mut(&mut self, id: BlockId<B>) -> &mut B {
        B::of_mut(self, id)
    }
}

impl Blocks {
    /// No blocks yet. The hashes of the tables are keyed, that of senders with ports by the last.
    pub(super) fn new(keys: &mut impl FnMut() -> (u64, u64), senders: (u64, u64)) -> Blocks {
        Blocks {
            sessions: BlockTable::new(keys()),
            psbs: BlockTable::new(keys()),
            rsbs: BlockTable::new(keys()),
            tcsbs: BlockTable::new(keys()),
            handles: BlockTable::new(keys()),
            ports: PortRules::new(keys(), senders),
        }
    }

    /// The key of a block.
    #[inline]
    pub fn key<B: Block>(&self, id: BlockId<B>) -> B::Key {
        B::key(self, id)
    }

    /// The block of this number, if it has not been taken out.
    #[inline]
    pub fn get<B: Block>(&self, id: BlockId<B>) -> Option<&B> {
        B::get(self, id)
    }

    /// The same, mutably.
    #[inline]
    pub(super) fn get_mut<B: Block>(&mut self, id: BlockId<B>) -> Option<&mut B> {
        B::get_mut(self, id)
    }

    /// The state of this session.
    pub fn session(&self, session: &Session) -> Option<BlockId<SessionState>> {
        self.sessions.find(session)
    }

    /// The path state of this key.
    pub fn psb(&self, key: &PsbKey) -> Option<BlockId<Psb>> {
        self.psbs.find(key)
    }

    /// The reservation state of this key.
    pub fn rsb(&self, key: &RsbKey) -> Option<BlockId<Rsb>> {
        self.rsbs.find(key)
    }

    /// The traffic control state of this key.
    pub fn tcsb(&self, key: &TcsbKey) -> Option<BlockId<Tcsb>> {
        self.tcsbs.find(key)
    }

    /// The traffic control state of a handle.
    pub fn of_handle(&self, handle: RHandle) -> Option<BlockId<Tcsb>> {
        self.handles.find(&handle).map(|entry| self.handles[entry])
    }

    /// The path states of a session, those that are only remembered among them, the youngest first.
    pub(super) fn psbs_of(&self, sid: BlockId<SessionState>) -> impl Iterator<Item = BlockId<Psb>> + Clone + '_ {
        self.psbs.chain(&self.sessions[sid].psbs)
    }

    /// The reservation states of a session, the youngest first.
    pub fn rsbs_of(&self, sid: BlockId<SessionState>) -> impl Iterator<Item = BlockId<Rsb>> + Clone + '_ {
        self.rsbs.chain(&self.sessions[sid].rsbs)
    }

    /// The traffic control states of a session, the youngest first.
    pub fn tcsbs_of(&self, sid: BlockId<SessionState>) -> impl Iterator<Item = BlockId<Tcsb>> + Clone + '_ {
        self.tcsbs.chain(&self.sessions[sid].tcsbs)
    }

    /// All sessions.
    pub fn sessions(&self) -> impl Iterator<Item = (BlockId<SessionState>, &Session, &SessionState)> {
        self.sessions.iter()
    }

    /// All path states.
    pub fn psbs(&self) -> impl Iterator<Item = (BlockId<Psb>, &PsbKey, &Psb)> {
        self.psbs.iter()
    }

    /// All reservation states.
    pub fn rsbs(&self) -> impl Iterator<Item = (BlockId<Rsb>, &RsbKey, &Rsb)> {
        self.rsbs.iter()
    }

    /// All traffic control states.
    pub fn tcsbs(&self) -> impl Iterator<Item = (BlockId<Tcsb>, &TcsbKey, &Tcsb)> {
        self.tcsbs.iter()
    }

    /// The path states at these places of their table.
    pub fn psbs_between(&self, places: Range<u32>) -> Vec<BlockId<Psb>> {
        self.psbs.between(places).collect()
    }

    /// The number of places of path states, free ones among them.
    pub fn places(&self) -> u32 {
        self.psbs.places()
    }

    /// The number of blocks that walks over chains of sessions have looked at.
    pub fn walked(&self) -> u64 {
        self.psbs.walked() + self.rsbs.walked() + self.tcsbs.walked()
    }

    /// The number of sessions, of path states, and of reservation states.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.sessions.len(), self.psbs.len(), self.rsbs.len())
    }

    /// True if a session would mix a destination port of zero with others of the same destination and
    /// protocol, which no classifier can tell apart (RFC 2205 section 3.2).
    pub(super) fn mixed_destination_ports(&self, session: &Session) -> bool {
        match session.dst_port {
            0 => self.ports.has_session(session),
            _ => self.sessions.find(&Session { dst_port: 0, ..*session }).is_some(),
        }
    }

    /// True if a sender's address would have port zero and others as source ports (RFC 2205 section 3.2).
    pub(super) fn mixed_sender_ports(&self, sid: BlockId<SessionState>, template: &SenderTemplate) -> bool {
        match template.src_port {
            0 => self.ports.has_sender(sid, template.src),
            _ => self.psb_of(sid, &SenderTemplate { src_port: 0, ..*template }).is_some(),
        }
    }

    /// Keeps a new session.
    pub(super) fn add_session(&mut self, session: &Session) -> BlockId<SessionState> {
        self.ports.session_came(session);
        self.sessions.insert_alone(*session, SessionState::default())
    }

    /// Takes out a session without state.
    pub(super) fn take_session(&mut self, id: BlockId<SessionState>) -> SessionState {
        self.ports.session_goes(&self.sessions.key(id));
        self.sessions.remove_alone(id)
    }

    /// Keeps a new path state.
    pub(super) fn add_psb(&mut self, key: PsbKey, psb: Psb) -> BlockId<Psb> {
        if key.2.is_none() {
            self.ports.sender_came(key.0, key.1.src, key.1.src_port);
        }
        self.psbs.insert(&mut self.sessions[key.0].psbs, key, psb)
    }

    /// Takes out a path state.
    pub(super) fn take_psb(&mut self, id: BlockId<Psb>) -> Psb {
        let (sid, template, aside) = self.psbs.key(id);
        if aside.is_none() {
            self.ports.sender_goes(sid, template.src, template.src_port);
        }
        self.psbs.remove(&mut self.sessions[sid].psbs, id)
    }

    /// Keeps a new reservation state.
    pub(super) fn add_rsb(&mut self, key: RsbKey, rsb: Rsb) -> BlockId<Rsb> {
        self.rsbs.insert(&mut self.sessions[key.0].rsbs, key, rsb)
    }

    /// Takes out a reservation state.
    pub(super) fn take_rsb(&mut self, id: BlockId<Rsb>) -> Rsb {
        let (sid, ..) = self.rsbs.key(id);
        self.rsbs.remove(&mut self.sessions[sid].rsbs, id)
    }

    /// Keeps a new traffic control state.
    pub(super) fn add_tcsb(&mut self, key: TcsbKey, block: Tcsb) {
        let handle = block.handle;
        let id = self.tcsbs.insert(&mut self.sessions[key.0].tcsbs, key, block);
        self.handles.insert_alone(handle, id);
    }

    /// Takes out a traffic control state.
    pub(super) fn take_tcsb(&mut self, id: BlockId<Tcsb>) -> Tcsb {
        let (sid, ..) = self.tcsbs.key(id);
        let gone = self.tcsbs.remove(&mut self.sessions[sid].tcsbs, id);
        if let Some(handle) = self.handles.find(&gone.handle) {
            self.handles.remove_alone(handle);
        }
        gone
    }
}
