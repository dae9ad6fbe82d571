//! Topologies of published experiments, as functions from their parameters to a scenario.

pub mod dumbbell;
pub mod rfc2963;
