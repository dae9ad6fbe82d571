//! Sluice on the Linux kernel. This crate acts; it decides nothing.
//!
//! [`clock`] is the one place that reads a clock; [`netns`] makes and enters network namespaces, [`process`] starts and knows processes, [`poll`] waits.

pub mod clock;
pub mod error;
pub mod netns;
pub mod poll;
pub mod process;
pub mod sockets;
