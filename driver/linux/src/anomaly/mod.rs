//! Fault injection: a supervisor between a program and the kernel counts its system calls of one kind, and
//! fails the nth of them, or all from the nth on, with an error. The program is the one that users run,
//! unmodified.
//!
//! It uses seccomp's user notification (seccomp_unotify(2)), so it also sees raw system calls: those of
//! SQLite, of other libraries, of threads and of children.

mod kind;

use crate::error::SystemError;
use kind::CALLS;
pub use kind::CallKind;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The descriptor number of the listener in the watched program; above those that the program uses.
const LISTENER: RawFd = 700;

/// A fault to inject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InjectedFault {
    /// The kind of the calls that are counted and fail.
    pub kind: CallKind,
    /// The number of the first call that fails, from 1.
    pub nth: u64,
    /// The error number that it returns.
    pub error: i32,
    /// True if all later calls fail too, until the fault is lifted.
    pub lasting: bool,
}

/// A program whose system calls are supervised.
#[derive(Debug)]
pub struct WatchedProgram {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    listener: OwnedFd,
    process: OwnedFd,
    pid: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<InjectedFault>,
    counts: BTreeMap<CallKind, u64>,
    struck: Vec<String>,
    /// The delay of each call before it goes on.
    delay: Duration,
    hold: Option<Hold>,
}

/// A call of a journal's that is to be held.
#[derive(Debug)]
struct Hold {
    /// The folder of the files that count.
    below: PathBuf,
    /// The calls that still go on before the one that is held.
    before: u64,
    /// The kernel's number of the call that is held.
    held: Option<u64>,
}

/// Makes `command` watched from its exec on. It must be the last setting of `command` before the start; the
/// caller then calls [`WatchedProgram::of`] at once, because the program stands still until then.
pub fn watch_at_exec(command: &mut Command) {
    watch_some_at_exec(command, |_| true);
}

/// Like [`watch_at_exec`], for calls that write and sync only: for [`WatchedProgram::hold`].
pub fn watch_writes_at_exec(command: &mut Command) {
    watch_some_at_exec(command, |kind| matches!(kind, CallKind::Write | CallKind::Sync));
}

/// Like [`watch_at_exec`], for fsync and fdatasync only: for [`WatchedProgram::slow`].
pub fn watch_syncs_at_exec(command: &mut Command) {
    watch_some_at_exec(command, |kind| kind == CallKind::Sync);
}

fn watch_some_at_exec(command: &mut Command, wanted: impl Fn(CallKind) -> bool) {
    let filter = filter(wanted);
    // SAFETY: between fork and exec only seccomp and dup2 are called, which are async-signal-safe; `filter` is owned by the
    // closure, so that the pointer in the program is good.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
            let listener = libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program);
            if listener < 0 || libc::dup2(listener as RawFd, LISTENER) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// A seccomp filter: calls of the wanted kinds ask the supervisor, all others go on.
fn filter(wanted: impl Fn(CallKind) -> bool) -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32, jt: u8| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    // The number of the call is the first word of what a filter sees.
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    let asked = CALLS.iter().filter(|(_, kind)| wanted(*kind));
    let calls: Vec<u32> = asked.filter_map(|(number, _)| u32::try_from(*number).ok()).collect();
    for (place, number) in calls.iter().enumerate() {
        // Over the other comparisons and the word that lets a call go on.
        let jump = (calls.len() - place) as u8;
        filter.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *number, jump));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF, 0));
    filter
}

