//! The loop that is compared with: one row, one transaction, the journal's settings, and nothing else.

use rusqlite::Connection;
use std::path::Path;
use store::sqlite::{FILE, Sqlite, SqliteOptions, configure};

/// From so many pages of log on SQLite writes them back by itself: when the journal does, too, while nobody waits.
const WRITE_BACK: i64 = 500;

/// A database with one table.
pub struct Rows {
    connection: Connection,
    next: i64,
}

impl Rows {
    /// In a folder in which a journal was opened, so that the log has the same length on the disk.
    pub fn open(folder: &Path) -> Rows {
        let options = SqliteOptions { any_filesystem: true, ..SqliteOptions::default() };
        drop(Sqlite::open(folder, options).expect("a journal"));
        let connection = Connection::open(folder.join(FILE)).expect("a database");
        configure(&connection).expect("settings");
        connection.pragma_update(None, "wal_autocheckpoint", WRITE_BACK).expect("a setting");
        let table = "CREATE TABLE row (number INTEGER PRIMARY KEY, value BLOB NOT NULL) STRICT";
        connection.execute_batch(table).expect("a table");
        Rows { connection, next: 0 }
    }

    /// Rows a second.
    pub fn run(&mut self) -> f64 {
        let mut begin = self.connection.prepare("BEGIN IMMEDIATE").expect("SQL");
        let mut insert = self.connection.prepare("INSERT INTO row (number, value) VALUES (?1, ?2)").expect("SQL");
        let mut commit = self.connection.prepare("COMMIT").expect("SQL");
        let next = &mut self.next;
        crate::rate(|| {
            *next += 1;
            begin.execute(()).expect("begun");
            insert.execute((*next, [7_u8; 100])).expect("inserted");
            commit.execute(()).expect("on the disk");
        })
    }
}
