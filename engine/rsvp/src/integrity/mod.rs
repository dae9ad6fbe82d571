//! RSVP cryptographic authentication: RFC 2747, with the message types of RFC 3097.
//!
//! A message that must be signed is checked before anything else looks at it ([`check`]): key, digest, then whether its
//! sequence number is new. What fails is dropped and counted; it changes nothing and is answered by nothing. A sender
//! that was never heard, or that seems to have gone back in its numbers, is challenged ([`handshake`]) to prove that what
//! it says is fresh. What we send is signed on its way out ([`seal`]).
//!
//! | file | what |
//! |---|---|
//! | `key` | keys, their lifetimes, who shares them |
//! | `mac` | HMAC over SHA-256, SHA-1, MD5 |
//! | `replay` `sequence` | numbers of others, and our own |
//! | `check` `handshake` `seal` | a message comes, a challenge or its answer comes, a message goes |
//! | `again` | what a neighbour dropped before our answer |
//! | `signer` | a key in the hands of who is no node |
//!
//! What it does not do (RFC 4230): the IP header is not covered, so a message is bound to the interface that it came in
//! on and to the neighbour that its RSVP_HOP names; nothing is kept secret; who shares a key can speak for all who do.

mod again;
pub(crate) mod bucket;
mod check;
mod handshake;
mod key;
mod mac;
mod replay;
mod seal;
mod sequence;
mod signer;

pub use key::{Algorithm, AuthMode, BadKeys, IntegrityKey, KeyTable, MOST_KEY_ID, MOST_KEYS};

pub(crate) use check::Checked;
pub use check::Proof;
pub use signer::Signer;

use again::Again;
use alloc::collections::{BTreeMap, VecDeque};
use bucket::Bucket;
use core::net::IpAddr;
use key::Shields;
use mac::Mac;
use replay::Window;
use sequence::Sequences;
use terms::{IfIndex, Span, Time};

/// Most senders (by interface, address and key) whose numbers are remembered. Each has shown that it has a key.
const MOST_SENDERS: usize = 4096;

/// How long a sender has said nothing when its place may be given to another.
const SILENT: Span = Span::from_secs(600);

/// Most senders never heard that are remembered, for the moment that they need for an answer.
const MOST_STRANGERS: usize = 32;

/// All that authentication remembers.
pub(crate) struct Security {
    shields: Shields,
    /// Grows whenever keys change: what was proved by the keys before is proved again.
    generation: u64,
    senders: BTreeMap<(IfIndex, IpAddr, u64), Sender>,
    sequences: Sequences,
    /// Makes challenge cookies that nobody can guess and that nobody needs to remember.
    cookies: Mac,
    /// Challenges to senders never heard.
    challenges: Bucket,
    /// The last of them, and when: one challenge for all that a sender says in one breath.
    strangers: VecDeque<((IfIndex, IpAddr, u64), Time)>,
    /// Answers to challenges, which anybody can send.
    responses: Bucket,
    /// Events about messages that were dropped here.
    events: Bucket,
    /// What neighbours have dropped because they had to challenge us first.
    again: Again,
}

/// A sender that has shown that it has the key.
struct Sender {
    window: Window,
    /// When it was last asked to prove that its numbers are fresh, if it has not answered.
    challenged: Option<Time>,
    /// When it last said something signed.
    heard: Time,
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

    /// Cookies are made with another secret from now on.
    pub fn set_secret(&mut self, secret: [u64; 4]) {
        self.cookies = cookies(secret);
    }

    /// The keys of an interface change. What its senders have shown stays: it hangs on the keys' identifiers, and a
    /// secret that is given a new meaning shows in the digest.
    pub fn set(&mut self, interface: IfIndex, auth: &AuthMode) {
        self.shields.set(interface, auth);
        self.generation += 1;
        let shields = &self.shields;
        self.senders.retain(|(at, peer, id), _| {
            *at != interface || shields.on(*at).is_some_and(|s| s.named(*peer, *id).is_some())
        });
    }

    /// An interface is gone: whoever comes by its number next is another.
    pub fn forget(&mut self, interface: IfIndex) {
        self.senders.retain(|(at, _, _), _| *at != interface);
        self.again.forget(interface);
    }

    /// Whether a sender never heard is to be challenged: not if it has just been.
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

    /// When numbers have to be asked for again after a failure.
    pub fn wake_at(&self) -> Option<Time> {
        self.sequences.wake_at().filter(|_| self.shields.any())
    }

    /// Sequence numbers to reserve, if it is time.
    pub fn reserve(&mut self, now: Time) -> Option<u64> {
        if self.shields.any() { self.sequences.ask(now) } else { None }
    }
}
