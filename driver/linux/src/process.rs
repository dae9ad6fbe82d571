//! Processes of our own: detached daemons, their pid files (with the start time, so that a reused pid is
//! never taken for ours), locks that end with their holder, privileges, peers and groups.

use crate::error::{SystemError, doing};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, setpriority_process, setsid, waitpid,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process, identified so that it differs from a later one with the same pid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessId {
    /// Its pid.
    pub pid: u32,
    /// Its start time, in clock ticks since boot (field 22 of `/proc/PID/stat`, proc(5)).
    pub start: u64,
}

impl ProcessId {
    /// The present process `pid`; `None` if there is none or it is a zombie.
    pub fn of(pid: u32) -> Option<ProcessId> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The command name is in parentheses and may hold anything, so count from the last one.
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let state = fields.next()?;
        let start = fields.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(ProcessId { pid, start })
    }

    /// True if it still runs.
    pub fn is_running(&self) -> bool {
        ProcessId::of(self.pid).as_ref() == Some(self)
    }

    /// Reaps this process if it is a child of ours and has ended; does nothing otherwise. Only for children
    /// whose `Child` was dropped.
    pub fn reap(&self) {
        // A pid that is not our child's is refused.
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    }

    /// Sends a signal. An ended process is no error; a later process with the same pid gets no signal.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn signal(&self, signal: i32) -> Result<(), SystemError> {
        if !self.is_running() {
            return Ok(());
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let sent = match pid.zip(Signal::from_named_raw(signal)) {
            Some((pid, signal)) => kill_process(pid, signal),
            None => Err(Errno::INVAL),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(SystemError::because(format!("signal process {}", self.pid), error.into())),
        }
    }
}

impl std::fmt::Display for ProcessId {
    /// The form in a pid file: `PID START`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.pid, self.start)
    }
}

impl std::str::FromStr for ProcessId {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<ProcessId, &'static str> {
        let wrong = "a pid file holds PID START";
        let (pid, start) = text.trim().split_once(' ').ok_or(wrong)?;
        Ok(ProcessId { pid: pid.parse().map_err(|_| wrong)?, start: start.parse().map_err(|_| wrong)? })
    }
}

/// Starts `command` as a daemon: in a session of its own, without input, with output and errors appended to
/// `log`, and with no signal held back, whatever the caller holds back. The caller remains its parent and may check
/// whether it ended at once.
///
/// # Errors
/// The log cannot be written, or the program cannot be started.
pub fn spawn_detached(command: &mut Command, log: &Path) -> Result<Child, SystemError> {
    let what = || format!("start {}", command_name(command));
    let mut options = OpenOptions::new();
    let out = options
        .append(true)
        .create(true)
        .mode(0o640)
        .open(log)
        .map_err(SystemError::doing(format!("write {log:?}")))?;
    let errors = out.try_clone().map_err(SystemError::doing(what()))?;
    let name = what();
    command.stdin(Stdio::null()).stdout(out).stderr(errors);
    // SAFETY: between fork and exec only `setsid`, `sigemptyset` and `pthread_sigmask` are called, which are
    // async-signal-safe; an all-zero sigset_t is a valid place for `sigemptyset` to write to.
    unsafe {
        command.pre_exec(|| {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            Ok(setsid().map(drop)?)
        });
    }
    command.spawn().map_err(SystemError::doing(name))
}

fn command_name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// A file lock that ends with its holder, in any case.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The reason why a lock could not be taken.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it; its pid, if it wrote it.
    Held(Option<u32>),
    /// The file cannot be made or locked.
    Failed(SystemError),
}

impl Lock {
    /// Takes the lock at `path` and writes our pid into it.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn take(path: &Path) -> Result<Lock, LockError> {
        let what = || format!("lock {}", path.display());
        let mut options = OpenOptions::new();
        // Whoever can open it can hold it (flock(2)): nobody else may, not even for reading.
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(path).map_err(|error| LockError::Failed(SystemError::because(what(), error)))?;
        let private = file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600));
        private.map_err(|error| LockError::Failed(SystemError::because(what(), error)))?;
        if !claim(&file).map_err(|error| LockError::Failed(SystemError::because(what(), error)))? {
            return Err(LockError::Held(fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok())));
        }
        // For people alone: on a full disk the lock holds without it.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Lock { _file: file })
    }
}

