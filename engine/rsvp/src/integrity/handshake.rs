//! The integrity handshake: RFC 2747 section 4.3. A challenge goes to a sender whose sequence numbers we do
//! not know; its signed answer contains one.
//!
//! A challenge leaves no state here: its cookie is a digest of the sender and the time, under a secret of
//! this life, so that any number of forged messages costs no memory. Answers to challenges of others are
//! rationed, as any node can send a challenge.

use super::Guard;
use super::check::Checked;
use crate::arrival::Arrival;
use crate::io::{Datagram, Event, NeighbourNews};
use crate::outbox::HOP_TTL;
use core::net::IpAddr;
use terms::{IfIndex, Span, Time};
use wire::{Builder, Challenge, Message, MessageType};

/// The time in which a challenge may be answered, and the time until the same sender is challenged again.
pub(super) const PATIENCE: Span = Span::from_secs(2);

/// The longest cookie of a challenge that we answer, in bytes.
const LONGEST_COOKIE: usize = 64;

/// The challenge that a cookie stands for.
#[derive(Clone, Copy)]
pub(super) enum Asked {
    /// A challenge to a sender never heard, in this interval of [`PATIENCE`]. It leaves no state here.
    Stranger(Time),
    /// A challenge to a known sender, at exactly this time. The time is kept, so that an answer to an earlier
    /// challenge is not accepted.
    Known(Time),
}

impl Guard<'_> {
    /// Asks a sender to sign a cookie. The challenge itself is not signed.
    pub(super) fn send_challenge(&mut self, from: &Arrival, sender: IpAddr, key_id: u64, asked: Asked) {
        let Some(src) = self.links.address_on(from.iif, sender) else { return };
        let cookie = self.cookie(from.iif, sender, key_id, asked);
        let challenge = Challenge { key_id, cookie: &cookie[..16] };
        let build = Builder::new(MessageType::IntegrityChallenge, HOP_TTL).challenge(&challenge);
        if let Some(bytes) = self.out.finished(build) {
            let to = Datagram { oif: Some(from.iif), src, dst: sender, ttl: HOP_TTL, router_alert: false, bytes };
            self.out.send(MessageType::IntegrityChallenge, to);
        }
    }

    /// Answers a challenge. The challenger does not know our sequence numbers and has dropped our messages;
    /// they are sent to it again.
    pub(super) fn challenge_arrives(&mut self, from: &Arrival, bytes: &[u8]) -> Checked {
        let message = match Message::parse(bytes) {
            Ok(Message::IntegrityChallenge(message)) => message,
            Ok(_) => return Checked::Bad("no INTEGRITY where it is required"),
            Err(malformed) => return Checked::Bad(malformed.what),
        };
        if !self.links.is_ours(from.dst) || self.links.is_ours(from.src) || from.ttl != HOP_TTL {
            return Checked::Bad("a challenge that is not from a neighbour to us");
        }
        if message.challenge.cookie.len() > LONGEST_COOKIE {
            return Checked::Bad("a challenge with too long a cookie");
        }
        let shield = self.security.shields.on(from.iif);
        if shield.and_then(|s| s.named(from.src, message.challenge.key_id)).is_none() {
            return Checked::Bad("a challenge for a key that is not ours");
        }
        // Several of our messages in a row make it ask several times; one answer will do.
        if !self.asked(from, message.challenge.cookie) {
            return Checked::Done;
        }
        if !self.security.responses.take(self.now) {
            return Checked::Bad("more challenges than are answered");
        }
        let kind = MessageType::IntegrityResponse;
        let response = Builder::new(kind, HOP_TTL).challenge(&message.challenge);
        if let Some(bytes) = self.out.finished(response) {
            let out = Datagram {
                oif: Some(from.iif),
                src: from.dst,
                dst: from.src,
                ttl: HOP_TTL,
                router_alert: false,
                bytes,
            };
            self.send_by_key(kind, out, message.challenge.key_id);
        }
        Checked::Done
    }

    /// Checks the cookie in the answer to a challenge; its digest is right already.
    pub(super) fn response_arrives(&mut self, from: &Arrival, bytes: &[u8]) -> Checked {
        let Ok(Message::IntegrityResponse(message)) = Message::parse(bytes) else {
            return Checked::Bad("an Integrity Response that cannot be read");
        };
        if !self.links.is_ours(from.dst) {
            return Checked::Bad("sent to another node");
        }
        let key_id = message.integrity.key_id;
        let at = (from.iif, from.src, key_id);
        let strange = [Asked::Stranger(self.now), Asked::Stranger(self.now.saturating_sub(PATIENCE))];
        // An answer counts once: played back, it would take a sender's numbers back to it.
        let asked: &[Asked] = match self.security.senders.get(&at).map(|s| s.challenged) {
            None => &strange,
            Some(None) => return Checked::Bad(super::check::STALE),
            Some(Some(t)) => &[Asked::Known(t)],
        };
        let ours = asked.iter().any(|asked| {
            let cookie = self.cookie(from.iif, from.src, key_id, *asked);
            message.challenge.key_id == key_id && message.challenge.cookie == &cookie[..16]
        });
        if !ours {
            return Checked::Bad("an Integrity Response to no challenge of ours");
        }
        if !self.security.admit_sender(self.now, at, message.integrity.sequence) {
            return Checked::Bad("more authenticated senders than can be remembered");
        }
        let news = NeighbourNews::Authenticated { key_id };
        self.out.say(Event::Neighbour { interface: from.iif, addr: from.src, news });
        Checked::Done
    }

    fn cookie(&self, iif: IfIndex, sender: IpAddr, key_id: u64, asked: Asked) -> [u8; super::mac::LONGEST] {
        let (known, when) = match asked {
            Asked::Stranger(t) => (0, t.as_nanos() / PATIENCE.as_nanos()),
            Asked::Known(t) => (1, t.as_nanos()),
        };
        let addr = match sender {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let parts: [&[u8]; 5] = [&[known], &iif.0.to_be_bytes(), &addr, &key_id.to_be_bytes(), &when.to_be_bytes()];
        self.security.cookies.sign(&parts)
    }
}