impl WatchedProgram {
    /// Watches the program that was started as process `pid` with [`watch_at_exec`]; the fault is armed from
    /// its first call on.
    ///
    /// # Errors
    /// The process is gone, is not watched, or may not be watched by us.
    pub fn of(pid: u32, fault: Option<InjectedFault>) -> Result<WatchedProgram, SystemError> {
        let number = i32::try_from(pid).unwrap_or(-1);
        // SAFETY: no memory is passed; the descriptor is new and ours alone.
        let process = unsafe { descriptor(libc::syscall(libc::SYS_pidfd_open, number, 0), "know the program")? };
        let listener = copy(&process, LISTENER, "watch the program")?;
        let shared =
            Arc::new(Shared { listener, process, pid, state: Mutex::new(State { fault, ..State::default() }) });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("anomalies".to_owned());
        thread.spawn(move || supervise(&theirs)).map_err(SystemError::doing("start a thread"))?;
        Ok(WatchedProgram { shared })
    }

    /// Delays every watched call by `delay`, one after the other, then lets it go on, as a slow disk does.
    pub fn slow(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Holds the `nth` call from now on, from 1, that writes or syncs a file below the folder `below`: the program
    /// stands before it, with all that was written until then, until [`WatchedProgram::let_go`] or its end. Its
    /// other calls go on.
    pub fn hold(&self, below: &Path, nth: u64) {
        // As the kernel names open files.
        let below = below.canonicalize().unwrap_or_else(|_| below.to_owned());
        self.shared.state().hold = Some(Hold { below, before: nth.max(1) - 1, held: None });
    }

    /// True while the call of [`WatchedProgram::hold`] is held.
    pub fn is_held(&self) -> bool {
        self.shared.state().hold.as_ref().is_some_and(|hold| hold.held.is_some())
    }

    /// Holds nothing any more; a held call goes on.
    pub fn let_go(&self) {
        if let Some(id) = self.shared.state().hold.take().and_then(|hold| hold.held) {
            send(self.shared.listener.as_raw_fd(), id, 0);
        }
    }

    /// Replaces the fault, or removes it (`None`), and restarts the counts.
    pub fn arm(&self, fault: Option<InjectedFault>) {
        let mut state = self.shared.state();
        (state.fault, state.counts, state.struck) = (fault, BTreeMap::new(), Vec::new());
    }

    /// Removes the fault; the counts stay.
    pub fn lift(&self) {
        self.shared.state().fault = None;
    }

    /// The number of calls of this kind since [`WatchedProgram::arm`].
    pub fn count(&self, kind: CallKind) -> u64 {
        self.shared.state().counts.get(&kind).copied().unwrap_or(0)
    }

    /// Descriptions of the first failed calls, at most four, since [`WatchedProgram::arm`]; empty if none
    /// failed.
    pub fn struck(&self) -> Vec<String> {
        self.shared.state().struck.clone()
    }
}

impl Drop for WatchedProgram {
    /// Stops watching: from now on every call goes on at once. The thread answers until the last process that inherited
    /// the filter has ended, for a child may outlive the program, and a call without an answer waits for ever.
    fn drop(&mut self) {
        self.let_go();
        let mut state = self.shared.state();
        (state.fault, state.delay) = (None, Duration::ZERO);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a call: an error number, or zero to let it go on.
    fn judge(&self, asked: &libc::seccomp_notif) -> i32 {
        let Some(kind) = self.kind(asked) else { return 0 };
        let mut state = self.state();
        let count = state.counts.entry(kind).or_insert(0);
        *count += 1;
        let count = *count;
        let Some(fault) = state.fault.filter(|fault| fault.kind == kind) else { return 0 };
        if count != fault.nth && !(fault.lasting && count > fault.nth) {
            return 0;
        }
        if state.struck.len() < 4 {
            let text = self.words(asked);
            state.struck.push(text);
        }
        fault.error
    }

    /// True if a call is now held: it is answered later.
    fn holds(&self, asked: &libc::seccomp_notif) -> bool {
        let mut state = self.state();
        let Some(hold) = state.hold.as_mut().filter(|hold| hold.held.is_none()) else { return false };
        if !matches!(CallKind::of(asked.data.nr), Some(CallKind::Write | CallKind::Sync)) {
            return false;
        }
        let file = path(asked.pid, asked.data.args[0] as RawFd).and_then(|path| std::fs::read_link(path).ok());
        if !file.is_some_and(|file| file.starts_with(&hold.below)) {
            return false;
        }
        match hold.before.checked_sub(1) {
            Some(before) => hold.before = before,
            None => hold.held = Some(asked.id),
        }
        hold.held.is_some()
    }

    fn kind(&self, asked: &libc::seccomp_notif) -> Option<CallKind> {
        let data = &asked.data;
        let fd = data.args[0] as RawFd;
        match CallKind::of(data.nr)? {
            CallKind::Write if !path(asked.pid, fd).is_some_and(|path| path.is_file()) => None,
            CallKind::Netlink if !self.is_netlink(fd) => None,
            CallKind::Descriptor if libc::c_long::from(data.nr) == libc::SYS_fcntl => {
                let wanted = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(data.args[1] as i32));
                wanted.then_some(CallKind::Descriptor)
            }
            kind => Some(kind),
        }
    }

