//! Repeated messages. Nearly all messages to a node with many sessions are refreshes, and a refresh is the
//! same message again, byte for byte, from the same hop: it needs no parsing and no comparing, the node only
//! has to find its state and prolong it (RFC 2205 section 3.7).
//!
//! The state is found by a keyed 64-bit hash of the message and of its arrival (interface, TTL, addresses).
//! Each state has at most one entry, for the last message that was about this state alone and changed only
//! its lifetime. Any other change of a state takes its entry away ([`Rsvp::unheard_path`],
//! [`Rsvp::unheard_resv`]); a change of interfaces takes all entries away. Should two messages ever have the
//! same hash, a state lives one lifetime longer, no more.
//!
//! Integrity and acknowledgements come before this: a message that carries INTEGRITY is hashed without it, one that
//! carries a MESSAGE_ID is not looked up here.

use crate::engine::Rsvp;
use crate::lifetime::lifetime;
use crate::psb::{Origin, Psb};
use crate::receive::Arrival;
use crate::rsb::Rsb;
use crate::table::BlockId;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::Time;
use terms::probe::ProbeObserver;
use wire::MessageType;
use wire::iana::class;

/// The hash that stands for no message.
pub(crate) const UNHEARD: u64 = 0;

/// States by the message that refreshes them.
pub(crate) struct Heard {
    keys: (u64, u64),
    index: Vec<Entry>,
    len: usize,
}

/// A part of a message's hash, and the state in one word. The full hash, which the state keeps, decides.
#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
    word: u32,
}

/// The state that a message refreshes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// A path state.
    Path(BlockId<Psb>),
    /// A reservation state.
    Resv(BlockId<Rsb>),
}

/// The word that stands for no state.
const NOBODY: u32 = u32::MAX;

impl State {
    /// The state in one word; states are numbered below 2^31.
    fn word(self) -> u32 {
        match self {
            State::Path(id) => id.number() << 1,
            State::Resv(id) => id.number() << 1 | 1,
        }
    }

    fn of(word: u32) -> State {
        if word & 1 == 0 {
            State::Path(BlockId::of_number(word >> 1))
        } else {
            State::Resv(BlockId::of_number(word >> 1))
        }
    }
}

/// The present message, and the evidence that it refreshes one state and has no other effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hearing {
    hash: u64,
    state: Option<State>,
    spoilt: bool,
}

impl Hearing {
    /// No message is being handled.
    pub const NOTHING: Hearing = Hearing { hash: UNHEARD, state: None, spoilt: true };
}

const VACANT: Entry = Entry { hash: 0, word: NOBODY };

impl Heard {
    /// An empty index; hashes are keyed.
    pub fn new(keys: (u64, u64)) -> Heard {
        Heard { keys: (keys.0, keys.1 | 1), index: Vec::new(), len: 0 }
    }

    /// The states that a message of this hash may refresh; nearly always one or none.
    fn find(&self, hash: u64) -> impl Iterator<Item = State> {
        let mask = self.index.len().wrapping_sub(1);
        let hash = hash as u32;
        let mut probe = hash as usize & mask;
        core::iter::from_fn(move || {
            while let Some(entry) = self.index.get(probe).filter(|entry| entry.word != NOBODY) {
                probe = (probe + 1) & mask;
                if entry.hash == hash {
                    return Some(State::of(entry.word));
                }
            }
            None
        })
    }

    fn insert(&mut self, hash: u64, state: State) {
        if (self.len + 1) * 4 > self.index.len() * 3 {
            let size = (self.index.len() * 2).max(16);
            let old = core::mem::replace(&mut self.index, alloc::vec![VACANT; size]);
            old.into_iter().filter(|entry| entry.word != NOBODY).for_each(|entry| self.place(entry));
        }
        self.len += 1;
        self.place(Entry { hash: hash as u32, word: state.word() });
    }

    fn place(&mut self, entry: Entry) {
        let mask = self.index.len() - 1;
        let mut probe = entry.hash as usize & mask;
        while self.index[probe].word != NOBODY {
            probe = (probe + 1) & mask;
        }
        self.index[probe] = entry;
    }

