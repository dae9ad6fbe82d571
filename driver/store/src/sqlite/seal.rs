//! The seal: a small file beside the database with the journal's id and the number of its openings.
//!
//! Why: SQLite accepts a database without its log, and a log of another database as its own. Without the log
//! the latest acknowledged changes are lost silently. The seal makes that visible.

use crate::{Damage, Error};
use std::fs;
use std::path::Path;

/// The content of the seal file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// No file. The directory is new, or holds a backup, or an operator removed the seal to go on with what
    /// is left.
    Nothing,
    /// A journal was being created and is not finished. Nothing was acknowledged, whatever files are there.
    Unfinished,
    /// The seal of a finished journal.
    Sealed(Seal),
}

/// The content of the file while a journal is being created.
const UNFINISHED: &str = "sluice journal unfinished\n";
/// The end of the line while a journal is being opened.
const OPENING: &str = " and again";

/// A journal's id and the number of its openings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seal {
    /// The journal's random id.
    pub(super) id: String,
    /// The number of openings for writing.
    pub(super) epoch: u64,
    /// True while the journal is being opened once more. The database may or may not have counted that
    /// opening.
    pub(super) opening: bool,
}

impl Seal {
    /// Reads the file.
    ///
    /// # Errors
    /// The file cannot be read or is no seal.
    pub(super) fn read(path: &Path) -> Result<Found, Error> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(Error::doing(format!("read {}", path.display()))(error)),
        };
        if text == UNFINISHED.as_bytes() {
            return Ok(Found::Unfinished);
        }
        let seal = std::str::from_utf8(&text).ok().and_then(Seal::parse);
        let wrong = || Error::Damaged(Damage::Mixed(format!("{} is no seal", path.display())));
        seal.map(Found::Sealed).ok_or_else(wrong)
    }

    /// Writes that a journal is being created.
    pub(super) fn begin(path: &Path) -> Result<(), Error> {
        replace(path, UNFINISHED)
    }

    fn parse(text: &str) -> Option<Seal> {
        let (id, epoch) = text.strip_prefix("sluice journal ")?.strip_suffix('\n')?.split_once(" opened ")?;
        let (epoch, opening) = epoch.strip_suffix(OPENING).map_or((epoch, false), |epoch| (epoch, true));
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(Seal { id: id.to_owned(), epoch: epoch.parse().ok()?, opening }).filter(|_| is_id)
    }

    /// Writes this seal.
    pub(super) fn write(&self, path: &Path) -> Result<(), Error> {
        let opening = if self.opening { OPENING } else { "" };
        replace(path, &format!("sluice journal {} opened {}{opening}\n", self.id, self.epoch))
    }

    /// Checks that the database belongs to this seal: the same id, and the same number of openings or one
    /// more. An opening marks the seal before the database counts it, so the database is never further ahead,
    /// however many openings fail in between. Builds before this one did not mark it and left the database
    /// one ahead.
    pub(super) fn check(&self, id: &str, epoch: u64) -> Result<(), Error> {
        let wrong = if self.id != id {
            format!("the seal is of {}, the database of {id}", self.id)
        } else if epoch != self.epoch && epoch != self.epoch + 1 {
            format!("the seal saw opening {}, the database saw {epoch}", self.epoch)
        } else {
            return Ok(());
        };
        Err(Error::Damaged(Damage::Mixed(wrong)))
    }
}

/// Replaces the file so that after a crash either the old or the new one is there.
fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let fresh = path.with_extension("seal.new");
    let write = || -> std::io::Result<()> {
        fs::write(&fresh, text.as_bytes())?;
        fs::File::open(&fresh)?.sync_all()?;
        fs::rename(&fresh, path)?;
        path.parent().map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
    };
    write().map_err(Error::doing(format!("write {}", path.display())))
}
