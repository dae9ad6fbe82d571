//! The agent as a library: configuration, event loop, local socket; and testbeds of agents in network namespaces.
#![forbid(unsafe_code)]

mod agent;
mod answer;
pub mod auth;
pub mod book;
mod calls;
pub mod config;
pub mod core_file;
mod echo;
pub mod enforce;
pub mod host_file;
mod interfaces;
mod keys;
mod local;
mod log;
mod look;
mod measure;
mod mroutes;
mod news;
pub mod own;
pub mod remote;
mod rights;
pub mod role;
mod rsvp_file;
mod sequences;
mod show;
mod signalling;
mod signals;
mod speakers;
mod start;
mod statics;
mod statics_file;
mod status;
pub mod store_file;
pub mod testbed;
pub mod topology;
mod trace;
mod turn;

pub use agent::run;
pub use api::document;
pub use auth::AuthConfig;
pub use config::{AgentConfig, InterfaceConfig, Level, Share};
pub use document::Mistake;
pub use echo::config::BoomerangConfig;
pub use mroutes::MulticastRouteConfig;
pub use start::StartError;
