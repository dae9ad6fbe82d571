//! This crate against the real kernel, each test in a scratch network namespace.

mod bed;
mod boomerang;
mod crash;
mod doctor;
mod edge;
mod multicast;
mod netlink;
mod older;
mod plane;
mod policer;
mod scratch;
mod shared;
mod sockets;
mod styles;
mod tc;
mod traffic;
