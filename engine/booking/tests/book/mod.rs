//! Stories of the book.

pub mod ask;
mod crash;
mod domain;
mod faults;
mod meter;
mod notice;
pub mod oracle;
mod promise;
mod promise_faults;
pub mod random;
mod shared;
mod sla;
mod story;
pub mod world;

use booking::io::CallResult;
use booking::{BookingRequest, BookingView, Call, PartAsk, Reply, When};
use terms::Window;
use terms::book::{Binding, BoundFlow, PacketShape};

/// A part of a resource, of so much.
pub fn part(resource: &str, amount: u64) -> PartAsk {
    PartAsk {
        resource: resource.to_owned(),
        amount,
        least: amount,
        background: None,
        shape: PacketShape::default(),
        binding: None,
    }
}

/// One part in one window.
pub fn ask(resource: &str, amount: u64, window: Window) -> BookingRequest {
    let when = When::Window { start: Some(window.start()), end: Some(window.end()) };
    BookingRequest { parts: vec![part(resource, amount)], when, ..BookingRequest::default() }
}

/// Books it at once.
pub fn create(ask: BookingRequest) -> Call {
    Call::Create { ask, hold: None, key: String::new() }
}

/// The reservation that was answered.
pub fn granted(reply: Reply) -> BookingView {
    match reply {
        Ok(CallResult::Reservation(view)) => view,
        other => panic!("refused: {other:?}"),
    }
}

/// A flow of its own for each number.
pub fn flow(n: u16) -> Binding {
    Binding::Flow(BoundFlow {
        dst: Some([10, 0, 0, 1].into()),
        protocol: Some(17),
        dst_port: Some(n),
        ..BoundFlow::default()
    })
}
