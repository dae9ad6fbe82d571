//! A control group: a folder with a file for each setting, and its processes in `cgroup.procs`.

use crate::error::SystemError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A group, by its folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ControlGroup {
    dir: PathBuf,
}

/// The most attempts to remove a group: it is busy for a moment after its last process has ended.
const REMOVAL_TRIES: u32 = 50;

impl ControlGroup {
    /// The group of this folder, which need not exist.
    pub fn at(dir: PathBuf) -> ControlGroup {
        ControlGroup { dir }
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// True if the group exists.
    pub fn exists(&self) -> bool {
        self.dir.is_dir()
    }

    /// The group of this name within it.
    pub fn child(&self, name: &str) -> ControlGroup {
        ControlGroup { dir: self.dir.join(name) }
    }

    /// The names of the groups within it, sorted.
    pub fn children(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Vec::new() };
        let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Makes the group; an existing one is no error.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn make(&self) -> Result<(), SystemError> {
        match fs::create_dir(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(SystemError::because(format!("make the group {}", self.dir.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the group; an absent one is no error.
    ///
    /// # Errors
    /// Processes or groups are still in it.
    pub fn remove(&self) -> Result<(), SystemError> {
        let mut tries = 0;
        loop {
            match fs::remove_dir(&self.dir) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries < REMOVAL_TRIES => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(SystemError::because(format!("remove the group {}", self.dir.display()), error));
                }
                _ => return Ok(()),
            }
        }
    }

    /// Its processes; 0 stands for a process of another process namespace.
    ///
    /// # Errors
    /// The group is gone.
    pub fn processes(&self) -> Result<Vec<u32>, SystemError> {
        let path = self.dir.join("cgroup.procs");
        let text = fs::read_to_string(&path).map_err(SystemError::doing(format!("read {}", path.display())))?;
        Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
    }

    /// Its processes and those of the groups within it; none if it is gone.
    pub fn all_processes(&self) -> Vec<u32> {
        let mut all = self.processes().unwrap_or_default();
        all.extend(self.children().iter().flat_map(|name| self.child(name).all_processes()));
        all
    }

    /// Moves a whole process, with all its threads, into the group.
    ///
    /// # Errors
    /// There is no such process (ESRCH), or it may not be moved (EINVAL: some threads of the kernel).
    pub fn attach(&self, pid: u32) -> Result<(), SystemError> {
        let path = self.dir.join("cgroup.procs");
        let what = || format!("move process {pid} to {}", self.dir.display());
        fs::write(path, pid.to_string()).map_err(SystemError::doing(what()))
    }

    /// The value of a setting, without the end of line.
    ///
    /// # Errors
    /// There is no such setting.
    pub fn read(&self, setting: &str) -> Result<String, SystemError> {
        let path = self.dir.join(setting);
        let text = fs::read_to_string(&path).map_err(SystemError::doing(format!("read {}", path.display())))?;
        Ok(text.trim_end().to_owned())
    }

    /// Writes a setting.
    ///
    /// # Errors
    /// There is no such setting, or the kernel rejects the value.
    pub fn write(&self, setting: &str, value: &str) -> Result<(), SystemError> {
        let path = self.dir.join(setting);
        fs::write(&path, value).map_err(SystemError::doing(format!("write {value:?} to {}", path.display())))
    }

    /// Writes a setting and reads it back. It is not written if it has the value already.
    ///
    /// # Errors
    /// As [`ControlGroup::write`]; or the kernel reports another value.
    pub fn set(&self, setting: &str, value: &str) -> Result<(), SystemError> {
        if self.read(setting)? == value {
            return Ok(());
        }
        self.write(setting, value)?;
        let found = self.read(setting)?;
        if found == value {
            return Ok(());
        }
        let what = format!("set {} to {value}", self.dir.join(setting).display());
        Err(SystemError::because(what, io::Error::other(format!("the kernel holds {found}"))))
    }
}

/// True if `pid` is a kernel thread (PF_KTHREAD in the ninth field of `/proc/PID/stat`), which is never
/// moved.
pub fn is_kernel_thread(pid: u32) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rfind(')').map_or("", |end| &stat[end + 1..]);
    let flags = after.split_ascii_whitespace().nth(6).and_then(|word| word.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_does_not_hold_what_was_written_is_told() {
        let group = ControlGroup::at(std::env::temp_dir().join(format!("sluice-group-{}", std::process::id())));
        group.make().unwrap();
        group.make().unwrap();
        assert!(group.set("cpu.weight", "5").is_err(), "there is no such setting");
        fs::write(group.dir().join("cpu.weight"), "100\n").unwrap();
        group.set("cpu.weight", "5").unwrap();
        assert_eq!(group.read("cpu.weight").unwrap(), "5");
        assert!(group.set("cpu.weight", "5 ").is_err(), "the end of the line is not part of a value");
        assert!(group.remove().is_err(), "there is something in it");
        fs::remove_dir_all(group.dir()).unwrap();
        group.remove().unwrap();
    }

    #[test]
    fn threads_of_the_kernel_are_known() {
        assert!(!is_kernel_thread(std::process::id()));
        assert!(!is_kernel_thread(0));
        let name = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if name(2).trim() == "kthreadd" {
            assert!(is_kernel_thread(2));
        }
    }
}
