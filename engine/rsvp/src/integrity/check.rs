//! A message comes in on an interface that wants it signed: RFC 2747 section 4.2.

use super::handshake::Asked;
use super::replay::Window;
use super::{MOST_SENDERS, SILENT, Sender};
use crate::engine::Rsvp;
use crate::io::{Event, NeighbourNews};
use crate::receive::Arrival;
use core::net::IpAddr;
use terms::probe::Probe;
use terms::{IfIndex, Time};
use wire::message::COMMON_HEADER;
use wire::{MessageType, Outline};

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checked {
    /// It may be read.
    Good,
    /// It is dropped, for this reason.
    Bad(&'static str),
    /// It was between our authentication and theirs, and is done with.
    Done,
}

/// Why a sender's number is not taken.
pub(super) const STALE: &str = "INTEGRITY with a sequence number that was seen, or is too old";

const UNSIGNED: &str = "no INTEGRITY where it is required";
const FORGED: &str = "INTEGRITY with a wrong digest";
const OURS: &str = "our own address as the hop: a loop";

/// That the digest of a message is right by the keys of this generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof(u64);

impl<P: Probe> Rsvp<P> {
    /// Whether a message may wait to be read. Where an interface wants messages signed: if it is, by a key of its sender,
    /// and its number was not seen. Nothing is changed by this; what may wait is looked at again when it is read.
    pub(crate) fn fit_to_wait(&self, now: Time, from: &Arrival, bytes: &[u8]) -> Result<Option<Proof>, &'static str> {
        let Some(shield) = self.security.shields.on(from.iif) else { return Ok(None) };
        let outline = Outline::read(bytes).map_err(|malformed| malformed.what)?;
        if outline.header.kind == MessageType::Bundle {
            // Its messages are signed one by one; the first speaks for whether any of them is.
            let first = bytes.get(COMMON_HEADER..outline.header.length).unwrap_or_default();
            let len = first.get(6..8).map_or(0, |len| usize::from(u16::from_be_bytes([len[0], len[1]])));
            let first = first.get(..len).ok_or("a Bundle that ends within its first message")?;
            if first.get(1) == Some(&MessageType::Bundle.number()) {
                return Err(UNSIGNED);
            }
            return self.fit_to_wait(now, from, first).map(|_| None);
        }
        let Some(integrity) = outline.integrity else {
            return match outline.header.kind {
                MessageType::IntegrityChallenge => Ok(None),
                _ => Err(UNSIGNED),
            };
        };
        let sender = outline.hop.map_or(from.src, |hop| hop.addr);
        if self.own.contains(&sender) {
            return Err(OURS);
        }
        let ready = shield.signed_by(sender, integrity.key_id, now)?;
        if !outline.signed_parts(bytes).is_some_and(|parts| ready.mac.verify(&parts, integrity.digest)) {
            return Err(FORGED);
        }
        // A copy of what was heard is read only where its sender may have to show that its numbers are fresh.
        let known = self.security.senders.get(&(from.iif, sender, integrity.key_id));
        let stale = known.is_some_and(|known| {
            let asks = shield.table.handshake && integrity.handshake() && !known.lately_challenged(now);
            !asks && !known.window.would_take(integrity.sequence, shield.table.window)
        });
        let answer = outline.header.kind == MessageType::IntegrityResponse;
        if stale && !answer { Err(STALE) } else { Ok(Some(Proof(self.security.generation))) }
    }

    /// Whether a message may be read at all. Nothing is remembered of one that fails, but for a count.
    pub(crate) fn authenticated(&mut self, now: Time, from: &Arrival, bytes: &[u8]) -> Checked {
        let Some(shield) = self.security.shields.on(from.iif) else { return Checked::Good };
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
        let proved = from.proof.is_some_and(|proof| proof.0 == self.security.generation);
        let genuine =
            proved || outline.signed_parts(bytes).is_some_and(|parts| ready.mac.verify(&parts, integrity.digest));
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

    /// Counts a message that was dropped for its authentication. Floods of them are counted and not told.
    pub(crate) fn drop_unauthenticated(&mut self, now: Time, iif: IfIndex, src: IpAddr, why: &'static str) {
        *self.counters.dropped.entry(why).or_insert(0) += 1;
        if self.security.events.take(now) {
            self.say(Event::Dropped { iif, src, why });
        }
    }

    /// The last key shared with a neighbour is over and goes on being used (RFC 2747 section 5.3).
    pub(super) fn key_overdue(&mut self, now: Time, interface: IfIndex, addr: IpAddr, key_id: u64) {
        if self.security.events.take(now) {
            self.say(Event::Neighbour { interface, addr, news: NeighbourNews::KeyOverdue { key_id } });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integrity::{Algorithm, Auth, Key, KeyTable};
    use crate::io::Config;
    use terms::Span;

    #[test]
    fn senders_that_are_silent_make_room_where_all_are_challenged() {
        for handshake in [true, false] {
            let mut table = KeyTable::new(alloc::vec![Key::new(7, Algorithm::HmacSha256, b"key")]).unwrap();
            table.handshake = handshake;
            let mut engine = Rsvp::new(Config { auth: Auth::Keys(table), ..Config::default() }, 1);
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
