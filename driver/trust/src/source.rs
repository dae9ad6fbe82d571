//! Sources of certificate files and revocation lists: the disk, or another process that hands the files to
//! one that may not open them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The largest file that is read, bytes: a revocation list of a hundred thousand certificates.
pub const MAX_FILE: u64 = 8 << 20;

/// The mark of a file's version: inode, size, time of change (s, ns); `None`: there is no file.
pub type Stamp = Option<(u64, u64, i64, i64)>;

/// A source of files, by path.
pub trait CertificateSource: Send + Sync + fmt::Debug {
    /// The whole of a file, at most one byte more than [`MAX_FILE`].
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The file's stamp; it changes whenever the file changes.
    fn stamp(&self, path: &Path) -> Stamp;
}

/// Files on the disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskSource;

impl CertificateSource for DiskSource {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        take(&File::open(path)?)
    }

    fn stamp(&self, path: &Path) -> Stamp {
        let meta = fs::metadata(path).ok()?;
        Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
    }
}

/// The whole of an open file, at most one byte more than [`MAX_FILE`].
///
/// # Errors
/// The file cannot be read.
pub fn take(file: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Files that another process handed over.
#[derive(Clone, Default)]
pub struct Handed {
    files: Arc<Mutex<BTreeMap<PathBuf, Copy>>>,
}

/// The last version of a file that was handed over, or the reason why it could not be, and the count of
/// versions.
struct Copy {
    times: u64,
    text: Result<Vec<u8>, String>,
}

impl Handed {
    /// Stores the current text of a file, or the reason why it cannot be read.
    pub fn put(&self, path: PathBuf, text: Result<Vec<u8>, String>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let times = files.get(&path).map_or(1, |copy| copy.times + 1);
        files.insert(path, Copy { times, text });
    }
}

impl fmt::Debug for Handed {
    /// Prints the paths only: a file may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(files.keys()).finish()
    }
}

impl CertificateSource for Handed {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        match files.get(path).map(|copy| &copy.text) {
            Some(Ok(text)) => Ok(text.clone()),
            Some(Err(why)) => Err(io::Error::other(why.clone())),
            None => Err(io::Error::new(io::ErrorKind::NotFound, "it was not handed over")),
        }
    }

    fn stamp(&self, path: &Path) -> Stamp {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(path).map(|copy| (copy.times, 0, 0, 0))
    }
}
