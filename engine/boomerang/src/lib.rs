//! Boomerang (draft-bergkvist-boomerang-spec-00): one message, one round trip, both directions.
//!
//! The engine has two halves. The *node side* ([`Input::Packet`]) runs on every router: it finds, makes,
//! manages and removes session blocks (section 4.2 of *Profiling resource reservation protocols*, IFIP 2001,
//! names the steps; each is a file here), and rewrites and forwards messages. It originates nothing. The
//! *initiating side* ([`Input::App`]) starts everything: it asks, refreshes, retries, lowers and releases.
//!
//! Every input packet gets exactly one of [`Output::Pass`], [`Output::Deliver`] and [`Output::Dropped`].
//! Points that the drafts leave open are decided in `docs/boomerang.md`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod auth;
mod blocks;
mod demand;
mod engine;
mod half;
mod initiator;
pub mod io;
mod limit;
mod lock;
mod node;
mod replay;
mod table;
mod view;
mod work;

pub use demand::is_told_apart;
pub use engine::Boomerang;
pub use half::life;
pub use initiator::{InitiatedSession, SessionPhase, SessionRequest};
pub use io::{AppId, ApplicationCall, BoomerangUpcall, Config, Event, FailureReason, Input, Output, Replies};
pub use view::HalfView;
