//! A folder of its own for each test, removed whatever happens, and processes that are started from it.

use ::bed::testbed;
use linux::process::{ProcessId, spawn_detached};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The program under test.
pub const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

/// Whether this must be skipped; says so loudly.
pub fn skipped() -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !root {
        bench::skipped("agents and network namespaces need root");
    }
    !root
}

/// A name that no other test has, and a folder of that name.
pub fn place() -> (String, Place) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("at{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let place = std::env::temp_dir().join(&name);
    std::fs::create_dir_all(&place).unwrap();
    (name.clone(), Place { name, path: place })
}

/// A test's own folder. What is in it, and a testbed of its name, goes with it, also when the test fails.
pub struct Place {
    name: String,
    path: PathBuf,
}

impl std::ops::Deref for Place {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let down = testbed::down(&self.path, &self.name).map(drop);
        let clean = down.and_then(|()| linux::mount::unmount_below(&self.path));
        let _ = std::fs::remove_dir_all(&self.path);
        if !std::thread::panicking() {
            clean.unwrap();
        }
    }
}

/// Starts a daemon whose parent does not wait for it: this test process ends soon enough.
#[allow(clippy::zombie_processes)]
pub fn detached(command: &mut Command, log: &Path) -> ProcessId {
    let child = spawn_detached(command, log).unwrap();
    ProcessId::of(child.id()).unwrap()
}

/// Waits until `there` gives something, for so long.
pub fn wait_at_most<T>(limit: Duration, what: &str, mut there: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + limit;
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(Instant::now() < until, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