/// The number of attempts at a lock, and the pause between them, ms: a killed holder keeps it until the
/// kernel has cleaned up, and a program that is being started keeps its parent's until it is loaded.
const CLAIMS: (u32, u64) = (100, 10);

/// Locks the whole of `file` for us (flock(2)); returns true if that succeeded within a second.
///
/// # Errors
/// The file system has no locks.
pub(crate) fn claim(file: &File) -> io::Result<bool> {
    for _ in 0..CLAIMS.0 {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(Duration::from_millis(CLAIMS.1));
    }
    Ok(false)
}

/// Makes the kernel kill `command`'s child when the thread that starts it ends, in any case
/// (PR_SET_PDEATHSIG, prctl(2)): for programs that must not outlive an experiment whose process was killed.
pub fn die_with_us(command: &mut Command) {
    // SAFETY: between fork and exec only `prctl` is called, which is async-signal-safe and passes no memory.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}

/// Gives this thread, and all threads and programs that it starts from now on, priority over ordinary work on
/// a busy machine: nice value -15 (setpriority(2)).
///
/// # Errors
/// CAP_SYS_NICE is missing.
pub fn go_first() -> Result<(), SystemError> {
    setpriority_process(None, -15).map_err(doing("go before other programs"))
}

/// Lets this thread run whenever it is ready, before all threads without a fixed priority (SCHED_FIFO, the least priority;
/// sched(7)): for a thread that keeps times and otherwise sleeps.
///
/// # Errors
/// CAP_SYS_NICE is missing, or this control group has no time for such threads.
pub fn keep_time() -> Result<(), SystemError> {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: `least` outlives the call; 0 is the calling thread.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &least) };
    if rc == 0 { Ok(()) } else { Err(SystemError::last("keep times")) }
}

/// Like [`go_first`], but with a lower priority than that: nice value -10.
///
/// # Errors
/// CAP_SYS_NICE is missing.
pub fn go_second() -> Result<(), SystemError> {
    setpriority_process(None, -10).map_err(doing("go before other programs"))
}

/// Allows this thread, and all threads and programs that it starts from now on, to run on every processor,
/// also if its parent restricted it (`taskset`; sched_setaffinity(2)).
///
/// # Errors
/// The kernel refuses.
pub fn run_anywhere() -> Result<(), SystemError> {
    let mut all = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
    sched_setaffinity(None, &all).map_err(doing("run on every processor"))
}

/// Keeps this thread, and all threads and programs that it starts from now on, on one processor.
///
/// # Errors
/// There is no such processor, or it is not ours to use.
pub fn run_on(processor: usize) -> Result<(), SystemError> {
    let mut one = CpuSet::new();
    if processor < CpuSet::MAX_CPU {
        one.set(processor);
    }
    sched_setaffinity(None, &one).map_err(doing("stay on one processor"))
}

/// From now on, writing to a pipe without a reader ends this process quietly, as users of `head` expect of a
/// command. Not for daemons.
pub fn end_on_broken_pipe() {
    // SAFETY: the default disposition is valid for every signal; no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Capabilities, by their numbers (capabilities(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capability {
    /// Changing to another group.
    SetGid = 6,
    /// Changing to another user.
    SetUid = 7,
    /// Dropping capabilities for good.
    SetPcap = 8,
    /// Changing interfaces, routes and traffic control.
    NetAdmin = 12,
    /// Raw sockets.
    NetRaw = 13,
    /// Namespaces and mounts.
    SysAdmin = 21,
    /// eBPF programs and maps.
    Bpf = 39,
}

impl Capability {
    /// Its name, as operators grant it.
    pub fn name(self) -> &'static str {
        match self {
            Capability::SetGid => "CAP_SETGID",
            Capability::SetUid => "CAP_SETUID",
            Capability::SetPcap => "CAP_SETPCAP",
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::SysAdmin => "CAP_SYS_ADMIN",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

/// The capabilities of `wanted` that this process lacks (CapEff of `/proc/self/status`).
pub fn missing_capabilities(wanted: &[Capability]) -> Vec<Capability> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    wanted.iter().copied().filter(|&capability| bits & (1 << capability as u32) == 0).collect()
}

/// The peer of a local socket (SO_PEERCRED, SO_PEERGROUPS, unix(7)), as it was when it connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerProcess {
    /// Process.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

/// The most groups of a process (NGROUPS_MAX of the kernel).
const MOST_GROUPS: usize = 65_536;

/// Reads the identity of the peer from the kernel.
///
/// # Errors
/// The socket is no connected Unix socket.
pub fn peer(stream: &impl AsRawFd) -> io::Result<PeerProcess> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `found` is as large as `size` says and outlives the call; the descriptor is open.
    let rc = unsafe {
        let value = std::ptr::from_mut(&mut found).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &mut size)
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerProcess { pid: found.pid, uid: found.uid, gid: found.gid, groups: peer_groups(stream)? })
}

