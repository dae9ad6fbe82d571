//! A datagram of protocol 46 comes in: the checks that all messages share (RFC 2209 section 2), then its procedure.
//!
//! A message that fails a check here has changed nothing but a counter.

use crate::arrival::Arrival;
use crate::links::Env;
use crate::path::PathArrival;
use crate::path_err::PathErrors;
use crate::path_tear::PathTearing;
use crate::procedure::procedure;
use crate::refusal::Refusal;
use crate::refuse::Refusing;
use crate::resv::ResvArrival;
use crate::resv_conf::Confirmations;
use crate::resv_err::ResvErrors;
use crate::resv_tear::ResvTearing;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use wire::{MalformedMessage, Message, MessageType, Salvage};

procedure! {
    /// The arrival of any message.
    Reception
}

impl<P: ProbeObserver, E: Env> Reception<'_, P, E> {
    pub(crate) fn message_arrives(&mut self, from: &Arrival, bytes: &[u8]) {
        if !self.signalling.links().speaks_on(from.iif) {
            return self.signalling.drop_message(self.state, from, "RSVP is not spoken on this interface");
        }
        if bytes.get(1) == Some(&MessageType::Bundle.number()) {
            return self.bundle_arrives(from, bytes);
        }
        self.one_arrives(from, bytes);
    }

    /// Handles each message of a Bundle as if it had come alone, from hop to hop (RFC 2961 section 3.4).
    fn bundle_arrives(&mut self, from: &Arrival, bytes: &[u8]) {
        let bundle = match Message::parse(bytes) {
            Ok(Message::Bundle(bundle)) => bundle,
            Ok(_) => return,
            Err(malformed) => return self.signalling.drop_message(self.state, from, malformed.what),
        };
        if !self.signalling.links().is_ours(from.dst) {
            return self.signalling.drop_message(self.state, from, "sent to another node");
        }
        self.signalling.out().received(MessageType::Bundle);
        let direct = bundle.envelope.header.send_ttl == from.ttl;
        for message in bundle.messages() {
            // A sub-message has the TTL that it was made with, unless the Bundle lost some on the way.
            let ttl = message.get(4).copied().filter(|_| direct).unwrap_or(from.ttl);
            self.one_arrives(&Arrival { ttl, proof: None, ..*from }, message);
        }
    }

    fn one_arrives(&mut self, from: &Arrival, bytes: &[u8]) {
        if !self.signalling.authenticated(self.state, from, bytes) {
            return;
        }
        if let Some(kind) = self.state.heard_again(self.signalling.now(), from, bytes) {
            return self.signalling.out().received(kind);
        }
        let message = match Message::parse(bytes) {
            Ok(message) => message,
            Err(malformed) => return self.malformed(from, bytes, &malformed),
        };
        let hop_by_hop = !matches!(message, Message::Path(_) | Message::PathTear(_) | Message::ResvConf(_));
        // A summary of multicast senders may go to their group (RFC 2961 section 5.2).
        let to_group = matches!(message, Message::Srefresh(_)) && from.dst.is_multicast();
        if hop_by_hop && !to_group && !self.signalling.links().is_ours(from.dst) {
            return self.signalling.drop_message(self.state, from, "sent to another node");
        }
        if self.hop_of(&message).is_some_and(|hop| self.signalling.links().is_ours(hop)) {
            return self.signalling.drop_message(self.state, from, "our own address as the hop: a loop");
        }
        self.signalling.out().received(message.kind());
        let from = &Arrival { direct: message.envelope().header.send_ttl == from.ttl, ..*from };
        let hop = self.hop_of(&message);
        let named = match self.signalling.introduced(self.state, from, &message, hop) {
            Ok(named) => named,
            Err(why) => return self.signalling.drop_message(self.state, from, why),
        };
        match &message {
            Message::Path(m) => {
                PathArrival::new(self.env, self.state, self.signalling, self.probe).path_arrives(from, m)
            }
            Message::Resv(m) => {
                ResvArrival::new(self.env, self.state, self.signalling, self.probe).resv_arrives(from, m)
            }
            Message::PathErr(m) => PathErrors::new(self.state, self.signalling).path_err_arrives(from, m),
            Message::ResvErr(m) => {
                ResvErrors::new(self.env, self.state, self.signalling, self.probe).resv_err_arrives(from, m)
            }
            Message::PathTear(m) => {
                PathTearing::new(self.env, self.state, self.signalling, self.probe).path_tear_arrives(from, m)
            }
            Message::ResvTear(m) => {
                ResvTearing::new(self.env, self.state, self.signalling, self.probe).resv_tear_arrives(from, m)
            }
            Message::ResvConf(m) => {
                Confirmations::new(self.state, self.signalling).resv_conf_arrives(self.env, from, m)
            }
            // What it acknowledges has been taken in.
            Message::Ack(_) if self.state.config().refresh_reduction => {}
            Message::Srefresh(m) if self.state.config().refresh_reduction => {
                self.signalling.srefresh_arrives(self.state, self.env, from, m)
            }
            Message::Hello(m) => self.signalling.hello_arrives(self.state, from, m),
            _ => self.signalling.drop_message(self.state, from, "message type is not handled"),
        }
        self.state.heard_out();
        self.signalling.named(self.state, named, &message);
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

    /// Drops bytes that are no acceptable message, and answers them if RFC 2205 section 3.10 asks for an
    /// answer and the previous hop can still be read.
    fn malformed(&mut self, from: &Arrival, bytes: &[u8], malformed: &MalformedMessage) {
        self.signalling.drop_message(self.state, from, malformed.what);
        let (Some(answer), Some(found)) = (malformed.answer, Salvage::read(bytes)) else { return };
        let Some(hop) = found.hop.filter(|hop| !self.signalling.links().is_ours(hop.addr)) else { return };
        let refusal = Refusal::worded(answer.code, answer.value, malformed.what);
        match found.kind {
            MessageType::Path => {
                Refusing::new(self.state, self.signalling).answer_path(from, &found, hop.addr, &refusal)
            }
            MessageType::Resv if self.signalling.links().is_ours(from.dst) => {
                Refusing::new(self.state, self.signalling).answer_resv(from, &found, hop.addr, &refusal)
            }
            _ => {}
        }
    }
}
