//! Ballast: room kept for the worst day. A file of zeros lies beside the journal; when the disk is full and something has to be
//! written that gives back what others hold (a cancellation, the end of a window), it is thrown overboard. Until there is room
//! for it again nothing else is written, so that what was kept for giving back is not taken by what is new.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Its name in the journal's directory.
pub(super) const NAME: &str = "ballast";
/// What is written at once.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The file.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
    bytes: u64,
    there: bool,
}

impl Ballast {
    /// Lays it, if there is room; with zero bytes none is kept, and none is missed.
    pub(super) fn lay(directory: &Path, bytes: u64) -> Ballast {
        let mut ballast = Ballast { path: directory.join(NAME), bytes, there: false };
        ballast.is_there();
        ballast
    }

    /// Whether it is there, after another attempt if it was not.
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

    /// Gives its room away; whether there was any.
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

/// Gives the room of what lies in this directory away; whether there was any.
pub(super) fn free(directory: &Path) -> bool {
    throw(&directory.join(NAME))
}

fn throw(path: &Path) -> bool {
    let size = fs::metadata(path).map_or(0, |found| found.len());
    size > 0 && fs::remove_file(path).is_ok()
}
