//! Why a journal cannot be opened, or a batch not be written.

use std::path::PathBuf;

/// Why not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// A batch is beyond a limit; nothing of it was written.
    TooLarge {
        /// Of what there is too much.
        what: &'static str,
        /// How much.
        is: usize,
        /// How much there may be.
        most: usize,
    },
    /// Too many batches wait; nothing of this one was written.
    Busy,
    /// The disk is full. Nothing of the batch was written, and the next may be tried.
    Full,
    /// The disk or the database failed. What of the batch is on the disk nobody knows, so nothing is written any more: a
    /// second fsync after one that failed may say yes to data that is gone (Rebello et al., "Can applications recover from
    /// fsync failures?", 2020). The process has to stop and read again what is there.
    Dead(String),
    /// Another process has it open.
    Held(PathBuf),
    /// The file system there cannot be relied on for this.
    Place {
        /// Where.
        path: PathBuf,
        /// What is there: `nfs4`, `overlay`, ...
        filesystem: String,
    },
    /// It was written by a later version; it has not been touched.
    Newer {
        /// The format there.
        found: u32,
        /// The latest that this program knows.
        known: u32,
    },
    /// What is there is not what was written.
    Damaged(Damage),
    /// The SQLite that this program was linked with is too old to be trusted.
    OldSqlite(String),
    /// A setting that durability rests on was not taken.
    Pragma {
        /// Which.
        name: &'static str,
        /// What was asked.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// The system would not do it.
    Failed {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
}

/// What is wrong with a journal that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The write-ahead log that belongs to it is not there or cannot be read: what was acknowledged last is in it.
    LogGone(PathBuf),
    /// The log has whole transactions behind a frame that is spoilt.
    LogSpoilt {
        /// Which frame, from 0.
        frame: u64,
    },
    /// The database and its log or seal are not of the same journal, or not of the same time.
    Mixed(String),
    /// The database's own check found something.
    Pages(String),
    /// A record does not have the checksum that it was written with.
    Record {
        /// Its table.
        table: u16,
        /// Its key.
        key: Vec<u8>,
    },
    /// A row of the log table, by its number, is missing or not as it was written.
    LogTable(i64),
    /// The audit trail does not hang together at this number.
    Audit(u64),
}

impl Error {
    /// For `map_err`: names the deed.
    pub(crate) fn doing<E: std::fmt::Display>(what: impl Into<String>) -> impl FnOnce(E) -> Error {
        let what = what.into();
        move |why| Error::Failed { what, why: why.to_string() }
    }

    /// Whether the next batch may be tried after this.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::TooLarge { .. } | Error::Busy | Error::Full)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::TooLarge { what, is, most } => write!(f, "{is} {what}: at most {most}"),
            Error::Busy => write!(f, "too many changes wait for the disk: try again"),
            Error::Full => write!(f, "the disk is full: nothing was changed; make room and try again"),
            Error::Dead(why) => {
                write!(f, "the journal failed and writes nothing more ({why}): mend the disk and start the agent again")
            }
            Error::Held(path) => write!(f, "another process has the journal {} open", path.display()),
            Error::Place { path, filesystem } => write!(
                f,
                "{} is on {filesystem}, where neither locks nor fsync can be relied on: put the state on a local disk, \
                 or write [store] any_filesystem = true and lose reservations when it lies",
                path.display()
            ),
            Error::Newer { found, known } => write!(
                f,
                "the journal has format {found}, and this program knows up to {known}: use the program that wrote it; \
                 nothing was touched"
            ),
            Error::Damaged(damage) => write!(f, "the journal is damaged: {damage}"),
            Error::OldSqlite(version) => {
                write!(f, "SQLite {version} can spoil a write-ahead log: 3.51.3 or later is needed")
            }
            Error::Pragma { name, wanted, found } => write!(f, "SQLite keeps {name} at {found} instead of {wanted}"),
            Error::Failed { what, why } => write!(f, "cannot {what}: {why}"),
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const RESTORE: &str = "restore a backup, or remove the file journal.seal to go on with what is left";
        match self {
            Damage::LogGone(path) => write!(
                f,
                "the log {} is gone or unreadable, and what was acknowledged last with it; {RESTORE}",
                path.display()
            ),
            Damage::LogSpoilt { frame } => {
                write!(f, "frame {frame} of its log is spoilt, and later ones are not; {RESTORE}")
            }
            Damage::Mixed(what) => write!(f, "its files do not belong together ({what}); {RESTORE}"),
            Damage::Pages(what) => write!(f, "{what}; restore a backup"),
            Damage::Record { table, key } => {
                write!(f, "a record of table {table} (key {key:02x?}) is not as it was written; restore a backup")
            }
            Damage::LogTable(number) => {
                write!(f, "row {number} of its daybook is not what was written there; restore a backup")
            }
            Damage::Audit(number) => write!(f, "the audit trail was changed at entry {number}"),
        }
    }
}

impl std::error::Error for Error {}
