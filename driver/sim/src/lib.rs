//! The same node in simulated time.
//!
//! Why: what an engine decides can be tried for years in seconds, and every story can be told again: same seed, same
//! story. Hosts and routers run [`node::Node`] and nothing less; their data planes are [`traffic::port`]s that carry
//! out the same plan as the kernel does; messages travel as packets through the same links as the data. Nothing here
//! reads a clock or starts a thread.
//!
//! Reading order: [`scenario`] (what a story is made of), [`world`] (how it is played), `build` (before the first instant),
//! `transit` (packets), [`hop`] (one direction of a link: conditioner, queue, wire), `outlet` (queues that are asked), `agents`
//! (what nodes are told and say), [`station`], [`link`], `faults`, [`map`], [`source`], [`sink`]; [`tcp`] (sender and receiver,
//! usable alone), [`connections`], `hosts` (TCP at the ends); [`check`] (what must hold in every run), `capture`,
//! [`experiment`], [`scenarios`] (published topologies).
#![forbid(unsafe_code)]

pub mod agenda;
mod agents;
pub mod book;
mod boomerang_packets;
mod build;
mod capture;
pub mod check;
pub mod connections;
pub mod draw;
pub mod experiment;
mod faults;
pub mod hop;
mod hosts;
pub mod link;
pub mod mace;
pub mod map;
mod outlet;
pub mod packet;
mod playable;
mod promise;
pub mod rng;
pub mod run_trace;
pub mod scenario;
pub mod scenarios;
pub mod sink;
pub mod source;
pub mod station;
pub mod tcp;
pub mod torture;
mod transit;
pub mod world;

pub use scenario::{
    LinkId, NodeId, Scenario, ScenarioAction, SendPattern, SimLinkSpec, SimNodeSpec, SimReservation, SourceId,
    SourceSpec, TcpId, TcpReport, TcpSpec,
};
pub use sink::FlowReport;
pub use world::{Broken, World};
