//! Overload control: the queue between the sockets and the engine, in classes, and the order of shedding.
//!
//! A node that cannot keep up must choose which messages to drop. Otherwise the kernel's queue chooses and
//! drops refreshes with the rest: then reserved state expires, all nodes set up again, and the node never
//! recovers. So:
//!
//! - If an interface requires signatures, a message without a valid one is refused before it waits
//!   ([`IntakeOutcome::Refused`]), so that strangers take no place. A message that waits there has a checked
//!   digest ([`Proof`]).
//! - Each class has places and bytes of its own, which no other class can fill.
//! - Messages that keep or end existing state go first, and new set-up is shed first. But each class with
//!   messages has a least share of the time, the refreshes the largest ([`shares`]): a flood of a class that
//!   goes first delays them, and ends nothing.
//! - A refresh that repeats a state's last message byte for byte has a class of its own, and waits once for
//!   each state: copies of it take no place. A sender must have seen the message to make one.
//! - No neighbour fills more than half of any other class. If an attacker has filled a neighbour's half under
//!   its address, the neighbour's messages for other sources still find a quarter. Without keys any node on
//!   the link can forge any address: there only the refreshes are safe from all of that.
//!
//! The driver reads its sockets into [`Intake::offer`] and gives the engine the messages of [`Intake::take`].

pub(crate) mod class;
pub(crate) mod class_of;
mod shares;
pub(crate) mod waiting;

pub use class::IntakeClass;
pub use waiting::{Incoming, WaitingMessage};

use crate::engine::Rsvp;
use crate::state::heard::{UNHEARD, fold};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use hashbrown::HashTable;
use shares::Shares;
use terms::probe::ProbeObserver;
use terms::{IfIndex, Span, Time};

/// The limits on messages that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most messages in each class about existing state.
    pub known: usize,
    /// Most messages in each class of new set-up: no more than can be served before their senders give up.
    pub new: usize,
    /// Bytes in all: 1/2 for [`IntakeClass::Refresh`], 1/4 for [`IntakeClass::Known`], 1/32 for each other.
    pub bytes: usize,
}

impl Default for Limits {
    /// 16,384 messages of each known class, 2,048 of each new one, 16 MB.
    fn default() -> Limits {
        Limits { known: 1 << 14, new: 1 << 11, bytes: 16 << 20 }
    }
}

impl Limits {
    /// Most messages and most bytes of a class.
    fn of(&self, class: IntakeClass) -> (usize, usize) {
        let bytes = match class {
            IntakeClass::Refresh => self.bytes / 2,
            IntakeClass::Known => self.bytes / 4,
            _ => self.bytes / 32,
        };
        (if class.is_new() { self.new } else { self.known }, bytes)
    }
}

/// The result of offering a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntakeOutcome {
    /// It waits.
    Waits,
    /// It is a refresh, and the same one waits already.
    Already,
    /// There is no room for it in its class; it was counted as shed.
    Shed,
    /// It lacks a valid signature on an interface that requires one, for this reason, which the engine has
    /// counted; or it was a step of the handshake, which needs no further handling.
    Refused(&'static str),
}

/// The counters of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassCounts {
    /// Messages that were let in.
    pub taken: u64,
    /// Messages that were shed.
    pub shed: u64,
}

/// Buckets in which neighbours and sources are counted by keyed hashes: the table cannot grow, and all that
/// share a bucket share its quota.
const BUCKETS: usize = 256;
/// The reason why a whole Bundle is refused.
const EMPTY: &str = "a Bundle that cannot be read";
/// Most buffers that are kept for reuse.
const SPARE: usize = 1 << 10;
const CLASSES: usize = IntakeClass::ALL.len();

/// The queue of one class.
#[derive(Debug)]
struct Queue {
    waiting: VecDeque<WaitingMessage>,
    bytes: usize,
    /// Messages by neighbour, and by neighbour and source.
    buckets: [[u32; BUCKETS]; 2],
    counted: ClassCounts,
}

impl Queue {
    fn new() -> Queue {
        let (waiting, counted) = (VecDeque::new(), ClassCounts::default());
        Queue { waiting, bytes: 0, buckets: [[0; BUCKETS]; 2], counted }
    }

    fn has_room(&self, buckets: [u8; 2], len: usize, (most, bytes): (usize, usize), quotas: bool) -> bool {
        let [neighbour, source] = [0, 1].map(|i| self.buckets[i][usize::from(buckets[i])] as usize);
        let within = neighbour < most.div_ceil(2) || (source < most.div_ceil(16) && self.waiting.len() < most * 3 / 4);
        self.waiting.len() < most && self.bytes.saturating_add(len) <= bytes && (!quotas || within)
    }

    fn count(&mut self, buckets: [u8; 2], change: impl Fn(&mut u32)) {
        self.buckets.iter_mut().zip(buckets).for_each(|(all, n)| change(&mut all[usize::from(n)]));
    }
}

