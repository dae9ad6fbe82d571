//! Reservations of processors with the means of this kernel: SCHED_DEADLINE for threads, weights against all
//! siblings for process groups on hosts that opt in, and a cap if neither is possible.
//!
//! Amounts are millionths of a core. The ledger decides on admission; this module finds the share that the
//! kernel admits ([`capacity`]), installs a reservation ([`Cpu::bind`]), reads it back and measures it
//! ([`Cpu::status`]).

pub mod capacity;
pub mod deadline;
mod groups;
pub mod measure;
mod threads;
pub mod tune;
pub mod weights;

pub use deadline::CORE;
pub use threads::ThreadTarget;

use crate::cgroup::GroupTree;
use crate::error::SystemError;
use crate::gauge::{Gauge, GaugeReading};
use groups::Groups;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use threads::Threads;

/// The refusal while the reservation serves another target.
const BOUND_OTHERWISE: &str = "it serves something else: disable it first";

/// The strength of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShareKind {
    /// The share is available under any load.
    Guarantee,
    /// The share is an upper limit only; the available share depends on other programs.
    Cap,
}

/// The mechanism that serves a process or thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// SCHED_DEADLINE.
    Deadline,
    /// A group's weight against all its siblings.
    Weight,
    /// A group's quota.
    Quota,
}

impl Means {
    /// The strength of this mechanism.
    pub fn kind(self) -> ShareKind {
        if self == Means::Quota { ShareKind::Cap } else { ShareKind::Guarantee }
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Means::Deadline => "deadline",
            Means::Weight => "weight",
            Means::Quota => "quota",
        }
    }
}

/// An event that no call asked for.
#[derive(Debug)]
pub enum CpuNotice {
    /// The share of a process was divided anew, because its number of threads changed.
    Divided {
        /// The reservation.
        name: String,
        /// The number of threads.
        threads: usize,
    },
    /// Another program moved a process of a reservation away, or removed its group; the process is back.
    Strayed {
        /// The reservation.
        name: String,
        /// The process.
        pid: u32,
    },
    /// The last process of a reservation has ended; the reservation holds until its end.
    Ended {
        /// The reservation.
        name: String,
    },
    /// The kernel refused a necessary change.
    Fault(SystemError),
}

/// The current state of a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuStatus {
    /// The reserved share, millionths of a core.
    pub share: u64,
    /// The mechanism; `None` while no target is bound.
    pub means: Option<Means>,
    /// The kernel's settings, read at this moment; empty while no target is bound.
    pub installed: String,
    /// The recent usage, millionths of a core: a mean over about half a second.
    pub got: u64,
    /// The usage in the last whole interval, millionths of a core.
    pub seen: Option<GaugeReading>,
    /// The processes or threads that it serves.
    pub members: Vec<u32>,
}

/// The reservations of the processors of this host.
#[derive(Debug)]
pub struct Cpu {
    threads: Threads,
    groups: Option<Groups>,
    reservations: BTreeMap<String, Reservation>,
    /// The origin of the gauges' time.
    origin: Instant,
}

/// The target of a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    To(ThreadTarget),
    /// A group of another program.
    Group,
}

#[derive(Debug)]
struct Reservation {
    share: u64,
    bound: Option<(Bound, Means)>,
    sum: measure::Sum,
    last: Option<(Instant, tune::RunTimes)>,
    tuner: tune::Tuner,
    gauge: Gauge,
}

impl Cpu {
    /// Reservations with groups of `tree`, if control groups are available, weighted if the host has
    /// `opted_in`; `state` is the folder of persistent state. Reservations of an earlier agent are kept: see
    /// [`Cpu::keep_only_enabled`].
    ///
    /// # Errors
    /// The state of an earlier agent cannot be read.
    pub fn open(tree: Option<Arc<Mutex<GroupTree>>>, opted_in: bool, state: &Path) -> Result<Cpu, SystemError> {
        let threads = Threads::open(&state.join("cpu-threads"))?;
        let groups = tree.map(|tree| Groups::open(tree, opted_in));
        Ok(Cpu { threads, groups, reservations: BTreeMap::new(), origin: Instant::now() })
    }

    /// The mechanism that would serve this target.
    pub fn means(&self, target: ThreadTarget) -> Means {
        match (&self.groups, target) {
            (Some(groups), ThreadTarget::Process(_)) if groups.is_weighted() => Means::Weight,
            _ => Means::Deadline,
        }
    }

