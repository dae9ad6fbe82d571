//! The owner of a process, thread or control group (proc(5)), for the decision whether it may be bound.

use crate::cgroup::{Mounted, below_root, family, home_of, is_kernel_thread};
use crate::process::ProcessId;
use std::fs;
use std::path::Path;
use terms::book::Task;

/// The kernel's facts about the owner of a process or thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Belongs {
    /// Its user, if the real, effective and saved one are the same; `None`: they differ (setuid programs).
    pub uid: Option<u32>,
    /// True if it is a kernel thread.
    pub kernel: bool,
    /// True if it is process 1 or a thread of it.
    pub first: bool,
    /// True if it is this process or a descendant, or a thread of one of them.
    pub ours: bool,
}

/// The start time of a process or thread, which distinguishes it from a later one with the same number;
/// `None`: it does not run.
pub fn started(number: u32) -> Option<u64> {
    ProcessId::of(number).map(|process| process.start)
}

/// The owner of a task; `None`: it does not run, or another task has its number by now.
pub fn of(task: Task) -> Option<Belongs> {
    let found = look(task.number)?;
    // Looked at last: what was read before is that one's.
    (started(task.number) == Some(task.start)).then_some(found)
}

/// The owner of the process or thread that has this number now.
pub(crate) fn look(number: u32) -> Option<Belongs> {
    let status = Status::of(number)?;
    let (me, mut above, mut ours) = (std::process::id(), status.process, false);
    // Up to the first process, or to one that has just ended; its children have another parent then.
    for _ in 0..MOST_ABOVE {
        ours |= above == me;
        let Some(found) = Status::of(above).filter(|found| !ours && found.parent > 1) else { break };
        above = found.parent;
    }
    Some(Belongs { uid: status.uid, kernel: is_kernel_thread(number), first: status.process == 1, ours })
}

/// The most ancestors of a process that are examined.
const MOST_ABOVE: usize = 256;

struct Status {
    process: u32,
    parent: u32,
    uid: Option<u32>,
}

impl Status {
    fn of(number: u32) -> Option<Status> {
        Status::read(&fs::read_to_string(format!("/proc/{number}/status")).ok()?)
    }

    fn read(text: &str) -> Option<Status> {
        // Whatever a process calls itself is on one line: the kernel escapes the others.
        let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = |name: &str| of(name)?.trim().parse::<u32>().ok();
        let ids: Vec<u32> = of("Uid")?.split_ascii_whitespace().take(3).map_while(|id| id.parse().ok()).collect();
        let uid = ids.first().copied().filter(|first| ids.len() == 3 && ids.iter().all(|id| id == first));
        Some(Status { process: number("Tgid")?, parent: number("PPid")?, uid })
    }
}

/// The union of the facts about all processes in a group or below it, and its path below its hierarchy's
/// root; only in the first hierarchy of a reservation. `None`: there is no such group.
pub fn of_group(mounted: &[Mounted], path: &str) -> Option<(Belongs, String)> {
    let (first, below) = (mounted.first()?, below_root(path, mounted)?);
    let dir = first.at.join(&below);
    if !dir.is_dir() {
        return None;
    }
    let holds = |pid: u32| home_of(pid, first).is_some_and(|home| home.starts_with(&dir));
    let me = std::process::id();
    let ours = holds(me) || family(me).into_iter().any(holds);
    let found = Belongs { uid: None, kernel: holds_kernel(first, &dir), first: holds(1), ours };
    Some((found, below.to_str()?.to_owned()))
}

/// True if the group has kernel threads: they are in the root group unless root moved them.
fn holds_kernel(mounted: &Mounted, dir: &Path) -> bool {
    let procs = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    let mut named = procs.lines().filter_map(|line| line.parse().ok());
    dir.components().eq(mounted.at.components()) || named.any(is_kernel_thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_is_all_three_of_a_process() {
        let text = |uids: &str| format!("Name:\tUid: 5\nTgid:\t7\nPid:\t7\nPPid:\t3\nUid:\t{uids}\n");
        let read = |uids: &str| Status::read(&text(uids)).unwrap().uid;
        assert_eq!(read("5\t5\t5\t5"), Some(5));
        for several in ["5\t0\t0\t0", "5\t5\t0\t5", "5\t0\t5\t0", "5 5"] {
            assert_eq!(read(several), None, "{several}");
        }
        assert!(Status::read("Tgid:\t7\n").is_none());
    }

    #[test]
    fn we_our_children_and_the_first_process_are_known() {
        let of_number = |number| look(number).unwrap();
        assert!(of_number(std::process::id()).ours);
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        let task = Task { number: child.id(), start: started(child.id()).unwrap() };
        let found = of(task).unwrap();
        assert!(found.ours && !found.first && !found.kernel && found.uid.is_some(), "{found:?}");
        assert_eq!(of(Task { start: task.start + 1, ..task }), None, "a later one of its number");
        assert_eq!(of(Task::numbered(task.number)), None, "nobody has looked at it");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(of(task), None);
        let first = of_number(1);
        assert!(first.first && !first.ours, "{first:?}");
    }
}
