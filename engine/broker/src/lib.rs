//! The book: reservations of any resource, now or for later, under one handle, with one life (GARA: Foster, Roy,
//! Sander, Winkler, "End-to-End Quality of Service for High-End Applications", section 3).
//!
//! Reading order: [`io`] (what the book is told and says), [`state`] (the life of a reservation).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod io;
pub mod refusal;
pub mod state;
pub mod view;

pub use io::{Ask, Batch, Call, Event, Input, Output, PartAsk, Record, Reply, When};
pub use refusal::{Alternative, Refusal, Why};
pub use state::{Act, State};
pub use view::{PartView, ResourceView, View};
