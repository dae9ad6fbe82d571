//! Threads in an endless loop: a competing load on the processors of a host.

use linux::error::SystemError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// The threads of a load. They end when this is dropped.
#[derive(Debug)]
pub struct Hogs {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(count: usize) -> Result<Hogs, SystemError> {
        let mut hogs = Hogs { stop: Arc::default(), threads: Vec::new() };
        for _ in 0..count {
            let stop = hogs.stop.clone();
            let deed = move || {
                // A process with the right to go first may also go second.
                let _ = linux::process::go_second();
                while !stop.load(Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let thread = std::thread::Builder::new().name("hog".into()).spawn(deed);
            hogs.threads.push(thread.map_err(SystemError::doing("start a thread"))?);
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}
