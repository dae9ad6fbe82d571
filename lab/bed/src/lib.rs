//! Testbeds: small networks of this machine's namespaces, with an agent on every node.
//!
//! A testbed is described by a topology [`file`]. [`topology`] derives names, addresses and routes from it, [`build`]
//! makes namespaces and links, [`record`] lists what was made, and [`testbed`] starts and stops the agents: these are
//! `sluice up` and `sluice down`. A testbed may have [`domain`]s, each with its own authority and broker
//! ([`domain_files`], [`domain_up`]), [`agreement`]s between them, long links ([`wire`]), and links that are queued in user space
//! ([`served`]). A measurement uses a [`Bed`], which is removed when it is dropped, and its [`host`]s.
//!
//! On a testbed run [`program`]s and flows: [`cbr`] is cross traffic, [`udp_echo`] measures round trips.
//! [`scratch`] gives a run its folder and removes what killed runs left, [`patience`] ends waits at Ctrl-C, so that
//! everything is cleaned up. [`results`] writes files.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod broker_up;
pub mod build;
pub mod cbr;
pub mod domain;
pub mod domain_files;
pub mod domain_up;
pub mod error;
pub mod file;
pub mod host;
pub mod patience;
pub mod program;
pub mod record;
pub mod results;
mod running;
pub mod scratch;
pub mod served;
pub mod testbed;
pub mod topology;
pub mod udp_echo;
pub mod wire;

pub use running::{Bed, CARRIERS, FAR, NEAR, RECEIVER, SENDER};
