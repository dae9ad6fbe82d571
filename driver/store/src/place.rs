//! Where a journal may lie: on a file system whose locks and fsync mean something (proc_pid_mountinfo(5)).

use std::path::{Path, PathBuf};

/// What a directory is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filesystem {
    /// As the kernel names it: `ext4`, `nfs4`, ...
    pub name: String,
    /// Where it is mounted.
    pub mounted: PathBuf,
}

impl Filesystem {
    /// Whether its locks hold between machines and its fsync reaches a disk. Network file systems fail the first
    /// (<https://www.sqlite.org/lockingv3.html>), an overlay the second: its `fsync` may be switched off (`volatile`), and the
    /// first write moves a file to another disk under an open descriptor.
    pub fn is_trusted(&self) -> bool {
        let name = self.name.as_str();
        let remote = ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "glusterfs", "afs", "lustre"];
        !(remote.contains(&name) || name == "overlay" || name == "aufs" || name.starts_with("fuse"))
    }

    /// Whether it forgets everything when the machine stops.
    pub fn is_memory(&self) -> bool {
        matches!(self.name.as_str(), "tmpfs" | "ramfs")
    }
}

/// What the existing directory `path` is on; `None` if the kernel does not say.
pub fn filesystem(path: &Path) -> Option<Filesystem> {
    let path = path.canonicalize().ok()?;
    innermost(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, &path)
}

/// The mount that `path` is under; of several at one point, the last hides the others.
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

/// Spaces, tabs, line ends and backslashes are written in octal there.
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
