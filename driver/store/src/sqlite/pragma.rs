//! Settings that durability rests on. Each is set and then read back, because SQLite silently ignores a
//! setting that it cannot take.

use crate::Error;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// Name, value to set, value to read back. The order matters: the exclusive lock must be set before the log
/// is read, or the log's index is a file.
const SETTINGS: [(&str, &str, &str); 10] = [
    ("locking_mode", "EXCLUSIVE", "exclusive"),
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", "2"),
    // Ours, in `tidy`: so that it happens when nobody waits.
    ("wal_autocheckpoint", "0", "0"),
    ("journal_size_limit", "-1", "-1"),
    // A failing disk is then an error, and not a signal.
    ("mmap_size", "0", "0"),
    ("temp_store", "MEMORY", "2"),
    ("trusted_schema", "OFF", "0"),
    ("cell_size_check", "ON", "1"),
    ("cache_size", "-16384", "-16384"),
];

/// Sets all of them on a connection: the journal's own, or one that a test or benchmark compares with it.
///
/// # Errors
/// SQLite's error. `check` finds a setting that SQLite silently ignored.
pub fn set(connection: &Connection) -> Result<(), rusqlite::Error> {
    // The log stays as it is when we close: its place on the disk is what makes it quick.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    for (name, wanted, _) in SETTINGS {
        connection.pragma_update_and_check(None, name, wanted, |_| Ok(())).or_else(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => Ok(()),
            other => Err(other),
        })?;
    }
    Ok(())
}

/// Checks that all settings have the values that were set.
///
/// # Errors
/// [`Error::Pragma`] names the first that differs.
pub(super) fn check(connection: &Connection) -> Result<(), Error> {
    for (name, _, wanted) in SETTINGS {
        let found = read(connection, name)?;
        if found != wanted {
            return Err(Error::Pragma { name, wanted: wanted.to_owned(), found });
        }
    }
    Ok(())
}

/// The value of a setting, as SQLite reports it.
pub(super) fn read(connection: &Connection, name: &str) -> Result<String, Error> {
    let value = connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
    let what = format!("ask SQLite for {name}");
    match value.map_err(Error::doing(what))? {
        rusqlite::types::Value::Integer(number) => Ok(number.to_string()),
        rusqlite::types::Value::Text(text) => Ok(text.to_lowercase()),
        other => Ok(format!("{other:?}")),
    }
}
