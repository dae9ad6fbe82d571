//! One router or host: every engine wired together. Wiring, no logic. Every driver runs this and nothing less.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod classes;
pub mod io;
pub mod order;
