//! This crate against the real kernel, each test in a scratch network namespace.

mod agreement;
pub mod bed;
mod boomerang;
mod crash;
mod doctor;
mod edge;
mod gate;
mod groups;
mod mace;
mod managers;
mod masks;
mod meters;
mod multicast;
mod netlink;
mod older;
mod plane;
pub mod policer;
mod resize;
pub mod scratch;
mod shared;
mod sockets;
pub mod styles;
mod supervise;
mod tc;
pub mod traffic;

// The stories of Boomerang on whole nodes, which `boomerang::stories` plays to the programs.
#[path = "../../../../engine/node/tests/boomerang/allowance.rs"]
mod allowance;
#[path = "../../../../engine/node/tests/boomerang/authentic.rs"]
mod authentic;
#[path = "../../../../engine/node/tests/boomerang/faults.rs"]
mod faults;
#[path = "../../../../engine/node/tests/boomerang/gathering.rs"]
mod gathering;
#[path = "../../../../engine/node/tests/boomerang/group.rs"]
mod group;
#[path = "../../../../engine/node/tests/boomerang/locks.rs"]
mod locks;
#[path = "../../../../engine/node/tests/boomerang/net.rs"]
mod net;
#[path = "../../../../engine/node/tests/boomerang/promises.rs"]
mod promises;
#[path = "../../../../engine/node/tests/boomerang/replies.rs"]
mod replies;
#[path = "../../../../engine/node/tests/boomerang/sites.rs"]
mod sites;
