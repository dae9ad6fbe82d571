//! How fast the sender may be now: what the callbacks write and the sender reads.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a sender may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Allowed {
    /// Send at most so many bit/s of IP bytes; zero: wait.
    Rate(u64),
    /// Not any more; why.
    Over(String),
    /// The user stopped it.
    Stopped,
}

/// Shared by the sender, whoever hears callbacks, and whoever hears the user.
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
    /// Nothing may be sent yet.
    pub fn new() -> Allowance {
        Allowance::default()
    }

    /// From now on so much.
    pub fn set(&self, rate: u64) {
        let mut state = self.lock();
        if state.rate != rate {
            state.changes += 1;
        }
        state.rate = rate;
        self.0.changed.notify_all();
    }

    /// Nothing any more.
    pub fn end(&self, why: impl Into<String>) {
        self.lock().over.get_or_insert(why.into());
        self.0.changed.notify_all();
    }

    /// The user wants to stop.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.0.changed.notify_all();
    }

    /// What holds now.
    pub fn now(&self) -> Allowed {
        allowed(&self.lock())
    }

    /// How often the rate has changed.
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Waits until something may be sent or never will, at most so long; what holds then.
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
