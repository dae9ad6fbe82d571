//! Repeated messages. Nearly all messages to a node with many sessions are refreshes, and a refresh is the
//! same message again, byte for byte, from the same hop: it needs no parsing and no comparing, the node only
//! has to find its state and prolong it (RFC 2205 section 3.7).
//!
//! The state is found by a keyed 64-bit hash of the message and of its arrival (interface, TTL, addresses).
//! Each state has at most one entry, for the last message that was about this state alone and changed only
//! its lifetime. Any other change of a state takes its entry away ([`State::unheard_path`],
//! [`State::unheard_resv`]); a change of interfaces takes all entries away. Should two messages ever have the
//! same hash, a state lives one lifetime longer, no more.
//!
//! Integrity and acknowledgements come before this: a message that carries INTEGRITY is hashed without it, one that
//! carries a MESSAGE_ID is not looked up here.

pub use super::psb::UNHEARD;

use super::State;
use super::psb::{Origin, Psb};
use super::rsb::Rsb;
use super::table::BlockId;
use crate::arrival::Arrival;
use crate::index::{HashedWord, Index};
use crate::lifetime::lifetime;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::Time;
use wire::MessageType;
use wire::iana::class;

/// States by the message that refreshes them.
pub(crate) struct Heard {
    keys: (u64, u64),
    /// A part of a message's hash, and the state in one word. The full hash, which the state keeps, decides.
    index: Index<HashedWord>,
}

/// The state that a message refreshes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockRef {
    /// A path state.
    Path(BlockId<Psb>),
    /// A reservation state.
    Resv(BlockId<Rsb>),
}

impl BlockRef {
    /// The state in one word; states are numbered below 2^31.
    fn word(self) -> u32 {
        match self {
            BlockRef::Path(id) => id.number() << 1,
            BlockRef::Resv(id) => id.number() << 1 | 1,
        }
    }

    fn of(word: u32) -> BlockRef {
        if word & 1 == 0 {
            BlockRef::Path(BlockId::of_number(word >> 1))
        } else {
            BlockRef::Resv(BlockId::of_number(word >> 1))
        }
    }
}

/// The present message, and the evidence that it refreshes one state and has no other effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hearing {
    hash: u64,
    state: Option<BlockRef>,
    spoilt: bool,
    /// True if the states below are listed: neighbours name their messages.
    lists: bool,
    /// The states that the present message has made or refreshed; true if it must be read when it comes again.
    spoken: Vec<BlockRef>,
    again: bool,
}

impl Hearing {
    /// No message is being handled.
    pub fn new(lists: bool) -> Hearing {
        Hearing { hash: UNHEARD, state: None, spoilt: true, lists, spoken: Vec::new(), again: false }
    }
}

impl Heard {
    /// An empty index; hashes are keyed.
    pub fn new(keys: (u64, u64)) -> Heard {
        Heard { keys: (keys.0, keys.1 | 1), index: Index::new() }
    }

    /// The states that a message of this hash may refresh; nearly always one or none.
    fn find(&self, hash: u64) -> impl Iterator<Item = BlockRef> {
        let hash = hash as u32;
        self.index
            .probe(hash as usize)
            .filter(move |(_, cell)| cell.hash == hash)
            .map(|(_, cell)| BlockRef::of(cell.word))
    }

    fn insert(&mut self, hash: u64, state: BlockRef) {
        self.index.insert(HashedWord { hash: hash as u32, word: state.word() }, HashedWord::home);
    }

    fn remove(&mut self, hash: u64, state: BlockRef) {
        let word = state.word();
        let place = self.index.find(hash as u32 as usize, |cell| cell.word == word);
        if let Some((place, _)) = place {
            self.index.remove(place, HashedWord::home);
        }
    }

    /// Forgets all messages.
    pub fn clear(&mut self) {
        self.index.clear();
    }

