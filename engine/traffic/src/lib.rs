//! Traffic conditioning: classifying, policing, queueing and scheduling of packets, in integers, without a clock.
//!
//! [`plan`] is the closed description of an interface's classes and flows for every data plane
//! ([`plane::DataPlane`]: the simulator's, the user-space one, the kernel's). [`path`] is the one way of a packet through
//! our own planes; [`port`] compiles a plan to it, [`tree`] a described tree. The other modules are its algorithms, each
//! usable alone.
//!
//! # Contract
//!
//! Nothing here has a clock or a link. The owner of the link tells packets and the time, and asks for the next packet
//! when the last one is out. [`port::Port`], [`tree::Tree`] and [`path::PacketPath`] have the same method families:
//!
//! - **Packets in** (`enqueue`; of a port also `arrive`, for packets that enter by its interface): the answer says at
//!   once if the packet was taken. One that was refused is the caller's again.
//! - **Packets out** (`dequeue`): when the link is free. `None` does not mean empty: a shaper or an upper limit may hold
//!   packets back.
//! - **Waking** (`wake_at`): after a `dequeue` that returned `None`, and again after each `enqueue`. It may be early, and
//!   then no packet goes yet; it is never late.
//! - **Losses** (`poll_loss`): packets that were taken and then dropped or purged. Read until `None` after each call that
//!   takes a time; while too many wait, a path takes no packet.
//! - **Changes** ([`plane::DataPlane::apply`] for a port, `change` and its kin for a tree and a path): at any time. What
//!   waits keeps its order; a change that cannot work changes nothing.
//! - **Counters**: at any time; those of a class or leaf grow as long as it is there.
//!
//! Times of successive calls do not decrease. Of one that does, the latest time known is used and the event counted;
//! a tree and a path panic in debug builds. No packet on a path allocates: memory is reserved by changes.
//!
//! Reading order: [`plan`], [`plane`], [`work`], [`bucket`], [`queue`], [`classifier`], [`shapes`], [`edge`], [`scheduler`];
//! [`meter`], [`dropper`], [`shaper`], [`conditioner`]; then [`path`], [`port`] and [`tree`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bucket;
pub mod classifier;
pub mod conditioner;
pub mod dropper;
pub mod edge;
pub mod meter;
pub mod path;
pub mod plan;
pub mod plane;
pub mod port;
pub mod queue;
pub mod scheduler;
pub mod shaper;
pub mod shapes;
mod spec;
pub mod tree;
pub mod work;
