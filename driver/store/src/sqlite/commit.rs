//! Commits: one row of the log table for all waiting batches.

use super::statement::failed;
use super::wal::measure;
use super::{Sqlite, checkpoint, group};
use crate::{Batch, Error};

/// Maximum size of a group in the log table, bytes. A larger one goes to the tables at once, with all that is
/// not posted yet: to write it twice would cost more.
const LARGE: usize = 1 << 18;
/// Maximum size of all groups that are not posted because the disk is full, bytes. They are in memory too.
const MOST: usize = 64 << 20;

/// Writes the batches in one transaction and waits for the disk.
pub(super) fn commit(store: &mut Sqlite, batches: &mut dyn Iterator<Item = &Batch>) -> Result<(), Error> {
    let before = store.log_table.head();
    let (body, head) = group::encode(batches, before);
    if body.is_empty() {
        return Ok(());
    }
    let size = body.len();
    if size > LARGE || store.log_table.bytes() + size > MOST {
        store.log_table.push(body, head);
        return match checkpoint::write(&store.connection, &store.log_table, store.options.audit_keep) {
            Ok(()) => {
                store.log_table.clear();
                measure(store)
            }
            Err(error) => {
                store.log_table.pop(before);
                Err(failed(store, &error))
            }
        };
    }
    match store.log_table.write(&store.connection, body, head) {
        Ok(()) => {
            store.wrote(size);
            Ok(())
        }
        Err(error) => Err(failed(store, &error)),
    }
}
