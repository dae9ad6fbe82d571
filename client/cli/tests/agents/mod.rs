//! The agent on this kernel: testbeds of namespaces with the real program on every node.
//!
//! Everything here needs root and network namespaces; without them each test says so and is skipped.

mod anomalies;
mod audit;
mod auth;
mod baseline;
pub mod bed;
mod bind;
mod booking;
pub mod boomerang;
mod broker;
mod command;
mod copy;
mod crash;
mod disk;
mod domains;
mod echoes;
mod expiry;
mod forms;
pub mod inside;
mod interop;
mod life;
mod load;
pub mod lone;
mod offers;
mod pages;
mod peer;
mod premium;
mod promises;
mod rapi;
pub mod remote;
mod repair;
mod reserve;
mod restart;
mod rights;
mod show;
mod signalling;
mod sites;
mod socket;
mod start;
mod statics;
mod storms;
mod supervised;
mod together;
mod trace;
mod urgent;
