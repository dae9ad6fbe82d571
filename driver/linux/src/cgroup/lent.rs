//! Reservations for groups of other programs.
//!
//! *In place*: a group directly below the parent is a sibling of all unreserved processes, so it gets its
//! weight or its limit itself, and its old one back at the end. No process moves.
//! *Followed*: a group further down has other siblings, against which it has no guarantee. In version 1 its
//! processes are moved to the reservation's group, new ones at the next look, and all return at the end:
//! limits of other controllers are in other hierarchies and stay in force. In version 2 they would lose all
//! other settings: refused.

use super::find::{Version, below_root};
use super::group::ControlGroup;
use super::tree::{GroupTree, RESERVED, REST};
use crate::error::SystemError;
use std::io;
use std::path::{Path, PathBuf};

/// A group of another program in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BorrowedGroup {
    /// Its folder.
    pub dir: PathBuf,
    /// The setting that is changed, and its old value; empty: none has to be restored.
    pub before: (String, String),
}

impl GroupTree {
    /// Binds the group at `path` (as in `/proc/PID/cgroup`, or its folder) to reservation `name`. `setting`
    /// is the setting that will be changed and must be restored. A repeated call changes only the worth.
    ///
    /// # Errors
    /// The group is not below the parent, is ours or another reservation's, or cannot be moved; or the record
    /// cannot be written. The state is then unchanged.
    pub fn lend(&mut self, user: &str, name: &str, worth: u64, path: &str, setting: &str) -> Result<(), SystemError> {
        let what = || format!("bind the group {path} to reservation {name}");
        let refused = |why: String| SystemError::because(what(), io::Error::other(why));
        let dir = self.folder(path).map_err(refused)?;
        let meets = |other: &Path| other.starts_with(&dir) || dir.starts_with(other);
        let lent = self.record.lent.iter().map(|(of, lent)| (of, &lent.dir));
        if let Some((other, _)) = lent.chain(&self.followed).find(|(of, other)| *of != name && meets(other)) {
            return Err(refused(format!("it meets the group of reservation {other}")));
        }
        if dir.parent() != Some(self.parent().dir()) {
            if self.version() == Version::Two {
                let parent = self.parent().dir().display();
                return Err(refused(format!(
                    "it is not directly below {parent}, and its processes cannot leave it without losing what else is \
                     set for them: bind the group above it, or choose another [groups] parent"
                )));
            }
            self.reserve(user, name, worth)?;
            self.followed.insert(name.to_owned(), dir);
            return self.follow(name);
        }
        if self.record.groups.contains_key(name) && !self.record.lent.contains_key(name) {
            return Err(refused("the reservation has a group of its own already".into()));
        }
        let group = ControlGroup::at(dir.clone());
        let lent = self.record.lent.entry(name.to_owned()).or_insert(BorrowedGroup { dir, before: Default::default() });
        if lent.before.0.is_empty() && !setting.is_empty() {
            lent.before = (setting.to_owned(), group.read(setting)?);
        }
        self.reserve(user, name, worth).map(|_| ())
    }

    /// The folder of a group that may be bound.
    fn folder(&self, path: &str) -> Result<PathBuf, String> {
        let below = below_root(path, &self.mounted).ok_or("a path below the hierarchy's root is wanted")?;
        let (dir, parent) = (self.mounted[0].at.join(below), self.parent().dir());
        let first = dir.strip_prefix(parent).ok().and_then(|below| below.components().next());
        let Some(first) = first.and_then(|first| first.as_os_str().to_str()) else {
            return Err(format!("it is not below {}, which stands for the host", parent.display()));
        };
        if first == REST || first.starts_with(RESERVED) {
            return Err("it is one of Sluice's own".into());
        }
        if !dir.is_dir() {
            return Err(format!("there is no such group: {}", dir.display()));
        }
        Ok(dir)
    }

    /// The other groups whose settings bind the processes of the group at `path`: that group and those above
    /// it, below the parent.
    pub fn above(&self, path: &str) -> Result<Vec<ControlGroup>, SystemError> {
        let dir =
            self.folder(path).map_err(|why| SystemError::because(format!("use {path}"), io::Error::other(why)))?;
        let below = dir.ancestors().take_while(|dir| *dir != self.parent().dir());
        Ok(below.map(|dir| ControlGroup::at(dir.to_owned())).collect())
    }

    /// Moves the processes in the followed group of a reservation, if it has one, to the reservation's group.
    ///
    /// # Errors
    /// The kernel refuses; processes that end meanwhile or belong to another reservation are skipped.
    pub fn follow(&mut self, name: &str) -> Result<(), SystemError> {
        let Some(dir) = self.followed.get(name) else { return Ok(()) };
        for pid in ControlGroup::at(dir.clone()).all_processes() {
            match self.put_one(name, pid) {
                Err(failed) if failed.code() != 0 && failed.code() != libc::ESRCH => return Err(failed),
                _ => {}
            }
        }
        Ok(())
    }

    /// Restores a bound group; one that is gone is skipped.
    pub(super) fn hand_back(&mut self, name: &str) -> Result<(), SystemError> {
        let Some(BorrowedGroup { dir, before: (setting, value) }) = self.record.lent.get(name).cloned() else {
            return Ok(());
        };
        let group = ControlGroup::at(dir);
        if group.exists() && !setting.is_empty() {
            group.set(&setting, &value)?;
        }
        self.record.lent.remove(name);
        Ok(())
    }
}
