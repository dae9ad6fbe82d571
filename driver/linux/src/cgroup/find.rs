//! The mount points of controllers, and the groups of processes (proc(5), cgroups(7)).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use terms::SenderGroup;

/// The version of a hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// Version 1: a hierarchy for each controller or two.
    One,
    /// Version 2: one hierarchy for all controllers.
    Two,
}

/// A mounted hierarchy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    /// The version.
    pub version: Version,
    /// The controllers: of version 1 `cpu`, `cpuacct`, `blkio`, ..; of version 2 `cpu`, `io`, ..
    pub controllers: Vec<String>,
    /// Its root folder.
    pub at: PathBuf,
}

/// Every mounted hierarchy.
pub fn all_mounted() -> Vec<Mounted> {
    let text = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let held = |at: &Path| fs::read_to_string(at.join("cgroup.controllers")).unwrap_or_default();
    parse(&text, held)
}

/// Reads `/proc/mounts`; `held` returns the controllers of a hierarchy of version 2.
fn parse(mounts: &str, held: impl Fn(&Path) -> String) -> Vec<Mounted> {
    let one = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (at, kind, options) = (PathBuf::from(words.next()?), words.next()?, words.next()?);
        match kind {
            "cgroup" => {
                let controllers = options.split(',').map(str::to_owned).collect();
                Some(Mounted { version: Version::One, controllers, at })
            }
            "cgroup2" => {
                let controllers = held(&at).split_ascii_whitespace().map(str::to_owned).collect();
                Some(Mounted { version: Version::Two, controllers, at })
            }
            _ => None,
        }
    };
    mounts.lines().filter_map(one).collect()
}

/// The hierarchy of a controller: `one` is its name in version 1, `two` in version 2. A controller is in only
/// one of them, as chosen at boot.
pub fn find(all: &[Mounted], one: &str, two: &str) -> Option<Mounted> {
    let has = |mounted: &&Mounted| {
        let name = if mounted.version == Version::One { one } else { two };
        mounted.controllers.iter().any(|held| held == name)
    };
    all.iter().find(has).cloned()
}

/// The hierarchies for CPU reservations: that of `cpu`, and that of `cpuacct` if it is another.
pub fn for_cpu(all: &[Mounted]) -> Option<Vec<Mounted>> {
    let first = find(all, "cpu", "cpu")?;
    let counted = find(all, "cpuacct", "-").filter(|counted| counted.at != first.at && first.version == Version::One);
    Some(std::iter::once(first).chain(counted).collect())
}

/// The hierarchy for disk reservations.
pub fn for_disk(all: &[Mounted]) -> Option<Vec<Mounted>> {
    find(all, "blkio", "io").map(|found| vec![found])
}

/// The hierarchy of version 2, to whose groups packets belong.
pub fn for_packets(all: &[Mounted]) -> Option<Mounted> {
    all.iter().find(|mounted| mounted.version == Version::Two).cloned()
}

/// The group at a path of a user, as packets belong to it; `None`: it is not there, is the root, or lies too deep.
pub fn sender_group(path: &str) -> Option<SenderGroup> {
    let first = for_packets(&all_mounted())?;
    let below = below_root(path, std::slice::from_ref(&first))?;
    let depth = u8::try_from(below.components().count()).ok()?;
    let found = fs::metadata(first.at.join(below)).ok().filter(fs::Metadata::is_dir)?;
    (1..=SenderGroup::DEEPEST).contains(&depth).then(|| SenderGroup { depth, id: found.ino() })
}

/// A group's path below the root of its hierarchy, from a user's text: the path itself, with or without its
/// first slash, or the folder. `None`: it has a `..`.
pub fn below_root(path: &str, first: &[Mounted]) -> Option<PathBuf> {
    let path = Path::new(path);
    let others = all_mounted();
    let found = first.iter().chain(&others).find_map(|mounted| path.strip_prefix(&mounted.at).ok());
    let below = found.unwrap_or_else(|| path.strip_prefix("/").unwrap_or(path));
    below.components().all(|part| matches!(part, Component::Normal(_))).then(|| below.components().collect())
}

/// The folder of the group of process `pid` in the hierarchy `mounted`; `None` if there is no such process.
pub fn home_of(pid: u32, mounted: &Mounted) -> Option<PathBuf> {
    home_in(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?, mounted)
}

fn home_in(lines: &str, mounted: &Mounted) -> Option<PathBuf> {
    let mine = |line: &&str| {
        let names = line.split(':').nth(1).unwrap_or_default();
        match mounted.version {
            Version::Two => names.is_empty(),
            Version::One => {
                names.split(',').any(|name| !name.is_empty() && mounted.controllers.iter().any(|c| c == name))
            }
        }
    };
    let path = lines.lines().find(mine)?.splitn(3, ':').nth(2)?;
    Some(mounted.at.join(path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "proc /proc proc rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
        cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nshort";

    #[test]
    fn controllers_are_found_in_either_version() {
        let all = parse(MOUNTS, |_| "memory pids\n".to_owned());
        assert_eq!(all.len(), 3);
        assert_eq!(find(&all, "cpu", "cpu").unwrap().at, PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(find(&all, "blkio", "io").unwrap().version, Version::One);
        assert_eq!(find(&all, "none", "memory").unwrap().version, Version::Two);
        assert_eq!(find(&all, "none", "io"), None);
    }

    #[test]
    fn the_group_of_a_process_is_told_by_its_hierarchy() {
        let all = parse(MOUNTS, |_| "io".to_owned());
        let lines = "7:blkio:/\n2:cpu,cpuacct:/user.slice/a:b\n1:name=systemd:/x\n0::/system.slice";
        let home = |n: usize| home_in(lines, &all[n]).unwrap();
        assert_eq!(home(0), PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/user.slice/a:b"));
        assert_eq!(home(1), PathBuf::from("/sys/fs/cgroup/blkio/"));
        assert_eq!(home(2), PathBuf::from("/sys/fs/cgroup/unified/system.slice"));
        assert_eq!(home_in("", &all[0]), None);
    }
}
