//! PATH ERROR MESSAGE ARRIVES: RFC 2209 section 2.3; and our own PathErr messages. They go hop by hop to the sender
//! and change nothing on the way.

use crate::arrival::Arrival;
use crate::io::{ErrorReport, Upcall};
use crate::outbox::HOP_TTL;
use crate::signalling::Signalling;
use crate::state::State;
use crate::state::psb::Origin;
use alloc::string::ToString;
use wire::{Builder, MessageType, PathErr};

/// The arrival of a PathErr.
pub(crate) struct PathErrors<'a> {
    state: &'a mut State,
    signalling: &'a mut Signalling,
}

impl<'a> PathErrors<'a> {
    /// With the parts that it works on.
    pub fn new(state: &'a mut State, signalling: &'a mut Signalling) -> PathErrors<'a> {
        PathErrors { state, signalling }
    }

    pub(crate) fn path_err_arrives(&mut self, from: &Arrival, message: &PathErr<'_>) {
        let found = message.sender.and_then(|f| f.ports()).zip(self.state.session(&message.session));
        let Some(id) = found.and_then(|(template, sid)| self.state.psb_of(sid, &template)) else {
            return self.signalling.drop_message(self.state, from, "PathErr for a sender that we do not know");
        };
        let (_, session, template) = self.state.sender_of(id);
        match self.state[id].origin {
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
                self.signalling.tell(app, Upcall::Error { session, template: Some(template), resv: false, error });
            }
            Origin::Hop(phop) => {
                if self.state[id].credit == 0 {
                    return self.signalling.drop_message(self.state, from, "more PathErr messages than we sent Paths");
                }
                self.state[id].credit -= 1;
                let mut build = Builder::new(MessageType::PathErr, HOP_TTL);
                for object in message.envelope.objects.filter(crate::passed_on::goes_on) {
                    build = build.object(&object);
                }
                let Some(src) = self.signalling.links().address_on(phop.iif, phop.addr) else { return };
                self.signalling.send_to_hop(self.state, MessageType::PathErr, (phop.by(), src, phop.addr), build);
            }
        }
    }
}
