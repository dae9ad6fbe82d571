//! Overload control: what waits between the sockets and the engine, in classes, and what is shed first.
//!
//! A node that cannot keep up must choose, or the kernel's queue chooses for it and drops refreshes with the rest: then
//! state that was promised dies, everybody sets up again, and it never recovers. So what keeps or ends what is there
//! goes first, and new set-up is shed first; its sender tries again with its next refresh.
//!
//! The driver reads its sockets into [`Intake::offer`] and gives the engine what [`Intake::take`] says. Classifying
//! costs a look at the header and at most two look-ups; no key is checked and nothing is answered here. What looks like
//! a refresh of something known may be forged, hence no neighbour fills more than half of a class.

use crate::Rsvp;
use crate::heard::fold;
use crate::receive::Arrival;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::Probe;
use terms::{IfIndex, Session};
use wire::{MessageType, Salvage};

/// What is served first comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Whether a neighbour lives, and what it has got: Hello, Ack, the challenge handshake.
    Liveness,
    /// What gives something back: PathTear, ResvTear.
    Tear,
    /// What belongs to something that is there: its refreshes and changes, errors, confirmations.
    Known,
    /// A reservation for a sender that has none.
    NewResv,
    /// A sender never heard of, and whatever says nothing of itself.
    NewPath,
}

impl Class {
    /// In the order of service.
    pub const ALL: [Class; 5] = [Class::Liveness, Class::Tear, Class::Known, Class::NewResv, Class::NewPath];

    /// What it holds, for people.
    pub fn name(self) -> &'static str {
        match self {
            Class::Liveness => "liveness",
            Class::Tear => "tears",
            Class::Known => "of what is there",
            Class::NewResv => "new reservations",
            Class::NewPath => "new senders",
        }
    }

    fn is_new(self) -> bool {
        self >= Class::NewResv
    }
}

/// How much may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Messages in each class of what is there.
    pub known: usize,
    /// Messages in each class of what is new: no more than can be served while its sender still cares.
    pub new: usize,
    /// Bytes in all; what is new gets half of them.
    pub bytes: usize,
}

impl Default for Limits {
    /// 16,384 messages of each known class, 2,048 of each new one, 16 MB.
    fn default() -> Limits {
        Limits { known: 1 << 14, new: 1 << 11, bytes: 16 << 20 }
    }
}

/// A datagram of protocol 46 as the driver read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incoming<'a> {
    /// Where it came in.
    pub iif: IfIndex,
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// IP TTL.
    pub ttl: u8,
    /// The RSVP message.
    pub bytes: &'a [u8],
}

/// A message that waited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    iif: IfIndex,
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    bytes: Vec<u8>,
    class: Class,
    bucket: u8,
}

impl Waiting {
    /// As it came.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { iif: self.iif, src: self.src, dst: self.dst, ttl: self.ttl, bytes: &self.bytes }
    }

    /// Its class.
    pub fn class(&self) -> Class {
        self.class
    }
}

/// What was counted of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Messages that were let in.
    pub taken: u64,
    /// Messages that were shed.
    pub shed: u64,
}

/// Neighbours are counted by a keyed hash in so many buckets: nobody can make the table grow, and whoever shares a
/// bucket shares its quota.
const BUCKETS: usize = 256;
/// Most buffers that are kept to be used again.
const SPARE: usize = 1 << 10;

/// The bounded queue between sockets and engine.
#[derive(Debug)]
pub struct Intake {
    limits: Limits,
    key: u64,
    classes: [VecDeque<Waiting>; 5],
    neighbours: [[u32; BUCKETS]; 5],
    bytes: usize,
    counted: [Counted; 5],
    spare: Vec<Vec<u8>>,
}

impl Intake {
    /// An empty one; `seed` keys the hash of neighbours.
    pub fn new(limits: Limits, seed: u64) -> Intake {
        Intake {
            limits,
            key: seed,
            classes: Default::default(),
            neighbours: [[0; BUCKETS]; 5],
            bytes: 0,
            counted: Default::default(),
            spare: Vec::new(),
        }
    }

