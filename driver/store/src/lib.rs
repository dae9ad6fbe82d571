//! The journal: an agent's changes are on the disk before their acknowledgement leaves.
//!
//! An engine says `Append(batch)`: opaque [`Record`]s, a slot with its quota change and its audit entry
//! together. Callers queue their batches at the [`Journal`]. Its one thread writes all waiting batches in one
//! transaction and answers each after the disk has confirmed it (*group commit*). Behind it is a [`Store`]:
//! [`sqlite::Sqlite`] on a disk of this machine, for one process; or [`postgres::Postgres`], a database that several
//! brokers share, of which one leads.
//!
//! `docs/store.md` has the promises and the proof of each.
#![forbid(unsafe_code)]

mod chain;
mod error;
mod journal;
mod place;
pub mod postgres;
mod record;
pub mod sqlite;
mod store;

pub use chain::ChainLink;
pub use error::{Damage, Error};
pub use journal::{Completion, Journal, MOST_WAITING, PendingBatch, Ticket};
pub use place::{Filesystem, filesystem};
pub use record::{Batch, MAX_BATCH, MAX_KEY, MAX_VALUE, Record, TableId};
pub use store::{Store, Visit};
