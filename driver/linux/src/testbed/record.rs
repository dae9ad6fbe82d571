//! The record of a testbed's objects, written before each is made, so that a crash leaves no orphan.
//!
//! A text file, one object per line: `netns NAME`, `process PID START WHAT`. An object that no longer exists
//! is no error.

use crate::error::SystemError;
use crate::netns::Namespace;
use crate::process::ProcessId;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The file's name in the testbed's folder.
pub const FILE: &str = "made";

/// The record of a testbed that is being made.
#[derive(Debug)]
pub struct TestbedRecord {
    file: File,
    path: PathBuf,
}

/// A line of the record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TestbedStep {
    /// A namespace with this name.
    Namespace(String),
    /// A process, and its description.
    Process(ProcessId, String),
}

impl TestbedRecord {
    /// Starts a record in the testbed's folder.
    ///
    /// # Errors
    /// There is already a record, or it cannot be written.
    pub fn begin(dir: &Path) -> Result<TestbedRecord, SystemError> {
        let path = dir.join(FILE);
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        Ok(TestbedRecord { file: file.map_err(SystemError::doing(format!("write {}", path.display())))?, path })
    }

    /// Adds a line, before the step if possible.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, made: &TestbedStep) -> Result<(), SystemError> {
        let line = match made {
            TestbedStep::Namespace(name) => format!("netns {name}\n"),
            TestbedStep::Process(id, what) => format!("process {id} {what}\n"),
        };
        self.file.write_all(line.as_bytes()).map_err(SystemError::doing(format!("write {}", self.path.display())))
    }
}

/// Reads the record of the testbed in `dir`; empty if there is none. A line that a crash cut off is skipped.
///
/// # Errors
/// The record cannot be read.
pub fn read(dir: &Path) -> Result<Vec<TestbedStep>, SystemError> {
    let path = dir.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.split_inclusive('\n').filter_map(|line| parse(line.strip_suffix('\n')?)).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(SystemError::because(format!("read {}", path.display()), error)),
    }
}

fn parse(line: &str) -> Option<TestbedStep> {
    match line.split_once(' ')? {
        ("netns", name) => Some(TestbedStep::Namespace(name.to_owned())),
        ("process", rest) => {
            let (pid, rest) = rest.split_once(' ')?;
            let (start, what) = rest.split_once(' ')?;
            Some(TestbedStep::Process(
                ProcessId { pid: pid.parse().ok()?, start: start.parse().ok()? },
                what.to_owned(),
            ))
        }
        _ => None,
    }
}

/// Removes the recorded namespaces, mounts below `dir`, and `dir` itself. The caller stops the processes
/// first. All steps are tried; the first failure is returned.
///
/// # Errors
/// An object could not be removed.
pub fn remove(dir: &Path, made: &[TestbedStep]) -> Result<(), SystemError> {
    let mut first = Ok(());
    let mut note = |result: Result<(), SystemError>| {
        if first.is_ok() {
            first = result;
        }
    };
    for one in made {
        if let TestbedStep::Namespace(name) = one {
            note(Namespace::delete(name));
        }
    }
    note(unmount_below(dir));
    if first.is_ok() {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SystemError::because(format!("remove {}", dir.display()), error));
            }
            _ => {}
        }
    }
    first
}

/// Unmounts all mounts below `dir` (a killed agent leaves its bpffs), innermost first.
///
/// # Errors
/// A mount could not be unmounted.
pub fn unmount_below(dir: &Path) -> Result<(), SystemError> {
    let mounts = fs::read("/proc/self/mountinfo").map_err(SystemError::doing("read /proc/self/mountinfo"))?;
    let inside = |line: &[u8]| mount_point(line).filter(|path| path.starts_with(dir) && path != dir);
    let mut paths: Vec<PathBuf> = mounts.split(|&b| b == b'\n').filter_map(inside).collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    for path in paths {
        let what = || format!("unmount {}", path.display());
        let target = CString::new(path.as_os_str().as_bytes());
        let target = target.map_err(|_| SystemError::because(what(), io::ErrorKind::InvalidInput.into()))?;
        // SAFETY: `target` is a C string that outlives the call.
        if unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) } != 0 {
            return Err(SystemError::last(what()));
        }
    }
    Ok(())
}

/// The fifth field of a line of mountinfo, with its octal escapes undone (proc(5)).
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|&b| b == b' ').nth(4)?;
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'\\').then(|| after.get(..3)).flatten();
        let code = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        path.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_a_cut_line_is_not() {
        let dir = std::env::temp_dir().join(format!("agent-record-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let made = [
            TestbedStep::Namespace("t-maui".to_owned()),
            TestbedStep::Process(ProcessId { pid: 7, start: 99 }, "agent maui".to_owned()),
        ];
        let mut record = TestbedRecord::begin(&dir).unwrap();
        for one in &made {
            record.add(one).unwrap();
        }
        record.file.write_all(b"netns t-gle").unwrap();
        assert_eq!(read(&dir).unwrap(), made);
        assert!(TestbedRecord::begin(&dir).is_err(), "one at a time");
        remove(&dir, &[]).unwrap();
        assert_eq!(read(&dir).unwrap(), []);
        remove(&dir, &[]).unwrap();
    }

    #[test]
    fn mount_points_are_unescaped() {
        let line = br"36 35 98:0 / /run/a\040b/bpf rw - bpf none rw";
        assert_eq!(mount_point(line), Some(PathBuf::from("/run/a b/bpf")));
        assert_eq!(mount_point(b"short"), None);
    }
}
