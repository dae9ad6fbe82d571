//! Signing of outgoing messages: RFC 2747 section 4.1.

use super::mac::Mac;
use super::{Guard, Security};
use crate::io::{Datagram, Event, NeighbourNews};
use crate::links::Links;
use crate::outbox::Outbox;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{IfIndex, Time};
use wire::MessageType;
use wire::iana::class;
use wire::message::{COMMON_HEADER, MAX_MESSAGE};
use wire::object::HEADER;

/// Handshake Flag as Cisco IOS sends it; RFC 2747 draws it as 0x80. Both are understood on receipt.
const HANDSHAKE: u8 = 0x01;

/// Bytes in front of the digest: the object's header, flags, Key Identifier, Sequence Number.
const HEAD: usize = HEADER + 16;

/// The reason why a message was not sent.
const NO_KEY: &str = "our own message: no key for its neighbour";
const NO_NUMBER: &str = "our own message: no sequence number is reserved for it";
const TOO_LONG: &str = "our own message would be too long";

impl Security {
    /// Signs a message if its interface requires that. `None`: it cannot be sent, and the reason is counted.
    pub fn sealed(
        &mut self,
        now: Time,
        links: &Links,
        out: &mut Outbox,
        kind: MessageType,
        datagram: Datagram,
    ) -> Option<Datagram> {
        let Some(interface) = links.leaves_by(&datagram) else { return Some(datagram) };
        let Some(shield) = self.shields.on(interface) else { return Some(datagram) };
        // A message that every node on the way looks into is not addressed to the neighbour.
        let peer = if datagram.router_alert { shield.only_peer() } else { datagram.dst };
        let Some(ready) = shield.signing(peer, now) else {
            out.dropped(NO_KEY);
            return None;
        };
        let (overdue, id) = (ready.overdue, ready.key.id);
        if overdue {
            self.key_overdue(now, out, interface, peer, id);
        }
        let signed = self.sealed_by(out, &datagram, interface, peer, id)?;
        self.again.remember(now, interface, kind, datagram);
        Some(signed)
    }

    /// Reports that the last key shared with a neighbour has expired and stays in use (RFC 2747 section 5.3).
    pub(super) fn key_overdue(&mut self, now: Time, out: &mut Outbox, interface: IfIndex, addr: IpAddr, key_id: u64) {
        if self.events.take(now) {
            out.say(Event::Neighbour { interface, addr, news: NeighbourNews::KeyOverdue { key_id } });
        }
    }

    fn sealed_by(
        &mut self,
        out: &mut Outbox,
        datagram: &Datagram,
        at: IfIndex,
        peer: IpAddr,
        id: u64,
    ) -> Option<Datagram> {
        let Some(sequence) = self.sequences.take() else {
            out.dropped(NO_NUMBER);
            return None;
        };
        let ready = self.shields.on(at)?.named(peer, id)?;
        match sign(&datagram.bytes, ready.key.id, ready.mac, sequence) {
            Some(bytes) => {
                let Datagram { oif, src, dst, ttl, router_alert, .. } = *datagram;
                Some(Datagram { oif, src, dst, ttl, router_alert, bytes })
            }
            None => {
                out.dropped(TOO_LONG);
                None
            }
        }
    }
}

impl Guard<'_> {
    /// Signs with the key that a challenge names, whatever its lifetime.
    pub(super) fn send_by_key(&mut self, kind: MessageType, datagram: Datagram, key_id: u64) {
        let Some(interface) = datagram.oif else { return };
        let peer = datagram.dst;
        if let Some(datagram) = self.security.sealed_by(self.out, &datagram, interface, peer, key_id) {
            self.out.send(kind, datagram);
        }
    }

    /// Sends a message, signed if its interface requires that.
    pub(super) fn send_signed(&mut self, kind: MessageType, datagram: Datagram) {
        if let Some(datagram) = self.security.sealed(self.now, self.links, self.out, kind, datagram) {
            self.out.send(kind, datagram);
        }
    }
}

/// The message with INTEGRITY as its first object, and no checksum; `None` if it would be too long.
pub(super) fn sign(bytes: &[u8], id: u64, mac: &Mac, sequence: u64) -> Option<Vec<u8>> {
    let digest = mac.len();
    let object = HEAD + digest;
    let length = u16::try_from(bytes.len() + object).ok().filter(|l| usize::from(*l) <= MAX_MESSAGE)?;
    let (header, objects) = bytes.split_first_chunk::<COMMON_HEADER>()?;
    let mut out = Vec::with_capacity(usize::from(length));
    let [hi, lo] = length.to_be_bytes();
    out.extend_from_slice(&[header[0], header[1], 0, 0, header[4], 0, hi, lo]);
    out.extend_from_slice(&[0, object as u8, class::INTEGRITY, 1, HANDSHAKE, 0]);
    out.extend_from_slice(&id.to_be_bytes()[2..]);
    out.extend_from_slice(&sequence.to_be_bytes());
    out.resize(out.len() + digest, 0);
    out.extend_from_slice(objects);
    let made = mac.sign(&[&out]);
    out[COMMON_HEADER + HEAD..COMMON_HEADER + object].copy_from_slice(&made[..digest]);
    Some(out)
}
