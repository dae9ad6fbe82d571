//! This crate against the real kernel, each test in a scratch network namespace.

mod netlink;
mod policer;
mod scratch;
mod tc;
