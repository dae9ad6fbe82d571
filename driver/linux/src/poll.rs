//! Waiting for the first of many events: one `epoll`, a timer on the boot clock, and signals as input.
//!
//! It is used in place of an async runtime because the agent's loop is "wait, give the engine one input,
//! drain it", which is easier to reason about in one thread than in tasks (epoll(7), timerfd_create(2),
//! signalfd(2)).

use crate::clock::Clock;
use crate::error::{SystemError, doing};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
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
const SECOND: u64 = 1_000_000_000;
const WATCH: &str = "watch a descriptor";
const ENDED: EventFlags = EventFlags::HUP.union(EventFlags::ERR).union(EventFlags::RDHUP);

/// The flags of the kernel for an interest.
fn bits(want: PollInterest) -> EventFlags {
    match want {
        PollInterest::Read => EventFlags::IN | EventFlags::RDHUP,
        PollInterest::ReadWrite => EventFlags::IN | EventFlags::RDHUP | EventFlags::OUT,
        PollInterest::Write => EventFlags::OUT,
        PollInterest::End => EventFlags::empty(),
    }
}

impl Poll {
    /// An empty set, with a timer that runs by `clock`.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(clock: Clock) -> Result<Poll, SystemError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(doing("make an epoll"))?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags).map_err(doing("make a timer"))?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), bits(PollInterest::Read)).map_err(doing(WATCH))?;
        Ok(Poll { epoll, timer, clock, armed: None, due: Vec::with_capacity(BATCH) })
    }

    /// Watches `fd` (level triggered) under the name `token`. `Token(u64::MAX)` is reserved.
    ///
    /// # Errors
    /// It is already watched, or cannot be watched.
    pub fn add(&mut self, fd: &impl AsFd, token: Token, want: PollInterest) -> Result<(), SystemError> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token.0), bits(want)).map_err(doing(WATCH))
    }

    /// Changes the events to wait for on a watched `fd`.
    ///
    /// # Errors
    /// It is not watched.
    pub fn change(&mut self, fd: &impl AsFd, token: Token, want: PollInterest) -> Result<(), SystemError> {
        epoll::modify(&self.epoll, fd, EventData::new_u64(token.0), bits(want)).map_err(doing(WATCH))
    }

    /// Stops watching `fd`; closing it does the same.
    ///
    /// # Errors
    /// It is not watched.
    pub fn remove(&mut self, fd: &impl AsFd) -> Result<(), SystemError> {
        epoll::delete(&self.epoll, fd).map_err(doing(WATCH))
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
        self.due.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut room = [MaybeUninit::<Event>::uninit(); BATCH];
        let events = match epoll::wait(&self.epoll, &mut room, overdue.then_some(&at_once)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(&self.due),
            Err(error) => return Err(SystemError::because("wait for events", error.into())),
        };
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == TIMER {
                self.armed = None;
                // Eight bytes are what a timer gives; how often it was due does not matter.
                let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
                continue;
            }
            self.due.push(Ready {
                token: Token(token),
                readable: flags.intersects(ENDED | EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
            });
        }
        Ok(&self.due)
    }

    fn arm(&mut self, deadline: Option<Time>) -> Result<(), SystemError> {
        if self.armed == deadline {
            return Ok(());
        }
        let boot = deadline.map_or(0, |at| self.clock.boot_nanos(at).max(1)); // zero would disarm
        let spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: (boot / SECOND) as i64, tv_nsec: (boot % SECOND) as i64 },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec).map_err(doing("set a timer"))?;
        self.armed = deadline;
        Ok(())
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
        // SAFETY: an all-zero sigset_t is a valid place for sigemptyset to write to; the set outlives every
        // call; a descriptor that is given is ours alone.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for &signal in signals {
                libc::sigaddset(&mut set, signal);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                return Err(SystemError::last("block signals"));
            }
            match libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) {
                -1 => Err(SystemError::last("make a signal descriptor")),
                fd => Ok(SignalFd(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// The next pending signal.
    pub fn take_next(&mut self) -> Option<i32> {
        // `struct signalfd_siginfo`: the number stands first (signalfd(2)).
        let mut found = [0u8; size_of::<libc::signalfd_siginfo>()];
        let read = rustix::io::read(&self.0, &mut found).ok()?;
        let number = found[..read].first_chunk::<4>()?;
        Some(i32::from_ne_bytes(*number))
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
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
