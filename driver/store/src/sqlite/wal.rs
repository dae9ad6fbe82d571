//! SQLite's write-ahead log: its size, and the way back into the database.

use super::Sqlite;
use crate::Error;
use rusqlite::ErrorCode;

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
