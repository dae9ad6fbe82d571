//! Sessions of RSVP at the agent of this machine, in safe Rust: the ground of librapi and libscrapi.
//!
//! [`RsvpSession`] is told (send, reserve) and says [`SessionUpcall`]s: wait until its descriptor is readable, call
//! [`RsvpSession::turn`], then [`RsvpSession::next_upcall`] until it has no more.

mod failure;
mod fork;
pub mod session;
mod wakeup;

pub use failure::{Code, Failure};
pub use fork::MOST_SESSIONS;
pub use session::{RsvpSession, SessionUpcall};
