//! Bulk transfer over a reserved TCP flow: the background application of seed 002, sections 4.1 and 5.2.
//!
//! The book calls back whenever the flow's share changes, and the sender changes its rate at once, before the edge would
//! drop what is too much and TCP would take it for congestion. [`booking`] holds the reservation and hears the
//! callbacks, [`allowance`] is what both sides of that know, [`pace`] the arithmetic of headers; [`send`] and
//! [`receive`] are the two ends, [`protocol`] what they say to each other.
//!
//! Nothing here encrypts: it is for networks whose hosts trust each other. What arrives is compared by its SHA-256.
#![forbid(unsafe_code)]

pub mod allowance;
pub mod booking;
pub mod error;
pub mod pace;
pub mod protocol;
pub mod receive;
pub mod send;

pub use error::Error;