/// The supplementary groups of the process that connected.
fn peer_groups(stream: &impl AsRawFd) -> io::Result<Vec<u32>> {
    let mut groups: Vec<u32> = vec![0; 64];
    loop {
        let room = groups.len() * size_of::<u32>();
        let mut size = room as libc::socklen_t;
        // SAFETY: `groups` has `size` bytes of room and outlives the call; the descriptor is open.
        let rc = unsafe {
            let value = groups.as_mut_ptr().cast();
            libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS, value, &mut size)
        };
        let found = size as usize / size_of::<u32>();
        if rc == 0 {
            groups.truncate(found);
            return Ok(groups);
        }
        // The kernel says how much room it takes.
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || found <= groups.len() || found > MOST_GROUPS {
            return Err(error);
        }
        groups.resize(found, 0);
    }
}

/// The id of a group in `/etc/group`, if there is one of that name; a number stands for itself.
pub fn group_id(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let groups = fs::read_to_string("/etc/group").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

/// The least size of an allocation that is returned to the kernel as soon as it is freed, bytes.
const LARGE: i32 = 128 << 10;

/// Makes the allocator return large allocations to the kernel when they are freed. Otherwise it learns after
/// the first of them to place such allocations among small ones that stay, and never returns the free space
/// in between.
pub fn give_large_memory_back() {
    // SAFETY: it sets a number in the allocator; the numbers are what it documents.
    #[cfg(target_env = "gnu")]
    unsafe {
        // Where it says no, all is as before.
        let _ = libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_process_is_known_by_its_start_too() {
        let me = ProcessId::of(std::process::id()).expect("we run");
        assert!(me.is_running());
        assert_eq!(me.to_string().parse(), Ok(me));
        assert!(!ProcessId { start: me.start + 1, ..me }.is_running());
        ProcessId { start: me.start + 1, ..me }.signal(libc::SIGKILL).unwrap(); // not us: nothing happens
        assert!("12".parse::<ProcessId>().is_err());
    }

    #[test]
    fn a_zombie_does_not_run() {
        let mut child = Command::new("true").spawn().unwrap();
        let id = child.id();
        let gone = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            ProcessId::of(id).is_none()
        });
        assert!(gone);
        ProcessId { pid: id, start: 0 }.reap();
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "no zombie is left");
        assert!(child.wait().is_err(), "there is nothing left to wait for");
        ProcessId::of(1).unwrap().reap(); // not our child: nothing happens
    }

    #[test]
    fn a_lock_names_its_holder_and_ends_with_it() {
        let path = std::env::temp_dir().join(format!("agent-lock-{}", std::process::id()));
        let lock = Lock::take(&path).unwrap();
        match Lock::take(&path) {
            Err(LockError::Held(pid)) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        // One who is about to let go is waited for.
        let going = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(lock);
        });
        Lock::take(&path).unwrap();
        going.join().unwrap();
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_thread_that_was_kept_on_one_processor_runs_on_all_again() {
        let allowed = || {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).map(str::to_owned)
        };
        run_anywhere().unwrap();
        let all = allowed();
        // SAFETY: an all-zero set is a valid one, and is read at its size.
        let kept = unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut one);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one)
        };
        assert_eq!(kept, 0);
        run_anywhere().unwrap();
        assert_eq!(allowed(), all);
    }

    #[test]
    fn groups_are_found_by_name() {
        assert_eq!(group_id("root"), Some(0));
        assert_eq!(group_id("no such group"), None);
    }

    #[test]
    fn the_peer_of_our_own_pair_is_us() {
        let (one, _two) = UnixStream::pair().unwrap();
        assert_eq!(peer(&one).unwrap().pid as u32, std::process::id());
    }
}
