//! A testbed: hosts and routers as network namespaces of this machine, joined by veth pairs, with addresses and
//! shortest-path routes. Rates are not set here: they are the agents' business, as on real links.
//!
//! [`topology`] says what it is (pure), [`build`] makes it, [`record`] remembers what was made, so that taking it
//! down removes exactly that, also after a crash.

pub mod build;
pub mod record;
pub mod topology;
