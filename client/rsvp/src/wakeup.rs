//! One descriptor for all that may wake a session: bytes from the agent, upcalls that wait, the next try to
//! connect. It stays the same when the connection does not.

use crate::failure::Failure;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The interval between two tries to connect again.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The descriptors that wake a session.
#[derive(Debug)]
pub struct Wakeup {
    all: OwnedFd,
    upcalls: OwnedFd,
    retry: OwnedFd,
    retrying: bool,
}

impl Wakeup {
    /// Makes the descriptors.
    ///
    /// # Errors
    /// The system has none left.
    pub fn new() -> Result<Wakeup, Failure> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let upcalls = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let retry = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        for (number, one) in [(0, &upcalls), (1, &retry)] {
            epoll::add(&all, one, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        }
        Ok(Wakeup { all, upcalls, retry, retrying: false })
    }

    /// The descriptor to poll.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }

    /// Watches a new connection; the timer for tries ends. Closing the connection ends the watch.
    pub fn watch(&mut self, connection: BorrowedFd<'_>) -> Result<(), Failure> {
        epoll::add(&self.all, connection, epoll::EventData::new_u64(2), epoll::EventFlags::IN)?;
        self.retrying = false;
        self.time(NEVER);
        Ok(())
    }

    /// Wakes every half second from now on, until a connection is watched.
    pub fn retry(&mut self) {
        self.retrying = true;
        self.time(RETRY);
    }

    /// Wakes until [`Wakeup::clear`].
    pub fn set(&self) {
        // It fails only when it is set already, 2^64 times over.
        let _ = rustix::io::write(&self.upcalls, &1u64.to_ne_bytes());
    }

    /// Reads the counter and the timer; true if a try to connect is due.
    pub fn clear(&self) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.upcalls, &mut count);
        rustix::io::read(&self.retry, &mut count).is_ok() && self.retrying
    }

    fn time(&self, interval: Timespec) {
        let spec = Itimerspec { it_interval: interval, it_value: interval };
        // It fails only for times that are not valid.
        let _ = timerfd_settime(&self.retry, TimerfdTimerFlags::empty(), &spec);
    }
}
