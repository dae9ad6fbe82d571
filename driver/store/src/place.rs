//! The file system of a journal: its locks and its fsync must be reliable (proc_pid_mountinfo(5)).

use std::path::{Path, PathBuf};

/// The file system of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filesystem {
    /// Its name in the kernel: `ext4`, `nfs4`, ...
    pub name: String,
    /// Its mount point.
    pub mounted: PathBuf,
}

impl Filesystem {
    /// True if its locks hold between machines and its fsync reaches a disk. Network file systems fail the
    /// first (<https://www.sqlite.org/lockingv3.html>). An overlay fails the second: its `fsync` may be off
    /// (`volatile`), and the first write moves a file to another disk under an open descriptor.
    pub fn is_trusted(&self) -> bool {
        let name = self.name.as_str();
        let remote = ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "glusterfs", "afs", "lustre"];
        !(remote.contains(&name) || name == "overlay" || name == "aufs" || name.starts_with("fuse"))
    }

    /// True if its content is lost when the machine stops.
    pub fn is_memory(&self) -> bool {
        matches!(self.name.as_str(), "tmpfs" | "ramfs")
    }
}

/// The file system of the existing directory `path`; `None` if the kernel does not name it.
pub fn filesystem(path: &Path) -> Option<Filesystem> {
    let path = path.canonicalize().ok()?;
    innermost(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, &path)
}

/// The mount that contains `path`. Of several at one point, the last hides the others.
fn innermost(mountinfo: &str, path: &Path) -> Option<Filesystem> {
    let mut best: Option<Filesystem> = None;
    for line in mountinfo.lines() {
        // 36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/root rw
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(name)) = (before.split(' ').nth(4), after.split(' ').next()) else { continue };
        let mounted = PathBuf::from(unescaped(point));
        let deeper = best.as_ref().is_none_or(|best| mounted.as_os_str().len() >= best.mounted.as_os_str().len());
        if path.starts_with(&mounted) && deeper {
            best = Some(Filesystem { name: name.to_owned(), mounted });
        }
    }
    best
}

/// Undoes mountinfo's octal escapes of space, tab, line end and backslash.
fn unescaped(point: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(point.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:26 / /run rw,nosuid - tmpfs tmpfs rw
31 21 0:50 / /var/lib/far\\040away rw - nfs4 server:/x rw
32 21 0:51 / /var/lib/docker/merged rw - overlay overlay rw,lowerdir=/a - b
33 21 0:52 / /mnt rw shared:3 master:1 - fuse.sshfs x rw
";

    #[test]
    fn the_innermost_mount_counts() {
        let at = |path: &str| innermost(MOUNTS, Path::new(path)).map(|found| (found.name.clone(), found.is_trusted()));
        assert_eq!(at("/var/lib/sluice"), Some(("ext4".to_owned(), true)));
        assert_eq!(at("/running"), Some(("ext4".to_owned(), true)), "/run is no part of it");
        assert_eq!(at("/run/sluice"), Some(("tmpfs".to_owned(), true)));
        assert_eq!(at("/var/lib/far away/state"), Some(("nfs4".to_owned(), false)));
        assert_eq!(at("/var/lib/docker/merged/state"), Some(("overlay".to_owned(), false)));
        assert_eq!(at("/mnt"), Some(("fuse.sshfs".to_owned(), false)));
        assert_eq!(innermost("", Path::new("/x")), None);
    }

    #[test]
    fn this_machine_says_something() {
        assert!(filesystem(Path::new("/proc")).is_some_and(|found| found.name == "proc"));
    }
}
