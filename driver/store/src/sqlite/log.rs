//! A check of the write-ahead log before SQLite reads it. SQLite silently stops at the first frame with a
//! wrong checksum. That is right for a write torn by a power loss, and wrong for acknowledged changes.
//!
//! Format: <https://www.sqlite.org/fileformat2.html#walformat>, sections 4.1 and 4.2.

use crate::{Damage, Error};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The header's magic number. With the last bit set, the words of the checksum are big-endian.
const MAGIC: u32 = 0x377f_0682;
/// The block of zeros that one write appends to the log.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Checks the log of a sealed journal, which always has one.
///
/// # Errors
/// [`Damage::LogGone`]: no readable header. [`Damage::LogSpoilt`]: a frame is wrong, and two or more
/// transactions follow it. One could be the write that a power loss interrupted: each is synced before the
/// next begins.
pub(super) fn check(path: &Path) -> Result<(), Error> {
    let what = || format!("read {}", path.display());
    let gone = || Error::Damaged(Damage::LogGone(path.to_owned()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone()),
        Err(error) => return Err(Error::doing(what())(error)),
    };
    let mut reader = io::BufReader::with_capacity(1 << 18, file);
    let mut header = [0; HEADER];
    if !fill(&mut reader, &mut header).map_err(Error::doing(what()))? {
        return Err(gone());
    }
    let mut frames = Frames::of(&header).ok_or_else(gone)?;
    let mut frame = vec![0; FRAME_HEADER + frames.page];
    let (mut number, mut spoilt, mut commits) = (0, None, 0);
    while fill(&mut reader, &mut frame).map_err(Error::doing(what()))? {
        if !frames.is_ours(&frame) {
            // Of an earlier round of the log, or zeros: the end, or a frame that was torn.
            spoilt = spoilt.or(Some(number));
        } else if spoilt.is_none() && !frames.take(&frame) {
            spoilt = Some(number);
        }
        if spoilt.is_some() && frames.is_ours(&frame) && word(&frame, 4) != 0 {
            commits += 1;
        }
        number += 1;
    }
    match spoilt {
        Some(frame) if commits >= 2 => Err(Error::Damaged(Damage::LogSpoilt { frame })),
        _ => Ok(()),
    }
}

/// Reads a whole buffer. Returns false at the end of the file.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The state of the frame reader: the header's fields and the running checksum.
struct Frames {
    big_endian: bool,
    page: usize,
    salts: [u8; 8],
    sum: (u32, u32),
}

impl Frames {
    fn of(header: &[u8; HEADER]) -> Option<Frames> {
        let magic = word(header, 0);
        let page = word(header, 8) as usize;
        if magic & !1 != MAGIC || !page.is_power_of_two() || !(512..=65_536).contains(&page) {
            return None;
        }
        let mut salts = [0; 8];
        salts.copy_from_slice(&header[16..24]);
        let mut frames = Frames { big_endian: magic & 1 == 1, page, salts, sum: (0, 0) };
        frames.add(&header[..24]);
        (frames.sum == (word(header, 24), word(header, 28))).then_some(frames)
    }

    fn is_ours(&self, frame: &[u8]) -> bool {
        frame[8..16] == self.salts
    }

    /// Adds a frame to the checksum. Returns true if the frame's own checksum, over all frames so far, is
    /// right.
    fn take(&mut self, frame: &[u8]) -> bool {
        self.add(&frame[..8]);
        self.add(&frame[FRAME_HEADER..]);
        self.sum == (word(frame, 16), word(frame, 20))
    }

    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks_exact(8) {
            let read = |at: usize| {
                let bytes = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
                if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
            };
            let (first, second) = (read(0), read(4));
            self.sum.0 = self.sum.0.wrapping_add(first).wrapping_add(self.sum.1);
            self.sum.1 = self.sum.1.wrapping_add(second).wrapping_add(self.sum.0);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Makes the log at least `bytes` long with zeros that are on the disk. Zeros are no frame.
pub(super) fn extend(path: &Path, bytes: u64) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        let mut end = file.seek(SeekFrom::End(0))?;
        if end >= bytes {
            return Ok(());
        }
        while end < bytes {
            let piece = usize::try_from(bytes - end).unwrap_or(usize::MAX).min(ZEROS.len());
            file.write_all(&ZEROS[..piece])?;
            end += piece as u64;
        }
        file.sync_all()
    };
    write().map_err(Error::doing(format!("make {} larger", path.display())))
}
