//! Boomerang in the agent.

pub mod news;
