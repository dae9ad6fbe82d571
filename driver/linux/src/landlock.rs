//! Restricts the files that a process may access, whatever its user (landlock(7)): for a process that runs as
//! root and reads data of strangers.

use crate::error::SystemError;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
/// All file rights of the first version.
const FIRST: u64 = (1 << 13) - 1;
/// The file right of the third version.
const TRUNCATE: u64 = 1 << 14;
/// A scope of the sixth version: no signals to processes outside of this restriction.
const SIGNALS: u64 = 1 << 1;
/// The rights that exist for a file that is no directory.
const OF_A_FILE: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE;

/// The access that is allowed below a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Reading and listing.
    Read,
    /// Reading, listing, writing, and making and removing files and directories.
    Write,
    /// Removing files only.
    Remove,
}

impl Use {
    fn bits(self) -> u64 {
        match self {
            Use::Read => READ_FILE | READ_DIR | EXECUTE,
            Use::Write => READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | REMOVE_FILE | MAKE_DIR | MAKE_REG,
            Use::Remove => REMOVE_FILE,
        }
    }
}

/// From now on this thread and its children open files only below these places (absent ones are skipped), and
/// send signals only among themselves. Returns true if the kernel supports it. The thread must have given up
/// new privileges.
///
/// # Errors
/// The kernel supports it, but refuses.
pub fn only(places: &[(&Path, Use)]) -> Result<bool, SystemError> {
    let what = "restrict access to files";
    // SAFETY: asking for the version passes no memory.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) };
    if version < 1 {
        return Ok(false);
    }
    let handled = if version >= 3 { FIRST | TRUNCATE } else { FIRST };
    // `struct landlock_ruleset_attr`: files, network, scopes; older versions know the first alone.
    let attributes = [handled, 0, if version >= 6 { SIGNALS } else { 0 }];
    let size = if version >= 6 { size_of_val(&attributes) } else { size_of::<u64>() };
    // SAFETY: `attributes` has at least `size` bytes and outlives the call.
    let set = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attributes.as_ptr(), size, 0) };
    let set = i32::try_from(set).ok().filter(|fd| *fd >= 0).ok_or_else(|| SystemError::last(what))?;
    // SAFETY: the kernel just gave us this descriptor and nobody else has it.
    let set = unsafe { OwnedFd::from_raw_fd(set) };
    for (path, allowed) in places {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path);
        if let Ok(place) = opened {
            allow(&set, &place, allowed.bits() & handled)?;
        }
    }
    // SAFETY: no memory is passed.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, set.as_raw_fd(), 0) } {
        0 => Ok(true),
        _ => Err(SystemError::last(what)),
    }
}

fn allow(set: &OwnedFd, place: &File, bits: u64) -> Result<(), SystemError> {
    let is_dir = place.metadata().map_err(SystemError::doing("restrict access to files"))?.is_dir();
    let bits = if is_dir { bits } else { bits & OF_A_FILE };
    // `struct landlock_path_beneath_attr` is packed: eight bytes of rights, four of the descriptor.
    let mut rule = [0u8; 12];
    rule[..8].copy_from_slice(&bits.to_ne_bytes());
    rule[8..].copy_from_slice(&place.as_raw_fd().to_ne_bytes());
    const PATH_BENEATH: libc::c_int = 1;
    // SAFETY: `rule` is as large as the kernel's type and outlives the call.
    let rc = unsafe { libc::syscall(libc::SYS_landlock_add_rule, set.as_raw_fd(), PATH_BENEATH, rule.as_ptr(), 0) };
    if rc == 0 { Ok(()) } else { Err(SystemError::last("restrict access to files")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_not_named_cannot_be_opened_not_even_by_root() {
        let place = std::env::temp_dir().join(format!("landlock-{}", std::process::id()));
        let folder = |name: &str| {
            let path = place.join(name);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("file"), name).unwrap();
            path
        };
        let (read, write, closed) = (folder("read"), folder("write"), folder("closed"));
        let gone = place.join("nowhere");
        // A thread of its own: nothing takes this back.
        let (a, b, c) = (read.clone(), write.clone(), closed.clone());
        let thread = std::thread::spawn(move || {
            crate::privilege::give_up_capabilities().unwrap();
            if !only(&[(&a, Use::Read), (&b, Use::Write), (&gone, Use::Write)]).unwrap() {
                return None;
            }
            let ok = |done: std::io::Result<()>| done.is_ok();
            Some([
                ok(fs::read(a.join("file")).map(drop)),
                ok(fs::write(a.join("file"), "x")),
                ok(fs::write(b.join("new"), "x")),
                ok(fs::rename(b.join("new"), b.join("file"))),
                ok(fs::read(c.join("file")).map(drop)),
                ok(fs::read_dir(&c).map(drop)),
                ok(fs::write(c.join("new"), "x")),
                ok(fs::remove_file(c.join("file"))),
            ])
        });
        let found = thread.join().unwrap();
        fs::remove_dir_all(&place).unwrap();
        match found {
            Some(found) => assert_eq!(found, [true, false, true, true, false, false, false, false]),
            None => eprintln!("SKIPPED: this kernel has no Landlock"),
        }
    }
}
