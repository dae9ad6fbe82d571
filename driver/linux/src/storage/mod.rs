//! Reservations of disks: processes *without* a reservation are limited to the capacity minus the
//! reservations.
//!
//! Amounts are bytes a second, of each direction. A kernel has only limits, no reservations of a disk. So all
//! unreserved processes are in one group (on hosts that opt in: see [`crate::cgroup::GroupTree`]), which gets
//! the limit. If one disk has several reservations, each is limited to its own rate; a single one is not
//! limited. On a host that has not opted in, only a cap on the reserved process is possible.

pub mod device;
pub mod limits;
pub mod measure;

pub use device::Device;

use crate::cgroup::{ControlGroup, GroupTree};
use crate::cpu::ShareKind;
use crate::error::SystemError;
use crate::gauge::{Gauge, GaugeReading};
use limits::DiskLimit;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The controller of version 2, and our name as a user of the tree.
const IO: &str = "io";
/// The least limit of the unreserved processes, bytes a second: zero would block them for ever.
const LEAST: u64 = 64 << 10;
/// The interval between checks that the limits are still in place.
const LOOK_EVERY: Duration = Duration::from_millis(1000);

/// A disk that can be reserved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReservableDisk {
    /// Its device.
    pub device: Device,
    /// Its capacity, bytes a second of each direction.
    pub capacity: u64,
    /// The request size at which the capacity was measured, bytes: the unreserved processes get as many
    /// requests as their bytes at this size. `None`: requests are not limited.
    pub request: Option<u64>,
}

/// An event that no call asked for.
#[derive(Debug)]
pub enum DiskNotice {
    /// Another program moved a process of a reservation away, or removed its group; the process is back.
    Strayed {
        /// The reservation.
        name: String,
        /// The process.
        pid: u32,
    },
    /// A disk is gone: its reservations are void.
    Gone(String),
    /// The kernel refused a necessary change.
    Fault(SystemError),
}

/// The current state of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskStatus {
    /// The reserved rate, bytes a second.
    pub rate: u64,
    /// The kernel's settings, read at this moment; empty while no target is bound.
    pub installed: String,
    /// The rate of the last whole interval, bytes a second, both directions.
    pub seen: Option<GaugeReading>,
    /// The same for all unreserved processes, if they have a group.
    pub rest: Option<GaugeReading>,
    /// The processes that it serves.
    pub members: Vec<u32>,
}

/// The reservations of the disks of this host.
#[derive(Debug)]
pub struct Storage {
    tree: Arc<Mutex<GroupTree>>,
    opted_in: bool,
    disks: BTreeMap<String, ReservableDisk>,
    /// By disk and name of the reservation.
    reservations: BTreeMap<(String, String), Reservation>,
    /// The measured rates of the unreserved processes, by disk.
    rest: BTreeMap<String, Gauge>,
    looked: Option<Instant>,
    /// The origin of the gauges' time.
    origin: Instant,
}

/// The target of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    Process(u32),
    /// A group of another program.
    Group,
}

#[derive(Debug, Default)]
struct Reservation {
    rate: u64,
    bound: Option<Bound>,
    /// True if it comes from the record of an earlier agent and was not enabled since.
    left: bool,
    gauge: Gauge,
}

impl Storage {
    /// Reservations with groups of `tree`; `disks` by the names that reservations use. Those of an earlier
    /// agent are kept: see [`Storage::keep_only_enabled`].
    pub fn open(tree: Arc<Mutex<GroupTree>>, opted_in: bool, disks: BTreeMap<String, ReservableDisk>) -> Storage {
        let mut reservations = BTreeMap::new();
        for disk in disks.keys() {
            for (name, rate) in locked(&tree).reserved(&user(disk)) {
                reservations.insert((disk.clone(), name), Reservation { rate, left: true, ..Reservation::default() });
            }
        }
        Storage { tree, opted_in, disks, reservations, rest: BTreeMap::new(), looked: None, origin: Instant::now() }
    }

    /// The strength of a reservation on this host.
    pub fn kind(&self) -> ShareKind {
        if self.opted_in { ShareKind::Guarantee } else { ShareKind::Cap }
    }

    /// The disks that can be reserved.
    pub fn disks(&self) -> &BTreeMap<String, ReservableDisk> {
        &self.disks
    }

