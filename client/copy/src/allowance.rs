//! The sender's present rate: set by the agent's callbacks, read by the sender.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The sender's present permission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Allowed {
    /// The sender may send at this rate, bit/s of IP bytes. Zero: it must wait.
    Rate(u64),
    /// The reservation is over, for this reason.
    Over(String),
    /// The user stopped the transfer.
    Stopped,
}

/// A handle that the sender, the listener for callbacks and the user's interrupt share.
#[derive(Clone, Debug, Default)]
pub struct Allowance(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rate: u64,
    over: Option<String>,
    stopped: bool,
    changes: u64,
}

impl Allowance {
    /// Creates an allowance of zero.
    pub fn new() -> Allowance {
        Allowance::default()
    }

    /// Sets the rate, bit/s of IP bytes.
    pub fn set(&self, rate: u64) {
        let mut state = self.lock();
        if state.rate != rate {
            state.changes += 1;
        }
        state.rate = rate;
        self.0.changed.notify_all();
    }

    /// Ends the allowance. Only the first reason is kept.
    pub fn end(&self, why: impl Into<String>) {
        self.lock().over.get_or_insert(why.into());
        self.0.changed.notify_all();
    }

    /// Records that the user stopped the transfer.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.0.changed.notify_all();
    }

    /// Returns the present permission.
    pub fn now(&self) -> Allowed {
        allowed(&self.lock())
    }

    /// Returns how often the rate has changed.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Waits at most `patience` until the rate is positive or the transfer must end. Returns the permission
    /// then.
    pub fn wait(&self, patience: Duration) -> Allowed {
        let until = Instant::now() + patience;
        let mut state = self.lock();
        loop {
            let found = allowed(&state);
            let left = until.saturating_duration_since(Instant::now());
            if found != Allowed::Rate(0) || left.is_zero() {
                return found;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn allowed(state: &State) -> Allowed {
    match &state.over {
        _ if state.stopped => Allowed::Stopped,
        Some(why) => Allowed::Over(why.clone()),
        None => Allowed::Rate(state.rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_a_rate_and_knows_the_end() {
        let allowance = Allowance::new();
        assert_eq!(allowance.wait(Duration::from_millis(1)), Allowed::Rate(0));
        let other = allowance.clone();
        let setter = std::thread::spawn(move || other.set(8_000));
        assert_eq!(allowance.wait(Duration::from_secs(10)), Allowed::Rate(8_000));
        setter.join().expect("no panic");
        allowance.set(8_000);
        assert_eq!(allowance.changes(), 1);
        allowance.end("it ended");
        allowance.end("again");
        assert_eq!(allowance.now(), Allowed::Over("it ended".into()));
        allowance.stop();
        assert_eq!(allowance.now(), Allowed::Stopped);
    }
}
