//! The tables, and the steps from an older format to the present one.
//!
//! The format's number is SQLite's `user_version`. A step and its number are one transaction, so a crash
//! between steps leaves a format with a number.

use crate::Error;
use rusqlite::Connection;

/// SQLite's application id of a journal, which the tool `file` shows too: "SLJ1".
const APPLICATION: u32 = 0x534c_4a31;

/// The steps. After the n-th the format is n.
const STEPS: [&str; 2] = [
    "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE record (
        tbl INTEGER NOT NULL, key BLOB NOT NULL, sum INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (tbl, key)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE audit (number INTEGER PRIMARY KEY, hash BLOB NOT NULL, body BLOB NOT NULL) STRICT;
    INSERT INTO meta VALUES ('epoch', '0');
    INSERT INTO meta VALUES ('id', lower(hex(randomblob(16))));
",
    "CREATE TABLE daybook (number INTEGER PRIMARY KEY, sum INTEGER NOT NULL, body BLOB NOT NULL) STRICT;",
];

/// The format that this program writes.
pub(super) const KNOWN: u32 = STEPS.len() as u32;

/// The format of the database; 0 for an empty one.
///
/// # Errors
/// [`Error::Newer`], or the database belongs to another program.
pub(super) fn found(connection: &Connection) -> Result<u32, Error> {
    let number = |name: &str| -> Result<u32, Error> {
        let found: i64 = connection.pragma_query_value(None, name, |row| row.get(0)).map_err(super::damaged)?;
        Ok(u32::try_from(found).unwrap_or(u32::MAX))
    };
    let (application, found) = (number("application_id")?, number("user_version")?);
    if found > KNOWN {
        return Err(Error::Newer { found, known: KNOWN });
    }
    if found > 0 && application != APPLICATION {
        let why = "it is a database of another program".to_owned();
        return Err(Error::Failed { what: "open the journal".to_owned(), why });
    }
    Ok(found)
}

/// Brings the database from format `found` to the present one.
pub(super) fn migrate(connection: &Connection, found: u32) -> rusqlite::Result<()> {
    for (done, step) in STEPS.iter().enumerate().skip(found as usize) {
        let version = done + 1;
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {step} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version}; COMMIT;"
        ))?;
    }
    Ok(())
}
