//! Waiting for the first of many events: one `epoll`, a timer on the boot clock, and signals as input.
//!
//! It is used in place of an async runtime because the agent's loop is "wait, give the engine one input,
//! drain it", which is easier to reason about in one thread than in tasks (epoll(7), timerfd_create(2),
//! signalfd(2)).

use crate::clock::Clock;
use crate::error::SystemError;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use terms::Time;

/// The caller's name for a watched descriptor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// A descriptor that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Its token.
    pub token: Token,
    /// There are data to read, or the peer has closed, or an error is pending.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// The events to wait for on a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PollInterest {
    /// Data to read.
    Read,
    /// Data to read, or room to write.
    ReadWrite,
    /// Room to write only.
    Write,
    /// Its end only.
    End,
}

/// The set of watched descriptors, with a timer.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
    timer: OwnedFd,
    clock: Clock,
    armed: Option<Time>,
    due: Vec<Ready>,
}

const TIMER: u64 = u64::MAX;
const BATCH: usize = 64;

impl Poll {
    /// An empty set, with a timer that runs by `clock`.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(clock: Clock) -> Result<Poll, SystemError> {
        // SAFETY: no memory is passed.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }, "make an epoll")?;
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: no memory is passed.
        let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_BOOTTIME, flags) }, "make a timer")?;
        let poll = Poll { epoll, timer, clock, armed: None, due: Vec::with_capacity(BATCH) };
        poll.control(libc::EPOLL_CTL_ADD, poll.timer.as_raw_fd(), Token(TIMER), PollInterest::Read)?;
        Ok(poll)
    }

    /// Watches `fd` (level triggered) under the name `token`. `Token(u64::MAX)` is reserved.
    ///
    /// # Errors
    /// It is already watched, or cannot be watched.
    pub fn add(&mut self, fd: &impl AsRawFd, token: Token, want: PollInterest) -> Result<(), SystemError> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_raw_fd(), token, want)
    }

    /// Changes the events to wait for on a watched `fd`.
    ///
    /// # Errors
    /// It is not watched.
    pub fn change(&mut self, fd: &impl AsRawFd, token: Token, want: PollInterest) -> Result<(), SystemError> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_raw_fd(), token, want)
    }

    /// Stops watching `fd`; closing it does the same.
    ///
    /// # Errors
    /// It is not watched.
    pub fn remove(&mut self, fd: &impl AsRawFd) -> Result<(), SystemError> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_raw_fd(), Token(0), PollInterest::End)
    }

    /// Waits until a descriptor is ready or `deadline` has come (`None`: for ever). Returns the ready
    /// descriptors; none at the deadline or a signal. A past deadline does not wait.
    ///
    /// # Errors
    /// The kernel failed; signals are no error.
    pub fn wait(&mut self, deadline: Option<Time>) -> Result<&[Ready], SystemError> {
        let overdue = deadline.is_some_and(|at| at <= self.clock.now());
        if !overdue {
            self.arm(deadline)?;
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        let timeout = if overdue { 0 } else { -1 };
        // SAFETY: `events` has room for BATCH entries and outlives the call.
        let n = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), BATCH as i32, timeout) };
        self.due.clear();
        if n < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                return Ok(&self.due);
            }
            return Err(SystemError::because("wait for events", error));
        }
        for event in &events[..n as usize] {
            let (token, bits) = (event.u64, event.events as i32);
            if token == TIMER {
                self.armed = None;
                drain(&self.timer);
                continue;
            }
            let ended = bits & (libc::EPOLLHUP | libc::EPOLLERR | libc::EPOLLRDHUP) != 0;
            self.due.push(Ready {
                token: Token(token),
                readable: ended || bits & libc::EPOLLIN != 0,
                writable: bits & libc::EPOLLOUT != 0,
            });
        }
        Ok(&self.due)
    }

    fn arm(&mut self, deadline: Option<Time>) -> Result<(), SystemError> {
        if self.armed == deadline {
            return Ok(());
        }
        let boot = deadline.map_or(0, |at| self.clock.boot_nanos(at).max(1)); // zero would disarm
        let mut spec = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec { tv_sec: 0, tv_nsec: 0 },
        };
        spec.it_value.tv_sec = (boot / 1_000_000_000).min(i64::MAX as u64) as i64;
        spec.it_value.tv_nsec = (boot % 1_000_000_000) as i64;
        let old = std::ptr::null_mut();
        // SAFETY: `spec` outlives the call; no old value is asked for.
        if unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &spec, old) } != 0 {
            return Err(SystemError::last("set a timer"));
        }
        self.armed = deadline;
        Ok(())
    }

    fn control(&self, operation: i32, fd: RawFd, token: Token, want: PollInterest) -> Result<(), SystemError> {
        let bits = match want {
            PollInterest::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            PollInterest::ReadWrite => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT,
            PollInterest::Write => libc::EPOLLOUT,
            PollInterest::End => 0,
        };
        let mut event = libc::epoll_event { events: bits as u32, u64: token.0 };
        // SAFETY: `event` outlives the call.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(SystemError::last("watch a descriptor")),
        }
    }
}

