//! This crate against the real kernel: namespaces, the plane, sockets, the shipped eBPF object.

mod kernel;
mod netns;
mod object;

use kernel::{bed, policer, scratch, styles, traffic};
