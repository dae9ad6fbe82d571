//! Measuring the capacity of a disk: sequential requests without the cache (O_DIRECT, open(2)), reading,
//! writing, and both together, each for a limited time.
//!
//! The capacity for reservations is the lowest of these rates per direction, because a reservation applies to
//! each direction. A device is only read, never written.

use crate::error::SystemError;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The parameters of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trial {
    /// The time of each of the three phases.
    pub span: Duration,
    /// The size of one request, bytes, a multiple of 4096.
    pub request: usize,
    /// The size of the file that is written and read repeatedly, bytes.
    pub file: u64,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial { span: Duration::from_secs(2), request: 1 << 20, file: 256 << 20 }
    }
}

/// The measured rates, bytes a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskSpeed {
    /// Reading alone.
    pub reads: u64,
    /// Writing alone; `None` on a device.
    pub writes: Option<u64>,
    /// The rate of the slower direction while both run; `None` on a device.
    pub both: Option<u64>,
}

impl DiskSpeed {
    /// The most that all reservations together may have, before any reserve is subtracted.
    pub fn capacity(&self) -> u64 {
        let least = self.writes.map_or(self.reads, |writes| writes.min(self.reads));
        self.both.map_or(least, |both| both.min(least))
    }
}

const ALIGNMENT: usize = 4096;

/// Measures the disk `path`, or the disk with that folder: a device is read; in a folder, files are made and
/// removed.
///
/// # Errors
/// The folder cannot be written, or its file system does not support direct requests.
pub fn measure(path: &Path, trial: Trial) -> Result<DiskSpeed, SystemError> {
    let what = || format!("measure the disk of {}", path.display());
    if trial.request == 0 || !trial.request.is_multiple_of(ALIGNMENT) || trial.file < trial.request as u64 {
        let why = "requests are a multiple of 4096 bytes, and the file is at least one of them";
        return Err(SystemError::because(what(), io::Error::other(why)));
    }
    let kind = fs::metadata(path).map_err(SystemError::doing(what()))?;
    if kind.file_type().is_block_device() {
        let file = open(path, false).map_err(SystemError::doing(what()))?;
        let size = size_of_device(path).unwrap_or(trial.file).min(trial.file);
        let reads = run(&file, Trial { file: size, ..trial }, false).map_err(SystemError::doing(what()))?;
        return Ok(DiskSpeed { reads, writes: None, both: None });
    }
    let folder = if kind.is_dir() { path } else { path.parent().unwrap_or(path) };
    let (one, two) = (Scratch::new(folder, 1), Scratch::new(folder, 2));
    let files = open(&one.0, true).and_then(|one| Ok((one, open(&two.0, true)?)));
    let (one, two) = files.map_err(SystemError::doing(what()))?;
    let phases = || -> io::Result<DiskSpeed> {
        fill(&two, trial)?;
        let writes = run(&one, trial, true)?;
        fill(&one, trial)?;
        let reads = run(&one, trial, false)?;
        let (reading, writing) = std::thread::scope(|scope| {
            let reading = scope.spawn(|| run(&one, trial, false));
            let writing = run(&two, trial, true);
            (reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), writing)
        });
        Ok(DiskSpeed { reads, writes: Some(writes), both: Some(reading?.min(writing?)) })
    };
    phases().map_err(SystemError::doing(what()))
}

/// The size of a device, bytes, from its 512-byte sectors in `/sys/class/block/NAME/size`.
fn size_of_device(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let sectors: u64 = fs::read_to_string(format!("/sys/class/block/{name}/size")).ok()?.trim().parse().ok()?;
    sectors.checked_mul(512)
}

/// A file that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path, n: u32) -> Scratch {
        Scratch(folder.join(format!(".sluice-disk-{}-{n}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it is not there, it could not be made, which has been told.
        let _ = fs::remove_file(&self.0);
    }
}

fn open(path: &Path, make: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(make).create(make).truncate(make).mode(0o600).custom_flags(libc::O_DIRECT);
    options.open(path)
}

/// A buffer with the alignment that direct requests need.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Aligned {
        // Not zeros: some disks do not write those.
        let bytes: Vec<u8> = (0..len + ALIGNMENT).map(|n| (n * 31 + n / 251) as u8).collect();
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Aligned { bytes, start, len }
    }

    fn all(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// Writes every block of the file once, so that it can be read.
fn fill(file: &File, trial: Trial) -> io::Result<()> {
    let mut buffer = Aligned::new(trial.request);
    let until = Instant::now() + trial.span * 4;
    let mut at = file.metadata()?.len() / trial.request as u64;
    while at < trial.file / trial.request as u64 && Instant::now() < until {
        file.write_all_at(buffer.all(), at * trial.request as u64)?;
        at += 1;
    }
    Ok(())
}

/// Makes one request after the other for the trial's span; returns the rate, bytes a second.
fn run(file: &File, trial: Trial, write: bool) -> io::Result<u64> {
    let mut buffer = Aligned::new(trial.request);
    let held = file.metadata()?.len();
    let end = if write || held == 0 { trial.file } else { held.min(trial.file) } / trial.request as u64;
    let (begin, mut bytes, mut at) = (Instant::now(), 0u64, 0u64);
    while begin.elapsed() < trial.span {
        let offset = at % end.max(1) * trial.request as u64;
        let done = if write { file.write_at(buffer.all(), offset)? } else { file.read_at(buffer.all(), offset)? };
        if done == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes += done as u64;
        at += 1;
    }
    if write {
        file.sync_data()?;
    }
    let micros = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
    Ok((u128::from(bytes) * 1_000_000 / u128::from(micros)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_and_left_as_it_was() {
        let folder = std::env::temp_dir().join(format!("sluice-measure-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let trial = Trial { span: Duration::from_millis(50), request: 64 << 10, file: 1 << 20 };
        match measure(&folder, trial) {
            Err(failed) if failed.code() == libc::EINVAL => bench::skipped("no direct I/O in the temporary folder"),
            found => {
                let found = found.unwrap();
                assert!(found.reads > 0 && found.capacity() > 0 && found.capacity() <= found.reads, "{found:?}");
            }
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
        assert!(measure(&folder, trial).is_err());
        assert!(measure(Path::new("/"), Trial { request: 100, ..trial }).is_err());
    }
}
