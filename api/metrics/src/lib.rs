//! The figures of agents and brokers as text for Prometheus.
//!
//! Labels are interfaces, classes, resources, kinds of messages, and at a broker its agents: never a handle, a port or a
//! person, so that the number of series does not grow with what is reserved.
#![forbid(unsafe_code)]

mod agent;
mod broker;
mod page;

pub use agent::{AgentFigures, of_agent};
pub use broker::{BrokerFigures, of_broker};
pub use page::CONTENT_TYPE;
