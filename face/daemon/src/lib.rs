//! The agent as a library: configuration, event loop, local socket; and testbeds of agents in network namespaces.
#![forbid(unsafe_code)]

pub mod config;
mod document;
pub mod testbed;
pub mod topology;

pub use config::{AgentConfig, InterfaceConfig, Level, Share};
pub use document::Mistake;
