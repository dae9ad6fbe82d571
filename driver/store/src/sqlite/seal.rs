//! The seal: a small file beside the database that says which journal belongs here and how often it was opened.
//!
//! Why: SQLite takes a database without its log for a database, and a log of another database for its own. Without the log,
//! what was acknowledged last is gone and nobody is told; the seal is what lets us tell.

use crate::{Damage, Error};
use std::fs;
use std::path::Path;

/// What the file of the seal says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// There is none: nothing is there yet, or a backup, or somebody decided to go on with what is left.
    Nothing,
    /// A journal was being made and never finished: nothing was acknowledged, whatever lies there.
    Unfinished,
    /// This journal belongs here.
    Sealed(Seal),
}

/// What is in the file while a journal is being made.
const UNFINISHED: &str = "sluice journal unfinished\n";
/// What its last words are while a journal is being opened.
const OPENING: &str = " and again";

/// Which journal, and how often it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seal {
    /// The journal's own name, by chance.
    pub(super) id: String,
    /// How often it was opened for writing.
    pub(super) epoch: u64,
    /// It is being opened once more: whether the database knows of that already is not known.
    pub(super) opening: bool,
}

impl Seal {
    /// What the file says.
    ///
    /// # Errors
    /// It is there and is no seal.
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

    /// Says that a journal is being made.
    pub(super) fn begin(path: &Path) -> Result<(), Error> {
        replace(path, UNFINISHED)
    }

    fn parse(text: &str) -> Option<Seal> {
        let (id, epoch) = text.strip_prefix("sluice journal ")?.strip_suffix('\n')?.split_once(" opened ")?;
        let (epoch, opening) = epoch.strip_suffix(OPENING).map_or((epoch, false), |epoch| (epoch, true));
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(Seal { id: id.to_owned(), epoch: epoch.parse().ok()?, opening }).filter(|_| is_id)
    }

    /// Says that this journal belongs here.
    pub(super) fn write(&self, path: &Path) -> Result<(), Error> {
        let opening = if self.opening { OPENING } else { "" };
        replace(path, &format!("sluice journal {} opened {}{opening}\n", self.id, self.epoch))
    }

    /// Whether the database belongs to this seal: it is the same, and as old, or one opening ahead. An opening says on the
    /// seal that it begins before the database counts it, so that however many openings die in between, the database is
    /// never further ahead; builds before this one said nothing, and left it one ahead.
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

/// Writes the file so that either the old one or the new one is there, whatever happens.
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
