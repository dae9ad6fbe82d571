//! How much of the cores can be reserved: what the kernel admits when it is asked.
//!
//! The share that SCHED_DEADLINE may take is not computed from settings, because it depends on them and on the kernel's
//! version (`sched_rt_runtime_us`, and since Linux 6.8 the server that keeps a part for ordinary threads): threads that
//! sleep are made deadline threads until the kernel says EBUSY, and end at once. What other programs hold is missing
//! from it. It takes milliseconds, in which another program that wants a deadline thread may be refused.

use super::deadline::{self, CORE, Scheduling};
use crate::error::SystemError;
use std::sync::mpsc;
use std::thread;

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// Cores that are switched on.
    pub cores: u64,
    /// What the kernel admits, millionths of a core.
    pub share: u64,
}

/// Tried in this order, each as often as it is admitted, millionths of a core.
const STEPS: [u64; 10] = [900_000, 400_000, 200_000, 100_000, 50_000, 20_000, 10_000, 5_000, 2_000, 1_000];
/// A machine of more cores is probed up to here.
const MOST_THREADS: usize = 2_048;

/// Cores that are switched on.
pub fn cores() -> u64 {
    // SAFETY: no memory is passed.
    let found = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u64::try_from(found).unwrap_or(1).max(1)
}

/// Asks the kernel, rounded down to a thousandth of a core.
///
/// # Errors
/// It admits nothing: the reason for the smallest share.
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

/// Threads that wait for the end of the probe; dropping this ends them.
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
    /// One more, by its number.
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
