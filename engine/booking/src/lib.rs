//! Bookings: reservations of any resource, now or for later, under one handle, with one life (GARA: Foster,
//! Roy, Sander, Winkler, "End-to-End Quality of Service for High-End Applications", section 3).
//!
//! Reading order: [`io`] (inputs and outputs), [`state`] (the life of a reservation), [`Bookings`], `calls` (one file
//! each), `admission` (what decides whether a booking fits), `reservations` (the table), `journal` (before reply),
//! `life` (time passes, and changes come true), [`promise`] (parts of transactions over several agents), `enforcement` (orders to the kernel), [`background`] (sharing of what
//! foreground leaves), `recover`, [`record`] (bytes); [`path`] and [`leg`] (what other domains accept) are independent of the others.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod admission;
pub mod background;
mod bookings;
mod calendar;
mod calls;
pub use terms::codec;
pub mod config;
mod draw;
mod enforcement;
mod event;
pub mod io;
mod journal;
pub mod leg;
mod life;
mod notice;
mod outbox;
pub mod path;
pub mod policy;
pub mod promise;
pub mod record;
mod recover;
pub mod refusal;
mod reservations;
mod slots;
pub mod state;
mod stored;
pub mod view;
mod waiting;

pub use bookings::Bookings;
pub use config::Config;
pub use enforcement::Due;
pub use io::{Batch, BookingRequest, Call, Event, Input, JournalRecord, Output, PartAsk, Reply, When};
pub use promise::{PrepareAsk, PrepareCall};
pub use refusal::{Alternative, Refusal, RefusalReason};
pub use state::{BookingState, LifeStep};
pub use stored::JournaledReservation;
pub use view::{BookingView, PartView, ResourceView};
