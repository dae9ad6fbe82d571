//! The numbers of advertisements, which outlive the broker: our own rise, and an old one of others does not come back.

use crate::shelf::Shelf;
use std::collections::BTreeMap;
use std::io;

/// The name of the document.
const DOCUMENT: &str = "topology";

/// The document of the highest number of each domain.
#[derive(Clone, Debug)]
pub struct KeptNumbers(Shelf);

impl KeptNumbers {
    /// The document of this shelf.
    pub fn of(shelf: Shelf) -> KeptNumbers {
        KeptNumbers(shelf)
    }

    /// The numbers that were kept.
    ///
    /// # Errors
    /// A sentence: they cannot be read.
    pub fn read(&self) -> Result<BTreeMap<String, u64>, String> {
        self.0.read(DOCUMENT)
    }

    /// Keeps the numbers: they are on the disk when this returns. Not where many wait.
    ///
    /// # Errors
    /// They could not be written.
    pub fn write(&self, numbers: &BTreeMap<String, u64>) -> io::Result<()> {
        self.0.write(DOCUMENT, numbers).wait()
    }
}
