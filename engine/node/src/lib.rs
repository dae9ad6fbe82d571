//! One router or host: every engine wired together, without logic of its own. Every driver runs all of it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod book;
pub mod classes;
pub mod core;
mod displace;
pub mod granted;
mod held;
mod interface;
pub mod io;
mod link;
mod node;
mod order;
pub mod plane;
pub mod status;
mod sync;
pub mod tc;

pub use node::{Config, Node};
