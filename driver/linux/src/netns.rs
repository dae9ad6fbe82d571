//! Named network namespaces in the form of iproute2: a bind mount of the namespace under `/run/netns/NAME`.
//!
//! They are entered without `ip netns exec`, because that gives its child a mount namespace of its own with
//! an empty `/sys/fs/bpf`, which hides pinned eBPF objects; a thread that calls `setns` sees everything else
//! unchanged. `ip netns` sees namespaces made here, and the reverse (network_namespaces(7), setns(2),
//! ip-netns(8)).

use crate::error::{SystemError, doing};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of iproute2's namespaces.
pub const NETNS_DIR: &str = "/run/netns";

/// A mark that the mount over [`NETNS_DIR`] was made here, so that it can be removed with the last namespace.
const MADE_DIR: &str = "/run/netns-by-sluice";

/// An open namespace: it lives at least as long as this value.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Makes a namespace with this name.
    ///
    /// # Errors
    /// The name is taken or not a plain file name, or the kernel refuses (CAP_SYS_ADMIN is needed).
    pub fn create(name: &str) -> Result<Namespace, SystemError> {
        let what = || format!("create the network namespace {name}");
        let path = path_of(name)?;
        let _locked = prepare_dir()?;
        OpenOptions::new().write(true).create_new(true).mode(0o444).open(&path).map_err(SystemError::doing(what()))?;
        let made = on_thread(|| mount_new_namespace(&path)).and_then(|r| r);
        if let Err(error) = made {
            // The reason to tell is the first one; the empty file is ours to remove in any case.
            let _ = fs::remove_file(&path);
            return Err(SystemError::because(what(), error));
        }
        Namespace::open(name)
    }

    /// Makes a namespace without a name: it ends with its last user, also after a kill.
    ///
    /// # Errors
    /// The kernel refuses (CAP_SYS_ADMIN is needed).
    pub fn unnamed() -> Result<Namespace, SystemError> {
        let made = on_thread(|| {
            new_namespace()?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = made.and_then(|opened| opened).map_err(SystemError::doing("create a network namespace"))?;
        Ok(Namespace { name: String::new(), file })
    }

    /// Opens an existing namespace.
    ///
    /// # Errors
    /// There is no namespace of that name.
    pub fn open(name: &str) -> Result<Namespace, SystemError> {
        let file =
            File::open(path_of(name)?).map_err(SystemError::doing(format!("open the network namespace {name}")))?;
        Ok(Namespace { name: name.to_owned(), file })
    }

    /// The namespace of this thread.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn current() -> Result<Namespace, SystemError> {
        let path = "/proc/thread-self/ns/net";
        let file = File::open(path).map_err(SystemError::doing(format!("open {path}")))?;
        Ok(Namespace { name: String::new(), file })
    }

    /// The name of the namespace; empty for [`Namespace::current`] and [`Namespace::unnamed`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `deed` in the namespace, on a thread of its own, and returns its result. A panic in it is resumed
    /// here.
    ///
    /// # Errors
    /// The kernel refuses the entry (CAP_SYS_ADMIN is needed).
    pub fn run<T: Send>(&self, deed: impl FnOnce() -> T + Send) -> Result<T, SystemError> {
        on_thread(|| set_namespace(self.file.as_fd()).map(|()| deed()))
            .and_then(|entered| entered)
            .map_err(SystemError::doing(format!("enter the network namespace {}", self.name)))
    }

    /// Makes `command`'s child start in the namespace, which must stay open until the child is spawned.
    pub fn enter_at_exec(&self, command: &mut Command) {
        let fd = self.file.as_raw_fd();
        // SAFETY: between fork and exec only `setns` is called, which is async-signal-safe; `fd` is close-on-exec but
        // still open at that point.
        unsafe { command.pre_exec(move || set_namespace(BorrowedFd::borrow_raw(fd))) };
    }

    /// Removes the name; the namespace ends with its last user. An absent name is no error.
    ///
    /// # Errors
    /// The name cannot be unmounted or unlinked.
    pub fn delete(name: &str) -> Result<(), SystemError> {
        let path = path_of(name)?;
        let what = || format!("delete the network namespace {name}");
        match unmount(&path, UnmountFlags::DETACH) {
            // A crash between making the file and mounting leaves a plain file, which is not mounted.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(SystemError::because(what(), error.into())),
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SystemError::because(what(), error)),
            _ => {
                clear_dir();
                Ok(())
            }
        }
    }

    /// True if the name is taken.
    pub fn exists(name: &str) -> bool {
        path_of(name).is_ok_and(|path| path.exists())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Namespace {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// A namespace that is deleted when this is dropped.
#[derive(Debug)]
pub struct Guarded(Namespace);

impl Guarded {
    /// Makes a namespace; see [`Namespace::create`].
    ///
    /// # Errors
    /// As [`Namespace::create`].
    pub fn create(name: &str) -> Result<Guarded, SystemError> {
        Namespace::create(name).map(Guarded)
    }
}

impl std::ops::Deref for Guarded {
    type Target = Namespace;
    fn deref(&self) -> &Namespace {
        &self.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Err(failed) = Namespace::delete(self.0.name()) {
            eprintln!("sluice: {failed}");
        }
    }
}

fn path_of(name: &str) -> Result<PathBuf, SystemError> {
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']) && name.len() <= 255;
    if !plain {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "not a plain file name");
        return Err(SystemError::because(format!("name a network namespace {name:?}"), error));
    }
    Ok(Path::new(NETNS_DIR).join(name))
}

/// Runs `deed` on a thread whose namespace may be changed, because the thread ends afterwards.
fn on_thread<T: Send>(deed: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, deed)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn set_namespace(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(fd, Some(LinkNameSpaceType::Network))?)
}

