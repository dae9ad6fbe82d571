//! Bulk transfer over a reserved TCP flow: the background application of seed 002, sections 4.1 and 5.2.
//!
//! The agent reports every change of the flow's share, and the sender changes its rate at once, before the
//! edge drops the excess and TCP takes that for congestion. [`booking`] holds the reservation and receives
//! the events, [`allowance`] is the rate that both threads share, [`pace`] the arithmetic of headers;
//! [`send`] and [`receive`] are the two ends, [`protocol`] their messages.
//!
//! Nothing here is encrypted: it is for networks whose hosts trust each other. A SHA-256 checks each file.
#![forbid(unsafe_code)]

pub mod allowance;
pub mod booking;
pub mod error;
pub mod pace;
pub mod protocol;
pub mod receive;
pub mod send;

pub use error::Error;
