//! Bookings: reservations of any resource, now or for later, under one handle, with one life (GARA: Foster,
//! Roy, Sander, Winkler, "End-to-End Quality of Service for High-End Applications", section 3).
//!
//! Reading order: [`io`] (inputs and outputs), [`state`] (the life of a reservation), [`Bookings`], `calls`
//! (one file each) and `ask` (from a request to a grant), `journal` (before reply), `life` (time passes),
//! `enforce` (orders to the kernel), [`background`] (sharing of what foreground leaves), `recover`,
//! [`record`] (bytes); [`path`] is independent of the others.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod ask;
mod audit;
pub mod background;
mod broker;
mod calls;
mod clock;
pub mod codec;
pub mod config;
mod draw;
mod enforce;
mod grants;
pub mod io;
mod journal;
mod life;
pub mod path;
pub mod policy;
pub mod record;
mod recover;
pub mod refusal;
mod refusals;
mod reservation;
pub mod state;
mod tables;
pub mod view;

pub use broker::Bookings;
pub use config::Config;
pub use enforce::Due;
pub use io::{Batch, BookingRequest, Call, Event, Input, JournalRecord, Output, PartAsk, Reply, When};
pub use refusal::{Alternative, Refusal, RefusalReason};
pub use state::{BookingState, LifeStep};
pub use view::{BookingView, PartView, ResourceView};
