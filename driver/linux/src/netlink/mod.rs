//! An own implementation of rtnetlink: links, addresses, routes, queueing disciplines and classes.
//!
//! The reason for an own codec: the maintained bindings lack HTB classes, and no answer of a kernel may cause
//! a panic. No external program is run. The format is RFC 3549 (Linux Netlink) and the kernel's
//! `linux/netlink.h`, `linux/rtnetlink.h`.
//!
//! * [`message`] builds and reads messages and attributes; it accepts any bytes.
//! * [`socket`] sends requests and waits for answers, in the network namespace in which it was opened.
//! * [`link`], [`addr`], [`route`], [`tc`] are the objects.
//! * [`diag`] lists TCP connections.
//! * [`netdev`] reads the XDP features of a driver.
//! * [`notice`] reports changes by other programs.

pub mod addr;
pub mod diag;
pub mod link;
pub mod message;
pub mod mfc;
pub mod netdev;
pub mod notice;
pub mod route;
pub mod socket;
pub mod tc;
#[cfg(test)]
mod total;

pub use message::{Attributes, NetlinkMessage};
pub use socket::{Error, Socket};
