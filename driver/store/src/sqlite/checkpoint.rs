//! Posting: moves the changes of the log table to the other tables in one transaction. A record that changed
//! several times is written once, and neighbours are written together.

use super::Sqlite;
use super::log_table::LogTable;
use super::statement::{failed, run};
use super::wal::measure;
use crate::chain::checksum;
use crate::{ChainLink, Error};
use rusqlite::Connection;

/// Posts everything. If there is no room, everything stays in the log table.
pub(super) fn post(store: &mut Sqlite) -> Result<(), Error> {
    match write(&store.connection, &store.log_table, store.options.audit_keep) {
        Ok(()) => {
            store.log_table.clear();
            measure(store)
        }
        Err(error) => match failed(store, &error) {
            // Nothing is lost while it is in the log_table: the next attempt may find room.
            Error::Full => {
                store.log_table.put_off();
                Ok(())
            }
            error => Err(error),
        },
    }
}

/// Writes all changes of the log table to the tables and empties the log table.
pub(super) fn write(connection: &Connection, log_table: &LogTable, audit_keep: u64) -> rusqlite::Result<()> {
    run(connection, "BEGIN IMMEDIATE")?;
    let mut put =
        connection.prepare_cached("INSERT OR REPLACE INTO record (tbl, key, sum, value) VALUES (?1, ?2, ?3, ?4)")?;
    let mut delete = connection.prepare_cached("DELETE FROM record WHERE tbl = ?1 AND key = ?2")?;
    for ((table, key), value) in log_table.changes() {
        match value {
            Some(value) => put.execute((table, key, checksum(table, key, value), value))?,
            None => delete.execute((table, key))?,
        };
    }
    let mut entry = connection.prepare_cached("INSERT INTO audit (number, hash, body) VALUES (?1, ?2, ?3)")?;
    for (ChainLink { number, hash }, body) in log_table.audit() {
        entry.execute((i64::try_from(number).unwrap_or(i64::MAX), hash, body))?;
    }
    super::trail::shorten(connection, log_table.head().number, audit_keep)?;
    run(connection, "DELETE FROM daybook")?;
    log_table.checkpoint(true).write(connection)?;
    run(connection, "COMMIT")
}
