//! Waits that a signal ends, so that an experiment can always clean up.

use crate::error::Error;
use linux::poll::SignalFd;
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// SIGHUP, SIGINT, SIGTERM.
const ENDING: [i32; 3] = [1, 2, 15];
/// The longest delay before a signal is noticed.
const LOOK: Duration = Duration::from_millis(20);

/// A wait that ends early when the user stops the run.
#[derive(Debug)]
pub struct Patience {
    signals: Option<RefCell<SignalFd>>,
}

impl Patience {
    /// Catches SIGINT, SIGTERM and SIGHUP, which then no longer end the process. Call it before any thread
    /// starts.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn until_signalled() -> Result<Patience, Error> {
        Ok(Patience { signals: Some(RefCell::new(SignalFd::take(&ENDING)?)) })
    }

    /// Creates a wait that no signal ends, for tests.
    pub fn endless() -> Patience {
        Patience { signals: None }
    }

    /// Checks that no signal came.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn check(&self) -> Result<(), Error> {
        match self.signals.as_ref().and_then(|signals| signals.borrow_mut().take_next()) {
            Some(_) => Err(Error::Interrupted),
            None => Ok(()),
        }
    }

    /// Waits for `span`.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn wait(&self, span: Duration) -> Result<(), Error> {
        let until = Instant::now() + span;
        self.wait_for(span, || Instant::now() >= until).map(|_| ())
    }

    /// Waits until `done` is true, at most `limit`. Returns true if it became true.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn wait_for(&self, limit: Duration, mut done: impl FnMut() -> bool) -> Result<bool, Error> {
        let until = Instant::now() + limit;
        loop {
            self.check()?;
            if done() {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(done());
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}