    fn is_netlink(&self, fd: RawFd) -> bool {
        let Ok(copy) = copy(&self.process, fd, "look at a socket") else { return false };
        let (mut domain, mut size) = (0i32, 4 as libc::socklen_t);
        // SAFETY: `domain` and `size` are valid and outlive the call.
        let rc = unsafe {
            let place = (&raw mut domain).cast();
            libc::getsockopt(copy.as_raw_fd(), libc::SOL_SOCKET, libc::SO_DOMAIN, place, &raw mut size)
        };
        rc == 0 && domain == libc::AF_NETLINK
    }

    /// A description of a call for people: its number, and its file if it has one.
    fn words(&self, asked: &libc::seccomp_notif) -> String {
        let data = &asked.data;
        let about = match CallKind::of(data.nr) {
            Some(CallKind::Write | CallKind::Sync) => {
                path(asked.pid, data.args[0] as RawFd).and_then(|path| std::fs::read_link(path).ok())
            }
            Some(CallKind::Open | CallKind::Rename) => {
                self.text(data.args[usize::from(data.nr as i64 != libc::SYS_rename)])
            }
            _ => None,
        };
        format!("call {} {}", data.nr, about.unwrap_or_default().display())
    }

    /// A C string in the program's memory.
    fn text(&self, at: u64) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::fs::FileExt;
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid)).ok()?;
        let mut bytes = [0; 200];
        let read = memory.read_at(&mut bytes, at).ok()?;
        let end = bytes[..read].iter().position(|byte| *byte == 0).unwrap_or(read);
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes[..end])))
    }
}

/// Answers calls until the program and all its children have ended: then poll(2) says nothing but POLLHUP.
fn supervise(shared: &Shared) {
    let listener = shared.listener.as_raw_fd();
    loop {
        let mut waits = [PollFd::new(&shared.listener, PollFlags::IN)];
        if !poll(&mut waits, None).is_ok_and(|ready| ready > 0) {
            continue;
        }
        if !waits[0].revents().contains(PollFlags::IN) {
            return;
        }
        answer(shared, listener);
    }
}

fn answer(shared: &Shared, listener: RawFd) {
    // SAFETY: an all-zero notification is what the kernel wants to be given.
    let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: `asked` is valid and outlives the call. It fails where whoever asked is gone.
    if unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) } != 0 {
        return;
    }
    let delay = shared.state().delay;
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
    let error = shared.judge(&asked);
    if error != 0 || !shared.holds(&asked) {
        send(listener, asked.id, error);
    }
}

/// Answers the call of this number: with an error, or zero to let it go on.
fn send(listener: RawFd, id: u64, error: i32) {
    let flags = if error == 0 { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 };
    let mut said = libc::seccomp_notif_resp { id, val: 0, error: -error, flags };
    // SAFETY: `said` is valid and outlives the call. It fails where whoever asked is gone.
    unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut said) };
}

/// The file behind a descriptor of the program, or of a child of it, as a link that the kernel follows.
fn path(pid: u32, fd: RawFd) -> Option<PathBuf> {
    (fd >= 0).then(|| PathBuf::from(format!("/proc/{pid}/fd/{fd}")))
}

