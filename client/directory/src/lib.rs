//! The resources of a site, published to an LDAP directory (RFC 4511) and read back: agents, resources, and the ways
//! through a domain from one border link to another.
//!
//! Advisory, never for admission: an entry says what was free when it was written and until when that may be believed.
//! Who wants an amount asks the agent or broker, which decides.
//!
//! Reading order: [`schema`] (attributes and classes), [`entry`], [`publish`] (from the broker's documents to entries),
//! [`sync`] (what must change in the directory), [`place`], [`server`] and [`guard`] (the connection), [`read`] (back to rows).
#![forbid(unsafe_code)]

pub mod entry;
mod guard;
pub mod ldif;
mod message;
pub mod place;
pub mod publish;
pub mod read;
pub mod schema;
pub mod server;
pub mod sync;
mod tls;

pub use entry::{DirectoryEntry, DirectoryKey};
pub use place::{DirectoryPlace, Login};
pub use server::{DirectoryError, DirectoryServer};
