//! Sluice on the Linux kernel. This crate acts; it decides nothing.
//!
//! [`clock`] is the one place that reads a clock.

pub mod clock;
