//! The journal: what an agent acknowledged is on the disk before the acknowledgement leaves.
//!
//! An engine says `Append(batch)`: opaque [`Record`]s, a slot with its quota change and its audit entry together. Callers
//! queue their batches at the [`Journal`], whose one thread writes all that wait in one transaction and answers each of them
//! after the disk has said that it is done (*group commit*). Behind it stands a [`Store`]: [`sqlite::Sqlite`] in the box;
//! another database can take its place without anybody above noticing.
//!
//! What is promised, and how each promise is proved, is in `docs/store.md`.
#![forbid(unsafe_code)]

mod chain;
mod error;
mod journal;
mod place;
mod record;
pub mod sqlite;
mod store;

pub use chain::ChainLink;
pub use error::{Damage, Error};
pub use journal::{Completion, Journal, MOST_WAITING, PendingBatch, Ticket};
pub use place::{Filesystem, filesystem};
pub use record::{Batch, MAX_BATCH, MAX_KEY, MAX_VALUE, Record, TableId};
pub use store::{Store, Visit};
