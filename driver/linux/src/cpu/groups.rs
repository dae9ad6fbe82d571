//! Reservations of process groups by weight against all siblings (`cpu.shares` of version 1, `cpu.weight` of
//! version 2); on hosts that have not opted in, by quota, which caps only the reserved group.
//!
//! New threads and children of a process start in its group: they are covered from their first instruction.

use super::deadline::CORE;
use super::measure::Sum;
use super::tune::{RunTimes, Tuner};
use super::weights::{Need, Scale, TooHeavy, weigh};
use super::{CpuNotice, capacity};
use crate::cgroup::{ControlGroup, GroupTree, Version};
use crate::error::SystemError;
use crate::gauge::{Gauge, GaugeReading};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The controller, and our name as a user of the tree.
const CPU: &str = "cpu";
/// The period of a quota, microseconds: the kernel's default.
const QUOTA_PERIOD_US: u64 = 100_000;
/// The interval at which new processes in the parent are gathered.
const GATHER_EVERY: Duration = Duration::from_millis(1000);

/// The reservations for groups.
#[derive(Debug)]
pub struct Groups {
    tree: Arc<Mutex<GroupTree>>,
    weighted: bool,
    reservations: BTreeMap<String, Reserved>,
    gathered_at: Option<Instant>,
    /// The origin of the gauges' time.
    origin: Instant,
}

#[derive(Debug)]
struct Reserved {
    share: u64,
    tuner: Tuner,
    sum: Sum,
    last: Option<(Instant, RunTimes)>,
    gauge: Gauge,
    /// True if it had a process at the last look.
    lived: bool,
}

impl Reserved {
    fn new(share: u64) -> Reserved {
        Reserved {
            share,
            tuner: Tuner::default(),
            sum: Sum::default(),
            last: None,
            gauge: Gauge::default(),
            lived: false,
        }
    }
}

impl Groups {
    /// Reservations on `tree`, by weight if the host has `opted_in`, by quota otherwise; with the groups of
    /// an earlier agent.
    pub fn open(tree: Arc<Mutex<GroupTree>>, opted_in: bool) -> Groups {
        let found = locked(&tree).reserved(CPU);
        let reservations = found.into_iter().map(|(name, share)| (name, Reserved::new(share))).collect();
        Groups { tree, weighted: opted_in, reservations, gathered_at: None, origin: Instant::now() }
    }

    /// True if reservations here are guarantees.
    pub fn is_weighted(&self) -> bool {
        self.weighted
    }

    /// The names of the reservations.
    pub fn names(&self) -> Vec<String> {
        self.reservations.keys().cloned().collect()
    }

    /// Gives `share` to process `pid`, in place of the reservation's previous target. `threads_share` is the
    /// share of thread reservations beside the groups. Every setting is read back.
    ///
    /// # Errors
    /// There is no such process, or the kernel refuses; the state is then unchanged.
    pub fn reserve(&mut self, name: &str, pid: u32, share: u64, threads_share: u64) -> Result<(), SystemError> {
        let had = self.reservations.get(name).map(|found| found.share);
        let given = self.give(name, pid, share, threads_share);
        if given.is_err() {
            match had {
                Some(share) => {
                    self.change(name, share, threads_share)?;
                }
                None => self.release(name, threads_share)?,
            }
        }
        given
    }

    /// Gives `share` to a group of another program at `path`: by its own weight, or by moving its processes.
    ///
    /// # Errors
    /// The host has not opted in, the group has a quota of its own or cannot be bound, or the kernel refuses;
    /// the state is then unchanged.
    pub fn reserve_group(&mut self, name: &str, path: &str, share: u64, threads_share: u64) -> Result<(), SystemError> {
        let what = || format!("bind the group {path} to reservation {name}");
        let refused = |why: &str| Err(SystemError::because(what(), io::Error::other(why)));
        if !self.weighted {
            return refused(
                "a group has its share by its weight against all that is not reserved, and this host has not opted in \
                 ([groups] hold_back = true)",
            );
        }
        let given = self.lend(name, path, share).and_then(|()| {
            self.reservations.entry(name.to_owned()).or_insert_with(|| Reserved::new(share)).share = share;
            self.write(threads_share)
        });
        if given.is_err() {
            self.reservations.entry(name.to_owned()).or_insert_with(|| Reserved::new(share));
            self.release(name, threads_share)?;
        }
        given
    }

