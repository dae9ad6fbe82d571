//! Dropping privileges for good: a process that reads data of strangers becomes a user without rights,
//! limited to the few system calls that it still needs (capabilities(7), prctl(2), seccomp(2)).

use crate::error::{SystemError, doing};
use rustix::process::{DumpableBehavior, getegid, geteuid, getgroups, set_dumpable_behavior};
use rustix::thread::{clear_ambient_capability_set, set_no_new_privs};
use std::fs;
use std::io;

/// A user and its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

/// The user that owns no files, for use if there is no better one (the id of Debian and of the kernel).
pub const NOBODY: User = User { uid: 65_534, gid: 65_534 };

impl User {
    /// The user of that name in `/etc/passwd`, or `UID:GID` for a user that is not in that file.
    pub fn named(name: &str) -> Option<User> {
        if let Some((uid, gid)) = name.split_once(':') {
            return Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? });
        }
        let users = fs::read_to_string("/etc/passwd").ok()?;
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(name)).then_some(())?;
            Some(User { uid: fields.nth(1)?.parse().ok()?, gid: fields.next()?.parse().ok()? })
        })
    }

    /// The user of this process.
    pub fn own() -> User {
        User { uid: geteuid().as_raw(), gid: getegid().as_raw() }
    }
}

/// Becomes `user` for good: without other groups, without capabilities or a way to regain them or to gain
/// rights by exec, and with memory that others cannot read. Call it before a second thread starts:
/// capabilities are per thread.
///
/// # Errors
/// A capability is missing (CAP_SETUID, CAP_SETGID, CAP_SETPCAP), or a privilege remains: the caller must
/// exit.
pub fn give_up(user: User) -> Result<(), SystemError> {
    let what = "give privileges up";
    if user.uid == 0 || user.gid == 0 {
        return Err(SystemError::because(what, io::Error::other("user and group 0 are root's")));
    }
    set_no_new_privs(true).map_err(doing("give privileges up"))?;
    if User::own() != user || has_other_groups() {
        // SAFETY: an empty list passes no memory; the rest passes numbers.
        let ok = unsafe {
            libc::setgroups(0, std::ptr::null()) == 0
                && drop_bounding_set()
                && libc::setresgid(user.gid, user.gid, user.gid) == 0
                && libc::setresuid(user.uid, user.uid, user.uid) == 0
        };
        if !ok {
            return Err(SystemError::last(what));
        }
    }
    clear_ambient_capability_set().map_err(doing("give privileges up"))?;
    no_capabilities()?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(doing(what))?;
    let left = held();
    if User::own() != user || left.permitted != 0 || left.effective != 0 {
        return Err(SystemError::because(what, io::Error::other(format!("something is left: {left:?}"))));
    }
    Ok(())
}

/// Drops every capability for good and keeps the user, without a way to regain one. Call it before a second
/// thread starts.
///
/// # Errors
/// A capability remains: the caller must exit.
pub fn give_up_capabilities() -> Result<(), SystemError> {
    set_no_new_privs(true).map_err(doing("give privileges up"))?;
    // Without CAP_SETPCAP nothing can be dropped, and nothing got: no new privileges.
    drop_bounding_set();
    clear_ambient_capability_set().map_err(doing("give privileges up"))?;
    // Who holds none needs no call for it, which a filter of system calls may refuse.
    if held().permitted != 0 {
        no_capabilities()?;
    }
    let left = held();
    if left.permitted != 0 || left.effective != 0 {
        return Err(SystemError::because(
            "give capabilities up",
            io::Error::other(format!("something is left: {left:?}")),
        ));
    }
    Ok(())
}

/// Capabilities, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// The effective set.
    pub effective: u64,
    /// The permitted set, which may be made effective.
    pub permitted: u64,
    /// The bounding set, which limits gains by exec.
    pub bounding: u64,
}

/// The capabilities of this thread.
pub fn held() -> Held {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let bits = |name: &str| {
        let hex = status.lines().find_map(|line| line.strip_prefix(name));
        hex.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(u64::MAX)
    };
    Held { effective: bits("CapEff:"), permitted: bits("CapPrm:"), bounding: bits("CapBnd:") }
}

fn has_other_groups() -> bool {
    !getgroups().is_ok_and(|groups| groups.is_empty())
}

/// Drops all capabilities from the bounding set. A kernel has about forty; the first unknown one ends the
/// loop.
fn drop_bounding_set() -> bool {
    for number in 0..64 {
        // SAFETY: no memory is passed.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number as libc::c_ulong, 0, 0, 0) } != 0 {
            return io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
        }
    }
    true
}

fn no_capabilities() -> Result<(), SystemError> {
    // `struct __user_cap_header_struct` and two of `struct __user_cap_data_struct`, version 3 (capget(2)).
    let header: [u32; 2] = [0x2008_0522, 0];
    let data = [0u32; 6];
    // SAFETY: both are as large as version 3 says and outlive the call, which only reads them.
    if unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) } != 0 {
        return Err(SystemError::last("give capabilities up"));
    }
    Ok(())
}

/// The system calls for serving connections that another process opened: no files, no new sockets, no
/// programs, no other processes.
const SERVING: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_epoll_pwait,
    libc::SYS_ppoll,
    libc::SYS_epoll_ctl,
    libc::SYS_timerfd_settime,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The kernel's number of this machine's system call table (linux/audit.h).
#[cfg(target_arch = "x86_64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) const ARCHITECTURE: Option<u32> = None;

/// From now on only the calls in [`SERVING`] are allowed; all others fail with EPERM. Returns true if there
/// is a list for this machine's processor. Call it after [`give_up`].
///
/// # Errors
/// The kernel has no seccomp filters.
pub fn only_serve() -> Result<bool, SystemError> {
    let Some(architecture) = ARCHITECTURE else { return Ok(false) };
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    // `struct seccomp_data`: the number at byte 0, the architecture at byte 4.
    let mut program = vec![
        step(LOAD, 4, 0, 0),
        step(EQUAL, architecture, 1, 0),
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        step(LOAD, 0, 0, 0),
    ];
    for &call in SERVING {
        program.push(step(EQUAL, u32::try_from(call).unwrap_or(u32::MAX), 0, 1));
        program.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    program.push(step(RETURN, refused, 0, 0));
    let list = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: `list` and the program it names outlive the call, which copies them.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, std::ptr::from_ref(&list), 0, 0) } != 0 {
        return Err(SystemError::last("restrict system calls"));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        assert_eq!(User::named("root"), Some(User { uid: 0, gid: 0 }));
        assert_eq!(User::named("1234:99"), Some(User { uid: 1234, gid: 99 }));
        for wrong in ["no such user", "12:", ":12", "a:b", "-1:5"] {
            assert_eq!(User::named(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn root_is_nobody_to_become() {
        assert!(give_up(User { uid: 0, gid: 5 }).is_err() && give_up(User { uid: 5, gid: 0 }).is_err());
    }
}
