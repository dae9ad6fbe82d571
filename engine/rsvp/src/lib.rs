//! The RSVP engine of RFC 2205, by the processing rules of RFC 2209: told and says, never acts.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod io;
