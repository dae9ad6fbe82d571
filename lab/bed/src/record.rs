//! The record of a testbed's objects, written before each is made, so that a crash leaves no orphan.
//!
//! A text file, one object per line: `netns NAME`, `process PID START WHAT`. An object that no longer exists
//! is no error.

use linux::error::SystemError;
use linux::mount::unmount_below;
use linux::netns::Namespace;
use linux::process::ProcessId;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
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

    /// Goes on with the record of a testbed that is up.
    ///
    /// # Errors
    /// There is none, or it cannot be written.
    pub fn again(dir: &Path) -> Result<TestbedRecord, SystemError> {
        let path = dir.join(FILE);
        let file = OpenOptions::new().append(true).open(&path);
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
}
