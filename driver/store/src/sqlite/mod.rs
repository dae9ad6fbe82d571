//! SQLite as the journal: one file and its write-ahead log, held by this process alone.
//!
//! `synchronous=FULL` in WAL mode makes a commit durable
//! (<https://www.sqlite.org/pragma.html#pragma_synchronous>). The exclusive lock keeps a second process out
//! and the index of the log in memory, so there is no `-shm` file to lose. The log is filled with zeros once
//! and never shortened: with each fsync, appending to a file costs a second write for its length, and
//! overwriting does not. A commit first writes one row of a log table; the other tables follow later
//! ([`log_table`]).

mod ballast;
mod checkpoint;
mod commit;
mod group;
mod log;
mod log_table;
mod open;
mod pragma;
mod read;
mod schema;
mod seal;
mod statement;
mod trail;
mod wal;

pub use open::{restore, verify};
pub use pragma::set as configure;

use crate::{Batch, ChainLink, Damage, Error, Store, Visit};
use ballast::Ballast;
use log_table::LogTable;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::path::{Path, PathBuf};

/// The name of the database file. The log has the same name with `-wal`.
pub const FILE: &str = "journal.db";
/// The name of the seal file, which holds the journal's id and the number of its openings.
pub const SEAL: &str = "journal.seal";
/// The oldest SQLite without the fault that spoils a log when it is reset (3.51.3).
const OLDEST: i32 = 3_051_003;
/// Pages that a backup copies at a time.
const BACKUP_STEP: i32 = 1024;

/// Settings of a SQLite journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqliteOptions {
    /// Initial size of the log, bytes.
    pub log_bytes: u64,
    /// Number of pages in the log from which it is written back when the journal is idle.
    pub idle_pages: u64,
    /// Number of pages in the log from which it is written back in any case.
    pub most_pages: u64,
    /// Number of bytes in the log table from which they are posted when the journal is idle.
    pub idle_bytes: usize,
    /// Number of bytes in the log table from which they are posted in any case.
    pub most_bytes: usize,
    /// Maximum size of a database that each opening checks whole, bytes. Of a larger one, the pages of older
    /// audit entries are left to [`verify`].
    pub check_bytes: u64,
    /// Minimum number of audit entries to keep. Older ones are deleted, some thousand at a time.
    pub audit_keep: u64,
    /// Size of the ballast, bytes: room for urgent batches when the disk is full.
    pub ballast_bytes: u64,
    /// True if any file system is accepted. Otherwise network file systems and overlays are refused.
    pub any_filesystem: bool,
    /// SQLite's name of the VFS, its layer above the files; `None` means the default.
    pub vfs: Option<String>,
}

impl Default for SqliteOptions {
    /// A log of 8 MiB, written back after at most 6; whole checks up to 64 MiB; a million audit entries (some
    /// 150 MB); 2 MiB of ballast.
    fn default() -> SqliteOptions {
        SqliteOptions {
            log_bytes: 8 << 20,
            idle_pages: 500,
            most_pages: 1500,
            idle_bytes: 1 << 19,
            most_bytes: 2 << 20,
            check_bytes: 64 << 20,
            audit_keep: 1_000_000,
            ballast_bytes: 2 << 20,
            any_filesystem: false,
            vfs: None,
        }
    }
}

/// A journal in SQLite.
#[derive(Debug)]
pub struct Sqlite {
    connection: Connection,
    options: SqliteOptions,
    epoch: u64,
    log_table: LogTable,
    ballast: Ballast,
    /// Estimated number of pages in the log since it was last written back.
    logged: u64,
    /// The reason why nothing more is written, after a failure.
    dead: Option<String>,
}