/// The bounded queue between sockets and engine.
#[derive(Debug)]
pub struct Intake {
    limits: Limits,
    key: u64,
    classes: [Queue; CLASSES],
    shares: Shares,
    /// The hashes of the refreshes that wait.
    refreshes: HashTable<u64>,
    spare: Vec<Vec<u8>>,
}

impl Intake {
    /// An empty queue; `seed` keys the hash of neighbours.
    pub fn new(limits: Limits, seed: u64) -> Intake {
        Intake {
            limits,
            key: seed,
            classes: core::array::from_fn(|_| Queue::new()),
            shares: Shares::default(),
            refreshes: HashTable::new(),
            spare: Vec::new(),
        }
    }

    /// Queues a message, or gives the reason why not. The number of a signed message is taken now, in the
    /// order of arrival: later, classes overtake one another by more than the window of numbers. Drain the
    /// engine afterwards.
    pub fn offer<P: ProbeObserver>(
        &mut self,
        engine: &mut Rsvp<P>,
        now: Time,
        message: &Incoming<'_>,
    ) -> IntakeOutcome {
        let arrival = message.arrival();
        if let Some(parts) = engine.signed_apart(&arrival, message.bytes) {
            // Each message of a Bundle is signed, and waits, by itself.
            let mut last = IntakeOutcome::Refused(EMPTY);
            for (ttl, bytes) in parts {
                last = self.offer(engine, now, &Incoming { ttl, bytes, ..*message });
            }
            return last;
        }
        let proof = match engine.authentic(now, &arrival, message.bytes) {
            Ok(proof) => proof,
            Err(why) => return IntakeOutcome::Refused(why),
        };
        let (class, neighbour, refresh) = engine.class_of(message);
        let hop = self.bucket(message.iif, neighbour, self.key);
        let buckets = [hop, self.bucket(message.iif, message.src, self.key ^ u64::from(hop) ^ fold(self.key, 0x50c))];
        let (len, limits) = (message.bytes.len(), self.limits.of(class));
        let queue = &mut self.classes[class as usize];
        if refresh != UNHEARD && self.refreshes.find(refresh, |other| *other == refresh).is_some() {
            return IntakeOutcome::Already;
        }
        if !queue.has_room(buckets, len, limits, refresh == UNHEARD) {
            queue.counted.shed += 1;
            return IntakeOutcome::Shed;
        }
        if refresh != UNHEARD {
            self.refreshes.insert_unique(refresh, refresh, |hash| *hash);
        }
        queue.counted.taken += 1;
        queue.count(buckets, |n| *n += 1);
        queue.bytes += len;
        let buffer = self.spare.pop().unwrap_or_default();
        queue.waiting.push_back(WaitingMessage::new(message, buffer, class, buckets, refresh, proof));
        IntakeOutcome::Waits
    }

    /// The next message for the engine: the oldest of the class that is to be served.
    pub fn take(&mut self) -> Option<WaitingMessage> {
        let some: [bool; CLASSES] = core::array::from_fn(|c| !self.classes[c].waiting.is_empty());
        let queue = &mut self.classes[self.shares.next(some)? as usize];
        let next = queue.waiting.pop_front()?;
        queue.count(next.buckets(), |n| *n -= 1);
        queue.bytes -= next.len();
        if let Ok(found) = self.refreshes.find_entry(next.refresh(), |other| *other == next.refresh()) {
            found.remove();
        }
        Some(next)
    }

    /// Takes a message back from the engine, with the time that it took; its buffer is reused.
    pub fn give_back(&mut self, done: WaitingMessage, took: Span) {
        self.shares.charge(done.class(), took);
        if self.spare.len() < SPARE {
            let mut bytes = done.into_buffer();
            bytes.clear();
            bytes.shrink_to(2048);
            self.spare.push(bytes);
        }
    }

    /// The number of messages that wait.
    pub fn len(&self) -> usize {
        self.classes.iter().map(|queue| queue.waiting.len()).sum()
    }

    /// True if no message waits.
    pub fn is_empty(&self) -> bool {
        self.classes.iter().all(|queue| queue.waiting.is_empty())
    }

    /// The counters of a class since the start.
    pub fn counted(&self, class: IntakeClass) -> ClassCounts {
        self.classes[class as usize].counted
    }

    fn bucket(&self, iif: IfIndex, who: IpAddr, key: u64) -> u8 {
        let addr = match who {
            IpAddr::V4(a) => u128::from(u32::from(a)),
            IpAddr::V6(a) => u128::from(a),
        };
        let word = fold(addr as u64 ^ key, u64::from(iif.0) ^ key.rotate_left(29));
        (fold(word ^ (addr >> 64) as u64, self.key.rotate_left(47)) >> 56) as u8
    }
}
