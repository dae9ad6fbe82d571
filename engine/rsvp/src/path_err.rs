//! PATH ERROR MESSAGE ARRIVES: RFC 2209 section 2.3; and our own PathErr messages. They go hop by hop to the sender
//! and change nothing on the way.

use crate::engine::Rsvp;
use crate::io::{ErrorReport, Event, Upcall};
use crate::psb::Origin;
use crate::receive::Arrival;
use crate::refusal::{ENTERPRISE, Refusal};
use alloc::string::ToString;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{SenderTemplate, Session, Tspec};
use wire::{Builder, MessageType, PathErr, RsvpHop, Salvage, UserError};

/// TTL of messages from hop to hop.
pub(crate) const HOP_TTL: u8 = 255;

/// A Path message that we refuse.
pub(crate) struct Faulty {
    pub session: Session,
    pub hop: RsvpHop,
    pub template: SenderTemplate,
    pub tspec: Tspec,
}

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn path_err_arrives(&mut self, from: &Arrival, message: &PathErr<'_>) {
        let found = message.sender.and_then(|f| f.ports()).zip(self.sessions.find(&message.session));
        let Some(id) = found.and_then(|(template, sid)| self.psb_of(sid, &template)) else {
            return self.drop_message(from, "PathErr for a sender that we do not know");
        };
        let (_, session, template) = self.sender_of(id);
        match self.psbs[id].origin {
            Origin::Local(app) => {
                let error = ErrorReport {
                    node: message.error.node,
                    code: message.error.code,
                    value: message.error.value,
                    in_place: message.error.in_place(),
                    not_guilty: message.error.not_guilty(),
                    text: message.user_error.map(|u| u.text.to_string()),
                    flowspec: None,
                };
                self.tell(app, Upcall::Error { session, template: Some(template), resv: false, error });
            }
            Origin::Hop(phop) => {
                if self.psbs[id].credit == 0 {
                    return self.drop_message(from, "more PathErr messages than we sent Paths");
                }
                self.psbs[id].credit -= 1;
                let mut build = Builder::new(MessageType::PathErr, HOP_TTL);
                for object in message.envelope.objects.filter(crate::resv_err::goes_on) {
                    build = build.object(&object);
                }
                let Some(src) = self.address_on(phop.iif, phop.addr) else { return };
                self.send_to_hop(MessageType::PathErr, phop.by(), src, phop.addr, build);
            }
        }
    }

    /// Tells the previous hop that its Path cannot be kept.
    pub(crate) fn path_refused(&mut self, from: &Arrival, faulty: &Faulty, refusal: &Refusal) {
        self.not_a_refresh();
        let Some(src) = self.address_on(from.iif, faulty.hop.addr) else { return };
        let (session, template) = (faulty.session, Some(faulty.template));
        self.say(Event::Refused { session, template, error: refusal.report(src, None) });
        let build = Builder::new(MessageType::PathErr, HOP_TTL).session(&faulty.session).error_spec(&refusal.spec(src));
        let build = with_text(build, refusal);
        let build = build.sender_template(&faulty.template.into()).sender_tspec(&faulty.tspec);
        self.send_to_hop(MessageType::PathErr, from.back(), src, faulty.hop.addr, build);
    }

    /// Answers an unreadable Path, if the parts that the answer needs can be read (RFC 2205 section 3.10).
    pub(crate) fn answer_path(&mut self, from: &Arrival, found: &Salvage<'_>, hop: IpAddr, refusal: &Refusal) {
        let Some((src, session)) = self.address_on(from.iif, hop).zip(found.session) else { return };
        let build = Builder::new(MessageType::PathErr, HOP_TTL).session(&session).error_spec(&refusal.spec(src));
        let mut build = with_text(build, refusal);
        for object in found.quotable() {
            build = build.object(&object);
        }
        self.send_to_hop(MessageType::PathErr, from.back(), src, hop, build);
    }

    /// The bytes of a message. `None`: it is longer than any message can be, and is counted and not sent.
    pub(crate) fn finished(&mut self, build: Builder) -> Option<alloc::vec::Vec<u8>> {
        match build.finish() {
            Ok(bytes) => Some(bytes),
            Err(_) => {
                *self.counters.dropped.entry("our own message would be too long").or_insert(0) += 1;
                None
            }
        }
    }
}

/// Adds the refusal's text, if it has one.
pub(crate) fn with_text(build: Builder, refusal: &Refusal) -> Builder {
    match &refusal.text {
        Some(text) => build.user_error(&UserError {
            enterprise: ENTERPRISE,
            sub_org: 0,
            value: refusal.value,
            text: UserError::fitting(text),
        }),
        None => build,
    }
}
