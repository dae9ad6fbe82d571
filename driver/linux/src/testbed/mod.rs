//! A testbed: hosts and routers as network namespaces of this machine, joined by veth pairs, with addresses
//! and shortest-path routes. Rates are not set here: the agents set them, as on real links.
//!
//! [`topology`] describes it (pure), [`build`] makes it, [`record`] lists the objects that were made, so that
//! a removal deletes exactly those, even after a crash.

pub mod build;
pub mod record;
pub mod topology;