/// Signals that are read from a descriptor instead of interrupting.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks `signals` for the whole process and reads them from a descriptor: call it before any other
    /// thread starts. Child processes that start later inherit the block.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn take(signals: &[i32]) -> Result<SignalFd, SystemError> {
        // SAFETY: an all-zero sigset_t is a valid place for sigemptyset to write to; the set outlives every call.
        let fd = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for &signal in signals {
                libc::sigaddset(&mut set, signal);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(SystemError::last("block signals"));
            }
            libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC)
        };
        owned(fd, "make a signal descriptor").map(SignalFd)
    }

    /// The next pending signal.
    pub fn take_next(&mut self) -> Option<i32> {
        // SAFETY: all-zero is a valid signalfd_siginfo.
        let mut found: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `found` has `size` bytes and outlives the call.
        let n = unsafe { libc::read(self.0.as_raw_fd(), std::ptr::from_mut(&mut found).cast(), size) };
        (n == size as isize).then_some(found.ssi_signo as i32)
    }
}

impl AsRawFd for SignalFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn owned(fd: RawFd, what: &str) -> Result<OwnedFd, SystemError> {
    if fd < 0 {
        return Err(SystemError::last(what));
    }
    // SAFETY: the kernel just gave us this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn drain(timer: &OwnedFd) {
    let mut ticks = [0u8; 8];
    // SAFETY: eight bytes are what a timer descriptor gives; the result does not matter.
    unsafe { libc::read(timer.as_raw_fd(), ticks.as_mut_ptr().cast(), ticks.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use terms::Span;

    #[test]
    fn a_deadline_is_never_early() {
        let clock = Clock::start();
        let mut poll = Poll::new(clock).unwrap();
        for ms in [0, 1, 20] {
            let at = clock.now() + Span::from_millis(ms);
            while clock.now() < at {
                assert!(poll.wait(Some(at)).unwrap().is_empty());
            }
        }
    }

    #[test]
    fn what_is_ready_carries_its_name() {
        let mut poll = Poll::new(Clock::start()).unwrap();
        let (mut one, two) = UnixStream::pair().unwrap();
        poll.add(&two, Token(7), PollInterest::Read).unwrap();
        one.write_all(b"x").unwrap();
        assert_eq!(poll.wait(None).unwrap(), [Ready { token: Token(7), readable: true, writable: false }]);
        poll.change(&two, Token(8), PollInterest::ReadWrite).unwrap();
        assert_eq!(poll.wait(None).unwrap(), [Ready { token: Token(8), readable: true, writable: true }]);
        drop(one);
        poll.change(&two, Token(9), PollInterest::End).unwrap();
        assert!(poll.wait(None).unwrap()[0].readable, "the end is something to read");
        poll.remove(&two).unwrap();
        assert!(poll.wait(Some(Time::ZERO)).unwrap().is_empty());
    }
}
