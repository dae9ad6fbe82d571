//! Reservations by SCHED_DEADLINE for one thread, or for all threads of a process in equal parts.
//!
//! New threads are ordinary (`deadline`), so processes are checked repeatedly: [`Threads::cover`] divides
//! anew, decreases before increases, so that the kernel's sum never exceeds the share. The previous
//! scheduling of each thread is written to a file before a change, and restored at the end or after a crash.

use super::deadline::{self, Scheduling};
use super::measure;
use crate::cgroup::is_kernel_thread;
use crate::error::SystemError;
use crate::process::ProcessId;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The threads to serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadTarget {
    /// All threads of a process, present and future.
    Process(u32),
    /// One thread, by its id.
    Thread(u32),
}

impl std::fmt::Display for ThreadTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ThreadTarget::Process(pid) => write!(f, "process {pid}"),
            ThreadTarget::Thread(tid) => write!(f, "thread {tid}"),
        }
    }
}

/// The most threads of one process among which a share is divided.
pub const MOST_THREADS: usize = 64;

/// The reservations of threads.
#[derive(Debug)]
pub struct Threads {
    file: PathBuf,
    reservations: BTreeMap<String, Reservation>,
}

#[derive(Debug, Default)]
struct Reservation {
    target: Option<ThreadTarget>,
    /// The start time of the target: a later process with the same id is another process.
    started: Option<u64>,
    share: u64,
    /// The previous scheduling of each of its threads. The process identity is that of the thread.
    before: BTreeMap<u32, (ProcessId, Scheduling)>,
}

