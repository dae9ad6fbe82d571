//! Whole nodes: the steps of each message, and Boomerang in a net of them.

mod boomerang;
mod checkpoints;
