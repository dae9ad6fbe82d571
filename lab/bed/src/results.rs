//! Files of results.

use crate::error::Error;
use linux::error::SystemError;
use std::fs;
use std::path::Path;

/// Writes a file of the folder.
///
/// # Errors
/// The file cannot be written.
pub fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let path = folder.join(name);
    fs::write(&path, bytes).map_err(|error| SystemError::because(format!("write {}", path.display()), error).into())
}

/// Writes several files of the folder: names and bytes.
///
/// # Errors
/// A file cannot be written.
pub fn put_files(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), Error> {
    files.iter().try_for_each(|(name, bytes)| put(folder, name, bytes))
}
