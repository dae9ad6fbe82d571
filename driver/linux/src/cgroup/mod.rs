//! Control groups of both versions (cgroup-v1 and cgroup-v2 of the kernel's documentation), as far as reservations
//! need them: where a controller is, groups as folders, and a [`GroupTree`] in which all that is unreserved is one sibling.
//!
//! Why of our own: a share is a guarantee only against *all* siblings, so whoever promises it must know and hold them
//! all, and must give every process back to where it was, also after a crash.

mod find;
mod group;
mod lent;
mod record;
mod tree;

pub use find::{Mounted, Version, all_mounted, below_root, find, for_cpu, for_disk, home_of};
pub use group::{ControlGroup, is_kernel_thread};
pub(crate) use tree::family;
pub use tree::{Gathered, GroupPlace, GroupTree};
