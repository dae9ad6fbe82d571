//! Scratch network namespaces for tests: a thread in a namespace without a name, which the kernel removes with the
//! last thread, socket and descriptor in it, however the test ends.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Runs the test in a thread that has a network namespace of its own; says so loudly if that cannot be.
pub fn in_netns(test: impl FnOnce() + Send + 'static) {
    // SAFETY: no pointers.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED: network namespaces need root");
        return;
    }
    let thread = std::thread::spawn(move || {
        if !unshare() {
            eprintln!("SKIPPED: this kernel gives no network namespace: {}", std::io::Error::last_os_error());
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
