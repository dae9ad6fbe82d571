//! Control groups of both versions (cgroup-v1 and cgroup-v2 of the kernel's documentation), as reservations
//! need them: the mount points of controllers, groups as folders, and a [`GroupTree`] with all unreserved
//! processes in one group.
//!
//! The reason for our own code: a share is guaranteed only against *all* siblings. So the agent must know and
//! limit them all, and must return every process to its group, also after a crash.

mod find;
mod group;
mod lent;
mod record;
mod tree;

pub use find::{
    Mounted, Version, all_mounted, below_root, find, for_cpu, for_disk, for_packets, home_of, sender_group,
};
pub use group::{ControlGroup, is_kernel_thread};
pub(crate) use tree::family;
pub use tree::{Gathered, GroupPlace, GroupTree};
