//! The numbers of advertisements, which outlive the broker: our own rise, and an old one of others does not come back.

use crate::state_file;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The file in the state folder.
const FILE: &str = "topology.json";

/// The file of the highest number of each domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumbersFile(PathBuf);

impl NumbersFile {
    /// The file in this folder.
    pub fn of(state: &Path) -> NumbersFile {
        NumbersFile(state.join(FILE))
    }

    /// The numbers that were kept. A spoilt file is set aside, and said.
    ///
    /// # Errors
    /// A sentence: the file cannot be read.
    pub fn read(&self) -> Result<BTreeMap<String, u64>, String> {
        let wrong = |what: String| format!("{}: {what}", self.0.display());
        let Some(text) = state_file::read(&self.0).map_err(|error| wrong(error.to_string()))? else {
            return Ok(BTreeMap::new());
        };
        match serde_json::from_slice(&text) {
            Ok(numbers) => Ok(numbers),
            Err(error) => {
                let aside =
                    state_file::set_aside(&self.0).map_err(|why| wrong(format!("{error}; to set it aside: {why}")))?;
                eprintln!("sluice: {}: {error}; it is kept as {}", self.0.display(), aside.display());
                Ok(BTreeMap::new())
            }
        }
    }

    /// Keeps the numbers: they are on the disk when this returns.
    ///
    /// # Errors
    /// They could not be written.
    pub fn write(&self, numbers: &BTreeMap<String, u64>) -> io::Result<()> {
        state_file::write(&self.0, &serde_json::to_vec(numbers)?)
    }
}
