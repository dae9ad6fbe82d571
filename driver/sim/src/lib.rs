//! The same node in simulated time.
//!
//! Why: years of an engine's decisions take seconds, and every run can be repeated: the same seed gives the
//! same run. Hosts and routers run the whole [`node::Node`]. Their data planes are [`traffic::port`]s that
//! carry out the same plan as the kernel does. Messages travel as packets through the same links as the data.
//! Nothing here reads a clock or starts a thread.
//!
//! Reading order: [`scenario`] (the description of a run), [`world`] (the event loop), `build` (the state
//! before the first event), `transit` (packets), [`hop`] (one direction of a link: conditioner, queue, wire),
//! `outlet` (ports and queue trees), `agents` (inputs and outputs of nodes), [`station`], [`link`], `faults`,
//! [`map`], [`source`], [`sink`]; [`tcp`] (sender and receiver, usable alone), [`connections`], `hosts` (TCP
//! at the ends); [`check`] (invariants of every run), `capture`, [`experiment`], [`scenarios`] (published
//! topologies).
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
