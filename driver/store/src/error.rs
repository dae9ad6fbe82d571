//! Errors of a journal: a failed opening, a batch that was not written, damage that was found.

use std::path::PathBuf;

/// An error of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// A batch is beyond a limit; nothing of it was written.
    TooLarge {
        /// The thing that was counted, with its unit, for the message.
        what: &'static str,
        /// The amount of the batch.
        is: usize,
        /// The largest amount allowed.
        most: usize,
    },
    /// Too many batches wait. Nothing of this one was written.
    Busy,
    /// The disk is full. Nothing of the batch was written. The caller may try the next one.
    Full,
    /// The disk or the database failed, and it is unknown how much of the batch is on the disk. Nothing more
    /// is written: after a failed fsync, a second one may succeed although the data is gone (Rebello et al.,
    /// "Can applications recover from fsync failures?", 2020). The process must stop and read the journal
    /// again.
    Dead(String),
    /// Another process has taken it over and writes it now. Nothing of the batch was written, and this process
    /// writes nothing more.
    Deposed(String),
    /// Another process has it open.
    Held(PathBuf),
    /// The file system of the directory has no reliable locks or fsync.
    Place {
        /// The journal's directory.
        path: PathBuf,
        /// The name of its file system: `nfs4`, `overlay`, ...
        filesystem: String,
    },
    /// A later version wrote the journal. It has not been touched.
    Newer {
        /// The format of the journal.
        found: u32,
        /// The latest format that this program knows.
        known: u32,
    },
    /// The journal's content differs from what was written.
    Damaged(Damage),
    /// The SQLite that this program was linked with is too old to be trusted.
    OldSqlite(String),
    /// The database did not take a setting that durability rests on.
    Pragma {
        /// The name of the setting.
        name: &'static str,
        /// The value that was set.
        wanted: String,
        /// The value that it reports.
        found: String,
    },
    /// A call to the system or the database failed.
    Failed {
        /// The action that failed.
        what: String,
        /// The reason.
        why: String,
    },
}

/// The kind of damage found in a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The journal's write-ahead log is missing or unreadable. The latest acknowledged changes were in it.
    LogGone(PathBuf),
    /// A damaged frame in the log, with whole transactions behind it.
    LogSpoilt {
        /// The number of the frame, from 0.
        frame: u64,
    },
    /// The database and its log or seal are of different journals or of different times.
    Mixed(String),
    /// SQLite's own check of the database failed.
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
    /// The hash chain of the audit trail breaks at this entry.
    Audit(u64),
}

impl Error {
    /// For `map_err`: makes [`Error::Failed`] with the name of the action.
    pub(crate) fn doing<E: std::fmt::Display>(what: impl Into<String>) -> impl FnOnce(E) -> Error {
        let what = what.into();
        move |why| Error::Failed { what, why: why.to_string() }
    }

    /// True if the caller may try the next batch after this error.
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
            Error::Deposed(leader) => {
                write!(f, "the journal was taken over by {leader}, and this process writes nothing more")
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
            Error::Pragma { name, wanted, found } => {
                write!(f, "the database keeps {name} at {found} instead of {wanted}")
            }
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
                write!(f, "row {number} of its log table is not what was written there; restore a backup")
            }
            Damage::Audit(number) => write!(f, "the audit trail was changed at entry {number}"),
        }
    }
}

impl std::error::Error for Error {}
