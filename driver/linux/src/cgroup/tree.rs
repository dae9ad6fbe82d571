//! The groups below one parent group: one for each reservation, and `sluice.rest`, with all unreserved
//! processes of the parent.
//!
//! *Opt in.* No process is moved until a user [`GroupTree::hold`]s the rest, and all return to the parent
//! when the last user lets go. Kernel threads are not moved. Nor is the agent, so that its work at a window's
//! edge does not wait for the processes that it limits.
//! *Crash-safe.* Every change is recorded first (`record`); the next agent on the same parent continues from
//! there. A lock on the parent's folder excludes a second agent.
//! *Version 2* allows processes only in groups that control no others (except in the root), and a process is
//! in one group for all controllers: so CPU and disk share a tree there, and a reservation of both is one
//! group.

use super::find::{Mounted, Version, home_of};
use super::group::{ControlGroup, is_kernel_thread};
use super::record::{GroupRecord, Home};
use crate::error::SystemError;
use crate::process::{ProcessId, claim};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The group of unreserved processes.
pub(super) const REST: &str = "sluice.rest";
/// The prefix of the groups of reservations.
pub(super) const RESERVED: &str = "sluice.r.";
/// Rounds of moving: a process that forks during a move leaves its child behind.
const ROUNDS: usize = 20;

/// The place of the groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupPlace {
    /// The hierarchies: the first is the controller's; the others only count reserved processes.
    pub mounted: Vec<Mounted>,
    /// The parent, as a path below their roots: `/` for the whole host.
    pub parent: PathBuf,
    /// The file of the record.
    pub record: PathBuf,
}

/// The result of [`GroupTree::gather`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gathered {
    /// Processes moved to the rest.
    pub moved: usize,
    /// Processes that remain in the parent against our will: of other process namespaces, or refused by the
    /// kernel.
    pub left: usize,
}

/// The groups below one parent.
#[derive(Debug)]
pub struct GroupTree {
    pub(super) mounted: Vec<Mounted>,
    parents: Vec<ControlGroup>,
    pub(super) record: GroupRecord,
    /// Groups of other programs whose processes are moved to a reservation's group, by reservation.
    pub(super) followed: BTreeMap<String, PathBuf>,
    holders: BTreeSet<String>,
    at_root: bool,
    _lock: File,
}

