//! Settings that durability rests on: each is set, and each is asked for again, because SQLite answers a setting that it
//! does not take with silence.

use crate::Error;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// In this order: the exclusive lock must be wanted before the log is looked at, or its index lies in a file.
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

/// Sets all of them on a connection: the journal's own, or one that is to be compared with it.
///
/// # Errors
/// Whatever SQLite says. A setting that it does not take in silence is found by `check`.
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

/// Whether all are as they were set.
///
/// # Errors
/// [`Error::Pragma`] names the one that is not.
pub(super) fn check(connection: &Connection) -> Result<(), Error> {
    for (name, _, wanted) in SETTINGS {
        let found = read(connection, name)?;
        if found != wanted {
            return Err(Error::Pragma { name, wanted: wanted.to_owned(), found });
        }
    }
    Ok(())
}

/// What a setting is.
pub(super) fn read(connection: &Connection, name: &str) -> Result<String, Error> {
    let value = connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0));
    let what = format!("ask SQLite for {name}");
    match value.map_err(Error::doing(what))? {
        rusqlite::types::Value::Integer(number) => Ok(number.to_string()),
        rusqlite::types::Value::Text(text) => Ok(text.to_lowercase()),
        other => Ok(format!("{other:?}")),
    }
}
