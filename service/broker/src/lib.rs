//! `sluice broker`: reservations over one or more agents, for all who speak HTTP.
//!
//! It owns no slot and decides nothing: capacity, policy and the journal are the agents'. It adds reach: REST
//! and server-sent events over mutual TLS or a Unix socket, webhooks, paths between hosts, and one
//! reservation over several agents, held at every agent and then committed (GARA, Foster, Roy,
//! Sander, Winkler, section 3.1: the end-to-end API).
//!
//! Reading order: [`config`], [`routes`] (the calls), [`ask`] and [`group`] (their execution), [`agents`].
#![forbid(unsafe_code)]

pub mod agents;
pub mod ask;
pub mod broker;
pub mod caller;
pub mod change;
pub mod client;
pub mod config;
mod conversation_limits;
pub mod follow;
pub mod gather;
pub mod group;
mod hub;
pub mod id;
pub mod intent;
mod kept;
pub mod listen;
mod may;
pub mod openapi;
mod origin;
pub mod paths;
pub mod plan;
pub mod problem;
mod query;
pub mod recover;
pub mod routes;
mod run;
mod seats;
mod shown;
pub mod stream;
pub mod strict;
mod unread;
pub mod webhook;
mod wire;

pub use config::{AgentAt, At, BrokerConfig, Limits};
pub use run::{Broken, Opened, Pulse, RunningBroker, open, start};
