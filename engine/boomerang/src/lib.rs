//! Boomerang (draft-bergkvist-boomerang-spec-00): one message, one round trip, both directions.
//!
//! Two halves of one engine. The *node side* ([`Input::Packet`]) is what every router runs: it finds, makes, manages and removes
//! session blocks (section 4.2 of *Profiling resource reservation protocols*, IFIP 2001, names the steps; each is a file
//! here) as messages pass, rewrites them and lets them go. It originates nothing. The *initiating side* ([`Input::App`])
//! is the only one that starts anything: it asks, refreshes, retries, lowers and releases.
//!
//! Every packet that is told is answered by exactly one of [`Output::Pass`], [`Output::Deliver`] and
//! [`Output::Dropped`]. What the drafts leave open is decided in `docs/boomerang.md`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod auth;
mod chance;
mod create;
mod demand;
mod engine;
mod expire;
mod far_end;
mod find;
mod gather;
mod group;
mod half;
mod initiator;
pub mod io;
mod limit;
mod lock;
mod manage;
mod remove;
mod replay;
mod revert;
mod table;
mod transit;
mod view;

pub use demand::is_told_apart;
pub use engine::Boomerang;
pub use half::life;
pub use initiator::{InitiatedSession, SessionPhase, SessionRequest};
pub use io::{AppId, ApplicationCall, BoomerangUpcall, Config, Event, FailureReason, Input, Output, Replies};
pub use view::HalfView;
