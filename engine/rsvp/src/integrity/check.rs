//! A message comes in on an interface that requires signatures: RFC 2747 section 4.2.

use super::handshake::Asked;
use super::proof::Proof;
use super::replay::Window;
use super::{Guard, MOST_SENDERS, SILENT, Security, Sender};
use crate::arrival::Arrival;
use crate::io::Event;
use alloc::vec::Vec;
use core::net::IpAddr;
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

impl Guard<'_> {
    /// Authenticates a message before it is queued, so that no message waits unless a key of its sender
    /// signed it. `Ok(None)`: its interface requires nothing.
    pub(crate) fn authentic(&mut self, from: &Arrival, bytes: &[u8]) -> Result<Option<Proof>, &'static str> {
        // Its answer is rationed, and it waits for that like others.
        if bytes.get(1) == Some(&MessageType::IntegrityChallenge.number()) {
            return Ok(None);
        }
        match self.authenticated(from, bytes) {
            Checked::Good => Ok(Some(Proof::by(self.security.generation))),
            Checked::Bad(why) => {
                self.drop_unauthenticated(from.iif, from.src, why);
                Err(why)
            }
            Checked::Done => Err("a step of the handshake"),
        }
    }

    /// The messages of a Bundle to us, with the TTL of each, if the interface requires that each is signed by
    /// itself (RFC 2961 section 3.1); none of a Bundle that cannot be read.
    pub(crate) fn signed_apart<'a>(&mut self, from: &Arrival, bytes: &'a [u8]) -> Option<Vec<(u8, &'a [u8])>> {
        let bundle = bytes.get(1) == Some(&MessageType::Bundle.number());
        if !bundle || self.security.shields.on(from.iif).is_none() || !self.links.speaks_on(from.iif) {
            return None;
        }
        let Ok(Message::Bundle(bundle)) = Message::parse(bytes) else { return Some(Vec::new()) };
        if !self.links.is_ours(from.dst) {
            return Some(Vec::new());
        }
        self.out.received(MessageType::Bundle);
        let direct = bundle.envelope.header.send_ttl == from.ttl;
        let ttl = |message: &[u8]| message.get(4).copied().filter(|_| direct).unwrap_or(from.ttl);
        Some(bundle.messages().map(|message| (ttl(message), message)).collect())
    }

    /// Decides if a message may be read at all. One that fails leaves nothing but a count.
    pub(crate) fn authenticated(&mut self, from: &Arrival, bytes: &[u8]) -> Checked {
        let Some(shield) = self.security.shields.on(from.iif) else { return Checked::Good };
        // It was found to be signed by these keys, and its number was taken, before it waited.
        if from.proof.is_some_and(|proof| proof.is_by(self.security.generation)) {
            return Checked::Good;
        }
        let outline = match Outline::read(bytes) {
            Ok(outline) => outline,
            Err(malformed) => return Checked::Bad(malformed.what),
        };
        let Some(integrity) = outline.integrity else {
            // A challenge cannot be signed: it comes from who does not know where our numbers are.
            return match outline.header.kind {
                MessageType::IntegrityChallenge => self.challenge_arrives(from, bytes),
                _ => Checked::Bad(UNSIGNED),
            };
        };
        let sender = outline.hop.map_or(from.src, |hop| hop.addr);
        if self.links.is_ours(sender) {
            return Checked::Bad(OURS);
        }
        let ready = match shield.signed_by(sender, integrity.key_id, self.now) {
            Ok(ready) => ready,
            Err(why) => return Checked::Bad(why),
        };
        let genuine = outline.signed_parts(bytes).is_some_and(|parts| ready.mac.verify(&parts, integrity.digest));
        if !genuine {
            return Checked::Bad(FORGED);
        }
        if ready.overdue {
            self.security.key_overdue(self.now, self.out, from.iif, sender, integrity.key_id);
        }
        if outline.header.kind == MessageType::IntegrityResponse {
            return self.response_arrives(from, bytes);
        }
        self.numbered(from, sender, &integrity)
    }

    /// Takes the message's sequence number, or asks its sender to prove that it is fresh.
    fn numbered(&mut self, from: &Arrival, sender: IpAddr, integrity: &wire::Integrity<'_>) -> Checked {
        let Some(shield) = self.security.shields.on(from.iif) else { return Checked::Good };
        let (width, challenge, unwilling) = (shield.table.window, shield.table.handshake, shield.table.unwilling);
        let at = (from.iif, sender, integrity.key_id);
        if let Some(known) = self.security.senders.get_mut(&at) {
            if known.window.take(integrity.sequence, width) {
                known.heard = self.now;
                self.heard_signed(from.iif, sender);
                return Checked::Good;
            }
            // It may have lost its numbers: it can show that, but not too often.
            let lately = known.lately_challenged(self.now);
            if integrity.handshake() && challenge && !lately {
                known.challenged = Some(self.now);
                self.send_challenge(from, sender, integrity.key_id, Asked::Known(self.now));
            }
            return Checked::Bad(STALE);
        }
        if !challenge || (!integrity.handshake() && unwilling) {
            return match self.security.admit_sender(self.now, at, integrity.sequence) {
                true => {
                    self.heard_signed(from.iif, sender);
                    Checked::Good
                }
                false => Checked::Bad("more authenticated senders than can be remembered"),
            };
        }
        if !integrity.handshake() {
            return Checked::Bad("a sender never heard that refuses to be challenged");
        }
        if self.security.strange(self.now, at) && self.security.challenges.take(self.now) {
            self.send_challenge(from, sender, integrity.key_id, Asked::Stranger(self.now));
        }
        Checked::Bad("a sender never heard: it is challenged first")
    }

    /// Counts a message that was dropped for its authentication. Events about floods of them are rationed.
    pub(crate) fn drop_unauthenticated(&mut self, iif: IfIndex, src: IpAddr, why: &'static str) {
        self.out.dropped(why);
        if self.security.events.take(self.now) {
            self.out.say(Event::Dropped { iif, src, why });
        }
    }
}

impl Security {
    /// Remembers a sender, with the first of its numbers.
    pub(super) fn admit_sender(&mut self, now: Time, at: (IfIndex, IpAddr, u64), first: u64) -> bool {
        let shields = &self.shields;
        let senders = &mut self.senders;
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::{Algorithm, AuthMode, IntegrityKey, KeyTable};
    use terms::Span;

    #[test]
    fn senders_that_are_silent_make_room_where_all_are_challenged() {
        for handshake in [true, false] {
            let mut table = KeyTable::new(alloc::vec![IntegrityKey::new(7, Algorithm::HmacSha256, b"key")]).unwrap();
            table.handshake = handshake;
            let mut security = Security::new(&AuthMode::Keys(table), [0; 4]);
            let at = |n: u32| (IfIndex(1), IpAddr::from(n.to_be_bytes()), 7);
            let now = Time::from_nanos(1);
            assert!((0..MOST_SENDERS as u32).all(|n| security.admit_sender(now, at(n), 1)));
            let now = now + Span::from_secs(599);
            assert!(!security.admit_sender(now, at(10_000), 1), "all were heard lately");
            assert!(security.admit_sender(now, at(5), 9), "one that is known has its place");
            let now = now + Span::from_secs(2);
            assert_eq!(
                security.admit_sender(now, at(10_000), 1),
                handshake,
                "what is forgotten must not come back unasked"
            );
            let left = security.senders.len();
            assert_eq!(left, if handshake { 2 } else { MOST_SENDERS }, "who was heard lately stays");
        }
    }
}
