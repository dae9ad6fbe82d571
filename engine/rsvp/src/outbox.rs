//! Everything that the engine says: datagrams, upcalls, events, until the driver takes them; and the counters.

use crate::counters::RsvpCounters;
use crate::io::{AppId, Datagram, Event, Output, Upcall};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use wire::{Builder, MessageType};

/// TTL of messages from hop to hop.
pub(crate) const HOP_TTL: u8 = 255;

/// The outputs of the present input, and the counters since the start.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Output>,
    counters: RsvpCounters,
}

impl Outbox {
    /// True if the driver has taken everything.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The next output, if there is one.
    pub fn pop(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }

    /// Reports an event.
    pub fn say(&mut self, event: Event) {
        self.queue.push_back(Output::Event(event));
    }

    /// Passes an upcall to an application.
    pub fn tell(&mut self, app: AppId, upcall: Upcall) {
        self.queue.push_back(Output::Upcall { app, upcall });
    }

    /// Sends a message as it is.
    pub fn send(&mut self, kind: MessageType, datagram: Datagram) {
        self.counters.sent.add(kind);
        self.queue.push_back(Output::Send(datagram));
    }

    /// Asks for sequence numbers below `upto`.
    pub fn reserve_sequences(&mut self, upto: u64) {
        self.queue.push_back(Output::ReserveSequences { upto });
    }

    /// Messages in, out and dropped.
    pub fn counters(&self) -> &RsvpCounters {
        &self.counters
    }

    /// Counts.
    pub fn count(&mut self, add: impl FnOnce(&mut RsvpCounters)) {
        add(&mut self.counters);
    }

    /// Counts a message that came in and was understood.
    pub fn received(&mut self, kind: MessageType) {
        self.counters.received.add(kind);
    }

    /// Counts a message that came to nothing, for this reason.
    pub fn dropped(&mut self, why: &'static str) {
        *self.counters.dropped.entry(why).or_insert(0) += 1;
    }

    /// The bytes of a message. `None`: it is longer than any message can be, and is counted and not sent.
    pub fn finished(&mut self, build: Builder) -> Option<Vec<u8>> {
        match build.finish() {
            Ok(bytes) => Some(bytes),
            Err(_) => {
                self.dropped("our own message would be too long");
                None
            }
        }
    }
}
