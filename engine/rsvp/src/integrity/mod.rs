//! RSVP cryptographic authentication: RFC 2747, with the message types of RFC 3097.
//!
//! A message that must be signed is checked before any other part reads it ([`check`]): key, digest, then its
//! sequence number, which must be new. A message that fails is dropped and counted; it changes no state and
//! gets no answer. A sender that was never heard, or whose numbers seem to have gone back, is challenged
//! ([`handshake`]) to prove that its messages are fresh. Our own messages are signed on their way out
//! ([`seal`]).
//!
//! | file | contents |
//! |---|---|
//! | `key` | keys, their lifetimes, the neighbours that share them |
//! | `mac` | HMAC over SHA-256, SHA-1, MD5 |
//! | `replay` `sequence` | numbers of others, and our own |
//! | `check` `handshake` `seal` | a message comes in, a challenge or its answer comes in, a message goes out |
//! | `again` | repetition of messages that a neighbour dropped before our answer |
//! | `signer` `verdict` | signatures of tools that are no node, and their look at captured messages |
//!
//! Limits (RFC 4230): the IP header is not covered, so a message is bound to the interface that it came in on
//! and to the neighbour that its RSVP_HOP names; contents are not secret; each holder of a key can speak for
//! all who share it.

mod again;
pub(crate) mod bucket;
pub(crate) mod check;
mod handshake;
pub(crate) mod key;
mod mac;
pub(crate) mod proof;
mod replay;
mod seal;
mod sequence;
mod signer;
mod verdict;

pub use key::{Algorithm, AuthMode, BadKeys, IntegrityKey, KeyTable, MOST_KEY_ID, MOST_KEYS};

pub use proof::Proof;
pub use signer::Signer;
pub use verdict::IntegrityVerdict;

use crate::catch_up::CatchUps;
use crate::links::Links;
use crate::outbox::Outbox;
use crate::state::State;
use again::Again;
use alloc::collections::{BTreeMap, VecDeque};
use bucket::Bucket;
use core::net::IpAddr;
use key::Shields;
use mac::Mac;
use replay::Window;
use sequence::Sequences;
use terms::{IfIndex, Span, Time};

/// Most senders (by interface, address and key) whose numbers are remembered. Each has proved its key.
const MOST_SENDERS: usize = 4096;

/// The time of silence after which a sender's place may be given to another.
const SILENT: Span = Span::from_secs(600);

/// Most senders never heard that are remembered, until they can have answered.
const MOST_STRANGERS: usize = 32;

/// The state of authentication.
pub(crate) struct Security {
    shields: Shields,
    /// The generation of the keys: it grows when keys change, and a proof by an older one does not count.
    generation: u64,
    senders: BTreeMap<(IfIndex, IpAddr, u64), Sender>,
    sequences: Sequences,
    /// The key of challenge cookies: others cannot guess them, and we need not remember them.
    cookies: Mac,
    /// Challenges to senders never heard.
    challenges: Bucket,
    /// The senders last challenged, and when: a quick succession of messages leads to one challenge.
    strangers: VecDeque<((IfIndex, IpAddr, u64), Time)>,
    /// Answers to challenges; any node can send a challenge.
    responses: Bucket,
    /// Events about messages that were dropped here.
    events: Bucket,
    /// Messages that neighbours have dropped because they had to challenge us first.
    again: Again,
}

/// The check of a message that comes in on an interface that may require signatures.
pub(crate) struct Guard<'a> {
    now: Time,
    security: &'a mut Security,
    links: &'a Links,
    out: &'a mut Outbox,
    catch_ups: &'a mut CatchUps,
    state: &'a mut State,
}

impl<'a> Guard<'a> {
    /// With the parts that it works on.
    pub fn new(
        now: Time,
        security: &'a mut Security,
        links: &'a Links,
        out: &'a mut Outbox,
        catch_ups: &'a mut CatchUps,
        state: &'a mut State,
    ) -> Guard<'a> {
        Guard { now, security, links, out, catch_ups, state }
    }
}

/// A sender that has proved that it has the key.
struct Sender {
    window: Window,
    /// The time of the last challenge, if it has not been answered.
    challenged: Option<Time>,
    /// The time of its last signed message.
    heard: Time,
}

impl Security {
    /// The senders that have proved a key, with the key's identifier.
    pub fn proven(&self) -> impl Iterator<Item = (IfIndex, IpAddr, u64)> + '_ {
        self.senders.keys().copied()
    }
}

impl Sender {
    fn lately_challenged(&self, now: Time) -> bool {
        self.challenged.is_some_and(|t| now.since(t) < handshake::PATIENCE)
    }
}

fn cookies(secret: [u64; 4]) -> Mac {
    let mut bytes = [0; 32];
    for (place, word) in bytes.chunks_exact_mut(8).zip(secret) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Mac::new(Algorithm::HmacSha256, &bytes)
}

impl Security {
    pub fn new(auth: &AuthMode, secret: [u64; 4]) -> Security {
        Security {
            shields: Shields::new(auth),
            generation: 0,
            senders: BTreeMap::new(),
            sequences: Sequences::default(),
            cookies: cookies(secret),
            challenges: Bucket::new(32, Span::from_millis(50)),
            strangers: VecDeque::new(),
            responses: Bucket::new(32, Span::from_millis(50)),
            events: Bucket::new(16, Span::from_millis(250)),
            again: Again::default(),
        }
    }

    /// Sets the secret that cookies are made with from now on.
    pub fn set_secret(&mut self, secret: [u64; 4]) {
        self.cookies = cookies(secret);
    }

    /// Changes the keys of an interface. Senders stay admitted if the new keys have the identifiers that they
    /// used; a changed secret shows in the digest.
    pub fn set(&mut self, interface: IfIndex, auth: &AuthMode) {
        self.shields.set(interface, auth);
        self.generation += 1;
        let shields = &self.shields;
        self.senders.retain(|(at, peer, id), _| {
            *at != interface || shields.on(*at).is_some_and(|s| s.named(*peer, *id).is_some())
        });
    }

    /// Forgets an interface that is gone: the next one with its number is another.
    pub fn forget(&mut self, interface: IfIndex) {
        self.senders.retain(|(at, _, _), _| *at != interface);
        self.again.forget(interface);
    }

    /// True if an interface requires signatures.
    pub fn requires(&self, interface: IfIndex) -> bool {
        self.shields.on(interface).is_some()
    }

    /// True if a sender never heard is to be challenged: it has not been challenged just before.
    fn strange(&mut self, now: Time, at: (IfIndex, IpAddr, u64)) -> bool {
        self.strangers.retain(|(_, t)| now.since(*t) < again::MOMENT.0);
        let new = self.strangers.iter().all(|(who, _)| *who != at);
        if new && self.strangers.len() < MOST_STRANGERS {
            self.strangers.push_back((at, now));
        }
        new
    }

    /// See [`Sequences::reserved`].
    pub fn reserved(&mut self, from: u64, upto: u64) {
        self.sequences.reserved(from, upto);
    }

    /// See [`Sequences::failed`].
    pub fn not_reserved(&mut self, now: Time) {
        self.sequences.failed(now);
    }

    /// The time at which numbers are requested again after a failure.
    pub fn wake_at(&self) -> Option<Time> {
        self.sequences.wake_at().filter(|_| self.shields.any())
    }

    /// The bound up to which to reserve sequence numbers, if it is time.
    pub fn reserve(&mut self, now: Time) -> Option<u64> {
        if self.shields.any() { self.sequences.ask(now) } else { None }
    }
}