/// Moves this thread to a new namespace.
fn new_namespace() -> io::Result<()> {
    // SAFETY: only the network changes, and of this thread alone: no descriptor or memory loses its meaning.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Moves this thread to a new namespace and binds that to `path`.
fn mount_new_namespace(path: &Path) -> io::Result<()> {
    new_namespace()?;
    Ok(mount_bind("/proc/thread-self/ns/net", path)?)
}

/// Makes the directory a shared mount, as `ip netns add` does, so that a deleted name disappears from every
/// mount namespace that copied it.
fn prepare_dir() -> Result<File, SystemError> {
    let what = || format!("prepare {NETNS_DIR}");
    fs::create_dir_all(NETNS_DIR).map_err(SystemError::doing(what()))?;
    let locked = lock_dir().map_err(SystemError::doing(what()))?;
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    match mount_change(NETNS_DIR, shared) {
        Ok(()) => return Ok(locked),
        Err(Errno::INVAL) => {} // not a mount yet
        Err(error) => return Err(SystemError::because(what(), error.into())),
    }
    mount_bind_recursive(NETNS_DIR, NETNS_DIR).map_err(doing(what()))?;
    fs::write(MADE_DIR, b"").map_err(SystemError::doing(format!("write {MADE_DIR}")))?;
    mount_change(NETNS_DIR, shared).map_err(doing(what()))?;
    Ok(locked)
}

/// Waits for the lock that iproute2 also takes when it mounts or unmounts the directory.
fn lock_dir() -> io::Result<File> {
    let dir = File::open(NETNS_DIR)?;
    flock(&dir, FlockOperation::LockExclusive)?;
    Ok(dir)
}

/// Removes the mount over the directory if it was made here and is unused; the empty directory stays, because
/// another program may be about to use it. A failure is harmless: `ip netns` leaves the mount too.
fn clear_dir() {
    let Ok(_locked) = lock_dir() else { return };
    let empty = fs::read_dir(NETNS_DIR).is_ok_and(|mut entries| entries.next().is_none());
    if !empty || !Path::new(MADE_DIR).exists() {
        return;
    }
    // Detached, because our lock holds the mount; it is empty, and whoever wants to put something there waits for
    // that lock.
    if unmount(NETNS_DIR, UnmountFlags::DETACH).is_ok() {
        let _ = fs::remove_file(MADE_DIR);
    }
}