impl GroupTree {
    /// Takes over the parent, with the groups that a crashed agent left.
    ///
    /// # Errors
    /// There is no such group, another agent holds it, or the record cannot be read.
    pub fn open(place: GroupPlace) -> Result<GroupTree, SystemError> {
        let below = place.parent.strip_prefix("/").unwrap_or(&place.parent);
        let what = || format!("use the group {}", place.parent.display());
        if below.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return Err(SystemError::because(what(), io::Error::other("a path below the hierarchy's root is wanted")));
        }
        let parents: Vec<ControlGroup> =
            place.mounted.iter().map(|mounted| ControlGroup::at(mounted.at.join(below))).collect();
        let first = parents.first().ok_or_else(|| SystemError::because(what(), io::ErrorKind::NotFound.into()))?;
        let lock = lock(first.dir())?;
        let record = GroupRecord::read(&place.record)?;
        let at_root = below.as_os_str().is_empty();
        let (mounted, followed, holders) = (place.mounted, BTreeMap::new(), BTreeSet::new());
        let mut tree = GroupTree { mounted, parents, record, followed, holders, at_root, _lock: lock };
        tree.adopt()?;
        Ok(tree)
    }

    /// Adopts the groups that exist: groups of ours without a record (the state folder was removed) are
    /// emptied and removed; the group of unreserved processes is used again.
    fn adopt(&mut self) -> Result<(), SystemError> {
        if self.rest().exists() {
            self.record.gathered = true;
        }
        for name in self.parents[0].children() {
            let Some(name) = name.strip_prefix(RESERVED) else { continue };
            if !self.record.groups.contains_key(name) {
                self.empty(name)?;
            }
        }
        Ok(())
    }

    /// The version of the hierarchy.
    pub fn version(&self) -> Version {
        self.mounted[0].version
    }

    /// The parent group.
    pub fn parent(&self) -> &ControlGroup {
        &self.parents[0]
    }

    /// The group of unreserved processes.
    pub fn rest(&self) -> ControlGroup {
        self.parents[0].child(REST)
    }

    /// The group of a reservation: its own, or one of another program.
    pub fn group(&self, name: &str) -> ControlGroup {
        if let Some(lent) = self.record.lent.get(name) {
            return ControlGroup::at(lent.dir.clone());
        }
        self.parents[0].child(&format!("{RESERVED}{name}"))
    }

    /// The same group in the hierarchy that counts processor time, if that is another.
    pub fn counted(&self, name: &str) -> Option<ControlGroup> {
        if let Some(lent) = self.record.lent.get(name) {
            let below = lent.dir.strip_prefix(self.parents[0].dir()).ok()?;
            return Some(ControlGroup::at(self.parents.get(1)?.dir().join(below)));
        }
        Some(self.parents.get(1)?.child(&format!("{RESERVED}{name}")))
    }

    /// The groups below the parent that are not ours, except bound ones.
    pub fn foreign(&self) -> Vec<ControlGroup> {
        let parent = self.parent();
        let theirs = |name: &String| name != REST && !name.starts_with(RESERVED);
        let lent = |group: &ControlGroup| self.record.lent.values().any(|lent| lent.dir == group.dir());
        let all = parent.children().into_iter().filter(theirs).map(|name| parent.child(&name));
        all.filter(|group| !lent(group)).collect()
    }

    /// Reservations for which `user` has a group, including those from before a crash, and the worth of each.
    pub fn reserved(&self, user: &str) -> Vec<(String, u64)> {
        let worth = |(name, users): (&String, &std::collections::BTreeMap<String, u64>)| {
            users.get(user).map(|&worth| (name.clone(), worth))
        };
        self.record.groups.iter().filter_map(worth).collect()
    }

    /// True if the unreserved processes are in their group.
    pub fn is_gathered(&self) -> bool {
        self.record.gathered
    }

    /// Moves all unreserved processes into one group for `user`, and switches on its controller.
    ///
    /// # Errors
    /// The kernel refuses; [`GroupTree::let_go`] moves the processes back.
    pub fn hold(&mut self, user: &str) -> Result<Gathered, SystemError> {
        self.holders.insert(user.to_owned());
        self.record.gathered = true;
        self.record.write()?;
        self.rest().make()?;
        let gathered = self.gather()?;
        self.switch_on(user)?;
        Ok(gathered)
    }

    /// Switches a controller of version 2 on for the groups of the parent.
    ///
    /// # Errors
    /// The parent does not have it, or has processes of its own.
    pub fn switch_on(&mut self, controller: &str) -> Result<(), SystemError> {
        const SETTING: &str = "cgroup.subtree_control";
        if self.version() == Version::One {
            return Ok(());
        }
        let has = |text: &str| text.split_ascii_whitespace().any(|held| held == controller);
        let parent = self.parents[0].clone();
        if has(&parent.read(SETTING)?) {
            return Ok(());
        }
        self.record.added.push(controller.to_owned());
        self.record.write()?;
        parent.write(SETTING, &format!("+{controller}"))
    }

    /// Moves the processes of the parent to the rest; other programs may put new ones there at any time.
    ///
    /// # Errors
    /// The groups cannot be read.
    pub fn gather(&mut self) -> Result<Gathered, SystemError> {
        let (parent, rest) = (self.parents[0].clone(), self.rest());
        let mut total = Gathered::default();
        for _ in 0..ROUNDS {
            let mut moved = 0;
            total.left = 0;
            for pid in parent.processes()? {
                if self.stays(pid) {
                    continue;
                }
                match if pid == 0 { Err(libc::EINVAL) } else { rest.attach(pid).map_err(|failed| failed.code()) } {
                    Ok(()) => moved += 1,
                    Err(libc::ESRCH) => {}
                    Err(_) => total.left += 1,
                }
            }
            total.moved += moved;
            if moved == 0 {
                break;
            }
        }
        Ok(total)
    }

    /// True for a process that is never moved.
    fn stays(&self, pid: u32) -> bool {
        let may_stay = self.version() == Version::One || self.at_root;
        may_stay && (pid == std::process::id() || is_kernel_thread(pid))
    }

    /// Records that `user` no longer needs the rest; after the last user all processes return to the parent.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn let_go(&mut self, user: &str) -> Result<(), SystemError> {
        self.holders.remove(user);
        if !self.holders.is_empty() || !self.record.gathered {
            return Ok(());
        }
        self.switch_off()?;
        let (parent, rest) = (self.parents[0].clone(), self.rest());
        move_all(&rest, |_| parent.clone())?;
        rest.remove()?;
        self.record.gathered = false;
        self.record.write()
    }

    fn switch_off(&mut self) -> Result<(), SystemError> {
        if !self.record.groups.is_empty() {
            return Ok(());
        }
        for controller in std::mem::take(&mut self.record.added) {
            self.parents[0].write("cgroup.subtree_control", &format!("-{controller}"))?;
        }
        self.record.write()
    }

    /// Makes a group for `user`'s reservation `name`; `worth` is recorded with it. A repeated call changes
    /// only the worth.
    ///
    /// # Errors
    /// The name is not a plain word of at most 64 letters, digits, `-` and `_`; or the kernel refuses.
    pub fn reserve(&mut self, user: &str, name: &str, worth: u64) -> Result<ControlGroup, SystemError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            let error = io::Error::other("letters, digits, - and _ make the name of a group");
            return Err(SystemError::because(format!("name a group {name:?}"), error));
        }
        self.record.groups.entry(name.to_owned()).or_default().insert(user.to_owned(), worth);
        self.record.write()?;
        let group = self.group(name);
        if self.record.lent.contains_key(name) {
            return Ok(group);
        }
        group.make()?;
        if let Some(counted) = self.counted(name) {
            counted.make()?;
        }
        Ok(group)
    }

    /// Ends `user`'s use of the group; after the last user its processes return to their original groups and
    /// it is removed.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn unreserve(&mut self, user: &str, name: &str) -> Result<(), SystemError> {
        let Some(users) = self.record.groups.get_mut(name) else { return Ok(()) };
        if users.len() > 1 || !users.contains_key(user) {
            users.remove(user);
            return self.record.write();
        }
        if self.record.lent.contains_key(name) {
            self.hand_back(name)?;
        } else {
            self.empty(name)?;
        }
        self.followed.remove(name);
        self.record.groups.remove(name);
        self.record.homes.retain(|home| home.group != name);
        self.record.write()
    }

    /// Returns the processes of a reservation to their original groups, and removes its group.
    fn empty(&self, name: &str) -> Result<(), SystemError> {
        let groups = [Some(self.group(name)), self.counted(name)];
        for (hierarchy, group) in groups.into_iter().enumerate() {
            let Some(group) = group.filter(ControlGroup::exists) else { continue };
            move_all(&group, |pid| self.home(name, hierarchy, pid))?;
            group.remove()?;
        }
        Ok(())
    }

    /// The group to which a process of a reservation returns: its original one; for a later child, that of
    /// the reservation's first process; if that is gone, the group of the unreserved processes.
    fn home(&self, name: &str, hierarchy: usize, pid: u32) -> ControlGroup {
        let mut of_group = self.record.homes.iter().filter(|home| home.group == name && home.hierarchy == hierarchy);
        let first = of_group.clone().next();
        let own = of_group.find(|home| home.process.pid == pid && home.process.is_running());
        let rest = self.rest();
        let unreserved =
            if hierarchy == 0 && self.record.gathered && rest.exists() { &rest } else { &self.parents[hierarchy] };
        let known = own.or(first).map(|home| ControlGroup::at(home.dir.clone()));
        let usable = |group: &ControlGroup| group.exists() && *group != self.parents[hierarchy] && *group != rest;
        known.filter(usable).unwrap_or_else(|| unreserved.clone())
    }

    /// Moves a process with its threads and its children, present and future, to a reservation's group. A
    /// child that belongs to another reservation stays there.
    ///
    /// # Errors
    /// There is no such process, it belongs to another reservation, or the kernel refuses; it is then not
    /// moved.
    pub fn put(&mut self, name: &str, pid: u32) -> Result<ProcessId, SystemError> {
        let process = self.put_one(name, pid)?;
        // A child that was born while its parent was moved is found in the next round.
        for _ in 0..ROUNDS {
            let there = self.group(name).processes()?;
            let goes = |child: &u32| !there.contains(child) && goes_along(pid, *child);
            let missing: Vec<u32> = family(pid).into_iter().filter(goes).collect();
            // One that ends in the meantime, or is another reservation's, is none of ours.
            if missing.into_iter().filter(|&child| self.put_one(name, child).is_ok()).count() == 0 {
                break;
            }
        }
        Ok(process)
    }

    pub(super) fn put_one(&mut self, name: &str, pid: u32) -> Result<ProcessId, SystemError> {
        let what = || format!("bind process {pid} to reservation {name}");
        let refused = |why: String| Err(SystemError::because(what(), io::Error::other(why)));
        let Some(process) = ProcessId::of(pid) else { return refused("it does not run".into()) };
        if is_kernel_thread(pid) || pid == 1 {
            return refused("it is process 1 or a thread of the kernel".into());
        }
        let mut moves = Vec::new();
        for (hierarchy, mounted) in self.mounted.iter().enumerate() {
            let group = if hierarchy == 0 { Some(self.group(name)) } else { self.counted(name) };
            let (Some(group), Some(dir)) = (group, home_of(pid, mounted)) else { continue };
            if dir == group.dir() {
                continue;
            }
            if let Some(other) = reservation_of(&self.parents[hierarchy], &dir) {
                return refused(format!("it is bound to reservation {other} already"));
            }
            moves.push((group, Home { group: name.to_owned(), process, hierarchy, dir }));
        }
        for (_, home) in &moves {
            let same =
                |other: &Home| (&other.group, other.process, other.hierarchy) == (&home.group, process, home.hierarchy);
            if !self.record.homes.iter().any(same) {
                self.record.homes.push(home.clone());
            }
        }
        self.record.write()?;
        for (group, home) in &moves {
            if let Err(failed) = group.attach(pid) {
                self.take_out(name, process, &moves);
                let why = format!("{failed} (from {})", home.dir.display());
                return Err(SystemError::because(what(), io::Error::other(why)));
            }
        }
        Ok(process)
    }

    /// Undoes a move that failed half way.
    fn take_out(&mut self, name: &str, process: ProcessId, moves: &[(ControlGroup, Home)]) {
        for (_, home) in moves {
            // What cannot go back stays in the group, and goes home with it.
            let _ = ControlGroup::at(home.dir.clone()).attach(process.pid);
        }
        self.record.homes.retain(|home| home.group != name || home.process != process);
    }

    /// Returns one process of a reservation before the reservation ends, because it was bound to another
    /// process.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take(&mut self, name: &str, pid: u32) -> Result<(), SystemError> {
        for (hierarchy, group) in [Some(self.group(name)), self.counted(name)].into_iter().enumerate() {
            let Some(group) = group.filter(ControlGroup::exists) else { continue };
            if group.processes()?.contains(&pid) {
                self.home(name, hierarchy, pid).attach(pid)?;
            }
        }
        self.record.homes.retain(|home| home.group != name || home.process.pid != pid);
        self.record.write()
    }

    /// Processes of a reservation's group that still run but are no longer in it: another program moved them,
    /// or removed the group.
    pub fn strayed(&self, name: &str) -> Vec<u32> {
        let group = self.group(name);
        let there = group.processes().unwrap_or_default();
        let put = self.record.homes.iter().filter(|home| home.group == name && home.hierarchy == 0);
        let gone = put.filter(|home| !there.contains(&home.process.pid) && home.process.is_running());
        gone.map(|home| home.process.pid).collect()
    }

    /// Ends everything: all processes return, all our groups are removed, controllers are as before.
    ///
    /// # Errors
    /// The first failure; all other steps were tried.
    pub fn close(&mut self) -> Result<(), SystemError> {
        let mut first = Ok(());
        let names: Vec<String> = self.record.groups.keys().cloned().collect();
        for name in names {
            let users: Vec<String> = self.record.groups[&name].keys().cloned().collect();
            for user in users {
                first = first.and(self.unreserve(&user, &name));
            }
        }
        self.holders.clear();
        first.and(self.let_go("")).and_then(|()| self.switch_off())
    }
}