    /// Lets a message wait, or sheds it (`false`).
    pub fn offer<P: Probe>(&mut self, engine: &Rsvp<P>, message: &Incoming<'_>) -> bool {
        let (class, neighbour) = engine.class_of(message);
        let (c, bucket) = (class as usize, self.bucket(message.iif, neighbour));
        let most = if class.is_new() { self.limits.new } else { self.limits.known };
        let room = if class.is_new() { self.limits.bytes / 2 } else { self.limits.bytes };
        let full = self.classes[c].len() >= most
            || self.neighbours[c][usize::from(bucket)] as usize >= most.div_ceil(2)
            || self.bytes.saturating_add(message.bytes.len()) > room;
        if full {
            self.counted[c].shed += 1;
            return false;
        }
        self.counted[c].taken += 1;
        self.neighbours[c][usize::from(bucket)] += 1;
        self.bytes += message.bytes.len();
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(message.bytes);
        let Incoming { iif, src, dst, ttl, .. } = *message;
        self.classes[c].push_back(Waiting { iif, src, dst, ttl, bytes, class, bucket });
        true
    }

    /// What the engine shall have next: the oldest of the first class that has any.
    pub fn take(&mut self) -> Option<Waiting> {
        let next = self.classes.iter_mut().find_map(VecDeque::pop_front)?;
        self.neighbours[next.class as usize][usize::from(next.bucket)] -= 1;
        self.bytes -= next.bytes.len();
        Some(next)
    }

    /// Takes a message's buffer back once the engine has had it, so that the next needs none.
    pub fn give_back(&mut self, done: Waiting) {
        if self.spare.len() < SPARE {
            let mut bytes = done.bytes;
            bytes.clear();
            bytes.shrink_to(2048);
            self.spare.push(bytes);
        }
    }

    /// How many messages wait.
    pub fn len(&self) -> usize {
        self.classes.iter().map(VecDeque::len).sum()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.classes.iter().all(VecDeque::is_empty)
    }

    /// What was let in and what was shed of a class so far.
    pub fn counted(&self, class: Class) -> Counted {
        self.counted[class as usize]
    }

    fn bucket(&self, iif: IfIndex, neighbour: IpAddr) -> u8 {
        let addr = match neighbour {
            IpAddr::V4(a) => u128::from(u32::from(a)),
            IpAddr::V6(a) => u128::from(a),
        };
        let word = fold(addr as u64 ^ self.key, u64::from(iif.0) ^ self.key.rotate_left(29));
        (fold(word ^ (addr >> 64) as u64, self.key.rotate_left(47)) >> 56) as u8
    }
}

impl<P: Probe> Rsvp<P> {
    /// The class of a message, and the neighbour on whose account it waits: its RSVP_HOP, or else its IP source.
    fn class_of(&self, message: &Incoming<'_>) -> (Class, IpAddr) {
        let Incoming { iif, src, dst, ttl, bytes } = *message;
        let kind = bytes.get(1).copied().and_then(MessageType::from_number);
        match kind {
            Some(MessageType::Path | MessageType::Resv) => {}
            Some(MessageType::PathTear | MessageType::ResvTear) => return (Class::Tear, src),
            Some(MessageType::PathErr | MessageType::ResvErr | MessageType::ResvConf) => return (Class::Known, src),
            Some(MessageType::Bundle | MessageType::Srefresh) => return (Class::Known, src),
            Some(_) => return (Class::Liveness, src),
            None => return (Class::NewPath, src),
        }
        if self.knows(&Arrival { iif, src, dst, ttl, direct: true }, bytes) {
            return (Class::Known, src);
        }
        let Some(found) = Salvage::read(bytes) else { return (Class::NewPath, src) };
        let (is_path, by) = (kind == Some(MessageType::Path), found.hop.map_or(src, |hop| hop.addr));
        let known = found.session.is_some_and(|session| self.has_state(&session, is_path));
        match (known, is_path) {
            (true, _) => (Class::Known, by),
            (false, true) => (Class::NewPath, by),
            (false, false) => (Class::NewResv, by),
        }
    }

    /// Whether a Path or Resv of this session could belong to something that is there, or was in an earlier life.
    fn has_state(&self, session: &Session, path: bool) -> bool {
        self.sessions.find(session).is_some_and(|id| {
            let state = &self.sessions[id];
            let there = if path { !state.psbs.is_empty() } else { !state.rsbs.is_empty() };
            there || state.adopted_until.is_some()
        })
    }
}
