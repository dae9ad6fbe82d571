//! SQLite as the journal: one file and its write-ahead log, held by this process alone.
//!
//! `synchronous=FULL` in WAL mode is what makes a commit durable (<https://www.sqlite.org/pragma.html#pragma_synchronous>);
//! the exclusive lock keeps a second process out and the index of the log in memory, so that there is no `-shm` file to
//! lose. The log is filled with zeros once and never shortened: appending to a file costs a second write of its length with
//! each fsync, overwriting does not. What is committed is one row of a log table first, and in the tables later ([`log_table`]).

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
mod trail;

pub use open::{restore, verify};
pub use pragma::set as configure;

use crate::{Batch, ChainLink, Damage, Error, Store, Visit};
use ballast::Ballast;
use log_table::LogTable;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::path::{Path, PathBuf};

/// The database's name in its directory; its log has the same with `-wal`.
pub const FILE: &str = "journal.db";
/// What says which journal belongs here and how often it was opened.
pub const SEAL: &str = "journal.seal";
/// The oldest SQLite without the fault that spoils a log when it is reset (3.51.3).
const OLDEST: i32 = 3_051_003;
/// Pages that a backup copies at a time.
const BACKUP_STEP: i32 = 1024;

/// What may be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqliteOptions {
    /// How large the log is made at once, bytes.
    pub log_bytes: u64,
    /// From how many pages of log on it is written back while nobody waits.
    pub idle_pages: u64,
    /// From how many pages of log on it is written back even though somebody waits.
    pub most_pages: u64,
    /// From how many bytes in the log table on they are posted to the tables while nobody waits.
    pub idle_bytes: usize,
    /// From how many bytes in the log table on they are posted even though somebody waits.
    pub most_bytes: usize,
    /// Up to which size a database is checked whole at each opening, bytes; of a larger one what the audit's older entries
    /// lie in is left to [`verify`].
    pub check_bytes: u64,
    /// How many entries the audit trail keeps at least; the oldest beyond that go, some thousand at a time.
    pub audit_keep: u64,
    /// How much room is kept for what gives something back when the disk is full, bytes.
    pub ballast_bytes: u64,
    /// Whether any file system will do: network file systems and overlays are refused otherwise.
    pub any_filesystem: bool,
    /// SQLite's own name of the layer between it and the files; `None`: its usual one.
    pub vfs: Option<String>,
}

impl Default for SqliteOptions {
    /// 8 MiB of log, of which at most 6 are used before they are written back; up to 64 MiB are checked whole; a million
    /// entries of the audit (some 150 MB), 2 MiB of ballast.
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
    /// Pages in the log since it was last written back, as far as we know.
    logged: u64,
    /// Why nothing is written any more.
    dead: Option<String>,
}

impl Sqlite {
    /// Opens the journal in `directory`, or makes one there.
    ///
    /// # Errors
    /// [`Error`]; a journal of a later version or of another owner has not been touched.
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<Sqlite, Error> {
        match open::open(directory, options.clone()) {
            // On a full disk what was kept for this gives the room that an opening needs.
            Err(Error::Full | Error::Failed { .. }) if ballast::free(directory) => open::open(directory, options),
            opened => opened,
        }
    }

    /// Asks the database a question of one number: for tests and diagnosis.
    ///
    /// # Errors
    /// It has no answer.
    pub fn pragma(&self, name: &str) -> Result<String, Error> {
        pragma::read(&self.connection, name)
    }

    /// After the first failure nothing is tried again.
    fn dies(&mut self, error: &rusqlite::Error) -> Error {
        let why = error.to_string();
        self.dead = Some(why.clone());
        Error::Dead(why)
    }

    /// So many bytes were committed: an estimate of the pages that this is in the log, upwards; asked is only when it matters.
    fn wrote(&mut self, bytes: usize) {
        self.logged += bytes as u64 / 2048 + 4;
    }

    /// How many bytes wait to be posted: for tests and diagnosis.
    pub fn unposted(&self) -> usize {
        self.log_table.bytes()
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
            commit::measure(self)?;
        }
        if self.logged >= due {
            commit::write_back(self)?;
        }
        Ok(())
    }

    fn backup(&mut self, path: &Path) -> Result<(), Error> {
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

/// What SQLite found wrong while reading.
fn damaged(error: rusqlite::Error) -> Error {
    Error::Damaged(Damage::Pages(error.to_string()))
}
