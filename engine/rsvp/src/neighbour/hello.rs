//! Hello: RFC 3209 section 5.3. Each neighbour announces its instance, which is new in each of its lives. A
//! new instance means that it has lost our state, which is sent to it again at once.

use super::Exchange;
use crate::arrival::Arrival;
use crate::io::{Datagram, NeighbourNews};
use crate::outbox::HOP_TTL;
use terms::{Span, Time};
use wire::iana::flag;
use wire::{Builder, Hello, HelloObject, MessageType};

/// The silence after which a neighbour is lost, as a fraction of intervals (RFC 3209 section 5.3).
const PATIENCE: (u64, u64) = (7, 2);

impl Exchange<'_> {
    pub(crate) fn hello_arrives(&mut self, from: &Arrival, message: &Hello<'_>) {
        if !from.direct {
            return self.drop_message(from, "Hello from a node that is not a neighbour");
        }
        let HelloObject { request, src_instance, dst_instance } = message.hello;
        if src_instance == 0 {
            return self.drop_message(from, "Hello of no instance");
        }
        let Some(n) = self.neighbours.find(from.iif, from.src) else {
            // It is not remembered: refresh reduction is off here, or there are too many neighbours.
            return match request {
                true => self.answer_stranger(from, src_instance),
                false => self.drop_message(from, "Hello ACK from a node that is not a neighbour"),
            };
        };
        // What it has of us is from another life of ours; it will see that by our answer.
        let stale = !request && dst_instance != self.neighbours.instance;
        if stale {
            return self.drop_message(from, "Hello ACK to another life of ours");
        }
        let neighbour = &mut self.neighbours.all[n];
        neighbour.hello_heard = self.now;
        let before = neighbour.instance.replace(src_instance);
        if before.is_some_and(|before| before != src_instance) {
            neighbour.forget_its_names();
            self.neighbour_restarted(n);
        }
        if self.neighbours.all[n].hello_at == Time::FOREVER {
            self.watch(n);
        }
        if request {
            self.send_hello(n, false);
        }
    }

    /// Answers a REQUEST without remembering who asked.
    fn answer_stranger(&mut self, from: &Arrival, dst_instance: u32) {
        let Some(own) = self.transport.links().address_on(from.iif, from.src) else { return };
        let hello = HelloObject { request: false, src_instance: self.neighbours.instance, dst_instance };
        let flags = if self.neighbours.enabled { flag::REFRESH_REDUCTION } else { 0 };
        let build = Builder::new(MessageType::Hello, HOP_TTL).flags(flags).hello(&hello);
        let Some(bytes) = self.transport.out().finished(build) else { return };
        let (oif, src, dst) = (Some(from.iif), own, from.src);
        let answer = Datagram { oif, src, dst, ttl: HOP_TTL, router_alert: false, bytes };
        self.transport.send_signed(MessageType::Hello, answer);
    }

    /// Asks a neighbour regularly from now on. It has shown that it knows Hello.
    fn watch(&mut self, n: usize) {
        let Some(every) = self.state.config().hello else { return };
        self.neighbours.all[n].hello_at = self.now + every;
        self.arm_neighbour(n);
    }

    /// Asks a neighbour for its instance.
    pub(super) fn say_hello(&mut self, n: usize) {
        self.send_hello(n, true);
    }

    fn send_hello(&mut self, n: usize, request: bool) {
        let dst_instance = self.neighbours.all[n].instance.unwrap_or(0);
        let hello = HelloObject { request, src_instance: self.neighbours.instance, dst_instance };
        self.send_to_neighbour(n, MessageType::Hello, Builder::new(MessageType::Hello, HOP_TTL).hello(&hello));
    }

    /// Asks a neighbour that was silent, and is heard again.
    pub(super) fn ask_again(&mut self, n: usize) {
        self.neighbours.all[n].hello_heard = self.now;
        self.neighbours.all[n].is_silent = false;
        self.watch(n);
        self.send_hello(n, true);
    }

    /// Sends the next request, and reports a neighbour that has been silent for too long.
    pub(super) fn hello_due(&mut self, n: usize) {
        let Some(every) = self.state.config().hello else { return };
        let neighbour = &mut self.neighbours.all[n];
        let silent = self.now.since(neighbour.hello_heard);
        let patience = Span::from_nanos(every.as_nanos().saturating_mul(PATIENCE.0) / PATIENCE.1);
        if silent > patience {
            // Its state lives on for as long as RSVP lets it. It is not asked until it is heard again; then its
            // instance says whether it forgot.
            neighbour.hello_at = Time::FOREVER;
            neighbour.is_silent = true;
            return self.neighbour_news(n, NeighbourNews::Silent);
        }
        neighbour.hello_at = self.now + every;
        self.send_hello(n, true);
    }
}
