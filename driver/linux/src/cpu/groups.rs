//! Reservations of process groups by weight (`cpu.shares` of version 1, `cpu.weight` of version 2), against all
//! siblings at once; and, where the host has not opted in, caps by quota, which hold back the reserved and nobody else.
//!
//! A new thread or child of a process is born in its group: it is covered from its first instruction.

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

/// The controller, which is also our name in the tree.
const CPU: &str = "cpu";
/// The period of a quota, microseconds: the kernel's own.
const QUOTA_PERIOD_US: u64 = 100_000;
/// How often the parent is looked at for processes that were put there.
const GATHER_EVERY: Duration = Duration::from_millis(1000);

/// The reservations by group.
#[derive(Debug)]
pub struct Groups {
    tree: Arc<Mutex<GroupTree>>,
    weighted: bool,
    reservations: BTreeMap<String, Reserved>,
    gathered_at: Option<Instant>,
    /// What gauges count their time from.
    origin: Instant,
}

#[derive(Debug)]
struct Reserved {
    share: u64,
    tuner: Tuner,
    sum: Sum,
    last: Option<(Instant, RunTimes)>,
    gauge: Gauge,
    /// Whether it had a process at the last look.
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
    /// On `tree`, by weight if the host has `opted_in`, by quota otherwise; with the groups that an earlier one left.
    pub fn open(tree: Arc<Mutex<GroupTree>>, opted_in: bool) -> Groups {
        let found = locked(&tree).reserved(CPU);
        let reservations = found.into_iter().map(|(name, share)| (name, Reserved::new(share))).collect();
        Groups { tree, weighted: opted_in, reservations, gathered_at: None, origin: Instant::now() }
    }

    /// Whether what is promised here is a guarantee.
    pub fn is_weighted(&self) -> bool {
        self.weighted
    }

    /// The reservations that there are.
    pub fn names(&self) -> Vec<String> {
        self.reservations.keys().cloned().collect()
    }

    /// Gives `share` to process `pid`, in place of what the reservation had. `threads_share` is what threads have
    /// reserved beside the groups. Everything written is read back.
    ///
    /// # Errors
    /// There is no such process, or the kernel says no: then nothing has changed.
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

    /// Gives `share` to a group of another program, at `path`: by its weight where it is, or by moving its processes.
    ///
    /// # Errors
    /// The host has not opted in, the group has a quota of its own or cannot be lent, or the kernel says no: then nothing
    /// has changed.
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

    /// Takes another share for a reservation; one that has no group yet has nothing to change.
    ///
    /// # Errors
    /// The kernel says no.
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
    /// The kernel says no.
    pub fn take(&mut self, name: &str, pid: u32) -> Result<(), SystemError> {
        locked(&self.tree).take(name, pid)
    }

    /// Ends a reservation: its processes go to where they came from, and after the last one all others do.
    ///
    /// # Errors
    /// The kernel says no.
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

    /// Writes the weights of all groups, or the quotas of each.
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

    /// Every hundred milliseconds or so: gathers who was put into the parent, brings back who was taken out of a
    /// group, learns what each got and tunes the weights.
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

    /// Whether a boost changed.
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

    /// What a reservation got lately, millionths of a core, and in the last whole interval, nanoseconds a second.
    pub fn got(&self, name: &str) -> Option<(u64, Option<GaugeReading>)> {
        let reserved = self.reservations.get(name)?;
        Some((reserved.tuner.got(), reserved.gauge.seen()))
    }

    /// What the kernel holds for a reservation, for a person.
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

/// Processor time of a group, nanoseconds, if it is counted there.
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

/// A thread that panicked while it held the tree has left nothing half done that the record does not tell.
fn locked(tree: &Mutex<GroupTree>) -> MutexGuard<'_, GroupTree> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}
