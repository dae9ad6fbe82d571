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
//!
//! What it does not do (RFC 4230): the IP header is not covered, so a message is bound to the interface that it came in
//! on and to the neighbour that its RSVP_HOP names; nothing is kept secret; who shares a key can speak for all who do.

pub(crate) mod bucket;
mod check;
mod handshake;
mod key;
mod mac;
mod replay;
mod seal;
mod sequence;

pub use key::{Algorithm, Auth, BadKeys, Key, KeyTable, MOST_KEY_ID, MOST_KEYS};

pub(crate) use check::Checked;

use crate::io::Datagram;
use alloc::collections::{BTreeMap, VecDeque};
use bucket::Bucket;
use core::net::IpAddr;
use key::Shields;
use mac::Mac;
use replay::Window;
use sequence::Sequences;
use terms::{IfIndex, Span, Time};
use wire::MessageType;

/// Most senders (by interface, address and key) whose numbers are remembered. Each has shown that it has a key.
const MOST_SENDERS: usize = 4096;

/// Most messages an interface that are kept to be said again, and for how long.
const MOST_LATELY: (usize, Span) = (64, Span::from_secs(2));

/// All that authentication remembers.
pub(crate) struct Security {
    shields: Shields,
    senders: BTreeMap<(IfIndex, IpAddr, u64), Sender>,
    sequences: Sequences,
    /// Makes challenge cookies that nobody can guess and that nobody needs to remember.
    cookies: Mac,
    /// Challenges to senders never heard.
    challenges: Bucket,
    /// Answers to challenges, which anybody can send.
    responses: Bucket,
    /// Events about messages that were dropped here.
    events: Bucket,
    /// Refreshes of all across an interface, because somebody there had challenged us.
    catch_ups: BTreeMap<IfIndex, Bucket>,
    /// What was sent lately, unsigned: said again to who challenges us because of it.
    lately: BTreeMap<IfIndex, VecDeque<(Time, MessageType, Datagram)>>,
}

/// A sender that has shown that it has the key.
struct Sender {
    window: Window,
    /// When it was last asked to prove that its numbers are fresh, if it has not answered.
    challenged: Option<Time>,
}

impl Security {
    pub fn new(auth: &Auth, secret: [u64; 4]) -> Security {
        let mut bytes = [0; 32];
        for (place, word) in bytes.chunks_exact_mut(8).zip(secret) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Security {
            shields: Shields::new(auth),
            senders: BTreeMap::new(),
            sequences: Sequences::default(),
            cookies: Mac::new(Algorithm::HmacSha256, &bytes),
            challenges: Bucket::new(32, Span::from_millis(50)),
            responses: Bucket::new(32, Span::from_millis(50)),
            events: Bucket::new(16, Span::from_millis(250)),
            catch_ups: BTreeMap::new(),
            lately: BTreeMap::new(),
        }
    }

    /// The keys of an interface change. What its senders have shown stays: it hangs on the keys' identifiers, and a
    /// secret that is given a new meaning shows in the digest.
    pub fn set(&mut self, interface: IfIndex, auth: &Auth) {
        self.shields.set(interface, auth);
        let shields = &self.shields;
        self.senders.retain(|(at, peer, id), _| {
            *at != interface || shields.on(*at).is_some_and(|s| s.named(*peer, *id).is_some())
        });
    }

    /// An interface is gone: whoever comes by its number next is another.
    pub fn forget(&mut self, interface: IfIndex) {
        self.senders.retain(|(at, _, _), _| *at != interface);
        self.catch_ups.remove(&interface);
        self.lately.remove(&interface);
    }

    /// Keeps what was just sent, as it was before it was signed.
    fn remember(&mut self, now: Time, at: IfIndex, kind: MessageType, unsigned: Datagram) {
        let lately = self.lately.entry(at).or_default();
        while lately.len() >= MOST_LATELY.0 || lately.front().is_some_and(|(t, ..)| now.since(*t) > MOST_LATELY.1) {
            lately.pop_front();
        }
        lately.push_back((now, kind, unsigned));
    }

    /// See [`Sequences::reserved`].
    pub fn reserved(&mut self, from: u64, upto: u64) {
        self.sequences.reserved(from, upto);
    }

    /// Sequence numbers to reserve, if it is time.
    pub fn reserve(&mut self, now: Time) -> Option<u64> {
        if self.shields.any() { self.sequences.ask(now) } else { None }
    }
}
