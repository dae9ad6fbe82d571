//! The way of packets out of the agent, and the filter in front of the way in: messages of RSVP, and whole packets of
//! Boomerang.
//!
//! The filter in the kernel knows the reserved sessions, and the interfaces that require signatures. On a kernel without
//! support the agent still serves, and selects behind the queue alone.

use crate::console::Console;
use crate::log::Level;
use crate::news::Names;
use crate::signalling::Signalling;
use crate::start::seed;
use crate::trace::{Seen, Tracers};
use documents::agent::{Direction, TraceFilter};
use linux::sockets::{IntakeFilter, MessageReceiver, MessageSender, Outgoing};
use rsvp::integrity::AuthMode;
use rsvp::io::Datagram;
use std::net::IpAddr;
use terms::{IfIndex, Session, Time};

/// The sender, the filter, and their counters.
pub(crate) struct Messages {
    /// `None` once the agent ends.
    sender: Option<MessageSender>,
    /// The filter in front of the receive queue; `None` on a kernel without support for it.
    filter: Option<IntakeFilter>,
    /// Messages that could not be sent; each counts as lost on the wire, and the next refresh repeats it.
    unsent: u64,
    /// Counters and rates of RSVP messages, by interface and type.
    signalling: Signalling,
    /// Connections that trace messages.
    tracers: Tracers,
}

impl Messages {
    pub(crate) fn new(sender: MessageSender) -> Messages {
        let (signalling, tracers) = (Signalling::default(), Tracers::default());
        Messages { sender: Some(sender), filter: None, unsent: 0, signalling, tracers }
    }

    /// Puts the filter in front of the sockets.
    pub(crate) fn open_filter(&mut self, receiver: &MessageReceiver, console: &mut Console) {
        let (Ok(first), Ok(second)) = (seed(), seed()) else { return };
        match IntakeFilter::before(receiver, [first, second]) {
            Ok(filter) => self.filter = Some(filter),
            Err(fault) => {
                let text =
                    format!("{fault}; a flood of messages can fill the kernel's queue, and refreshes are lost then");
                console.announce(Level::Warn, "no_socket_filter", &text);
            }
        }
    }

    /// Tells the filter whether a session is reserved.
    pub(crate) fn keep_session(&mut self, session: &Session, reserved: bool) {
        if let Some(filter) = &mut self.filter {
            filter.keep(session, reserved);
        }
    }

    /// Tells the filter whether an interface requires signed messages.
    pub(crate) fn keep_signed(&mut self, interface: IfIndex, auth: &AuthMode) {
        if let Some(filter) = &self.filter {
            filter.sign(interface, matches!(auth, AuthMode::Keys(_)));
        }
    }

    /// Tells the filter that the receive queue has been read to its end.
    pub(crate) fn queue_is_empty(&self) {
        if let Some(filter) = &self.filter {
            filter.emptied();
        }
    }

    /// Keeps a message for the next [`Messages::flush`].
    pub(crate) fn send(&mut self, datagram: &Datagram, now: Time, names: &Names, console: &mut Console) {
        let Datagram { oif, src, dst, ttl, router_alert, ref bytes } = *datagram;
        if self.sender.is_none() {
            return;
        }
        let seen = Seen { direction: Direction::Out, interface: oif, src, dst, ttl, router_alert: Some(router_alert) };
        self.see(&seen, bytes, now, names, console);
        let (Some(sender), unsent) = (&mut self.sender, &mut self.unsent) else { return };
        sender.push(&Outgoing { oif, src, dst, ttl, router_alert, bytes }, |failed| {
            *unsent += 1;
            console.line(Level::Warn, "not_sent", &[("text", &failed)]);
        });
    }

    /// Keeps a whole packet for the next [`Messages::flush`].
    pub(crate) fn send_packet(&mut self, oif: IfIndex, dst: IpAddr, packet: &[u8], console: &mut Console) {
        let (Some(sender), unsent) = (&mut self.sender, &mut self.unsent) else { return };
        sender.push_packet(oif, dst, packet, |failed| {
            *unsent += 1;
            console.line(Level::Warn, "not_sent", &[("text", &failed)]);
        });
    }

    /// Hands the waiting packets to the kernel.
    pub(crate) fn flush(&mut self, console: &mut Console) {
        let (Some(sender), unsent) = (&mut self.sender, &mut self.unsent) else { return };
        sender.flush(|failed| {
            *unsent += 1;
            console.line(Level::Warn, "not_sent", &[("text", &failed)]);
        });
    }

    /// Sends nothing any more.
    pub(crate) fn close(&mut self) {
        self.sender = None;
    }

    /// Counts a message that comes or goes, and shows it to the clients that trace.
    pub(crate) fn see(&mut self, seen: &Seen, bytes: &[u8], now: Time, names: &Names, console: &mut Console) {
        let kind = bytes.get(1).copied().unwrap_or(0);
        match (seen.direction, seen.interface) {
            (Direction::In, Some(iif)) => self.signalling.came(now, iif, seen.src, kind),
            (_, oif) => self.signalling.went(now, oif, seen.dst, kind),
        }
        self.tracers.show(seen, bytes, now, names, console);
    }

    /// A connection traces from now on; a second call changes its filter.
    pub(crate) fn trace(&mut self, client: u64, filter: TraceFilter) {
        self.tracers.add(client, filter);
    }

    /// A connection ended.
    pub(crate) fn went(&mut self, client: u64) {
        self.tracers.remove(client);
    }

    /// The counters by interface and type.
    pub(crate) fn signalling(&self) -> &Signalling {
        &self.signalling
    }

    /// The number of messages that could not be sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// The messages that the filter has dropped: between neighbours, and others without a reservation.
    pub(crate) fn dropped(&self) -> (u64, u64) {
        let dropped = self.filter.as_ref().map(IntakeFilter::dropped).unwrap_or_default();
        (dropped.link, dropped.rest)
    }
}
