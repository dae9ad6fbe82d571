//! Sluice on the Linux kernel. This crate acts; it decides nothing.
//!
//! [`clock`] is the one place that reads a clock; [`netns`] makes and enters network namespaces.

pub mod clock;
pub mod error;
pub mod netns;
