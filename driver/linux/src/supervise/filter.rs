//! The filter of a supervised program: which calls wait, which fail.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const HAS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// The bit of the calls of x86-64's second, 32-bit table.
const X32: u32 = 0x4000_0000;

/// The filter. `struct seccomp_data` has the number at byte 0, the architecture at 4, the arguments from 16, 8 bytes each.
pub(super) fn program() -> Vec<libc::sock_filter> {
    let Some(architecture) = crate::privilege::ARCHITECTURE else { return Vec::new() };
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let fails = |errno: i32| step(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0);
    let allow = step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0);
    let number = |call: libc::c_long| u32::try_from(call).unwrap_or(u32::MAX);
    let mut program = vec![
        step(LOAD, 4, 0, 0),
        step(EQUAL, architecture, 1, 0),
        step(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
        step(LOAD, 0, 0, 0),
        step(HAS, X32, 0, 1),
        fails(libc::ENOSYS),
    ];
    for call in [libc::SYS_connect, libc::SYS_accept, libc::SYS_accept4] {
        program.push(step(EQUAL, number(call), 0, 1));
        program.push(step(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0, 0));
    }
    program.push(step(EQUAL, number(libc::SYS_io_uring_setup), 0, 1));
    program.push(fails(libc::ENOSYS));
    // The place of each call's flags; both processors that we know are little-endian.
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        program.push(step(EQUAL, number(call), 0, 4));
        program.push(step(LOAD, 16 + 8 * flags, 0, 0));
        program.push(step(HAS, libc::MSG_FASTOPEN as u32, 0, 1));
        program.push(fails(libc::EOPNOTSUPP));
        program.push(allow);
    }
    program.push(allow);
    program
}

/// Puts the filter on this thread; the answer is its listener, which is closed at exec.
pub(super) fn install(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    if program.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let list = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let put = || {
        let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        // SAFETY: `list` and the program that it names outlive the call, which copies them.
        unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, std::ptr::from_ref(&list)) }
    };
    let mut given = put();
    if given < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES) {
        // SAFETY: no memory is passed.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        given = put();
    }
    match i32::try_from(given) {
        // SAFETY: the descriptor is new and ours alone.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
