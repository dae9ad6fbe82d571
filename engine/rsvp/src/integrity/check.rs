//! A message comes in on an interface that requires signatures: RFC 2747 section 4.2.

use super::handshake::Asked;
use super::replay::Window;
use super::{MOST_SENDERS, SILENT, Sender};
use crate::engine::Rsvp;
use crate::io::{Event, NeighbourNews};
use crate::receive::Arrival;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{IfIndex, Time};
use wire::{Message, MessageType, Outline};

/// The result of the check of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checked {
    /// It may be read.
    Good,
    /// It is dropped, for this reason.
    Bad(&'static str),
    /// It was a step of the handshake, and needs no further handling.
    Done,
}

/// The reason why a sender's number is not taken.
pub(super) const STALE: &str = "INTEGRITY with a sequence number that was seen, or is too old";

const UNSIGNED: &str = "no INTEGRITY where it is required";
const FORGED: &str = "INTEGRITY with a wrong digest";
const OURS: &str = "our own address as the hop: a loop";

/// A proof that the digest of a message is right by the keys of this generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof(u64);

impl<P: ProbeObserver> Rsvp<P> {
    /// Authenticates a message before it is queued, so that no message waits unless a key of its sender
    /// signed it. `Ok(None)`: its interface requires nothing.
    pub(crate) fn authentic(&mut self, now: Time, from: &Arrival, bytes: &[u8]) -> Result<Option<Proof>, &'static str> {
        if self.security.shields.on(from.iif).is_none() || !self.speaks_on(from.iif) {
            return Ok(None);
        }
        self.now = now;
        // Its answer is rationed, and it waits for that like others.
        if bytes.get(1) == Some(&MessageType::IntegrityChallenge.number()) {
            return Ok(None);
        }
        match self.authenticated(now, from, bytes) {
            Checked::Good => Ok(Some(Proof(self.security.generation))),
            Checked::Bad(why) => {
                self.drop_unauthenticated(now, from.iif, from.src, why);
                Err(why)
            }
            Checked::Done => Err("a step of the handshake"),
        }
    }

    /// The messages of a Bundle to us, with the TTL of each, if the interface requires that each is signed by
    /// itself (RFC 2961 section 3.1); none of a Bundle that cannot be read.
    pub(crate) fn signed_apart<'a>(&mut self, from: &Arrival, bytes: &'a [u8]) -> Option<Vec<(u8, &'a [u8])>> {
        let bundle = bytes.get(1) == Some(&MessageType::Bundle.number());
        if !bundle || self.security.shields.on(from.iif).is_none() || !self.speaks_on(from.iif) {
            return None;
        }
        let Ok(Message::Bundle(bundle)) = Message::parse(bytes) else { return Some(Vec::new()) };
        if !self.is_ours(from.dst) {
            return Some(Vec::new());
        }
        self.counters.received.add(MessageType::Bundle);
        let direct = bundle.envelope.header.send_ttl == from.ttl;
        let ttl = |message: &[u8]| message.get(4).copied().filter(|_| direct).unwrap_or(from.ttl);
        Some(bundle.messages().map(|message| (ttl(message), message)).collect())
    }

    /// Decides if a message may be read at all. One that fails leaves nothing but a count.
    pub(crate) fn authenticated(&mut self, now: Time, from: &Arrival, bytes: &[u8]) -> Checked {
        let Some(shield) = self.security.shields.on(from.iif) else { return Checked::Good };
        // It was found to be signed by these keys, and its number was taken, before it waited.
        if from.proof.is_some_and(|proof| proof.0 == self.security.generation) {
            return Checked::Good;
        }
        let outline = match Outline::read(bytes) {
            Ok(outline) => outline,
            Err(malformed) => return Checked::Bad(malformed.what),
        };
        let Some(integrity) = outline.integrity else {
            // A challenge cannot be signed: it comes from who does not know where our numbers are.
            return match outline.header.kind {
                MessageType::IntegrityChallenge => self.challenge_arrives(now, from, bytes),
                _ => Checked::Bad(UNSIGNED),
            };
        };
        let sender = outline.hop.map_or(from.src, |hop| hop.addr);
        if self.own.contains(&sender) {
            return Checked::Bad(OURS);
        }
        let ready = match shield.signed_by(sender, integrity.key_id, now) {
            Ok(ready) => ready,
            Err(why) => return Checked::Bad(why),
        };
        let genuine = outline.signed_parts(bytes).is_some_and(|parts| ready.mac.verify(&parts, integrity.digest));
        if !genuine {
            return Checked::Bad(FORGED);
        }
        if ready.overdue {
            self.key_overdue(now, from.iif, sender, integrity.key_id);
        }
        if outline.header.kind == MessageType::IntegrityResponse {
            return self.response_arrives(now, from, bytes);
        }
        self.numbered(now, from, sender, &integrity)
    }

    /// Takes the message's sequence number, or asks its sender to prove that it is fresh.
    fn numbered(&mut self, now: Time, from: &Arrival, sender: IpAddr, integrity: &wire::Integrity<'_>) -> Checked {
        let Some(shield) = self.security.shields.on(from.iif) else { return Checked::Good };
        let (width, challenge, unwilling) = (shield.table.window, shield.table.handshake, shield.table.unwilling);
        let at = (from.iif, sender, integrity.key_id);
        if let Some(known) = self.security.senders.get_mut(&at) {
            if known.window.take(integrity.sequence, width) {
                known.heard = now;
                self.heard_signed(now, from.iif, sender);
                return Checked::Good;
            }
            // It may have lost its numbers: it can show that, but not too often.
            let lately = known.lately_challenged(now);
            if integrity.handshake() && challenge && !lately {
                known.challenged = Some(now);
                self.send_challenge(from, sender, integrity.key_id, Asked::Known(now));
            }
            return Checked::Bad(STALE);
        }
        if !challenge || (!integrity.handshake() && unwilling) {
            return match self.admit_sender(at, integrity.sequence) {
                true => {
                    self.heard_signed(now, from.iif, sender);
                    Checked::Good
                }
                false => Checked::Bad("more authenticated senders than can be remembered"),
            };
        }
        if !integrity.handshake() {
            return Checked::Bad("a sender never heard that refuses to be challenged");
        }
        if self.security.strange(now, at) && self.security.challenges.take(now) {
            self.send_challenge(from, sender, integrity.key_id, Asked::Stranger(now));
        }
        Checked::Bad("a sender never heard: it is challenged first")
    }

    /// Remembers a sender, with the first of its numbers.
    pub(super) fn admit_sender(&mut self, at: (IfIndex, IpAddr, u64), first: u64) -> bool {
        let (now, shields) = (self.now, &self.security.shields);
        let senders = &mut self.security.senders;
        if senders.len() >= MOST_SENDERS && !senders.contains_key(&at) {
            // Who comes back is challenged again. Without challenges a number once forgotten could be played back.
            let challenged = |at: IfIndex| shields.on(at).is_none_or(|shield| shield.table.handshake);
            senders.retain(|(at, ..), sender| now.since(sender.heard) < SILENT || !challenged(*at));
            if senders.len() >= MOST_SENDERS {
                return false;
            }
        }
        senders.insert(at, Sender { window: Window::new(first), challenged: None, heard: now });
        true
    }

    /// Counts a message that was dropped for its authentication. Events about floods of them are rationed.
    pub(crate) fn drop_unauthenticated(&mut self, now: Time, iif: IfIndex, src: IpAddr, why: &'static str) {
        *self.counters.dropped.entry(why).or_insert(0) += 1;
        if self.security.events.take(now) {
            self.say(Event::Dropped { iif, src, why });
        }
    }

    /// Reports that the last key shared with a neighbour has expired and stays in use (RFC 2747 section 5.3).
    pub(super) fn key_overdue(&mut self, now: Time, interface: IfIndex, addr: IpAddr, key_id: u64) {
        if self.security.events.take(now) {
            self.say(Event::Neighbour { interface, addr, news: NeighbourNews::KeyOverdue { key_id } });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::{Algorithm, AuthMode, IntegrityKey, KeyTable};
    use crate::io::Config;
    use terms::Span;

    #[test]
    fn senders_that_are_silent_make_room_where_all_are_challenged() {
        for handshake in [true, false] {
            let mut table = KeyTable::new(alloc::vec![IntegrityKey::new(7, Algorithm::HmacSha256, b"key")]).unwrap();
            table.handshake = handshake;
            let mut engine = Rsvp::new(Config { auth: AuthMode::Keys(table), ..Config::default() }, 1);
            let at = |n: u32| (IfIndex(1), IpAddr::from(n.to_be_bytes()), 7);
            engine.now = Time::from_nanos(1);
            assert!((0..MOST_SENDERS as u32).all(|n| engine.admit_sender(at(n), 1)));
            engine.now = engine.now + Span::from_secs(599);
            assert!(!engine.admit_sender(at(10_000), 1), "all were heard lately");
            assert!(engine.admit_sender(at(5), 9), "one that is known has its place");
            engine.now = engine.now + Span::from_secs(2);
            assert_eq!(engine.admit_sender(at(10_000), 1), handshake, "what is forgotten must not come back unasked");
            let left = engine.security.senders.len();
            assert_eq!(left, if handshake { 2 } else { MOST_SENDERS }, "who was heard lately stays");
        }
    }
}
