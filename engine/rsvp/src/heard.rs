//! Messages that say again what was heard last. Nearly all that a node with many sessions hears is refreshes, and a
//! refresh is the same message again, byte for byte, from the same hop: it needs no parsing and no comparing, only its
//! state found and prolonged (RFC 2205 section 3.7).
//!
//! The state is found by a keyed 64-bit hash of the message, of how it came in, and of nothing else; each state has at
//! most one entry, for the last message that spoke of it alone and changed nothing but its lifetime. Whatever else
//! changes a state takes its entry away ([`Rsvp::unheard_path`], [`Rsvp::unheard_resv`]); a change of interfaces takes
//! all of them away. Should two messages ever have the same hash, a state lives one lifetime longer, no more.
//!
//! Integrity and acknowledgements come before this: a message that carries INTEGRITY is hashed without it, one that
//! carries a MESSAGE_ID is not looked up here.

use crate::engine::Rsvp;
use crate::lifetime::lifetime;
use crate::psb::{Origin, Psb};
use crate::receive::Arrival;
use crate::rsb::Rsb;
use crate::table::Id;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::Time;
use wire::MessageType;
use wire::iana::class;

/// No message.
pub(crate) const UNHEARD: u64 = 0;

/// States by the message that refreshes them.
pub(crate) struct Heard {
    keys: (u64, u64),
    index: Vec<Entry>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    state: Option<State>,
}

/// Whose refresh it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// A Path's.
    Path(Id<Psb>),
    /// A Resv's.
    Resv(Id<Rsb>),
}

/// The message that is being taken in: whether it turns out to refresh one state and do nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hearing {
    hash: u64,
    state: Option<State>,
    spoilt: bool,
}

impl Hearing {
    /// Nothing is being taken in.
    pub const NOTHING: Hearing = Hearing { hash: UNHEARD, state: None, spoilt: true };
}

const VACANT: Entry = Entry { hash: UNHEARD, state: None };

impl Heard {
    /// Nothing heard yet; hashes are keyed.
    pub fn new(keys: (u64, u64)) -> Heard {
        Heard { keys: (keys.0, keys.1 | 1), index: Vec::new(), len: 0 }
    }

    fn find(&self, hash: u64) -> Option<State> {
        let mask = self.index.len().checked_sub(1)?;
        let mut probe = hash as usize & mask;
        loop {
            let entry = &self.index[probe];
            if entry.hash == hash {
                return entry.state;
            }
            entry.state?;
            probe = (probe + 1) & mask;
        }
    }

    fn insert(&mut self, hash: u64, state: State) {
        if (self.len + 1) * 4 > self.index.len() * 3 {
            let size = (self.index.len() * 2).max(16);
            let old = core::mem::replace(&mut self.index, alloc::vec![VACANT; size]);
            old.into_iter().filter(|entry| entry.state.is_some()).for_each(|entry| self.place(entry));
        }
        self.len += 1;
        self.place(Entry { hash, state: Some(state) });
    }

    fn place(&mut self, entry: Entry) {
        let mask = self.index.len() - 1;
        let mut probe = entry.hash as usize & mask;
        while self.index[probe].state.is_some() {
            probe = (probe + 1) & mask;
        }
        self.index[probe] = entry;
    }

    fn remove(&mut self, hash: u64, state: State) {
        let Some(mask) = self.index.len().checked_sub(1) else { return };
        let mut gap = hash as usize & mask;
        loop {
            match self.index[gap] {
                Entry { state: None, .. } => return,
                Entry { hash: h, state: s } if h == hash && s == Some(state) => break,
                _ => gap = (gap + 1) & mask,
            }
        }
        let mut probe = (gap + 1) & mask;
        while self.index[probe].state.is_some() {
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

    /// Nothing is known to be a refresh any more.
    pub fn clear(&mut self) {
        self.index.fill(VACANT);
        self.len = 0;
    }

    /// The hash of a message and of how it came in. [`UNHEARD`]: of one that must not be recognised by it.
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

/// Both halves of a 64 x 64 bit product, which each bit of both sides has a say in.
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0xd6e8_feb8_6659_fd93) * u128::from(b ^ 0x9e37_79b9_7f4a_7c15);
    product as u64 ^ (product >> 64) as u64
}

impl Rsvp {
    /// Whether this message is known to be the refresh of something.
    pub(crate) fn knows(&self, from: &Arrival, bytes: &[u8]) -> bool {
        let hash = self.heard.hash(from, bytes);
        hash != UNHEARD && self.heard.find(hash).is_some()
    }

    /// Prolongs the state that this message is the refresh of. `false`: it must be read; then [`Rsvp::heard_out`] ends
    /// what begins here.
    pub(crate) fn heard_again(&mut self, now: Time, from: &Arrival, bytes: &[u8]) -> bool {
        let hash = self.heard.hash(from, bytes);
        self.hearing = Hearing { hash, state: None, spoilt: hash == UNHEARD };
        if hash == UNHEARD {
            return false;
        }
        let keep = self.config.keep;
        let kind = match self.heard.find(hash) {
            Some(State::Path(id)) => match self.psbs.get_mut(id) {
                Some(psb) if psb.heard == hash && matches!(psb.origin, Origin::Hop(_)) => {
                    psb.expires = now + lifetime(psb.refresh, keep);
                    MessageType::Path
                }
                _ => return false,
            },
            Some(State::Resv(id)) => match self.rsbs.get_mut(id) {
                Some(rsb) if rsb.heard == hash => {
                    rsb.expires = now + lifetime(rsb.refresh, keep);
                    MessageType::Resv
                }
                _ => return false,
            },
            None => return false,
        };
        self.counters.received.add(kind);
        true
    }

    /// The message that is being taken in has made or refreshed this state.
    pub(crate) fn spoke_of(&mut self, state: State) {
        self.neighbours.spoke_of(state);
        match state {
            State::Path(id) => self.unheard_path(id),
            State::Resv(id) => self.unheard_resv(id),
        }
        self.hearing.spoilt |= self.hearing.state.is_some_and(|other| other != state);
        self.hearing.state = Some(state);
    }

    /// It has done something that it must do again when it comes again.
    pub(crate) fn not_a_refresh(&mut self) {
        self.hearing.spoilt = true;
        self.neighbours.not_a_refresh();
    }

    /// The message has been taken in: the next one like it is a refresh, if this was or could have been.
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

    /// A path state has changed by something else than its last message: the next one is read again.
    pub(crate) fn unheard_path(&mut self, id: Id<Psb>) {
        let Some(psb) = self.psbs.get_mut(id) else { return };
        match core::mem::replace(&mut psb.heard, UNHEARD) {
            UNHEARD => {}
            hash => self.heard.remove(hash, State::Path(id)),
        }
    }

    /// A reservation state has changed, or goes.
    pub(crate) fn unheard_resv(&mut self, id: Id<Rsb>) {
        let Some(rsb) = self.rsbs.get_mut(id) else { return };
        match core::mem::replace(&mut rsb.heard, UNHEARD) {
            UNHEARD => {}
            hash => self.heard.remove(hash, State::Resv(id)),
        }
    }
}

#[cfg(test)]
mod tests;
