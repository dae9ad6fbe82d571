//! Statements without a result, and the handling of failed ones.

use super::Sqlite;
use crate::Error;
use rusqlite::{Connection, ErrorCode};

/// Carries out one statement.
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
