//! A notifier: one thread signals it, another polls it beside other descriptors (eventfd(2)).

use crate::error::{SystemError, doing};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An event descriptor; any number of signals count as one.
#[derive(Debug)]
pub struct Notifier(OwnedFd);

impl Notifier {
    /// A notifier without a signal.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> Result<Notifier, SystemError> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        made.map(Notifier).map_err(doing("make an event descriptor"))
    }

    /// Signals the waiting thread.
    pub fn notify(&self) {
        // Eight bytes are what it takes. It fails only after 2^64 signals: it has one already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Clears the signal.
    pub fn clear(&self) {
        // Eight bytes are what it gives; without a signal there is nothing to clear.
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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