    fn lend(&mut self, name: &str, path: &str, share: u64) -> Result<(), SystemError> {
        let mut tree = locked(&self.tree);
        for group in tree.above(path)? {
            let quota = group.read("cpu.cfs_quota_us").or_else(|_| group.read("cpu.max")).unwrap_or_default();
            if !(quota.is_empty() || quota == "-1" || quota.starts_with("max")) {
                let why =
                    format!("{} has a quota of its own ({quota}), which is less than a share", group.dir().display());
                return Err(SystemError::because(format!("bind the group {path}"), io::Error::other(why)));
            }
        }
        tree.hold(CPU)?;
        tree.switch_on(CPU)?;
        let setting = if tree.version() == Version::One { "cpu.shares" } else { "cpu.weight" };
        tree.lend(CPU, name, share, path, setting)
    }

    fn give(&mut self, name: &str, pid: u32, share: u64, threads_share: u64) -> Result<(), SystemError> {
        {
            let mut tree = locked(&self.tree);
            if self.weighted {
                tree.hold(CPU)?;
            }
            tree.switch_on(CPU)?;
            tree.reserve(CPU, name, share)?;
        }
        self.reservations.entry(name.to_owned()).or_insert_with(|| Reserved::new(share)).share = share;
        self.write(threads_share)?;
        locked(&self.tree).put(name, pid).map(|_| ())
    }