/// Moves all processes out of `from`, each to the group that `to` returns.
fn move_all(from: &ControlGroup, to: impl Fn(u32) -> ControlGroup) -> Result<(), SystemError> {
    if !from.exists() {
        return Ok(());
    }
    for _ in 0..ROUNDS {
        let there = from.processes()?;
        if there.is_empty() {
            break;
        }
        for pid in there {
            match to(pid).attach(pid) {
                Err(failed) if failed.code() != libc::ESRCH => return Err(failed),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The descendants of a process (`/proc/PID/task/TID/children`), without itself.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&parent) = all.get(next) {
        next += 1;
        for tid in crate::cpu::measure::threads(parent) {
            let path = format!("/proc/{parent}/task/{tid}/children");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let fresh = text.split_ascii_whitespace().filter_map(|word| word.parse().ok());
            let fresh: Vec<u32> = fresh.filter(|child| !all.contains(child)).collect();
            all.extend(fresh);
        }
    }
    all.split_off(1)
}

/// True if a child is moved with its parent: it must have the same user, unless the parent is root's (so that
/// a user's shell does not bind its `sudo`). This process is never moved.
fn goes_along(parent: u32, child: u32) -> bool {
    let uid = |pid: u32| crate::owner::look(pid).and_then(|found| found.uid);
    child != std::process::id() && (uid(parent) == Some(0) || uid(parent).is_some() && uid(parent) == uid(child))
}

/// The reservation whose group contains `dir`.
fn reservation_of(parent: &ControlGroup, dir: &Path) -> Option<String> {
    let below: PathBuf = dir.strip_prefix(parent.dir()).ok()?.to_owned();
    let first = below.components().next()?.as_os_str().to_str()?.to_owned();
    first.strip_prefix(RESERVED).map(str::to_owned)
}

/// Locks the parent's folder for one agent; the lock ends with its holder.
fn lock(dir: &Path) -> Result<File, SystemError> {
    let what = || format!("take the group {}", dir.display());
    let file = File::open(dir).map_err(SystemError::doing(what()))?;
    match claim(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(SystemError::because(what(), io::Error::other("another agent holds it"))),
        Err(error) => Err(SystemError::because(what(), error)),
    }
}
