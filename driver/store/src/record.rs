//! What is written: records that the journal does not understand, in batches that stand or fall together.

use crate::Error;

/// The longest key, bytes.
pub const MAX_KEY: usize = 1 << 10;
/// The longest value or audit entry, bytes.
pub const MAX_VALUE: usize = 1 << 20;
/// Most records in a batch.
pub const MAX_BATCH: usize = 1 << 16;

/// Which of the writer's tables a record is in; the numbers are the writer's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u16);

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// The value of this key is now this.
    Put {
        /// Where.
        table: TableId,
        /// Under which name. Keys that rise with time are the cheapest: neighbours share a page.
        key: Vec<u8>,
        /// What.
        value: Vec<u8>,
    },
    /// There is no such key any more; one that never was is no error.
    Delete {
        /// Where.
        table: TableId,
        /// Which.
        key: Vec<u8>,
    },
    /// An entry of the audit trail: it gets the next number and a hash over itself and everything before it, and is
    /// never changed or removed.
    Audit {
        /// What happened.
        body: Vec<u8>,
    },
}

/// Changes that are made together or not at all.
pub type Batch = Vec<Record>;

/// Whether a batch is within the limits.
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
