//! Writing: one transaction for all that wait, and what a failure of it means.

use super::Sqlite;
use crate::chain::checksum;
use crate::{Batch, Error, Link, Record};
use rusqlite::{Connection, ErrorCode};

/// Writes the batches in one transaction and waits for the disk.
pub(super) fn commit(store: &mut Sqlite, batches: &mut dyn Iterator<Item = &Batch>) -> Result<(), Error> {
    match write(&store.connection, store.head, batches) {
        Ok(head) => {
            store.head = head;
            // NOOP says how much there is to write back and does nothing (SQLite 3.51).
            checkpoint(store, "PRAGMA wal_checkpoint(NOOP)")
        }
        Err(error) => Err(failed(store, &error)),
    }
}

fn write(connection: &Connection, mut head: Link, batches: &mut dyn Iterator<Item = &Batch>) -> rusqlite::Result<Link> {
    run(connection, "BEGIN IMMEDIATE")?;
    for record in batches.flatten() {
        match record {
            Record::Put { table, key, value } => {
                let sql = "INSERT OR REPLACE INTO record (tbl, key, sum, value) VALUES (?1, ?2, ?3, ?4)";
                let sum = checksum(table.0, key, value);
                connection.prepare_cached(sql)?.execute((table.0, key, sum, value))?;
            }
            Record::Delete { table, key } => {
                let sql = "DELETE FROM record WHERE tbl = ?1 AND key = ?2";
                connection.prepare_cached(sql)?.execute((table.0, key))?;
            }
            Record::Audit { body } => {
                head = head.next(body);
                let sql = "INSERT INTO audit (number, hash, body) VALUES (?1, ?2, ?3)";
                let number = i64::try_from(head.number).unwrap_or(i64::MAX);
                connection.prepare_cached(sql)?.execute((number, head.hash, body))?;
            }
        }
    }
    run(connection, "COMMIT")?;
    Ok(head)
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(()).map(|_| ())
}

/// A full disk takes a transaction back as if it had never been; after anything else nobody knows what is on the disk.
fn failed(store: &mut Sqlite, error: &rusqlite::Error) -> Error {
    let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
    // SQLite may have taken the transaction back already; then this finds none.
    let open = !store.connection.is_autocommit();
    let undone = !open || store.connection.execute_batch("ROLLBACK").is_ok();
    if full && undone { Error::Full } else { store.dies(error) }
}

/// Writes what is in the log into the database, so that the log begins again.
pub(super) fn write_back(store: &mut Sqlite) -> Result<(), Error> {
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
