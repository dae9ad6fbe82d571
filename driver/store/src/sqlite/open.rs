//! Opening: the files are checked before anything is written, and each kind of damage has its own error.

use super::ballast::Ballast;
use super::log_table::LogTable;
use super::seal::{Found, Seal};
use super::statement::run;
use super::{FILE, OLDEST, SEAL, Sqlite, SqliteOptions, damaged, log, log_of, pragma, schema, trail};
use crate::{ChainLink, Damage, Error, Store, filesystem};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Number of latest audit entries that each opening verifies. [`verify`] checks all.
const AUDIT_TAIL: u64 = 10_000;

pub(super) fn open(directory: &Path, options: SqliteOptions) -> Result<Sqlite, Error> {
    check_version(rusqlite::version_number(), rusqlite::version())?;
    let mut make = fs::DirBuilder::new();
    let made = make.recursive(true).mode(0o750).create(directory);
    made.map_err(Error::doing(format!("make the directory {}", directory.display())))?;
    check_place(directory, &options)?;
    let (database, seal) = (directory.join(FILE), directory.join(SEAL));
    let log = log_of(&database);
    let found = prepare(&database, &log, &seal)?;
    let connection = connect(&database, &options)?;
    let format = schema::found(&connection)?;
    if found.is_some() && format == 0 {
        return Err(Error::Damaged(Damage::Mixed("the database is empty".to_owned())));
    }
    schema::migrate(&connection, format).map_err(|error| translated(&database, error))?;
    check_pages(&connection, options.check_bytes)?;
    let (id, epoch) = identity(&connection)?;
    if let Some(found) = &found {
        found.check(&id, epoch)?;
    }
    let posted = last_of_audit(&connection)?;
    let from = posted.number.saturating_sub(AUDIT_TAIL).max(1);
    walk_audit(&connection, from, u64::MAX, &mut |_, _| {})?;
    let log_table = LogTable::read(&connection, posted)?;
    if found.is_some() {
        // First the intention: where the seal cannot be written, the database does not count either.
        Seal { id: id.clone(), epoch, opening: true }.write(&seal)?;
    }
    let epoch = epoch + 1;
    begin(&connection, epoch, &log_table).map_err(|error| translated(&database, error))?;
    Seal { id, epoch, opening: false }.write(&seal)?;
    log::extend(&log, options.log_bytes)?;
    let ballast = Ballast::lay(directory, options.ballast_bytes);
    Ok(Sqlite { connection, options, epoch, log_table, ballast, logged: 0, dead: None })
}

/// Reads the seal and checks the log. Without a seal, keeps an existing database or clears the directory for a
/// new one. Returns the seal of a finished journal.
fn prepare(database: &Path, log: &Path, seal: &Path) -> Result<Option<Seal>, Error> {
    match Seal::read(seal)? {
        Found::Sealed(found) => {
            log::check(log)?;
            return Ok(Some(found));
        }
        Found::Nothing if database.exists() => return Ok(None),
        Found::Nothing => Seal::begin(seal)?,
        Found::Unfinished => {}
    }
    let mut rollback = database.as_os_str().to_owned();
    rollback.push("-journal");
    for path in [database, log, Path::new(&rollback)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::doing(format!("remove {}", path.display()))(error));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Refuses an old SQLite: a program linked with the system's library may have one that spoils its log.
fn check_version(number: i32, text: &str) -> Result<(), Error> {
    if number < OLDEST { Err(Error::OldSqlite(text.to_owned())) } else { Ok(()) }
}

fn check_place(directory: &Path, options: &SqliteOptions) -> Result<(), Error> {
    match filesystem(directory) {
        Some(found) if !found.is_trusted() && !options.any_filesystem => {
            Err(Error::Place { path: directory.to_owned(), filesystem: found.name })
        }
        _ => Ok(()),
    }
}

fn connect(database: &Path, options: &SqliteOptions) -> Result<Connection, Error> {
    match create_private(database) {
        // A journal that is there is never opened but by SQLite: closing a descriptor of it would drop its locks (fcntl(2)).
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(Error::doing(format!("make {}", database.display())))?,
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = match &options.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(database, flags, vfs.as_str()),
        None => Connection::open_with_flags(database, flags),
    };
    let connection = opened.map_err(|error| translated(database, error))?;
    pragma::set(&connection).map_err(|error| translated(database, error))?;
    // The lock is taken by the first read; nothing else may come between.
    let _: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
        .map_err(|error| translated(database, error))?;
    pragma::check(&connection)?;
    Ok(connection)
}

/// Restarts the log, so that frames of earlier rounds do not look current, and writes the new epoch into it.
fn begin(connection: &Connection, epoch: u64, log_table: &LogTable) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(RESTART)", (), |_| Ok(()))?;
    run(connection, "BEGIN IMMEDIATE")?;
    connection.execute("UPDATE meta SET value = ?1 WHERE name = 'epoch'", [epoch.to_string()])?;
    log_table.checkpoint(false).write(connection)?;
    run(connection, "COMMIT")
}

