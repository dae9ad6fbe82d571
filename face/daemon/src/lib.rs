//! The agent as a library: configuration, event loop, local socket; and testbeds of agents in network namespaces.
#![forbid(unsafe_code)]

mod calls;
pub mod config;
mod document;
mod interfaces;
mod local;
mod log;
mod news;
pub mod testbed;
pub mod topology;

pub use config::{AgentConfig, InterfaceConfig, Level, Share};
pub use document::Mistake;
