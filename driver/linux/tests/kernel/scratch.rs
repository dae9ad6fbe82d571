//! Scratch network namespaces for tests: a thread in a namespace without a name, which the kernel removes with the
//! last thread, socket and descriptor in it, however the test ends.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Runs the test in a thread that has a network namespace of its own; says so loudly if that cannot be.
pub fn in_netns(test: impl FnOnce() + Send + 'static) {
    // SAFETY: no pointers.
    if unsafe { libc::geteuid() } != 0 {
        bench::skipped("network namespaces need root");
        return;
    }
    let thread = std::thread::spawn(move || {
        if !unshare() {
            bench::skipped(format!("this kernel gives no network namespace: {}", std::io::Error::last_os_error()));
            return;
        }
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Moves the calling thread into a fresh network namespace.
pub fn unshare() -> bool {
    // SAFETY: no pointers; only the calling thread moves.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

/// The calling thread's network namespace.
pub fn current() -> File {
    File::open("/proc/thread-self/ns/net").expect("every thread has a network namespace")
}

/// Moves the calling thread into this namespace.
pub fn enter(netns: &File) {
    // SAFETY: the descriptor is open for the whole call; only the calling thread moves.
    let rc = unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(rc, 0, "setns: {}", std::io::Error::last_os_error());
}

/// A fresh namespace, without moving into it.
pub fn fresh() -> File {
    let here = current();
    assert!(unshare());
    let made = current();
    enter(&here);
    made
}

/// A state directory of an agent, removed with everything pinned in it however the test ends.
pub struct StateDir(std::path::PathBuf);

impl StateDir {
    /// A fresh one.
    pub fn new() -> StateDir {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("sluice-tc-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory in the temporary directory");
        StateDir(dir)
    }

    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        let forgotten = linux::bpf::forget(&self.0);
        let removed = std::fs::remove_dir_all(&self.0);
        if !std::thread::panicking() {
            forgotten.expect("nothing stays pinned");
            removed.expect("nothing stays behind");
        }
    }
}
