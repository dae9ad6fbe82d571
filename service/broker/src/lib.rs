//! `sluice broker`: reservations over one or more agents, for all who speak HTTP.
//!
//! It owns no slot: capacity, policy and what is booked are the agents'. It adds reach: REST and server-sent
//! events over mutual TLS or a Unix socket, webhooks, paths between hosts, and one reservation over several
//! agents, at all or at none (GARA, Foster, Roy, Sander, Winkler, section 3.1: the end-to-end API). For that it
//! is the coordinator of transactions, whose decisions are in its journal.
//!
//! Reading order: [`config`], [`routes`] (the calls), [`ask`] and [`group`] (their execution), [`transactions`],
//! [`agents`].
#![forbid(unsafe_code)]

mod acceptance;
pub mod agents;
pub mod ask;
pub mod broker;
pub mod caller;
pub mod change;
pub mod client;
pub mod config;
mod conversation_limits;
mod cross;
mod crossing;
mod domain_client;
pub mod domains;
pub mod follow;
pub mod gather;
pub mod group;
mod hub;
pub mod ical;
pub mod id;
mod kept;
mod kept_acceptances;
mod legs;
mod limits;
pub mod listen;
mod listing;
mod mail_settings;
pub mod mailer;
mod may;
mod measured;
mod meters;
pub mod metrics_page;
pub mod neighbours;
pub mod openapi;
mod origin;
mod outcome;
mod overview;
pub mod paths;
pub mod plan;
pub mod problem;
mod query;
mod reading_board;
mod readings;
mod request_body;
mod retry;
pub mod routed;
pub mod routes;
pub mod routing;
mod run;
mod seats;
mod shared;
mod shared_store;
pub mod shelf;
mod shown;
mod standby;
mod state_file;
pub mod stream;
pub mod strict;
pub mod transactions;
mod tree;
mod unread;
pub mod web;
pub mod webhook;
mod wire;

pub use config::{AgentAt, At, BrokerConfig, Limits};
pub use run::{Broken, Opened, Pulse, RunningBroker, open, start};
pub use shared_store::SharedStore;
