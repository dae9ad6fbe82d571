//! Requests, replies and events of the agent, and units as people write them.
//!
//! The agent listens on a Unix socket, and over mutual TLS for other machines ([`place`]). It speaks JSON,
//! one object a line ([`agent`]); [`client`] is the blocking client of the command line, the laboratory and
//! the tests. One connection is one application: its registrations and reservations end when it closes.
#![forbid(unsafe_code)]

pub mod agent;
pub mod book;
pub mod boomerang;
pub mod client;
pub mod convert;
pub mod document;
pub mod domains;
pub mod event;
pub mod links;
pub mod may;
pub mod place;
pub mod places;
pub mod proxy;
pub mod rows;
pub mod show;
pub mod table;
pub mod turns;
pub mod units;
