//! Connections end in a child of `fork`: otherwise the agent would not notice the end of the parent, and would
//! keep what it had registered.

use crate::failure::{Code, Failure};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// The most sessions of a process.
pub const MOST_SESSIONS: usize = 1024;

/// Free places hold this; others a descriptor.
const FREE: i32 = -1;

/// The handler of a fork may take no lock and allocate nothing: a fixed table of atomics serves it.
static CONNECTIONS: [AtomicI32; MOST_SESSIONS] = [const { AtomicI32::new(FREE) }; MOST_SESSIONS];

/// A connection that a child closes. It is dropped before the descriptor is closed.
#[derive(Debug)]
pub struct ClosedInChild {
    place: usize,
}

impl ClosedInChild {
    /// Marks a connection.
    ///
    /// # Errors
    /// [`MOST_SESSIONS`] are open.
    pub fn new(connection: BorrowedFd<'_>) -> Result<ClosedInChild, Failure> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler only reads atomics and closes descriptors, which is allowed after a fork.
            unsafe { libc::pthread_atfork(None, None, Some(close_all)) };
        });
        let descriptor = connection.as_raw_fd();
        let taken =
            |place: &AtomicI32| place.compare_exchange(FREE, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let place = CONNECTIONS.iter().position(taken);
        place.map(|place| ClosedInChild { place }).ok_or_else(|| Failure::of(Code::MaxSess, "too many sessions"))
    }
}

impl Drop for ClosedInChild {
    fn drop(&mut self) {
        CONNECTIONS[self.place].store(FREE, Ordering::Relaxed);
    }
}

extern "C" fn close_all() {
    for place in &CONNECTIONS {
        let descriptor = place.swap(FREE, Ordering::Relaxed);
        if descriptor != FREE {
            // SAFETY: the child's copy of a connection, which nothing in the child uses: its sessions are new ones.
            unsafe { libc::close(descriptor) };
        }
    }
}