    fn remove(&mut self, hash: u64, state: State) {
        let Some(mask) = self.index.len().checked_sub(1) else { return };
        let (mut gap, word) = (hash as u32 as usize & mask, state.word());
        loop {
            match self.index[gap].word {
                NOBODY => return,
                found if found == word => break,
                _ => gap = (gap + 1) & mask,
            }
        }
        let mut probe = (gap + 1) & mask;
        while self.index[probe].word != NOBODY {
            let home = self.index[probe].hash as usize & mask;
            if probe.wrapping_sub(home) & mask >= probe.wrapping_sub(gap) & mask {
                self.index[gap] = self.index[probe];
                gap = probe;
            }
            probe = (probe + 1) & mask;
        }
        self.index[gap] = VACANT;
        self.len -= 1;
    }

    /// Forgets all messages.
    pub fn clear(&mut self) {
        self.index.fill(VACANT);
        self.len = 0;
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

impl<P: ProbeObserver> Rsvp<P> {
    /// The hash of this message, if it is known to be the refresh of a state.
    pub(crate) fn knows(&self, from: &Arrival, bytes: &[u8]) -> Option<u64> {
        let hash = self.heard.hash(from, bytes);
        let known = hash != UNHEARD && self.heard.find(hash).any(|state| self.says(state, hash));
        known.then_some(hash)
    }

    /// True if this was the last message of a state.
    fn says(&self, state: State, hash: u64) -> bool {
        match state {
            State::Path(id) => {
                self.psbs.get(id).is_some_and(|psb| psb.heard == hash && matches!(psb.origin, Origin::Hop(_)))
            }
            State::Resv(id) => self.rsbs.get(id).is_some_and(|rsb| rsb.heard == hash),
        }
    }

    /// Prolongs the state that this message refreshes. `false`: it must be read; then [`Rsvp::heard_out`]
    /// ends the handling that begins here.
    pub(crate) fn heard_again(&mut self, now: Time, from: &Arrival, bytes: &[u8]) -> bool {
        let hash = self.heard.hash(from, bytes);
        self.hearing = Hearing { hash, state: None, spoilt: hash == UNHEARD };
        if hash == UNHEARD {
            return false;
        }
        let keep = self.config.keep;
        let Some(state) = self.heard.find(hash).find(|state| self.says(*state, hash)) else { return false };
        let kind = match state {
            State::Path(id) => {
                let psb = &mut self.psbs[id];
                psb.expires = now + lifetime(psb.refresh, keep);
                MessageType::Path
            }
            State::Resv(id) => {
                let rsb = &mut self.rsbs[id];
                rsb.expires = now + lifetime(rsb.refresh, keep);
                MessageType::Resv
            }
        };
        self.counters.received.add(kind);
        true
    }

    /// Notes that the present message has made or refreshed this state.
    pub(crate) fn spoke_of(&mut self, state: State) {
        self.neighbours.spoke_of(state);
        match state {
            State::Path(id) => self.unheard_path(id),
            State::Resv(id) => self.unheard_resv(id),
        }
        self.hearing.spoilt |= self.hearing.state.is_some_and(|other| other != state);
        self.hearing.state = Some(state);
    }

    /// Notes that the present message has an effect that it must have again when it comes again.
    pub(crate) fn not_a_refresh(&mut self) {
        self.hearing.spoilt = true;
        self.neighbours.not_a_refresh();
    }

    /// Ends the handling of a message: the next one like it is a refresh, if this was one or could have been.
    pub(crate) fn heard_out(&mut self) {
        let Hearing { hash, state, spoilt } = core::mem::replace(&mut self.hearing, Hearing::NOTHING);
        let Some(state) = state else { return };
        let place = match state {
            State::Path(id) => self.psbs.get_mut(id).map(|psb| &mut psb.heard),
            State::Resv(id) => self.rsbs.get_mut(id).map(|rsb| &mut rsb.heard),
        };
        if let Some(place) = place.filter(|_| !spoilt) {
            *place = hash;
            self.heard.insert(hash, state);
        }
    }

    /// Called when a path state changes for another reason than its last message: the next is read again.
    pub(crate) fn unheard_path(&mut self, id: BlockId<Psb>) {
        let Some(psb) = self.psbs.get_mut(id) else { return };
        match core::mem::replace(&mut psb.heard, UNHEARD) {
            UNHEARD => {}
            hash => self.heard.remove(hash, State::Path(id)),
        }
    }

    /// Called when a reservation state has changed, or goes.
    pub(crate) fn unheard_resv(&mut self, id: BlockId<Rsb>) {
        let Some(rsb) = self.rsbs.get_mut(id) else { return };
        match core::mem::replace(&mut rsb.heard, UNHEARD) {
            UNHEARD => {}
            hash => self.heard.remove(hash, State::Resv(id)),
        }
    }
}

#[cfg(test)]
mod tests;
