//! The same node in simulated time.
//!
//! Why: years of an engine's decisions take seconds, and every run can be repeated: the same seed gives the
//! same run. Hosts and routers run the whole [`node::Node`]. Their data planes are [`traffic::port`]s that
//! carry out the same plan as the kernel does. Messages travel as packets through the same links as the data.
//! Nothing here reads a clock or starts a thread.
//!
//! Reading order: [`scenario`] (the description of a run), [`world`] (takes events and gives each to its part),
//! `run` (clock and record), `net` (packets), [`hop`] (one direction of a link: conditioner, queue, wire),
//! [`station`] (data planes), [`link`], [`map`], [`agents`] and [`book`], `flows` with [`source`] and [`sink`],
//! `promise` (delay bounds); [`tcp`] (sender and receiver, usable alone), [`connections`] (TCP at the ends);
//! `labels` and `capture`, [`experiment`], [`scenarios`] (published topologies).
#![forbid(unsafe_code)]

pub mod agenda;
pub mod agents;
pub mod book;
mod capture;
pub mod connections;
pub mod draw;
pub mod experiment;
mod flows;
pub mod hop;
mod labels;
pub mod link;
pub mod mace;
pub mod map;
mod net;
pub mod packet;
mod playable;
mod promise;
mod run;
pub mod run_trace;
pub mod scenario;
pub mod scenarios;
pub mod sink;
pub mod source;
pub mod station;
pub mod tcp;
pub mod torture;
pub mod transactions;
pub mod world;

pub use scenario::{
    LinkId, NodeId, Scenario, ScenarioAction, SendPattern, SimLinkSpec, SimNodeSpec, SimReservation, SourceId,
    SourceSpec, TcpId, TcpReport, TcpSpec,
};
pub use sink::FlowReport;
pub use terms::rng;
pub use world::{Broken, World};
