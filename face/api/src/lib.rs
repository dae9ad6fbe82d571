//! Requests, replies and events of the agent, and units as people write them.
#![forbid(unsafe_code)]

pub mod units;
