//! A message comes in on an interface that wants it signed: RFC 2747 section 4.2.

use super::handshake::Asked;
use super::replay::Window;
use super::{MOST_SENDERS, Sender};
use crate::engine::Rsvp;
use crate::io::{Event, NeighbourNews};
use crate::receive::Arrival;
use core::net::IpAddr;
use terms::Time;
use terms::probe::Probe;
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

impl<P: Probe> Rsvp<P> {
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
                _ => Checked::Bad("no INTEGRITY where it is required"),
            };
        };
        let sender = outline.hop.map_or(from.src, |hop| hop.addr);
        if self.own.contains(&sender) {
            return Checked::Bad("our own address as the hop: a loop");
        }
        let ready = match shield.signed_by(sender, integrity.key_id, now) {
            Ok(ready) => ready,
            Err(why) => return Checked::Bad(why),
        };
        let genuine = outline.signed_parts(bytes).is_some_and(|parts| ready.mac.verify(&parts, integrity.digest));
        if !genuine {
            return Checked::Bad("INTEGRITY with a wrong digest");
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
                return Checked::Good;
            }
            // It may have lost its numbers: it can show that, but not too often.
            let lately = known.challenged.is_some_and(|t| now.since(t) < super::handshake::PATIENCE);
            if integrity.handshake() && challenge && !lately {
                known.challenged = Some(now);
                self.send_challenge(from, sender, integrity.key_id, Asked::Known(now));
            }
            return Checked::Bad(STALE);
        }
        if !challenge || (!integrity.handshake() && unwilling) {
            return match self.admit_sender(at, integrity.sequence) {
                true => Checked::Good,
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
    pub(super) fn admit_sender(&mut self, at: (terms::IfIndex, IpAddr, u64), first: u64) -> bool {
        let senders = &mut self.security.senders;
        if senders.len() >= MOST_SENDERS && !senders.contains_key(&at) {
            return false;
        }
        senders.insert(at, Sender { window: Window::new(first), challenged: None });
        true
    }

    /// Counts a message that was dropped for its authentication. Floods of them are counted and not told.
    pub(crate) fn drop_unauthenticated(&mut self, now: Time, from: &Arrival, why: &'static str) {
        *self.counters.dropped.entry(why).or_insert(0) += 1;
        if self.security.events.take(now) {
            self.say(Event::Dropped { iif: from.iif, src: from.src, why });
        }
    }

    /// The last key shared with a neighbour is over and goes on being used (RFC 2747 section 5.3).
    pub(super) fn key_overdue(&mut self, now: Time, interface: terms::IfIndex, addr: IpAddr, key_id: u64) {
        if self.security.events.take(now) {
            self.say(Event::Neighbour { interface, addr, news: NeighbourNews::KeyOverdue { key_id } });
        }
    }
}
