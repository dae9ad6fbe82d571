//! The share of the cores that can be reserved, as the kernel admits it.
//!
//! The share for SCHED_DEADLINE is not computed from settings, because it depends on them and on the kernel's
//! version (`sched_rt_runtime_us`, and since Linux 6.8 the server that keeps a part for ordinary threads).
//! Instead, sleeping threads are made deadline threads until the kernel returns EBUSY, and end at once. The
//! share of other programs is not included. The probe takes milliseconds, in which the kernel may refuse a
//! deadline thread to another program.

use super::deadline::{self, CORE, Scheduling};
use crate::error::SystemError;
use std::sync::mpsc;
use std::thread;

/// The result of the probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// Cores that are online.
    pub cores: u64,
    /// The share that the kernel admits, millionths of a core.
    pub share: u64,
}

/// The shares to try, in this order, each as often as it is admitted, millionths of a core.
const STEPS: [u64; 10] = [900_000, 400_000, 200_000, 100_000, 50_000, 20_000, 10_000, 5_000, 2_000, 1_000];
/// The most threads of the probe; it finds no more on a larger machine.
const MOST_THREADS: usize = 2_048;

/// Cores that are online.
pub fn cores() -> u64 {
    // SAFETY: no memory is passed.
    let found = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u64::try_from(found).unwrap_or(1).max(1)
}

/// Probes the kernel; the result is rounded down to a thousandth of a core.
///
/// # Errors
/// The kernel admits nothing; the error is that for the smallest share.
pub fn probe() -> Result<Admitted, SystemError> {
    let cores = cores();
    thread::scope(|scope| {
        let mut sleepers = Sleepers { threads: Vec::new(), reserved: Vec::new() };
        let (mut share, mut last) = (0, None);
        let ordinary = Scheduling::of(0).map_err(SystemError::doing("ask how this thread is scheduled"))?;
        for step in STEPS {
            while share + step <= cores * CORE && sleepers.threads.len() < MOST_THREADS {
                let tid = sleepers.next(scope)?;
                match deadline::reserve(tid, step) {
                    Ok(()) => {
                        share += step;
                        sleepers.reserved.push((tid, ordinary));
                    }
                    Err(failed) => {
                        last = Some(failed);
                        break;
                    }
                }
            }
        }
        match last {
            Some(failed) if share == 0 => Err(failed),
            _ => Ok(Admitted { cores, share }),
        }
    })
}

/// Threads that wait for the end of the probe; they end when this is dropped.
struct Sleepers {
    threads: Vec<mpsc::Sender<()>>,
    reserved: Vec<(u32, Scheduling)>,
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for (tid, ordinary) in &self.reserved {
            // The kernel has what they held back at once; of those that only end, a moment later.
            let _ = ordinary.restore(*tid);
        }
    }
}

impl Sleepers {
    /// Starts one more thread and returns its id.
    fn next<'scope>(&mut self, scope: &'scope thread::Scope<'scope, '_>) -> Result<u32, SystemError> {
        let (hold, held) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let body = move || {
            // Nobody listens if the probe has ended already.
            let _ = tell.send(deadline::this_thread());
            let _ = held.recv();
        };
        let failed = SystemError::doing("start a thread for the probe of the cores");
        thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, body).map_err(failed)?;
        self.threads.push(hold);
        told.recv().map_err(|_| {
            SystemError::because("start a thread for the probe of the cores", std::io::ErrorKind::Other.into())
        })
    }
}
