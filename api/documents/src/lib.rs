//! Requests, replies and events of the agent and the broker, each once, and units as people write them.
//!
//! The agent's socket, REST, the command line and the C library use these types; the OpenAPI text of the
//! broker is made from them. [`agent`] is the protocol of the agent's socket, [`book`] has the documents of
//! bookings, [`rest`] what REST adds to them. Nothing is done here: `rpc` makes calls, the services answer.
#![forbid(unsafe_code)]

pub mod agent;
pub mod book;
pub mod boomerang;
pub mod event;
pub mod legs;
pub mod links;
pub mod mace;
pub mod may;
pub mod overview;
pub mod rest;
pub mod rows;
pub mod session;
pub mod show;
pub mod statics;
pub mod topology;
pub mod turns;
pub mod units;
mod words;
