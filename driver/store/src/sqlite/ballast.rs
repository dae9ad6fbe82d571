//! Ballast: a file of zeros beside the journal that reserves room on the disk. When the disk is full and an
//! urgent batch must be written (a cancellation, the end of a window), the file is deleted. Until the file
//! can be written again, only urgent batches are written, so new reservations cannot take that room.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of the file in the journal's directory.
pub(super) const NAME: &str = "ballast";
/// The block of zeros that one write stores.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The ballast file.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
    bytes: u64,
    there: bool,
}

impl Ballast {
    /// Writes the file if there is room. With zero bytes there is no file and none is missed.
    pub(super) fn lay(directory: &Path, bytes: u64) -> Ballast {
        let mut ballast = Ballast { path: directory.join(NAME), bytes, there: false };
        ballast.is_there();
        ballast
    }

    /// True if the file is there. If it is not, this tries to write it again.
    pub(super) fn is_there(&mut self) -> bool {
        if !self.there {
            self.there = self.bytes == 0 || self.write().is_ok();
            if !self.there {
                // A part of it helps nobody.
                let _ = fs::remove_file(&self.path);
            }
        }
        self.there
    }

    /// Deletes the file. Returns true if that freed room.
    pub(super) fn throw(&mut self) -> bool {
        self.there = self.bytes == 0;
        throw(&self.path)
    }

    fn write(&self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|found| found.len() == self.bytes) {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        let mut file: File = options.write(true).create(true).truncate(true).mode(0o600).open(&self.path)?;
        let mut left = self.bytes;
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
            file.write_all(&ZEROS[..piece])?;
            left -= piece as u64;
        }
        file.sync_all()
    }
}

/// Deletes the ballast file in this directory. Returns true if that freed room.
pub(super) fn free(directory: &Path) -> bool {
    throw(&directory.join(NAME))
}

fn throw(path: &Path) -> bool {
    let size = fs::metadata(path).map_or(0, |found| found.len());
    size > 0 && fs::remove_file(path).is_ok()
}
