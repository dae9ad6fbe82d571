//! Times at which the machine stood still: seen by threads with nothing to do, one on each processor.
//!
//! A virtual machine's processors are taken away for milliseconds by its host, and nothing inside can help that. A thread that
//! sleeps for a millisecond and wakes many later saw one of those times, or other programs that went before it.

use linux::clock::Clock;
use linux::error::SystemError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use terms::Span;

/// The shortest time that counts as standing still.
pub(super) const STALL: Span = Span::from_millis(5);
/// How long a thread sleeps.
const NAP: Duration = Duration::from_millis(1);

/// The threads, and then what they saw.
#[derive(Debug, Default)]
pub(super) struct StallWatch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<(u64, u64)>>>,
    /// From and until, on the wall clock, ns; sorted.
    seen: Vec<(u64, u64)>,
}

impl StallWatch {
    /// Starts a thread on each processor.
    pub(super) fn start() -> Result<StallWatch, SystemError> {
        let mut watch = StallWatch::default();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for number in 0..processors {
            let stop = watch.stop.clone();
            let thread = std::thread::Builder::new().name("idle".into()).spawn(move || {
                // Where it may not be kept on one processor, it is one idle thread more.
                let _ = linux::process::run_on(number);
                look(&stop)
            });
            watch.threads.push(thread.map_err(SystemError::doing("start a thread"))?);
        }
        Ok(watch)
    }

    /// A watch whose threads saw this.
    #[cfg(test)]
    pub(super) fn of(seen: Vec<(u64, u64)>) -> StallWatch {
        StallWatch { seen, ..StallWatch::default() }
    }

    /// Ends the threads.
    pub(super) fn end(mut self) -> StallWatch {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A panic there has already been reported by the panic hook.
            self.seen.extend(thread.join().unwrap_or_default());
        }
        self.seen.sort_unstable();
        self
    }

    /// True if the machine stood still at some time between two instants.
    pub(super) fn stood_still(&self, from: u64, until: u64) -> bool {
        self.seen.iter().any(|(begin, end)| *begin < until && *end > from)
    }

    /// The number of times.
    pub(super) fn count(&self) -> usize {
        self.seen.len()
    }

    /// The longest, ns.
    pub(super) fn longest_ns(&self) -> u64 {
        self.seen.iter().map(|(begin, end)| end - begin).max().unwrap_or(0)
    }
}

fn look(stop: &AtomicBool) -> Vec<(u64, u64)> {
    let clock = Clock::start();
    // The clock of the kernel's stamps.
    let now = || clock.today().as_nanos();
    let mut seen = Vec::new();
    let mut before = now();
    while !stop.load(Relaxed) {
        std::thread::sleep(NAP);
        let after = now();
        if after.saturating_sub(before) > STALL.as_nanos() + NAP.as_nanos() as u64 {
            seen.push((before, after));
        }
        before = after;
    }
    seen
}
