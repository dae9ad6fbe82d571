//! Records and batches. The journal does not interpret records; it writes a batch whole or not at all.

use crate::Error;

/// Maximum length of a key, bytes.
pub const MAX_KEY: usize = 1 << 10;
/// Maximum length of a value or an audit entry, bytes.
pub const MAX_VALUE: usize = 1 << 20;
/// Maximum number of records in a batch.
pub const MAX_BATCH: usize = 1 << 16;

/// The number of one of the writer's tables. The writer chooses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u16);

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Sets the value of a key.
    Put {
        /// The table.
        table: TableId,
        /// The key. Keys that rise with time are the cheapest: neighbours share a page.
        key: Vec<u8>,
        /// The new value.
        value: Vec<u8>,
    },
    /// Removes a key. A missing key is no error.
    Delete {
        /// The table.
        table: TableId,
        /// The key.
        key: Vec<u8>,
    },
    /// An entry of the audit trail. It gets the next number and a hash over itself and all entries before it.
    /// It never changes; only the oldest entries are deleted, by age.
    Audit {
        /// The writer's description of the event.
        body: Vec<u8>,
    },
}

/// Changes that are made together or not at all.
pub type Batch = Vec<Record>;

/// Checks that a batch is within the limits.
///
/// # Errors
/// [`Error::TooLarge`].
pub(crate) fn check(batch: &Batch) -> Result<(), Error> {
    if batch.len() > MAX_BATCH {
        return Err(Error::TooLarge { what: "records in a batch", is: batch.len(), most: MAX_BATCH });
    }
    for record in batch {
        let (key, value) = match record {
            Record::Put { key, value, .. } => (key.len(), value.len()),
            Record::Delete { key, .. } => (key.len(), 0),
            Record::Audit { body } => (0, body.len()),
        };
        if key > MAX_KEY {
            return Err(Error::TooLarge { what: "bytes in a key", is: key, most: MAX_KEY });
        }
        if value > MAX_VALUE {
            return Err(Error::TooLarge { what: "bytes in a record", is: value, most: MAX_VALUE });
        }
    }
    Ok(())
}
