//! The interface of a database that can hold a journal.

use crate::{Batch, ChainLink, Error, TableId};

/// A function that receives a record: its table, key and value.
pub type Visit<'a> = dyn FnMut(TableId, &[u8], &[u8]) + 'a;

/// A database of records. One process has it open, and one thread uses it.
pub trait Store: Send {
    /// Writes the batches in one transaction. When it returns, they are on the disk.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing was written. [`Error::Dead`]: the state on the disk is unknown, and later
    /// calls return the same. [`Error::Deposed`]: nothing was written, and nothing will be.
    fn commit(&mut self, batches: &mut dyn Iterator<Item = &Batch>) -> Result<(), Error>;

    /// Gives up the room kept for urgent batches, after a full disk. Returns true if there was any.
    fn relieve(&mut self) -> bool {
        false
    }

    /// True while the room that was given up is still missing. Until it is back, only urgent batches may be
    /// written.
    fn is_short(&mut self) -> bool {
        false
    }

    /// Visits every record of every table, in the order of tables and keys. Each record's checksum is
    /// verified.
    ///
    /// # Errors
    /// [`Error::Damaged`], or the database failed.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<(), Error>;

    /// Visits the audit trail from entry `from` on (the first is 1), at most `most` entries. Each hash is
    /// verified against the entry before it.
    ///
    /// # Errors
    /// [`Error::Damaged`], or the database failed.
    fn audit(&mut self, from: u64, most: u64, visit: &mut dyn FnMut(&ChainLink, &[u8])) -> Result<(), Error>;

    /// Does periodic work. With `idle` no caller waits, and work that can wait is done too.
    ///
    /// # Errors
    /// [`Error::Full`]: a later call may succeed. [`Error::Dead`]: the store writes nothing more.
    fn tidy(&mut self, idle: bool) -> Result<(), Error>;

    /// The number of openings for writing. A process that holds an older number is no longer the owner.
    fn epoch(&self) -> u64;

    /// The last entry of the audit trail.
    fn head(&self) -> ChainLink;
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn commit(&mut self, batches: &mut dyn Iterator<Item = &Batch>) -> Result<(), Error> {
        (**self).commit(batches)
    }

    fn relieve(&mut self) -> bool {
        (**self).relieve()
    }

    fn is_short(&mut self) -> bool {
        (**self).is_short()
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<(), Error> {
        (**self).scan(visit)
    }

    fn audit(&mut self, from: u64, most: u64, visit: &mut dyn FnMut(&ChainLink, &[u8])) -> Result<(), Error> {
        (**self).audit(from, most, visit)
    }

    fn tidy(&mut self, idle: bool) -> Result<(), Error> {
        (**self).tidy(idle)
    }

    fn epoch(&self) -> u64 {
        (**self).epoch()
    }

    fn head(&self) -> ChainLink {
        (**self).head()
    }
}
