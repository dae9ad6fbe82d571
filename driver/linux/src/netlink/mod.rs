//! rtnetlink, spoken by ourselves: links, addresses, routes, queueing disciplines and classes.
//!
//! Why an own codec: the bindings that are well kept know no HTB classes, and what a kernel may answer must never
//! panic. Nothing here shells out. The format is RFC 3549 (Linux Netlink) and the kernel's `linux/netlink.h`,
//! `linux/rtnetlink.h`.
//!
//! * [`message`] builds and reads messages and attributes; total on any bytes.
//! * [`socket`] asks and waits for the answer, in the network namespace in which it was opened.
//! * [`link`], [`addr`], [`route`], [`tc`] are the objects.
//! * [`netdev`] is what a driver does for XDP.
//! * [`notice`] listens to what others change.

pub mod addr;
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
