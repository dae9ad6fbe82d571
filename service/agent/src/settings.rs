//! Settings that an agent's file has in common with other files, such as the topology file of a testbed. Each is
//! read in one place, so that both files refuse the same mistakes in the same words.

pub use crate::fields::{link_rate, node_name, share};
pub use crate::role::read as role;
pub use crate::rsvp_file::{RsvpFile, rsvp_config, set_refresh};
pub use crate::signatures::said as auth;
