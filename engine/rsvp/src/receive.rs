//! A datagram of protocol 46 comes in: the checks that all messages share (RFC 2209 section 2), then its procedure.
//!
//! A message that fails a check here has changed nothing but a counter.

use crate::engine::{Env, Rsvp};
use crate::integrity::{Checked, Proof};
use crate::io::Event;
use crate::psb::{Forwarded, MOST_FORWARDED};
use crate::refusal::Refusal;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{IfIndex, Time};
use wire::message::Envelope;
use wire::{MalformedMessage, Message, MessageType, Salvage};

/// The arrival of a message: its interface, addresses, TTL and proof of signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The incoming interface.
    pub iif: IfIndex,
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// IP TTL.
    pub ttl: u8,
    /// True if, by the TTL, every hop since the sender of the message speaks RSVP (RFC 2205 section 3.8).
    pub direct: bool,
    /// The proof that the message was signed, from the check before it waited.
    pub proof: Option<Proof>,
}

impl Arrival {
    /// The interface to answer by; `None`: as the routing table decides.
    pub fn back(&self) -> Option<IfIndex> {
        if self.direct { Some(self.iif) } else { None }
    }
}

/// The objects of a message that go on with the messages that it sets off.
pub(crate) fn carried(envelope: &Envelope<'_>) -> Result<Vec<Forwarded>, Refusal> {
    let all = envelope.forwarded().chain(envelope.policy_data());
    let all: Vec<_> = all.map(|o| Forwarded { class: o.class, ctype: o.ctype, body: o.body.to_vec() }).collect();
    let bytes: usize = all.iter().map(|f| f.body.len() + 4).sum();
    if bytes > MOST_FORWARDED {
        return Err(Refusal::table_full("bytes of objects to be passed on", MOST_FORWARDED));
    }
    Ok(all)
}

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn message_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, bytes: &[u8]) {
        if !self.speaks_on(from.iif) {
            return self.drop_message(from, "RSVP is not spoken on this interface");
        }
        if bytes.get(1) == Some(&MessageType::Bundle.number()) {
            return self.bundle_arrives(now, env, from, bytes);
        }
        self.one_arrives(now, env, from, bytes);
    }

    /// Handles each message of a Bundle as if it had come alone, from hop to hop (RFC 2961 section 3.4).
    fn bundle_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, bytes: &[u8]) {
        let bundle = match Message::parse(bytes) {
            Ok(Message::Bundle(bundle)) => bundle,
            Ok(_) => return,
            Err(malformed) => return self.drop_message(from, malformed.what),
        };
        if !self.is_ours(from.dst) {
            return self.drop_message(from, "sent to another node");
        }
        self.counters.received.add(MessageType::Bundle);
        let direct = bundle.envelope.header.send_ttl == from.ttl;
        for message in bundle.messages() {
            // A sub-message has the TTL that it was made with, unless the Bundle lost some on the way.
            let ttl = message.get(4).copied().filter(|_| direct).unwrap_or(from.ttl);
            self.one_arrives(now, env, &Arrival { ttl, proof: None, ..*from }, message);
        }
    }

    fn one_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, bytes: &[u8]) {
        match self.authenticated(now, from, bytes) {
            Checked::Good => {}
            Checked::Bad(why) => return self.drop_unauthenticated(now, from.iif, from.src, why),
            Checked::Done => return,
        }
        if self.heard_again(now, from, bytes) {
            return;
        }
        let message = match Message::parse(bytes) {
            Ok(message) => message,
            Err(malformed) => return self.malformed(from, bytes, &malformed),
        };
        let hop_by_hop = !matches!(message, Message::Path(_) | Message::PathTear(_) | Message::ResvConf(_));
        // A summary of multicast senders may go to their group (RFC 2961 section 5.2).
        let to_group = matches!(message, Message::Srefresh(_)) && from.dst.is_multicast();
        if hop_by_hop && !to_group && !self.is_ours(from.dst) {
            return self.drop_message(from, "sent to another node");
        }
        if self.hop_of(&message).is_some_and(|hop| self.is_ours(hop)) {
            return self.drop_message(from, "our own address as the hop: a loop");
        }
        self.counters.received.add(message.kind());
        let from = &Arrival { direct: message.envelope().header.send_ttl == from.ttl, ..*from };
        let named = match self.introduced(now, from, &message, self.hop_of(&message)) {
            Ok(named) => named,
            Err(why) => return self.drop_message(from, why),
        };
        match &message {
            Message::Path(m) => self.path_arrives(now, env, from, m),
            Message::Resv(m) => self.resv_arrives(now, env, from, m),
            Message::PathErr(m) => self.path_err_arrives(from, m),
            Message::ResvErr(m) => self.resv_err_arrives(now, env, from, m),
            Message::PathTear(m) => self.path_tear_arrives(now, env, from, m),
            Message::ResvTear(m) => self.resv_tear_arrives(now, env, from, m),
            Message::ResvConf(m) => self.resv_conf_arrives(env, from, m),
            // What it acknowledges has been taken in.
            Message::Ack(_) if self.config.refresh_reduction => {}
            Message::Srefresh(m) if self.config.refresh_reduction => self.srefresh_arrives(now, env, from, m),
            Message::Hello(m) if self.config.refresh_reduction => self.hello_arrives(now, from, m),
            _ => self.drop_message(from, "message type is not handled"),
        }
        self.heard_out();
        self.named(named, &message);
    }

    fn hop_of(&self, message: &Message<'_>) -> Option<IpAddr> {
        match message {
            Message::Path(m) => Some(m.hop.addr),
            Message::Resv(m) => Some(m.hop.addr),
            Message::ResvErr(m) => Some(m.hop.addr),
            Message::PathTear(m) => Some(m.hop.addr),
            Message::ResvTear(m) => Some(m.hop.addr),
            _ => None,
        }
    }

    /// Counts a message that changes nothing, and reports the reason.
    pub(crate) fn drop_message(&mut self, from: &Arrival, why: &'static str) {
        self.not_a_refresh();
        *self.counters.dropped.entry(why).or_insert(0) += 1;
        self.say(Event::Dropped { iif: from.iif, src: from.src, why });
    }

    /// Drops bytes that are no acceptable message, and answers them if RFC 2205 section 3.10 asks for an
    /// answer and the previous hop can still be read.
    fn malformed(&mut self, from: &Arrival, bytes: &[u8], malformed: &MalformedMessage) {
        self.drop_message(from, malformed.what);
        let (Some(answer), Some(found)) = (malformed.answer, Salvage::read(bytes)) else { return };
        let Some(hop) = found.hop.filter(|hop| !self.is_ours(hop.addr)) else { return };
        let refusal = Refusal::code(answer.code, answer.value);
        match found.kind {
            MessageType::Path => self.answer_path(from, &found, hop.addr, &refusal),
            MessageType::Resv if self.is_ours(from.dst) => self.answer_resv(from, &found, hop.addr, &refusal),
            _ => {}
        }
    }
}
