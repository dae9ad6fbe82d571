//! The lease as its holder sees it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// The lease of the process that leads, as far as it knows.
#[derive(Debug)]
pub struct Lease {
    until: Mutex<Instant>,
    lost: OnceLock<String>,
}

impl Lease {
    /// A lease until this time.
    pub(super) fn until_time(until: Instant) -> Lease {
        Lease { until: Mutex::new(until), lost: OnceLock::new() }
    }

    /// True while no other process can have taken over. False after a silence of the database or a pause of this
    /// process: then only the next append tells.
    pub fn is_held(&self) -> bool {
        self.lost.get().is_none() && Instant::now() < *self.locked()
    }

    /// Who took over, if this process does not lead any more.
    pub fn lost_to(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    pub(super) fn renewed(&self, until: Instant) {
        *self.locked() = until;
    }

    pub(super) fn lose(&self, leader: &str) {
        let _ = self.lost.set(leader.to_owned());
    }

    fn locked(&self) -> MutexGuard<'_, Instant> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
