//! Figures 3 and 4 of seed 000: a web server and cross traffic share a link; without reservations, and with one for each
//! connection, standing before its first byte.
//!
//! The server is nginx, unmodified, as a command of `sluice run --each`: its host's agent sends Path for each connection, and
//! the agent of the client's host sends Resv. [`site`] is the testbed, [`client`] the seed's client, [`series`] the two
//! experiments.

mod client;
mod programs;
mod series;
mod site;

pub use programs::PROGRAMS;
pub use series::{FLOOD, THROUGHPUT};