/// A copy, in this process, of one of the program's descriptors.
fn copy(process: &OwnedFd, fd: RawFd, what: &str) -> Result<OwnedFd, SystemError> {
    // SAFETY: no memory is passed; the descriptor is new and ours alone.
    unsafe { descriptor(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0), what) }
}

/// The descriptor that a system call returned, or its error.
///
/// # Safety
/// `given` is an error or a new descriptor that has no other owner.
unsafe fn descriptor(given: libc::c_long, what: &str) -> Result<OwnedFd, SystemError> {
    if given < 0 {
        return Err(SystemError::last(what));
    }
    // SAFETY: by the caller's word.
    Ok(unsafe { OwnedFd::from_raw_fd(given as RawFd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// A shell that writes three lines with three calls; the second call fails, or all from the second on.
    #[test]
    fn the_second_write_fails() {
        let place = std::env::temp_dir().join(format!("sluice-anomaly-{}", std::process::id()));
        for (lasting, expected) in [(false, "one\nthree\n"), (true, "one\n")] {
            let mut command = Command::new("sh");
            command.args(["-c", "read go; for word in one two three; do echo $word; done >$0"]).arg(&place);
            command.stdin(Stdio::piped()).stderr(Stdio::null());
            watch_at_exec(&mut command);
            let Ok(mut child) = command.spawn() else {
                eprintln!("SKIPPED: seccomp user notification is not to be had here");
                return;
            };
            let fault = InjectedFault { kind: CallKind::Write, nth: 2, error: libc::ENOSPC, lasting };
            let watch = WatchedProgram::of(child.id(), Some(fault)).unwrap();
            drop(child.stdin.take());
            child.wait().unwrap();
            assert_eq!(std::fs::read_to_string(&place).unwrap(), expected);
            assert_eq!(watch.count(CallKind::Write), 3);
            assert!(watch.struck()[0].contains("sluice-anomaly"), "{:?}", watch.struck());
        }
        std::fs::remove_file(&place).unwrap();
    }

    /// The second of three writes is held: the first is on the disk, and the rest only when it goes on.
    #[test]
    fn the_second_write_is_held() {
        let folder = std::env::temp_dir().join(format!("sluice-held-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let place = folder.join("words");
        let mut command = Command::new("sh");
        command.args(["-c", "read go; for word in one two three; do echo $word; done >$0"]).arg(&place);
        command.stdin(Stdio::piped()).stderr(Stdio::null());
        watch_writes_at_exec(&mut command);
        let Ok(mut child) = command.spawn() else {
            eprintln!("SKIPPED: seccomp user notification is not to be had here");
            return;
        };
        let watch = WatchedProgram::of(child.id(), None).unwrap();
        watch.hold(&folder, 2);
        drop(child.stdin.take());
        while !watch.is_held() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "one\n");
        watch.let_go();
        child.wait().unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "one\ntwo\nthree\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A child that outlives the program, and the watching of it, still gets its answers.
    #[test]
    fn a_child_that_outlives_the_program_goes_on() {
        let place = std::env::temp_dir().join(format!("sluice-outlives-{}", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", "(sleep 1; echo child >$0) & exec sleep 100"]).arg(&place);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        watch_writes_at_exec(&mut command);
        let Ok(mut child) = command.spawn() else {
            eprintln!("SKIPPED: seccomp user notification is not to be had here");
            return;
        };
        let watch = WatchedProgram::of(child.id(), None).unwrap();
        std::thread::sleep(Duration::from_millis(300)); // the child has begun
        child.kill().unwrap();
        child.wait().unwrap();
        drop(watch);
        let begun = std::time::Instant::now();
        while std::fs::read_to_string(&place).unwrap_or_default() != "child\n" {
            assert!(begun.elapsed() < Duration::from_secs(20), "the child's write waits for ever");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::remove_file(&place).unwrap();
    }
}
