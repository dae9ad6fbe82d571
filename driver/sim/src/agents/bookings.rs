//! Calls of bookings, and their outputs, which take their time.

use super::Turn;
use crate::book::BookingOutput;
use crate::run::Due;
use crate::scenario::NodeId;
use booking::io::Order;
use booking::{Batch, Call, Input};
use node::io::Input as NodeInput;
use terms::Span;

/// The time that the disk takes to write a batch.
const DISK: Span = Span::from_millis(1);

impl Turn<'_> {
    /// Makes a caller's call at a node's bookings. Starts them at the first call.
    pub(crate) fn call_bookings(&mut self, id: NodeId, who: &str, call: Call) {
        if self.host(id).start_bookings() {
            self.open_book(id);
        }
        let Some(booking_host) = self.host(id).booking_host_mut() else { return };
        let input = booking_host.call(who, call);
        self.tell_bookings(id, input);
    }

    /// Tells a living agent the records on its disk.
    pub(super) fn open_book(&mut self, id: NodeId) {
        let Some(booking_host) = self.host(id).booking_host_mut() else { return };
        for record in booking_host.records() {
            self.tell_bookings(id, Input::Recovering(record));
        }
        self.tell_bookings(id, Input::Recovered);
    }

    fn tell_bookings(&mut self, id: NodeId, input: Input) {
        self.run.mark([12, id.0 as u64]);
        self.tell(id, NodeInput::Booking(input));
    }

    /// Hands a batch to the disk.
    pub(super) fn write(&mut self, id: NodeId, batch: Batch) {
        let host = self.host(id);
        let life = host.life();
        let Some(booking_host) = host.booking_host_mut() else { return };
        booking_host.write(batch);
        self.run.put(self.run.now() + DISK, Due::Written { node: id.0 as u32, life });
    }

    /// Carries out an order for a resource of the host: it succeeds after a while.
    pub(super) fn order(&mut self, id: NodeId, order: &Order) {
        let host = self.host(id);
        let (life, delay) = (host.life(), host.plane_delay());
        let Some(booking_host) = host.booking_host_mut() else { return };
        booking_host.order(order.id);
        self.run.put(self.run.now() + delay, Due::Enforced { node: id.0 as u32, life });
    }

    /// Notes an output of the bookings.
    pub(super) fn note_for_book(&mut self, id: NodeId, said: BookingOutput) {
        let now = self.run.now();
        if let Some(booking_host) = self.host(id).booking_host_mut() {
            booking_host.note(now, said);
        }
    }

    /// The disk has written the oldest batch.
    pub(crate) fn book_written(&mut self, id: NodeId, life: u32) {
        let host = self.host(id);
        if host.life() != life {
            return;
        }
        if let Some(input) = host.booking_host_mut().and_then(|booking_host| booking_host.written()) {
            self.tell_bookings(id, input);
        }
    }

    /// The host has carried out the oldest order.
    pub(crate) fn book_enforced(&mut self, id: NodeId, life: u32) {
        let host = self.host(id);
        if host.life() != life {
            return;
        }
        if let Some(input) = host.booking_host_mut().and_then(|booking_host| booking_host.enforced()) {
            self.tell_bookings(id, input);
        }
    }
}