/// Checks the database's pages. In a large database the table of the audit trail is left out: it grows
/// without limit, and a start reads only its end. Entries are verified when they are read.
fn check_pages(connection: &Connection, whole: u64) -> Result<(), Error> {
    let size = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(damaged);
    let bytes = size("page_count")?.saturating_mul(size("page_size")?);
    let checks = match u64::try_from(bytes).is_ok_and(|bytes| bytes <= whole) {
        true => &["PRAGMA quick_check(1)"][..],
        false => &[
            "PRAGMA quick_check(sqlite_schema)",
            "PRAGMA quick_check(meta)",
            "PRAGMA quick_check(daybook)",
            "PRAGMA quick_check(record)",
        ][..],
    };
    for check in checks {
        let found: String = connection.query_row(check, (), |row| row.get(0)).map_err(damaged)?;
        if found != "ok" {
            return Err(Error::Damaged(Damage::Pages(found)));
        }
    }
    Ok(())
}

fn identity(connection: &Connection) -> Result<(String, u64), Error> {
    let one = |name: &str| -> Result<String, Error> {
        connection.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).map_err(damaged)
    };
    let epoch = one("epoch")?;
    let number = epoch.parse().map_err(|_| Error::Damaged(Damage::Pages(format!("the epoch is {epoch:?}"))))?;
    Ok((one("id")?, number))
}

fn last_of_audit(connection: &Connection) -> Result<ChainLink, Error> {
    let sql = "SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1";
    let mut statement = connection.prepare(sql).map_err(damaged)?;
    let mut rows = statement.query(()).map_err(damaged)?;
    rows.next().map_err(damaged)?.map_or(Ok(ChainLink::default()), |row| link(row).map_err(damaged))
}

fn link(row: &rusqlite::Row<'_>) -> rusqlite::Result<ChainLink> {
    Ok(ChainLink { number: u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0), hash: row.get(1)? })
}

/// Walks the audit trail from `from` and verifies each entry against the one before. Returns the last one
/// found.
pub(super) fn walk_audit(
    connection: &Connection,
    from: u64,
    most: u64,
    visit: &mut dyn FnMut(&ChainLink, &[u8]),
) -> Result<ChainLink, Error> {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let sql = "SELECT number, hash, body FROM audit WHERE number >= ?1 ORDER BY number LIMIT ?2";
    let mut statement = connection.prepare(sql).map_err(damaged)?;
    let mut before = trail::begins(connection)?;
    let from = from.max(before.number + 1);
    if from > before.number + 1 {
        let sql = "SELECT number, hash FROM audit WHERE number = ?1";
        let found = connection.query_row(sql, [signed(from - 1)], link);
        before = found.map_err(|_| Error::Damaged(Damage::Audit(from - 1)))?;
    }
    let mut rows = statement.query((signed(from), signed(most))).map_err(damaged)?;
    while let Some(row) = rows.next().map_err(damaged)? {
        let found = link(row).map_err(damaged)?;
        let body = row.get_ref(2).and_then(|cell| Ok(cell.as_blob()?)).map_err(damaged)?;
        let expected = before.next(body);
        if found != expected {
            return Err(Error::Damaged(Damage::Audit(expected.number)));
        }
        visit(&found, body);
        before = found;
    }
    Ok(before)
}

/// Verifies the whole journal of `directory`: pages, every record, the whole audit trail. Returns the number
/// of records and the last audit entry.
///
/// # Errors
/// As [`Sqlite::open`], and any damage found.
pub fn verify(directory: &Path) -> Result<(u64, ChainLink), Error> {
    let mut store = Sqlite::open(directory, SqliteOptions { check_bytes: u64::MAX, ..SqliteOptions::default() })?;
    let mut records = 0;
    store.scan(&mut |_, _, _| records += 1)?;
    store.audit(1, u64::MAX, &mut |_, _| {})?;
    Ok((records, store.head()))
}

/// Restores the backup `from` as the journal of `directory`, which must have none. Opening it raises the
/// epoch, so a process that holds the old one is no longer the owner.
///
/// # Errors
/// The directory has a journal already, or the backup is damaged.
pub fn restore(from: &Path, directory: &Path) -> Result<(), Error> {
    let what = || format!("restore {} to {}", from.display(), directory.display());
    let mut make = fs::DirBuilder::new();
    make.recursive(true).mode(0o750).create(directory).map_err(Error::doing(what()))?;
    let database = directory.join(FILE);
    for name in [SEAL.to_owned(), format!("{FILE}-wal")] {
        if directory.join(&name).exists() {
            return Err(Error::Failed { what: what(), why: format!("there is a {name} already") });
        }
    }
    create_private(&database).map_err(Error::doing(what()))?;
    let copied = File::open(from).and_then(|mut source| {
        let mut target = OpenOptions::new().write(true).open(&database)?;
        io::copy(&mut source, &mut target)?;
        target.sync_all()
    });
    copied.map_err(Error::doing(what()))?;
    verify(directory).map(|_| ())
}

/// Creates an empty file that only its owner can read.
pub(super) fn create_private(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.sync_all()?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// Waits until a file and its name are on the disk.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// Translates SQLite's error at an opening.
fn translated(database: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Held(database.to_owned()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(error),
        Some(ErrorCode::DiskFull) => Error::Full,
        _ => Error::doing(format!("open {}", database.display()))(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS.md D15: Debian 12 has 3.40.1; 3.51.3 is the first without the fault.
    #[test]
    fn an_old_sqlite_is_refused_by_its_number() {
        for (number, text, good) in [(3_040_001, "3.40.1", false), (3_051_002, "3.51.2", false), (3_051_003, "", true)]
        {
            assert_eq!(check_version(number, text).is_ok(), good, "{number}");
        }
        assert_eq!(check_version(3_040_001, "3.40.1"), Err(Error::OldSqlite("3.40.1".to_owned())));
        assert!(check_version(rusqlite::version_number(), "ours").is_ok());
    }
}
