//! Which sequence numbers of INTEGRITY may have been used, on disk: RFC 2747 section 3.1. The engine uses none before it
//! is written here that it may, so that none is used in two lives of the agent, whatever the clock does between them.

use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

/// How many numbers the engine counts on at least.
const BLOCK: u64 = 1 << 20;

/// The file.
#[derive(Debug)]
pub struct Sequences {
    path: PathBuf,
    from: u64,
}

impl Sequences {
    /// Reads what an earlier life left. No file, or one that cannot be read as a number, says nothing: the clock, and the
    /// neighbours' challenges, must do then.
    pub fn open(folder: &Path) -> Sequences {
        let path = folder.join("sequences");
        let from = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
        Sequences { path, from: from.unwrap_or(0) }
    }

    /// Writes durably that numbers below `upto` may be used; gives what the engine is to be told: from, up to.
    ///
    /// # Errors
    /// What the file system says; nothing may be used then.
    pub fn reserve(&self, upto: u64) -> Result<(u64, u64)> {
        let upto = upto.max(self.from.saturating_add(BLOCK));
        let fresh = self.path.with_extension("new");
        let mut file = File::create(&fresh)?;
        writeln!(file, "{upto}")?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok((self.from, upto))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_life_begins_where_an_earlier_one_could_have_ended() {
        let folder = std::env::temp_dir().join(format!("sluice-sequences-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let first = Sequences::open(&folder);
        assert_eq!(first.reserve(5_000_000).unwrap(), (0, 5_000_000));
        assert_eq!(first.reserve(6_000_000).unwrap(), (0, 6_000_000));
        // The clock went back.
        let second = Sequences::open(&folder);
        assert_eq!(second.reserve(1_000_000).unwrap(), (6_000_000, 6_000_000 + BLOCK));
        std::fs::write(folder.join("sequences"), "nonsense").unwrap();
        assert_eq!(Sequences::open(&folder).reserve(9).unwrap(), (0, BLOCK));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(first.reserve(7).is_err(), "nothing may be used when it cannot be written");
    }
}
