//! Traffic control (RFC 2205 section 3.11.2): from admitted reservations and bookings to the plan of each
//! interface. It is the only writer of plans.
//!
//! # Contract
//!
//! [`Tc`] performs no I/O and reads no clock. Its methods fall into these families:
//!
//! - **At a start** ([`Tc::found_class`], [`Tc::adopt`], [`edges::EdgeTurn::found_edge`], [`Tc::adopt_grant`]): what an
//!   earlier run left in the plane, before [`Tc::interface`] of its interface.
//! - **Notices** ([`Tc::interface`], [`Tc::interface_gone`], [`Tc::plan_done`], [`Tc::wake`], [`Tc::stop`]): at any time.
//!   Each batch that [`Tc::poll`] returns is answered by `plan_done` once, after `stop` too.
//! - **Requests** ([`terms::ports::TrafficControl`], [`Tc::grant`], [`Tc::edge_turn`], [`Tc::with_book`],
//!   [`Tc::bookable`], [`Tc::add_resource`]): at any time. The ledger answers at once; the plane's result is an output.
//! - **The end of a turn** ([`Tc::end_turn`]): after all requests and notices that came together. It alone draws batches.
//! - **Outputs** ([`Tc::poll`]): read until `None` after each call that changes anything, and after the end of a turn.
//! - **Waking** ([`Tc::wake_at`]): the time of the next [`Tc::wake`]; read it after the outputs.
//! - **Views** ([`Tc::reservations`], [`Tc::links`], [`Tc::plan`], [`Tc::edges`]): at any time; they change nothing.
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