    /// The hash of a message and of its arrival; [`UNHEARD`] if it must not be recognised by its hash.
    fn hash(&self, from: &Arrival, bytes: &[u8]) -> u64 {
        let Some((head, objects)) = bytes.split_first_chunk::<8>() else { return UNHEARD };
        let (mut head, mut objects) = (u64::from_le_bytes(*head), objects);
        while let Some(&[hi, lo, kind, _]) = objects.first_chunk::<4>() {
            match kind {
                class::MESSAGE_ID | class::MESSAGE_ID_ACK | class::MESSAGE_ID_LIST => return UNHEARD,
                class::INTEGRITY => {
                    let Some(rest) = objects.get(usize::from(u16::from_be_bytes([hi, lo])).max(4)..) else {
                        return UNHEARD;
                    };
                    objects = rest;
                    // Its checksum is over what was left out; the digest has vouched for all of it.
                    head &= !0xffff_0000;
                }
                _ => break,
            }
        }
        let (k, m) = self.keys;
        let way = u64::from(from.iif.0) << 8 | u64::from(from.ttl);
        let mut state = fold(k ^ way, m ^ head);
        for addr in [from.src, from.dst] {
            state = match addr {
                IpAddr::V4(a) => fold(state ^ u64::from(u32::from(a)), m),
                IpAddr::V6(a) => {
                    let wide = u128::from(a);
                    fold(state ^ wide as u64, m ^ (wide >> 64) as u64)
                }
            };
        }
        // Two lanes, so that one product need not wait for the other.
        let (mut one, mut two) = (state, state.rotate_left(32) ^ m);
        let mut chunks = objects.chunks_exact(32);
        for chunk in &mut chunks {
            let word = |at: usize| chunk[at..].first_chunk::<8>().map_or(0, |w| u64::from_le_bytes(*w));
            one = fold(one ^ word(0), m ^ word(8));
            two = fold(two ^ word(16), k ^ word(24));
        }
        for chunk in chunks.remainder().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            one = fold(one ^ u64::from_le_bytes(word), m);
        }
        fold(one ^ objects.len() as u64, two ^ m).max(1)
    }
}

/// The exclusive or of both halves of a 64 x 64 bit product; each bit of both factors has an effect.
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0xd6e8_feb8_6659_fd93) * u128::from(b ^ 0x9e37_79b9_7f4a_7c15);
    product as u64 ^ (product >> 64) as u64
}

impl State {
    /// The hash of this message, if it is known to be the refresh of a state.
    pub fn knows(&self, from: &Arrival, bytes: &[u8]) -> Option<u64> {
        let hash = self.heard.hash(from, bytes);
        let known = hash != UNHEARD && self.heard.find(hash).any(|state| self.says(state, hash));
        known.then_some(hash)
    }

    /// True if this was the last message of a state.
    fn says(&self, state: BlockRef, hash: u64) -> bool {
        match state {
            BlockRef::Path(id) => {
                self.get(id).is_some_and(|psb| psb.heard == hash && matches!(psb.origin, Origin::Hop(_)))
            }
            BlockRef::Resv(id) => self.get(id).is_some_and(|rsb| rsb.heard == hash),
        }
    }

    /// Prolongs the state that this message refreshes, and returns the message's type. `None`: it must be read; then
    /// [`State::heard_out`] ends the handling that begins here.
    pub fn heard_again(&mut self, now: Time, from: &Arrival, bytes: &[u8]) -> Option<MessageType> {
        let hash = self.heard.hash(from, bytes);
        (self.hearing.hash, self.hearing.state, self.hearing.spoilt) = (hash, None, hash == UNHEARD);
        if hash == UNHEARD {
            return None;
        }
        let state = self.heard.find(hash).find(|state| self.says(*state, hash))?;
        self.prolong(now, state, hash);
        Some(match state {
            BlockRef::Path(_) => MessageType::Path,
            BlockRef::Resv(_) => MessageType::Resv,
        })
    }

    /// The mark of a state: the hash or the name of its last refresh.
    pub fn marked(&self, state: BlockRef) -> Option<u64> {
        match state {
            BlockRef::Path(id) => self.get(id).map(|psb| psb.heard),
            BlockRef::Resv(id) => self.get(id).map(|rsb| rsb.heard),
        }
    }

