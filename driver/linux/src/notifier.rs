//! A notifier: one thread signals it, another polls it beside other descriptors (eventfd(2)).

use crate::error::SystemError;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// An event descriptor; any number of signals count as one.
#[derive(Debug)]
pub struct Notifier(OwnedFd);

impl Notifier {
    /// A notifier without a signal.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> Result<Notifier, SystemError> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(SystemError::last("make an event descriptor"));
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else has it.
        Ok(Notifier(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Signals the waiting thread.
    pub fn notify(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes are what an event descriptor takes. It fails only where it was rung 2^64 times: it rings already.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Clears the signal.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight bytes are what an event descriptor gives; that it was silent does not matter.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsRawFd for Notifier {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::poll::{Poll, PollInterest, Token};
    use terms::{Span, Time};

    #[test]
    fn it_is_heard_once_and_from_another_thread() {
        let clock = Clock::start();
        let mut poll = Poll::new(clock).unwrap();
        let notifier = Notifier::new().unwrap();
        poll.add(&notifier, Token(3), PollInterest::Read).unwrap();
        assert!(poll.wait(Some(Time::ZERO)).unwrap().is_empty());
        std::thread::scope(|scope| {
            scope.spawn(|| (0..5).for_each(|_| notifier.notify()));
            let soon = clock.now() + Span::from_secs(10);
            assert_eq!(poll.wait(Some(soon)).unwrap()[0].token, Token(3));
        });
        notifier.clear();
        assert!(poll.wait(Some(Time::ZERO)).unwrap().is_empty());
    }
}