    /// Changes the share of a reservation; does nothing if it has no group yet.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn change(&mut self, name: &str, share: u64, threads_share: u64) -> Result<(), SystemError> {
        let Some(reserved) = self.reservations.get_mut(name) else { return Ok(()) };
        let had = std::mem::replace(&mut reserved.share, share);
        let changed = locked(&self.tree).reserve(CPU, name, share).map(|_| ()).and_then(|()| self.write(threads_share));
        if changed.is_err() {
            if let Some(reserved) = self.reservations.get_mut(name) {
                reserved.share = had;
            }
            self.write(threads_share)?;
        }
        changed
    }

    /// Takes one process out of its group, because its reservation is bound to another.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take(&mut self, name: &str, pid: u32) -> Result<(), SystemError> {
        locked(&self.tree).take(name, pid)
    }

    /// Ends a reservation: its processes return to their original groups; after the last reservation all
    /// others do.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn release(&mut self, name: &str, threads_share: u64) -> Result<(), SystemError> {
        if self.reservations.remove(name).is_none() {
            return Ok(());
        }
        locked(&self.tree).unreserve(CPU, name)?;
        if self.reservations.is_empty() {
            return locked(&self.tree).let_go(CPU);
        }
        self.write(threads_share)
    }

    /// Writes the weights or the quotas of all groups.
    fn write(&self, threads_share: u64) -> Result<(), SystemError> {
        let tree = locked(&self.tree);
        if !self.weighted {
            let quotas = self.reservations.iter().map(|(name, found)| (tree.group(name), found.share));
            return quotas
                .filter(|(group, _)| group.exists())
                .try_for_each(|(group, share)| quota(&group, tree.version(), share));
        }
        let (scale, setting) = match tree.version() {
            Version::One => (Scale::SHARES, "cpu.shares"),
            Version::Two => (Scale::WEIGHT, "cpu.weight"),
        };
        let with_group: Vec<(ControlGroup, Need)> = self
            .reservations
            .iter()
            .map(|(name, found)| (tree.group(name), Need { share: found.share, boost: found.tuner.boost() }))
            .filter(|(group, _)| group.exists())
            .collect();
        let foreign: u64 =
            tree.foreign().iter().filter_map(|group| group.read(setting).ok()?.parse::<u64>().ok()).sum();
        let total = (capacity::cores() * CORE).saturating_sub(threads_share);
        let needs: Vec<Need> = with_group.iter().map(|(_, need)| *need).collect();
        let weights = weigh(&needs, total, foreign, scale).map_err(|TooHeavy(weight)| {
            let why = format!(
                "groups of other programs in {} weigh {foreign} together: {weight} would be needed, {} is the most",
                tree.parent().dir().display(),
                scale.most
            );
            SystemError::because("outweigh the unreserved", io::Error::other(why))
        })?;
        tree.rest().set(setting, &weights.rest.to_string())?;
        with_group
            .iter()
            .zip(weights.groups)
            .try_for_each(|((group, _), weight)| group.set(setting, &weight.to_string()))
    }

    /// Call it about every hundred milliseconds: it gathers new processes of the parent, returns strayed
    /// processes to their groups, measures usage and tunes the weights.
    pub fn tick(&mut self, now: Instant, threads_share: u64) -> Vec<CpuNotice> {
        let mut notices = Vec::new();
        if self.reservations.is_empty() {
            return notices;
        }
        if self.gathered_at.is_none_or(|at| now.saturating_duration_since(at) >= GATHER_EVERY) {
            self.gathered_at = Some(now);
            notices.extend(self.look_after());
        }
        for name in self.reservations.keys() {
            notices.extend(locked(&self.tree).follow(name).err().map(CpuNotice::Fault));
        }
        if self.learn(now, &mut notices) && self.weighted {
            notices.extend(self.write(threads_share).err().map(CpuNotice::Fault));
        }
        notices
    }

    fn look_after(&mut self) -> Vec<CpuNotice> {
        let mut notices = Vec::new();
        let mut tree = locked(&self.tree);
        if self.weighted && tree.is_gathered() {
            notices.extend(tree.rest().make().and_then(|()| tree.gather()).err().map(CpuNotice::Fault));
        }
        for (name, reserved) in &self.reservations {
            for pid in tree.strayed(name) {
                let back = tree.reserve(CPU, name, reserved.share).and_then(|_| tree.put(name, pid));
                notices.push(match back {
                    Ok(_) => CpuNotice::Strayed { name: name.clone(), pid },
                    Err(failed) => CpuNotice::Fault(failed),
                });
            }
        }
        if !notices.is_empty() {
            drop(tree);
            // A group that was removed and made again has the usual weight.
            self.reservations.values_mut().for_each(|reserved| reserved.last = None);
        }
        notices
    }

    /// Updates the measurements; returns true if the weights must be written again.
    fn learn(&mut self, now: Instant, notices: &mut Vec<CpuNotice>) -> bool {
        let tree = locked(&self.tree);
        let mut changed = !notices.is_empty();
        for (name, reserved) in &mut self.reservations {
            let group = tree.group(name);
            let pids = group.all_processes();
            let mut times = reserved.sum.look(&pids);
            let counted = tree.counted(name);
            if let Some(ran) = ran(&group).or_else(|| ran(counted.as_ref()?)) {
                times.ran = ran;
            }
            if let Some((then, before)) = reserved.last {
                changed |= reserved.tuner.learn(reserved.share, before, times, now.saturating_duration_since(then));
            }
            reserved.last = Some((now, times));
            reserved.gauge.look(now.saturating_duration_since(self.origin), times.ran);
            if reserved.lived && pids.is_empty() {
                notices.push(CpuNotice::Ended { name: name.clone() });
            }
            reserved.lived = !pids.is_empty();
        }
        changed
    }

    /// The recent usage of a reservation, millionths of a core, and that of the last whole interval, ns per
    /// second.
    pub fn got(&self, name: &str) -> Option<(u64, Option<GaugeReading>)> {
        let reserved = self.reservations.get(name)?;
        Some((reserved.tuner.got(), reserved.gauge.seen()))
    }

    /// The kernel's settings for a reservation, as text for people.
    pub fn installed(&self, name: &str) -> Option<String> {
        let tree = locked(&self.tree);
        let group =
            Some(tree.group(name)).filter(|_| self.reservations.contains_key(name)).filter(ControlGroup::exists)?;
        let settings: &[&str] = match (self.weighted, tree.version()) {
            (true, Version::One) => &["cpu.shares"],
            (true, Version::Two) => &["cpu.weight"],
            (false, Version::One) => &["cpu.cfs_quota_us", "cpu.cfs_period_us"],
            (false, Version::Two) => &["cpu.max"],
        };
        let held = settings.iter().filter_map(|name| Some(format!("{name} {}", group.read(name).ok()?)));
        let rest = settings.first().filter(|_| self.weighted).and_then(|name| tree.rest().read(name).ok());
        let beside = rest.map_or(String::new(), |rest| format!(" beside {rest}"));
        Some(format!("{}{beside}", held.collect::<Vec<_>>().join(", ")))
    }

    /// The processes of a reservation.
    pub fn processes(&self, name: &str) -> Vec<u32> {
        locked(&self.tree).group(name).all_processes()
    }
}

/// Processor time of a group, ns, if this hierarchy counts it.
fn ran(group: &ControlGroup) -> Option<u64> {
    if let Ok(text) = group.read("cpuacct.usage") {
        return text.parse().ok();
    }
    let text = group.read("cpu.stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    line.parse::<u64>().ok().map(|micros| micros.saturating_mul(1_000))
}

fn quota(group: &ControlGroup, version: Version, share: u64) -> Result<(), SystemError> {
    // The kernel takes no quota below a millisecond.
    let quota = (share * QUOTA_PERIOD_US / CORE).max(1_000);
    match version {
        Version::One => {
            group.set("cpu.cfs_period_us", &QUOTA_PERIOD_US.to_string())?;
            group.set("cpu.cfs_quota_us", &quota.to_string())
        }
        Version::Two => group.set("cpu.max", &format!("{quota} {QUOTA_PERIOD_US}")),
    }
}

/// Ignores a panic of another thread that held the tree: the record covers every half-done change.
fn locked(tree: &Mutex<GroupTree>) -> MutexGuard<'_, GroupTree> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}
