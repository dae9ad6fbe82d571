//! The client of an agent, and what its callers share.
//!
//! The agent listens on a Unix socket, and over mutual TLS for other machines ([`place`]). It speaks JSON,
//! one object a line (`documents::agent`); [`client`] is the blocking client of the command line, the
//! laboratory and the tests. One connection is one application: its registrations and reservations end when
//! it closes. Without the feature `tls` it calls agents on this machine only, and no TLS is linked.
#![forbid(unsafe_code)]

pub mod client;
pub mod document;
#[cfg(feature = "tls")]
pub mod domains;
pub mod place;
pub mod places;
pub mod table;
#[cfg(feature = "tls")]
pub mod tls;
