//! What a database must do to be a journal.

use crate::{Batch, ChainLink, Error, TableId};
use std::path::Path;

/// Is shown a record: its table, key and value.
pub type Visit<'a> = dyn FnMut(TableId, &[u8], &[u8]) + 'a;

/// A database of records. One process has it open; one thread uses it.
pub trait Store: Send {
    /// Writes the batches in one transaction. When it returns, they are on the disk.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing was written. [`Error::Dead`]: nobody knows; every later call says the same.
    fn commit(&mut self, batches: &mut dyn Iterator<Item = &Batch>) -> Result<(), Error>;

    /// The disk was full for something that must be written: gives room away that was kept for that. Whether there was any.
    fn relieve(&mut self) -> bool {
        false
    }

    /// Whether room that was given away cannot be had back yet: until then only what must be written should be.
    fn is_short(&mut self) -> bool {
        false
    }

    /// Hands over every record of every table, in the order of tables and keys, each with its checksum proved.
    ///
    /// # Errors
    /// [`Error::Damaged`], or the database failed.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<(), Error>;

    /// Hands over the audit trail from entry `from` on (the first is 1), at most `most` entries, each hash proved against the
    /// entry before it.
    ///
    /// # Errors
    /// [`Error::Damaged`], or the database failed.
    fn audit(&mut self, from: u64, most: u64, visit: &mut dyn FnMut(&ChainLink, &[u8])) -> Result<(), Error>;

    /// Work that may be done while nobody waits (`idle`), or that must be done now and then.
    ///
    /// # Errors
    /// [`Error::Full`]: later perhaps. [`Error::Dead`].
    fn tidy(&mut self, idle: bool) -> Result<(), Error>;

    /// Writes a copy as of now to `path`, where there must be nothing yet.
    ///
    /// # Errors
    /// It could not be written; this store is as it was.
    fn backup(&mut self, path: &Path) -> Result<(), Error>;

    /// How often it was opened for writing: whoever holds an older number is no longer its owner.
    fn epoch(&self) -> u64;

    /// The last entry of the audit trail.
    fn head(&self) -> ChainLink;
}
