//! The packet path: its parts one by one, the port that runs a plan, the queue tree.

mod bucket;
mod droppers;
mod edge;
mod joined;
mod masks;
mod meters;
mod no_allocation;
mod pages;
mod plan_is_tree;
mod port;
mod scheduler;
mod shapers;
mod shared_buckets;
mod tables;
mod tree;
mod two_levels;
