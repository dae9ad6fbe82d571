//! Commits: one row of the log table for all waiting batches, and the handling of failed writes.

use super::{Sqlite, checkpoint, group};
use crate::{Batch, Error};
use rusqlite::{Connection, ErrorCode};

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

pub(super) fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(()).map(|_| ())
}

/// Handles a failed transaction. A full disk rolls it back whole; after any other error the state on the disk
/// is unknown.
pub(super) fn failed(store: &mut Sqlite, error: &rusqlite::Error) -> Error {
    let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
    // SQLite may have taken the transaction back already; then this finds none.
    let open = !store.connection.is_autocommit();
    let undone = !open || store.connection.execute_batch("ROLLBACK").is_ok();
    if full && undone { Error::Full } else { store.dies(error) }
}

/// Measures how much of the log is not in the database yet. NOOP reports it and does nothing (SQLite 3.51).
pub(super) fn measure(store: &mut Sqlite) -> Result<(), Error> {
    checkpoint(store, "PRAGMA wal_checkpoint(NOOP)")
}

/// Writes the log back into the database, so that the log can begin again.
pub(super) fn write_back(store: &mut Sqlite) -> Result<(), Error> {
    store.log_table.checkpoint_due();
    checkpoint(store, "PRAGMA wal_checkpoint(PASSIVE)")
}

fn checkpoint(store: &mut Sqlite, sql: &str) -> Result<(), Error> {
    let done = store
        .connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row((), |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))));
    match done {
        Ok((in_log, back)) => {
            store.logged = u64::try_from(in_log - back).unwrap_or(0);
            Ok(())
        }
        // Nothing is lost while it is in the log: the next attempt may find room.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => Ok(()),
        Err(error) => Err(store.dies(&error)),
    }
}
