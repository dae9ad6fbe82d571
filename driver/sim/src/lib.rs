//! The same node in simulated time.
//!
//! Why: what an engine decides can be tried for years in seconds, and every story can be told again: same seed, same
//! story. Nothing here reads a clock or starts a thread.
#![forbid(unsafe_code)]

pub mod agenda;
pub mod packet;
pub mod rng;