    /// Releases reservations of an earlier agent that were not enabled since.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn keep_only_enabled(&mut self) -> Result<(), SystemError> {
        let mut first = Ok(());
        for name in self.threads.names() {
            if !self.reservations.contains_key(&name) {
                first = first.and(self.threads.release(&name));
            }
        }
        let share = self.threads.share();
        if let Some(groups) = &mut self.groups {
            for name in groups.names() {
                if !self.reservations.contains_key(&name) {
                    first = first.and(groups.release(&name, share));
                }
            }
        }
        first
    }

    /// Starts the window of reservation `name`, or changes its share. It binds no target; an existing binding
    /// stays.
    ///
    /// # Errors
    /// The kernel refuses; the share is then unchanged.
    pub fn enable(&mut self, name: &str, share: u64) -> Result<(), SystemError> {
        let bound = self.reservations.get(name).map(|found| found.bound);
        match bound {
            Some(Some((Bound::To(target), Means::Deadline))) => self.threads.reserve(name, target, share)?,
            Some(Some(_)) => {
                let beside = self.threads.share();
                self.groups.as_mut().map_or(Ok(()), |groups| groups.change(name, share, beside))?;
            }
            _ => {}
        }
        let fresh = || Reservation {
            share,
            bound: None,
            sum: measure::Sum::default(),
            last: None,
            tuner: tune::Tuner::default(),
            gauge: Gauge::default(),
        };
        self.reservations.entry(name.to_owned()).or_insert_with(fresh).share = share;
        Ok(())
    }

    /// Serves `target` by reservation `name` from now on, in place of the previous target.
    ///
    /// # Errors
    /// The reservation is not enabled, the process does not run, or the kernel refuses, with the reason; the
    /// state is then unchanged.
    pub fn bind(&mut self, name: &str, target: ThreadTarget) -> Result<Means, SystemError> {
        let what = || format!("bind {target} to reservation {name}");
        let Some(reservation) = self.reservations.get(name) else {
            return Err(SystemError::because(what(), io::Error::other("its window is not open")));
        };
        let (share, had) = (reservation.share, reservation.bound);
        let had = match had {
            Some((Bound::Group, _)) => return Err(SystemError::because(what(), io::Error::other(BOUND_OTHERWISE))),
            Some((Bound::To(old), means)) => Some((old, means)),
            None => None,
        };
        let means = self.serve(name, target, share)?;
        if let Some((old, old_means)) = had.filter(|(old, _)| *old != target) {
            self.unbind_old(name, old, old_means, means)?;
        }
        self.bound(name, Bound::To(target), means);
        Ok(means)
    }

    /// Serves all processes of a group of another program, present and future, by reservation `name`: by the
    /// group's weight if it is directly below the parent, by moving its processes otherwise. `path` is as in
    /// `/proc/PID/cgroup`, or the folder.
    ///
    /// # Errors
    /// The reservation is not enabled or serves another target, the host has not opted in, there is no such
    /// group, it cannot be weighted or left, or the kernel refuses; the state is then unchanged.
    pub fn bind_group(&mut self, name: &str, path: &str) -> Result<Means, SystemError> {
        let refused = |why: &str| SystemError::because(format!("bind the group {path}"), io::Error::other(why));
        let reservation = self.reservations.get(name).ok_or_else(|| refused("its window is not open"))?;
        if reservation.bound.is_some_and(|(bound, _)| bound != Bound::Group) {
            return Err(refused(BOUND_OTHERWISE));
        }
        let (share, beside) = (reservation.share, self.threads.share());
        let groups = self.groups.as_mut().ok_or_else(|| refused("there are no control groups with cpu here"))?;
        groups.reserve_group(name, path, share, beside)?;
        self.bound(name, Bound::Group, Means::Weight);
        Ok(Means::Weight)
    }

    fn bound(&mut self, name: &str, bound: Bound, means: Means) {
        if let Some(reservation) = self.reservations.get_mut(name) {
            if reservation.bound != Some((bound, means)) {
                (reservation.sum, reservation.last, reservation.gauge) = Default::default();
            }
            reservation.bound = Some((bound, means));
        }
    }

    fn serve(&mut self, name: &str, target: ThreadTarget, share: u64) -> Result<Means, SystemError> {
        let beside = self.threads.share();
        match (&mut self.groups, target) {
            (Some(groups), ThreadTarget::Process(pid)) if groups.is_weighted() => {
                groups.reserve(name, pid, share, beside)?;
                return Ok(Means::Weight);
            }
            _ => {}
        }
        let refused = match self.threads.reserve(name, target, share) {
            Ok(()) => return Ok(Means::Deadline),
            Err(refused) => refused,
        };
        match (&mut self.groups, target) {
            // Not because there is no room, and not one that wants a guarantee for a thread.
            (Some(groups), ThreadTarget::Process(pid)) if refused.error.kind() == io::ErrorKind::PermissionDenied => {
                groups.reserve(name, pid, share, beside).map(|()| Means::Quota)
            }
            _ => Err(refused),
        }
    }

    fn unbind_old(&mut self, name: &str, old: ThreadTarget, old_means: Means, means: Means) -> Result<(), SystemError> {
        let beside = self.threads.share();
        match (old_means, old) {
            (Means::Deadline, _) if means != Means::Deadline => self.threads.release(name),
            (Means::Deadline, _) => Ok(()),
            (_, ThreadTarget::Process(_)) if means == Means::Deadline => {
                self.groups.as_mut().map_or(Ok(()), |groups| groups.release(name, beside))
            }
            (_, ThreadTarget::Process(pid) | ThreadTarget::Thread(pid)) => {
                self.groups.as_mut().map_or(Ok(()), |groups| groups.take(name, pid))
            }
        }
    }

    /// Ends the window of a reservation, or cancels it: its threads and processes become ordinary again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn disable(&mut self, name: &str) -> Result<(), SystemError> {
        self.reservations.remove(name);
        let released = self.threads.release(name);
        let beside = self.threads.share();
        released.and(self.groups.as_mut().map_or(Ok(()), |groups| groups.release(name, beside)))
    }

    /// Call it at least every hundred milliseconds while [`Cpu::is_watched`]: it covers new threads, returns
    /// strayed processes, measures and tunes.
    pub fn tick(&mut self) -> Vec<CpuNotice> {
        let now = Instant::now();
        let mut notices = Vec::new();
        for (name, covered) in self.threads.cover() {
            notices.push(match covered {
                Ok(0) => CpuNotice::Ended { name },
                Ok(threads) => CpuNotice::Divided { name, threads },
                Err(failed) => CpuNotice::Fault(failed),
            });
        }
        for reservation in self.reservations.values_mut() {
            let Some((Bound::To(target), Means::Deadline)) = reservation.bound else { continue };
            let times = match target {
                ThreadTarget::Process(pid) => reservation.sum.look(&[pid]),
                ThreadTarget::Thread(tid) => measure::thread_times(tid, tid).unwrap_or_default(),
            };
            if let Some((then, before)) = reservation.last {
                reservation.tuner.learn(reservation.share, before, times, now.saturating_duration_since(then));
            }
            reservation.last = Some((now, times));
            reservation.gauge.look(now.saturating_duration_since(self.origin), times.ran);
        }
        let beside = self.threads.share();
        if let Some(groups) = &mut self.groups {
            notices.extend(groups.tick(now, beside));
        }
        notices
    }

    /// True if any reservation has a target.
    pub fn is_watched(&self) -> bool {
        self.reservations.values().any(|reservation| reservation.bound.is_some())
    }

    /// The interval for [`Cpu::tick`]: half of the hundred milliseconds within which a new thread must be
    /// covered.
    pub const TICK: Duration = Duration::from_millis(50);

    /// The current state of a reservation in the kernel.
    pub fn status(&self, name: &str) -> Option<CpuStatus> {
        let reservation = self.reservations.get(name)?;
        let means = reservation.bound.map(|(_, means)| means);
        let (installed, got, seen, members) = match means {
            None => (String::new(), 0, None, Vec::new()),
            Some(Means::Deadline) => {
                let held = format!("deadline {}", deadline::percent(self.threads.installed(name)));
                (held, reservation.tuner.got(), reservation.gauge.seen(), self.threads.held(name))
            }
            Some(_) => {
                let groups = self.groups.as_ref()?;
                let (got, seen) = groups.got(name)?;
                (groups.installed(name).unwrap_or_default(), got, seen, groups.processes(name))
            }
        };
        // Nanoseconds a second are thousandths of millionths.
        let seen = seen.map(|seen| GaugeReading { rate: seen.rate / 1_000, ..seen });
        Some(CpuStatus { share: reservation.share, means, installed, got, seen, members })
    }

    /// Ends all reservations: the host is as before.
    ///
    /// # Errors
    /// The first failure; all other steps were tried.
    pub fn close(&mut self) -> Result<(), SystemError> {
        self.reservations.clear();
        self.keep_only_enabled()
    }
}
