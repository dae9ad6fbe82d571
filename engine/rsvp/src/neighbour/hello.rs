//! Hello: RFC 3209 section 5.3. Each neighbour announces its instance, which is new in each of its lives. A
//! new instance means that it has lost our state, which is sent to it again at once.

use super::Exchange;
use crate::arrival::Arrival;
use crate::io::NeighbourNews;
use crate::outbox::HOP_TTL;
use terms::Span;
use wire::{Builder, Hello, HelloObject, MessageType};

/// The silence after which a neighbour is lost, as a fraction of intervals (RFC 3209 section 5.3).
const PATIENCE: (u64, u64) = (7, 2);

impl Exchange<'_> {
    pub(crate) fn hello_arrives(&mut self, from: &Arrival, message: &Hello<'_>) {
        let Some(n) = self.neighbours.find(from.iif, from.src).filter(|_| from.direct) else {
            return self.drop_message(from, "Hello from a node that is not a neighbour");
        };
        let HelloObject { request, src_instance, dst_instance } = message.hello;
        if src_instance == 0 {
            return self.drop_message(from, "Hello of no instance");
        }
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
        if request {
            self.send_hello(n, false);
        }
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

    /// Sends the next request, and reports a neighbour that has been silent for too long.
    pub(super) fn hello_due(&mut self, n: usize) {
        let Some(every) = self.state.config().hello else { return };
        let neighbour = &mut self.neighbours.all[n];
        neighbour.hello_at = self.now + every;
        let silent = self.now.since(neighbour.hello_heard);
        let patience = Span::from_nanos(every.as_nanos().saturating_mul(PATIENCE.0) / PATIENCE.1);
        if neighbour.instance.is_some() && silent > patience {
            // Its state lives on for as long as RSVP lets it; when it is back, its instance says whether it forgot.
            neighbour.hello_heard = self.now;
            self.neighbour_news(n, NeighbourNews::Silent);
        }
        self.send_hello(n, true);
    }
}
