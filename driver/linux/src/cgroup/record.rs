//! A file of the changes that a [`GroupTree`](super::GroupTree) made to the host, written before each change:
//! after a crash the next agent finds our groups, their worth, and the original group of each process.
//!
//! One fact per line. The file is replaced as a whole; it need not survive a loss of power, because groups do
//! not either.

use super::lent::BorrowedGroup;
use crate::error::SystemError;
use crate::process::ProcessId;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The facts of the record.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupRecord {
    file: PathBuf,
    /// True if the unreserved processes were moved to our group.
    pub gathered: bool,
    /// Controllers of version 2 that we switched on for the groups of the parent.
    pub added: Vec<String>,
    /// The groups by name; each with its users (`cpu`, `io`) and the worth for each, in the user's unit.
    pub groups: BTreeMap<String, BTreeMap<String, u64>>,
    /// Groups of other programs that serve reservations, by reservation.
    pub lent: BTreeMap<String, BorrowedGroup>,
    /// The original groups of the processes that we moved.
    pub homes: Vec<Home>,
}

/// The original group of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Home {
    /// Our group that it is in.
    pub group: String,
    /// The process.
    pub process: ProcessId,
    /// The index of the hierarchy in the tree.
    pub hierarchy: usize,
    /// The folder of its original group.
    pub dir: PathBuf,
}

impl GroupRecord {
    /// Reads the record of an earlier agent; lines that cannot be parsed are skipped.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read(file: &Path) -> Result<GroupRecord, SystemError> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other.map_err(SystemError::doing(format!("read {}", file.display())))?,
        };
        let mut record = GroupRecord { file: file.to_owned(), ..GroupRecord::default() };
        for line in text.lines() {
            // A line that was cut off is of a deed that was not done.
            let _ = record.take(line);
        }
        Ok(record)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split(' ');
        match kind {
            "gathered" => self.gathered = true,
            "added" => self.added.push(rest.to_owned()),
            "group" => {
                let (name, user, worth) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
                self.groups.entry(name.to_owned()).or_default().insert(user.to_owned(), worth);
            }
            "lent" => {
                let (name, setting, value) = (words.next()?, words.next()?, words.next()?);
                let dir = PathBuf::from(rest.splitn(4, ' ').nth(3)?);
                let before = if setting == "-" { Default::default() } else { (setting.to_owned(), value.to_owned()) };
                self.lent.insert(name.to_owned(), BorrowedGroup { dir, before });
            }
            "home" => {
                let (group, pid, start, hierarchy, dir) = (
                    words.next()?.to_owned(),
                    words.next()?.parse().ok()?,
                    words.next()?.parse().ok()?,
                    words.next()?.parse().ok()?,
                    PathBuf::from(rest.splitn(5, ' ').nth(4)?),
                );
                self.homes.push(Home { group, process: ProcessId { pid, start }, hierarchy, dir });
            }
            _ => return None,
        }
        Some(())
    }

    /// Writes the record to the disk; an empty record removes the file.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self) -> Result<(), SystemError> {
        let what = || format!("write {}", self.file.display());
        let text = self.to_string();
        if text.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SystemError::because(what(), error)),
                _ => Ok(()),
            };
        }
        let new = self.file.with_extension("new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file)).map_err(SystemError::doing(what()))
    }
}

impl std::fmt::Display for GroupRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.gathered {
            writeln!(f, "gathered")?;
        }
        for added in &self.added {
            writeln!(f, "added {added}")?;
        }
        for (name, users) in &self.groups {
            for (user, worth) in users {
                writeln!(f, "group {name} {user} {worth}")?;
            }
        }
        for (name, BorrowedGroup { dir, before: (setting, value) }) in &self.lent {
            let word = |word: &str| if word.is_empty() { "-".to_owned() } else { word.to_owned() };
            writeln!(f, "lent {name} {} {} {}", word(setting), word(value), dir.display())?;
        }
        for Home { group, process, hierarchy, dir } in &self.homes {
            writeln!(f, "home {group} {process} {hierarchy} {}", dir.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again_and_nothing_leaves_no_file() {
        let file = std::env::temp_dir().join(format!("sluice-groups-record-{}", std::process::id()));
        let mut record = GroupRecord::read(&file).unwrap();
        record.gathered = true;
        record.added.push("cpu".into());
        record.groups.insert("r-1".into(), BTreeMap::from([("cpu".into(), 500_000), ("io".into(), 7)]));
        let process = ProcessId { pid: 4, start: 77 };
        let dir = PathBuf::from("/sys/fs/cgroup/a b");
        record.homes.push(Home { group: "r-1".into(), process, hierarchy: 1, dir });
        let before = ("cpu.shares".to_owned(), "1024".to_owned());
        record.lent.insert("r-2".into(), BorrowedGroup { dir: "/sys/fs/cgroup/cpu/c d".into(), before });
        record.lent.insert("r-3".into(), BorrowedGroup { dir: "/e".into(), before: Default::default() });
        record.write().unwrap();
        assert_eq!(GroupRecord::read(&file).unwrap(), record);
        fs::write(&file, "gathered\nhome r-1 4\ngroup r-2 cpu x\nnoise\n").unwrap();
        let found = GroupRecord::read(&file).unwrap();
        assert!(found.gathered && found.homes.is_empty() && found.groups.is_empty());
        GroupRecord { file: file.clone(), ..GroupRecord::default() }.write().unwrap();
        assert!(!file.exists());
    }
}