impl Sqlite {
    /// Opens the journal in `directory`, or creates one there.
    ///
    /// # Errors
    /// An [`Error`]. A journal of a later version or of another owner has not been touched.
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<Sqlite, Error> {
        match open::open(directory, options.clone()) {
            // On a full disk what was kept for this gives the room that an opening needs.
            Err(Error::Full | Error::Failed { .. }) if ballast::free(directory) => open::open(directory, options),
            opened => opened,
        }
    }

    /// Reads a setting of the database, for tests and diagnosis.
    ///
    /// # Errors
    /// SQLite has no such setting.
    pub fn pragma(&self, name: &str) -> Result<String, Error> {
        pragma::read(&self.connection, name)
    }

    /// Records a fatal failure. No later call writes anything.
    fn dies(&mut self, error: &rusqlite::Error) -> Error {
        let why = error.to_string();
        self.dead = Some(why.clone());
        Error::Dead(why)
    }

    /// Adds an upper estimate of the pages that a commit of `bytes` put into the log. [`wal::measure`] has
    /// the exact number.
    fn wrote(&mut self, bytes: usize) {
        self.logged += bytes as u64 / 2048 + 4;
    }

    /// The number of bytes that wait to be posted, for tests and diagnosis.
    pub fn unposted(&self) -> usize {
        self.log_table.bytes()
    }

    /// Writes a copy of the present state to `path`. No file may be there yet.
    ///
    /// # Errors
    /// The copy could not be written. This store is unchanged.
    pub fn backup(&mut self, path: &Path) -> Result<(), Error> {
        self.is_alive()?;
        let what = || format!("back the journal up to {}", path.display());
        // Made here, so that it is readable by its owner alone, and so that nothing is overwritten.
        open::create_private(path).map_err(Error::doing(what()))?;
        let mut copy = Connection::open(path).map_err(Error::doing(what()))?;
        let backup = Backup::new(&self.connection, &mut copy).map_err(Error::doing(what()))?;
        loop {
            match backup.step(BACKUP_STEP).map_err(Error::doing(what()))? {
                StepResult::Done => break,
                StepResult::More => {}
                _ => return Err(Error::Failed { what: what(), why: "the database is locked".to_owned() }),
            }
        }
        drop(backup);
        copy.close().map_err(|(_, error)| error).map_err(Error::doing(what()))?;
        open::sync(path).map_err(Error::doing(what()))
    }

    fn is_alive(&self) -> Result<(), Error> {
        self.dead.as_ref().map_or(Ok(()), |why| Err(Error::Dead(why.clone())))
    }
}

impl Store for Sqlite {
    fn commit(&mut self, batches: &mut dyn Iterator<Item = &Batch>) -> Result<(), Error> {
        self.is_alive()?;
        commit::commit(self, batches)
    }

    fn relieve(&mut self) -> bool {
        self.ballast.throw()
    }

    fn is_short(&mut self) -> bool {
        !self.ballast.is_there()
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<(), Error> {
        read::scan(&self.connection, &self.log_table, visit)
    }

    fn audit(&mut self, from: u64, most: u64, visit: &mut dyn FnMut(&ChainLink, &[u8])) -> Result<(), Error> {
        read::audit(&self.connection, &self.log_table, from.max(1), most, visit)
    }

    fn tidy(&mut self, idle: bool) -> Result<(), Error> {
        self.is_alive()?;
        let SqliteOptions { idle_bytes, most_bytes, idle_pages, most_pages, .. } = self.options;
        if self.log_table.is_due(if idle { idle_bytes } else { most_bytes }) {
            checkpoint::post(self)?;
        }
        let due = if idle { idle_pages } else { most_pages };
        if self.logged >= due {
            wal::measure(self)?;
        }
        if self.logged >= due {
            wal::write_back(self)?;
        }
        Ok(())
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn head(&self) -> ChainLink {
        self.log_table.head()
    }
}

/// The file beside `database` that holds its log.
fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// The error for a failed read.
fn damaged(error: rusqlite::Error) -> Error {
    Error::Damaged(Damage::Pages(error.to_string()))
}