    /// Releases reservations of an earlier agent that were not enabled since.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn keep_only_enabled(&mut self) -> Result<(), SystemError> {
        let left = self.reservations.iter().filter(|(_, found)| found.left).map(|(key, _)| key.clone());
        let left: Vec<(String, String)> = left.collect();
        self.disable_all(left)
    }

    /// Starts the window of reservation `name` on `disk`, or changes its rate. It binds no target.
    ///
    /// # Errors
    /// There is no such disk, or the kernel refuses; the rate is then unchanged.
    pub fn enable(&mut self, disk: &str, name: &str, rate: u64) -> Result<(), SystemError> {
        self.disk(disk)?;
        let key = (disk.to_owned(), name.to_owned());
        let reservation = self.reservations.entry(key.clone()).or_default();
        let had = std::mem::replace(&mut reservation.rate, rate);
        reservation.left = false;
        if reservation.bound.is_none() {
            return Ok(());
        }
        let reserved = locked(&self.tree).reserve(&user(disk), name, rate).map(|_| ());
        let written = reserved.and_then(|()| self.write(disk));
        if written.is_err() {
            if let Some(reservation) = self.reservations.get_mut(&key) {
                reservation.rate = had;
            }
            self.write(disk)?;
        }
        written
    }

    fn disk(&self, name: &str) -> Result<&ReservableDisk, SystemError> {
        let what = || format!("reserve disk {name}");
        let disk = self.disks.get(name).ok_or_else(|| SystemError::because(what(), io::ErrorKind::NotFound.into()))?;
        if disk.device.is_there() {
            return Ok(disk);
        }
        Err(SystemError::because(what(), io::Error::other(format!("the device {} is gone", disk.device.name))))
    }

    /// Serves process `pid` with all its future children by reservation `name` on `disk` from now on.
    ///
    /// # Errors
    /// The reservation is not enabled, the process does not run, or the kernel refuses; the state is then
    /// unchanged.
    pub fn bind(&mut self, disk: &str, name: &str, pid: u32) -> Result<ShareKind, SystemError> {
        self.disk(disk)?;
        let key = (disk.to_owned(), name.to_owned());
        let Some(reservation) = self.reservations.get(&key) else {
            let what = format!("bind process {pid} to reservation {name}");
            return Err(SystemError::because(what, io::Error::other("its window is not open")));
        };
        let (rate, had) = (reservation.rate, reservation.bound);
        if had == Some(Bound::Group) {
            let what = format!("bind process {pid} to reservation {name}");
            return Err(SystemError::because(what, io::Error::other("it serves a group: disable it first")));
        }
        let served = self.serve(disk, name, rate, Ok(pid));
        self.settle(&key, served, Bound::Process(pid))?;
        if let Some(Bound::Process(old)) = had.filter(|old| *old != Bound::Process(pid)) {
            locked(&self.tree).take(name, old)?;
        }
        self.write(disk)?;
        Ok(self.kind())
    }

    /// Serves all processes of a group of another program, present and future, by reservation `name` on
    /// `disk`; see [`crate::cpu::Cpu::bind_group`].
    ///
    /// # Errors
    /// As [`crate::cpu::Cpu::bind_group`]; or the group has a limit of its own on this disk.
    pub fn bind_group(&mut self, disk: &str, name: &str, path: &str) -> Result<ShareKind, SystemError> {
        self.disk(disk)?;
        let refused = |why: String| SystemError::because(format!("bind the group {path}"), io::Error::other(why));
        let key = (disk.to_owned(), name.to_owned());
        let reservation = self.reservations.get(&key).ok_or_else(|| refused("its window is not open".into()))?;
        let (rate, had) = (reservation.rate, reservation.bound);
        if had.is_some_and(|had| had != Bound::Group) {
            return Err(refused("it serves a process: disable it first".into()));
        }
        if !self.opted_in {
            let why = "a group has its share because all that is not reserved is held back, and this host has not opted \
                       in ([groups] hold_back = true)";
            return Err(refused(why.into()));
        }
        if had.is_none() {
            let (tree, device) = (locked(&self.tree), &self.disks[disk].device);
            let ours = tree.reserved(&user(disk)).iter().any(|(known, _)| known == name);
            for group in tree.above(path)?.iter().filter(|_| !ours) {
                if limits::get(group, tree.version(), device).is_ok_and(|limit| limit != DiskLimit::default()) {
                    return Err(refused(format!("{} has a limit of its own on this disk", group.dir().display())));
                }
            }
        }
        let served = self.serve(disk, name, rate, Err(path));
        self.settle(&key, served, Bound::Group)?;
        self.write(disk)?;
        Ok(self.kind())
    }

    /// Records the new target if the attempt succeeded, else undoes it.
    fn settle(
        &mut self,
        key: &(String, String),
        served: Result<(), SystemError>,
        bound: Bound,
    ) -> Result<(), SystemError> {
        let Some(reservation) = self.reservations.get_mut(key) else { return served };
        if served.is_ok() {
            reservation.bound = Some(bound);
        } else if reservation.bound.is_none() {
            self.let_go(&key.0, &key.1)?;
            self.write(&key.0)?;
        }
        served
    }

    /// Serves a process, or else the group at a path.
    fn serve(&mut self, disk: &str, name: &str, rate: u64, whose: Result<u32, &str>) -> Result<(), SystemError> {
        let mut tree = locked(&self.tree);
        if let Err(path) = whose {
            // Before it is looked for strangers, of which it is none then.
            tree.lend(&user(disk), name, rate, path, "")?;
        }
        if self.opted_in {
            let strangers: Vec<String> = tree.foreign().iter().filter(|group| is_inhabited(group)).map(named).collect();
            if !strangers.is_empty() {
                let why = format!("processes in groups of other programs are not held back: {}", strangers.join(", "));
                return Err(SystemError::because(format!("reserve disk {disk}"), io::Error::other(why)));
            }
            tree.hold(IO)?;
        }
        tree.switch_on(IO)?;
        let Ok(pid) = whose else { return Ok(()) };
        tree.reserve(&user(disk), name, rate)?;
        tree.put(name, pid).map(|_| ())
    }

    /// Ends the window of a reservation, or cancels it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn disable(&mut self, disk: &str, name: &str) -> Result<(), SystemError> {
        self.reservations.remove(&(disk.to_owned(), name.to_owned()));
        if let Some(found) = self.disks.get(disk) {
            let tree = locked(&self.tree);
            let group = tree.group(name);
            if group.exists() && found.device.is_there() {
                limits::set(&group, tree.version(), &found.device, DiskLimit::default())?;
            }
        }
        self.write(disk).and(self.let_go(disk, name))
    }

    fn let_go(&mut self, disk: &str, name: &str) -> Result<(), SystemError> {
        let mut tree = locked(&self.tree);
        tree.unreserve(&user(disk), name)?;
        let any = self.reservations.iter().any(|((on, of), found)| {
            (on.as_str(), of.as_str()) != (disk, name) && (found.bound.is_some() || found.left)
        });
        if any { Ok(()) } else { tree.let_go(IO) }
    }

    /// Writes the limits of a disk: the unreserved processes get the rest of the capacity; if there are
    /// several reservations, each gets its own rate.
    fn write(&self, disk: &str) -> Result<(), SystemError> {
        let Some(found) = self.disks.get(disk).filter(|found| found.device.is_there()) else { return Ok(()) };
        let tree = locked(&self.tree);
        let active = self.reservations.iter().filter(|((on, _), one)| on == disk && (one.bound.is_some() || one.left));
        let active: Vec<(ControlGroup, u64)> = active.map(|((_, name), one)| (tree.group(name), one.rate)).collect();
        let sum: u64 = active.iter().map(|(_, rate)| rate).sum();
        let rest = tree.rest();
        if self.opted_in && rest.exists() {
            let left = found.capacity.saturating_sub(sum).max(LEAST);
            let requests = found.request.map(|request| (left / request.max(1)).max(1));
            let limit = DiskLimit { bytes: Some(left), requests };
            let limit = if active.is_empty() { DiskLimit::default() } else { limit };
            limits::set(&rest, tree.version(), &found.device, limit)?;
        }
        let alone = self.opted_in && active.len() == 1;
        for (group, rate) in active.iter().filter(|(group, _)| group.exists()) {
            let bytes = Some((*rate).max(1)).filter(|_| !alone);
            limits::set(group, tree.version(), &found.device, DiskLimit { bytes, requests: None })?;
        }
        Ok(())
    }

    /// Call it about every hundred milliseconds while [`Storage::is_watched`]: it gathers new processes of
    /// the parent, returns strayed processes to their groups, restores limits, and measures.
    pub fn tick(&mut self) -> Vec<DiskNotice> {
        let now = Instant::now();
        if !self.is_watched() || self.looked.is_some_and(|at| now.saturating_duration_since(at) < LOOK_EVERY) {
            return Vec::new();
        }
        self.looked = Some(now);
        let mut notices = Vec::new();
        for (name, disk) in &self.disks {
            if !disk.device.is_there() && self.reservations.keys().any(|(on, _)| on == name) {
                notices.push(DiskNotice::Gone(name.clone()));
            }
        }
        let mut tree = locked(&self.tree);
        if self.opted_in && tree.is_gathered() {
            notices.extend(tree.rest().make().and_then(|()| tree.gather()).err().map(DiskNotice::Fault));
        }
        for ((disk, name), one) in self.reservations.iter_mut().filter(|(_, one)| one.bound.is_some()) {
            for pid in tree.strayed(name) {
                let back = tree.reserve(&user(disk), name, one.rate).and_then(|_| tree.put(name, pid));
                notices.push(match back {
                    Ok(_) => DiskNotice::Strayed { name: name.clone(), pid },
                    Err(failed) => DiskNotice::Fault(failed),
                });
            }
            notices.extend(tree.follow(name).err().map(DiskNotice::Fault));
            let found = &self.disks[disk];
            if let Some(served) = limits::served(&tree.group(name), tree.version(), &found.device) {
                one.gauge.look(now.saturating_duration_since(self.origin), served);
            }
        }
        for (name, disk) in self.disks.iter().filter(|_| tree.is_gathered()) {
            if let Some(served) = limits::served(&tree.rest(), tree.version(), &disk.device) {
                let gauge = self.rest.entry(name.clone()).or_default();
                gauge.look(now.saturating_duration_since(self.origin), served);
            }
        }
        drop(tree);
        for disk in self.disks.keys() {
            notices.extend(self.write(disk).err().map(DiskNotice::Fault));
        }
        notices
    }

    /// True if any reservation has a target.
    pub fn is_watched(&self) -> bool {
        self.reservations.values().any(|one| one.bound.is_some())
    }

    /// The current state of a reservation in the kernel.
    pub fn status(&self, disk: &str, name: &str) -> Option<DiskStatus> {
        let one = self.reservations.get(&(disk.to_owned(), name.to_owned()))?;
        let found = self.disks.get(disk)?;
        let tree = locked(&self.tree);
        let group = tree.group(name);
        let word = |limit: DiskLimit| limit.bytes.map_or("no limit".to_owned(), |bytes| format!("{bytes} B/s"));
        let of =
            |group: &ControlGroup| limits::get(group, tree.version(), &found.device).map_or("gone".to_owned(), word);
        let installed = match (one.bound, self.opted_in) {
            (None, _) => String::new(),
            (Some(_), true) => format!("{}, the unreserved {}", of(&group), of(&tree.rest())),
            (Some(_), false) => of(&group),
        };
        let members = one.bound.map_or_else(Vec::new, |_| group.all_processes());
        let rest = self.rest.get(disk).filter(|_| one.bound.is_some()).and_then(Gauge::seen);
        Some(DiskStatus { rate: one.rate, installed, seen: one.gauge.seen(), rest, members })
    }

    /// Ends all reservations: the host is as before.
    ///
    /// # Errors
    /// The first failure; all other steps were tried.
    pub fn close(&mut self) -> Result<(), SystemError> {
        let all: Vec<(String, String)> = self.reservations.keys().cloned().collect();
        self.disable_all(all)
    }

    fn disable_all(&mut self, all: Vec<(String, String)>) -> Result<(), SystemError> {
        let mut first = Ok(());
        for (disk, name) in all {
            first = first.and(self.disable(&disk, &name));
        }
        first
    }
}

/// The name of a disk as a user of the tree.
fn user(disk: &str) -> String {
    format!("disk-{disk}")
}

/// True if a process is in a group, or in one below it.
fn is_inhabited(group: &ControlGroup) -> bool {
    let here = group.processes().is_ok_and(|all| all.iter().any(|&pid| !crate::cgroup::is_kernel_thread(pid)));
    here || group.children().iter().any(|name| is_inhabited(&group.child(name)))
}

fn named(group: &ControlGroup) -> String {
    group.dir().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn locked(tree: &Mutex<GroupTree>) -> MutexGuard<'_, GroupTree> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}