    /// Prolongs a state, if it has this mark.
    #[inline]
    pub fn prolong(&mut self, now: Time, state: BlockRef, mark: u64) -> bool {
        let keep = self.config.keep;
        match state {
            BlockRef::Path(id) => match self.get_mut(id).filter(|psb| psb.heard == mark) {
                Some(psb) => psb.expires = now + lifetime(psb.refresh, keep),
                None => return false,
            },
            BlockRef::Resv(id) => match self.get_mut(id).filter(|rsb| rsb.heard == mark) {
                Some(rsb) => rsb.expires = now + lifetime(rsb.refresh, keep),
                None => return false,
            },
        }
        true
    }

    /// Begins to list the states that a named message speaks of.
    pub fn listen(&mut self) {
        self.hearing.spoken.clear();
        self.hearing.again = false;
    }

    /// Marks the states that the present message has made or refreshed with its name, unless it is to be read when it
    /// comes again; the first of them and the others.
    pub fn mark(&mut self, mark: u64) -> Option<(BlockRef, Vec<BlockRef>)> {
        if self.hearing.again {
            return None;
        }
        let (first, more) = self.hearing.spoken.split_first()?;
        for state in &self.hearing.spoken {
            let place = match *state {
                BlockRef::Path(id) => self.blocks.get_mut(id).map(|psb| &mut psb.heard),
                BlockRef::Resv(id) => self.blocks.get_mut(id).map(|rsb| &mut rsb.heard),
            };
            if let Some(place) = place {
                *place = mark;
            }
        }
        // No memory is taken for a message about one state.
        Some((*first, more.to_vec()))
    }

    /// Notes that the present message has made or refreshed this state.
    pub fn spoke_of(&mut self, state: BlockRef) {
        let Hearing { lists, spoken, .. } = &mut self.hearing;
        if *lists && !spoken.contains(&state) && spoken.len() < wire::object::MAX_OBJECTS {
            spoken.push(state);
        }
        match state {
            BlockRef::Path(id) => self.unheard_path(id),
            BlockRef::Resv(id) => self.unheard_resv(id),
        }
        self.hearing.spoilt |= self.hearing.state.is_some_and(|other| other != state);
        self.hearing.state = Some(state);
    }

    /// Notes that the present message has an effect that it must have again when it comes again.
    pub fn not_a_refresh(&mut self) {
        self.hearing.spoilt = true;
        self.hearing.again = true;
    }

    /// Ends the handling of a message: the next one like it is a refresh, if this was one or could have been.
    pub fn heard_out(&mut self) {
        let (hash, spoilt) = (self.hearing.hash, core::mem::replace(&mut self.hearing.spoilt, true));
        self.hearing.hash = UNHEARD;
        let Some(state) = self.hearing.state.take() else { return };
        let place = match state {
            BlockRef::Path(id) => self.get_mut(id).map(|psb| &mut psb.heard),
            BlockRef::Resv(id) => self.get_mut(id).map(|rsb| &mut rsb.heard),
        };
        if let Some(place) = place.filter(|_| !spoilt) {
            *place = hash;
            self.heard.insert(hash, state);
        }
    }

    /// Called when a path state changes for another reason than its last message: the next is read again.
    pub fn unheard_path(&mut self, id: BlockId<Psb>) {
        let Some(psb) = self.get_mut(id) else { return };
        match core::mem::replace(&mut psb.heard, UNHEARD) {
            UNHEARD => {}
            hash => self.heard.remove(hash, BlockRef::Path(id)),
        }
    }

    /// Called when a reservation state has changed, or goes.
    pub fn unheard_resv(&mut self, id: BlockId<Rsb>) {
        let Some(rsb) = self.get_mut(id) else { return };
        match core::mem::replace(&mut rsb.heard, UNHEARD) {
            UNHEARD => {}
            hash => self.heard.remove(hash, BlockRef::Resv(id)),
        }
    }

    /// Called when interfaces change: every message is read again.
    pub fn unheard_all(&mut self) {
        self.heard.clear();
    }
}

#[cfg(test)]
impl State {
    /// Checks that the index counts its entries, and has no more than there are states.
    pub fn check_heard(&self) {
        assert_eq!(self.heard.index.iter().count(), self.heard.index.len());
        assert!(self.heard.index.len() <= self.blocks.psbs().count() + self.blocks.rsbs().count());
    }
}
