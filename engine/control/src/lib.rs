//! Traffic control (RFC 2205 section 3.11.2): from admitted reservations and bookings to the plan of each
//! interface. It is the only writer of plans.
//!
//! [`Tc`] is told of interfaces, requests ([`terms::ports::TrafficControl`]) and the plane's answers, and of the
//! time. After each call, drain [`Tc::poll`]: batches of plan operations, results for those who wait, events.
//! Come back at [`Tc::wake_at`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod book;
pub mod classes;
pub mod core;
pub mod edges;
pub mod granted;
mod growth;
mod held;
pub mod io;
mod link;
mod order;
mod outbox;
pub mod plane;
mod ranks;
pub mod record;
pub mod resources;
mod search;
pub mod tc;

pub use tc::{Tc, status};
