//! State for the filter in front of the signalling sockets: the reserved sessions, and the interfaces that
//! require signatures.

use crate::agent::Agent;
use crate::log::Level;
use crate::start::seed;
use linux::sockets::IntakeFilter;
use node::io::{ControlEvent, Event};
use rsvp::integrity::AuthMode;
use rsvp::io::Event as Rsvp;
use terms::{FlowKey, IfIndex, Rate, Session};

impl Agent {
    /// Puts the filter in front of the sockets. On a kernel without support the agent still serves, and
    /// selects behind the queue alone.
    pub(crate) fn open_gate(&mut self) {
        let (Some(receiver), Ok(first), Ok(second)) = (&self.receiver, seed(), seed()) else { return };
        match IntakeFilter::before(receiver, [first, second]) {
            Ok(gate) => self.gate = Some(gate),
            Err(fault) => {
                let text =
                    format!("{fault}; a flood of messages can fill the kernel's queue, and refreshes are lost then");
                self.announce(Level::Warn, "no_socket_filter", &text);
            }
        }
    }

    /// Tells the filter whether a session is reserved, after an event of a reservation.
    pub(crate) fn keep_reserved(&mut self, event: &Event) {
        if let Event::Rsvp(Rsvp::ResvCreated { session, .. } | Rsvp::ResvRemoved { session, .. }) = event {
            self.keep_session(session);
        }
    }

    /// Forgets the counters of a premium flow that has gone.
    pub(crate) fn forget_ended(&mut self, event: &Event) {
        if let Event::Control(ControlEvent::Enforced { handle, part, rate: Rate::ZERO }) = event {
            self.premium.forget((*handle, *part));
        }
    }

    /// Tells the filter about an adopted flow of an earlier life.
    pub(crate) fn keep_adopted(&mut self, flow: &FlowKey) {
        let FlowKey { dst, protocol, dst_port, .. } = *flow;
        self.keep_session(&Session { dst, protocol, dst_port });
    }

    fn keep_session(&mut self, session: &Session) {
        let kept = self.node.rsvp().is_reserved(session);
        if let Some(gate) = &mut self.gate {
            gate.keep(session, kept);
        }
    }

    /// Tells the filter whether an interface requires signed messages.
    pub(crate) fn keep_signed(&mut self, interface: IfIndex, auth: &AuthMode) {
        if let Some(gate) = &self.gate {
            gate.sign(interface, matches!(auth, AuthMode::Keys(_)));
        }
    }
}
