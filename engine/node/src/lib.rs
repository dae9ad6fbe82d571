//! One router or host: every engine wired together, without logic of its own. Every driver runs all of it.
//!
//! [`Node`] performs no I/O and reads no clock. Its driver has the sockets, the data plane, the journal and the time.
//! The methods fall into these families:
//!
//! - **Making** ([`Node::new`], [`Node::with`], [`Node::under`], [`Node::keyed`]): before the first input.
//! - **Inputs** ([`Node::handle`], [`Node::offer`]): one at a time, with the time of the call.
//! - **Outputs** ([`Node::poll`]): read until `None` after *each* input, and carry out in order. In a debug build
//!   [`Node::handle`] panics if outputs of the input before are left.
//! - **Waking** ([`Node::wake_at`]): read it after the last output. If no input comes before that time, the driver gives
//!   [`Input::Wake`](io::Input::Wake); to come early is harmless, to come late delays what was due.
//! - **Configuration** ([`Node::add_resource`], [`Node::bookable`], [`Node::grant`], [`Node::adopt_grant`],
//!   [`Node::ledger_mut`], [`Node::configure_boomerang`], [`Node::policy_mut`]): between inputs. They may leave outputs,
//!   which the driver reads as after an input.
//! - **Views** ([`Node::reservations`], [`Node::links`], [`Node::interfaces`], [`Node::bookings`] and the engines): at
//!   any time, also between an input and its outputs.
//!
//! A driver's loop:
//!
//! ```text
//! loop {
//!     node.handle(now, input);                       // one input
//!     while let Some(output) = node.poll() { .. }    // all outputs, in order
//!     wait for an input, or until node.wake_at();    // then Input::Wake
//! }
//! ```
//!
//! [`io`] says which output expects an answer, and what must be told before the first message.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod io;
mod node;

pub use node::{Config, NoPolicy, Node};
