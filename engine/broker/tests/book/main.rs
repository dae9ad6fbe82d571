//! Stories of the book.

mod ask;
mod crash;
mod domain;
mod faults;
mod oracle;
mod random;
mod shared;
mod story;
mod world;

use broker::io::Answer;
use broker::{Ask, Call, PartAsk, Reply, View, When};
use terms::Window;
use terms::book::{Binding, Flow, Shape};

/// A part of a resource, of so much.
pub fn part(resource: &str, amount: u64) -> PartAsk {
    PartAsk {
        resource: resource.to_owned(),
        amount,
        least: amount,
        background: None,
        shape: Shape::default(),
        binding: None,
    }
}

/// One part in one window.
pub fn ask(resource: &str, amount: u64, window: Window) -> Ask {
    let when = When::Window { start: Some(window.start()), end: Some(window.end()) };
    Ask { parts: vec![part(resource, amount)], when, ..Ask::default() }
}

/// Books it at once.
pub fn create(ask: Ask) -> Call {
    Call::Create { ask, hold: None, key: String::new() }
}

/// The reservation that was answered.
pub fn granted(reply: Reply) -> View {
    match reply {
        Ok(Answer::Reservation(view)) => view,
        other => panic!("refused: {other:?}"),
    }
}

/// A flow of its own for each number.
pub fn flow(n: u16) -> Binding {
    Binding::Flow(Flow { dst: Some([10, 0, 0, 1].into()), protocol: Some(17), dst_port: Some(n), ..Flow::default() })
}
