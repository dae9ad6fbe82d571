//! This crate against the real kernel, each test in a scratch network namespace.

mod netlink;
mod scratch;
mod tc;