impl Threads {
    /// Takes over the reservations in `file` of an earlier agent: their threads stay as they are until they
    /// are bound anew or released.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(file: &Path) -> Result<Threads, SystemError> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other.map_err(SystemError::doing(format!("read {}", file.display())))?,
        };
        let mut reservations: BTreeMap<String, Reservation> = BTreeMap::new();
        for (name, process, scheduling) in text.lines().filter_map(parse).filter(|(_, process, _)| process.is_running())
        {
            let reservation = reservations.entry(name).or_default();
            reservation.share += Scheduling::of(process.pid).map_or(0, |found| found.share());
            reservation.before.insert(process.pid, (process, scheduling));
        }
        Ok(Threads { file: file.to_owned(), reservations })
    }

    /// The names of the reservations.
    pub fn names(&self) -> Vec<String> {
        self.reservations.keys().cloned().collect()
    }

    /// The sum of the shares, millionths of a core.
    pub fn share(&self) -> u64 {
        self.reservations.values().map(|reservation| reservation.share).sum()
    }

    /// The threads of a reservation that have a reserved share.
    pub fn held(&self, name: &str) -> Vec<u32> {
        self.reservations.get(name).map_or_else(Vec::new, |found| found.before.keys().copied().collect())
    }

    /// The sum of the kernel's shares for a reservation's threads, millionths of a core.
    pub fn installed(&self, name: &str) -> u64 {
        self.held(name).iter().filter_map(|&tid| Scheduling::of(tid).ok()).map(|found| found.share()).sum()
    }

    /// Gives `share` to `target`, in place of the reservation's previous target.
    ///
    /// # Errors
    /// It does not run, has too many threads, or the kernel admits no more; the state is then unchanged.
    pub fn reserve(&mut self, name: &str, target: ThreadTarget, share: u64) -> Result<(), SystemError> {
        let (ThreadTarget::Process(number) | ThreadTarget::Thread(number)) = target;
        if number == 1 || is_kernel_thread(number) {
            let error = io::Error::other("it is process 1 or a thread of the kernel");
            return Err(SystemError::because(format!("reserve for {target}"), error));
        }
        let had = self.reservations.get(name).map(|found| (found.target, found.started, found.share));
        let entry = self.reservations.entry(name.to_owned()).or_default();
        (entry.target, entry.started, entry.share) = (Some(target), started(number), share);
        let covered = self.cover_one(name);
        if covered.is_err() {
            match had {
                None | Some((None, ..)) => self.release(name)?,
                Some((target, started, share)) => {
                    let entry = self.reservations.entry(name.to_owned()).or_default();
                    (entry.target, entry.started, entry.share) = (target, started, share);
                    // What was there before fits still.
                    let _ = self.cover_one(name);
                }
            }
        }
        covered.map(|_| ())
    }

    /// Checks every process again; returns the reservations that have changed, or failed.
    pub fn cover(&mut self) -> Vec<(String, Result<usize, SystemError>)> {
        let mut all = Vec::new();
        for name in self.names() {
            match self.cover_one(&name) {
                Ok(0) => {}
                other => all.push((name, other)),
            }
        }
        all
    }

    /// Divides the share of one reservation among its current threads; returns the number of threads if it
    /// changed, else 0.
    fn cover_one(&mut self, name: &str) -> Result<usize, SystemError> {
        let Some(reservation) = self.reservations.get(name) else { return Ok(0) };
        let Some(target) = reservation.target else { return Ok(0) };
        let refused = |why: String| Err(SystemError::because(format!("reserve for {target}"), io::Error::other(why)));
        let wanted = match target {
            ThreadTarget::Process(pid) | ThreadTarget::Thread(pid) if started(pid) != reservation.started => Vec::new(),
            ThreadTarget::Process(pid) => measure::threads(pid),
            ThreadTarget::Thread(tid) => ProcessId::of(tid).map(|thread| thread.pid).into_iter().collect(),
        };
        if wanted.len() > MOST_THREADS {
            let n = wanted.len();
            return refused(format!(
                "it has {n} threads, and at most {MOST_THREADS} share a reservation by threads; \
                 hosts that opt in ([cpu] groups = true) reserve for a process as a group"
            ));
        }
        let gone: Vec<u32> = reservation.before.keys().copied().filter(|tid| !wanted.contains(tid)).collect();
        if wanted.is_empty() && gone.is_empty() {
            return if reservation.before.is_empty() { refused("it does not run".into()) } else { Ok(0) };
        }
        let each = reservation.share / wanted.len().max(1) as u64;
        let has = |tid: u32| Scheduling::of(tid).map_or(0, |found| found.share());
        let fits = |tid: &u32| reservation.before.contains_key(tid) && has(*tid).abs_diff(each) <= 1;
        if gone.is_empty() && wanted.iter().all(fits) {
            return Ok(0);
        }
        self.remember(name, &wanted)?;
        self.restore(name, &gone);
        Threads::divide(wanted, each)
    }

    /// Gives each thread its part, decreases before increases.
    fn divide(mut wanted: Vec<u32>, each: u64) -> Result<usize, SystemError> {
        wanted.sort_by_key(|&tid| std::cmp::Reverse(Scheduling::of(tid).map_or(0, |found| found.share())));
        let count = wanted.len();
        for tid in wanted {
            match deadline::reserve(tid, each) {
                // It ended in the meantime: the next look finds it gone.
                Err(_) if ProcessId::of(tid).is_none() => {}
                other => other?,
            }
        }
        Ok(count)
    }

    /// Records the previous scheduling of each thread, first on the disk.
    fn remember(&mut self, name: &str, tids: &[u32]) -> Result<(), SystemError> {
        let Some(reservation) = self.reservations.get_mut(name) else { return Ok(()) };
        // A thread that a reserved one has started would have what that one had: the kernel has reset it.
        let inherited = match reservation.target {
            Some(ThreadTarget::Process(pid)) => reservation.before.get(&pid).map(|&(_, before)| before),
            _ => None,
        };
        for &tid in tids {
            if let (Some(thread), Ok(found)) = (ProcessId::of(tid), Scheduling::of(tid)) {
                let same = reservation.before.get(&tid).is_some_and(|(known, _)| *known == thread);
                if !same {
                    reservation.before.insert(tid, (thread, inherited.unwrap_or(found)));
                }
            }
        }
        self.write()
    }

    /// Restores the previous scheduling of threads.
    fn restore(&mut self, name: &str, tids: &[u32]) {
        let Some(reservation) = self.reservations.get_mut(name) else { return };
        for tid in tids {
            if let Some((thread, before)) = reservation.before.remove(tid).filter(|(thread, _)| thread.is_running()) {
                // It may end at this moment; a thread that runs takes back what it had.
                let _ = before.restore(thread.pid);
            }
        }
    }

    /// Ends a reservation: its threads get back their previous scheduling.
    ///
    /// # Errors
    /// The record cannot be written; the threads are restored all the same.
    pub fn release(&mut self, name: &str) -> Result<(), SystemError> {
        let held = self.held(name);
        self.restore(name, &held);
        match self.reservations.remove(name) {
            Some(_) => self.write(),
            None => Ok(()),
        }
    }

    fn write(&self) -> Result<(), SystemError> {
        let mut text = String::new();
        for (name, reservation) in &self.reservations {
            for (thread, before) in reservation.before.values() {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{name} {thread} {}", before.to_words());
            }
        }
        let what = || format!("write {}", self.file.display());
        if text.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SystemError::because(what(), error)),
                _ => Ok(()),
            };
        }
        let new = self.file.with_extension("new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file)).map_err(SystemError::doing(what()))
    }
}

/// The start time of the process or thread with this id, also if only other threads of it still run; `None`:
/// there is none.
fn started(number: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(19)?.parse().ok()
}

fn parse(line: &str) -> Option<(String, ProcessId, Scheduling)> {
    let mut words = line.split(' ');
    let name = words.next()?.to_owned();
    let process = ProcessId { pid: words.next()?.parse().ok()?, start: words.next()?.parse().ok()? };
    Some((name, process, Scheduling::from_words(words)?))
}
