//! The kinds of system calls whose failures are tried, the calls of each kind, and the errors that the kernel
//! has for them.

/// The kinds of system calls that can fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CallKind {
    /// Writing to a regular file: write, writev, pwrite64, pwritev, ftruncate, fallocate.
    Write,
    /// fsync and fdatasync.
    Sync,
    /// Opening a file.
    Open,
    /// Renaming a file.
    Rename,
    /// Making a descriptor other than a file's: socket, accept, eventfd, timerfd, epoll, pipe, memfd, fcntl's
    /// copy.
    Descriptor,
    /// Sending a netlink message to the kernel.
    Netlink,
}

impl CallKind {
    /// All kinds.
    pub const ALL: [CallKind; 6] =
        [CallKind::Write, CallKind::Sync, CallKind::Open, CallKind::Rename, CallKind::Descriptor, CallKind::Netlink];

    /// The errors that the kernel gives for calls of this kind.
    pub fn errors(self) -> &'static [(&'static str, i32)] {
        match self {
            CallKind::Write => {
                &[("ENOSPC", libc::ENOSPC), ("EIO", libc::EIO), ("EROFS", libc::EROFS), ("EDQUOT", libc::EDQUOT)]
            }
            CallKind::Sync => &[("EIO", libc::EIO), ("ENOSPC", libc::ENOSPC), ("EDQUOT", libc::EDQUOT)],
            CallKind::Open => &[
                ("EMFILE", libc::EMFILE),
                ("EINTR", libc::EINTR),
                ("ENOSPC", libc::ENOSPC),
                ("ENFILE", libc::ENFILE),
                ("EIO", libc::EIO),
            ],
            CallKind::Rename => {
                &[("ENOSPC", libc::ENOSPC), ("EIO", libc::EIO), ("EROFS", libc::EROFS), ("EDQUOT", libc::EDQUOT)]
            }
            CallKind::Descriptor => &[
                ("EMFILE", libc::EMFILE),
                ("ENOBUFS", libc::ENOBUFS),
                ("ENFILE", libc::ENFILE),
                ("ENOMEM", libc::ENOMEM),
            ],
            CallKind::Netlink => &[("ENOBUFS", libc::ENOBUFS), ("EINTR", libc::EINTR), ("ENOMEM", libc::ENOMEM)],
        }
    }

    /// True for an error of the kernel's that lasts until an operator acts: a full disk or quota, or a
    /// read-only disk.
    pub fn lasts(error: i32) -> bool {
        [libc::ENOSPC, libc::EDQUOT, libc::EROFS].contains(&error)
    }

    /// The kind of a system call, by its number.
    pub(super) fn of(call: libc::c_int) -> Option<CallKind> {
        CALLS.iter().find(|(number, _)| *number == libc::c_long::from(call)).map(|(_, kind)| *kind)
    }
}

/// The system calls of each kind; for netlink, and for copies of descriptors, the arguments are checked too.
pub(super) const CALLS: [(libc::c_long, CallKind); 27] = [
    (libc::SYS_write, CallKind::Write),
    (libc::SYS_writev, CallKind::Write),
    (libc::SYS_pwrite64, CallKind::Write),
    (libc::SYS_pwritev, CallKind::Write),
    (libc::SYS_pwritev2, CallKind::Write),
    (libc::SYS_ftruncate, CallKind::Write),
    (libc::SYS_fallocate, CallKind::Write),
    (libc::SYS_fsync, CallKind::Sync),
    (libc::SYS_fdatasync, CallKind::Sync),
    (libc::SYS_openat, CallKind::Open),
    (libc::SYS_openat2, CallKind::Open),
    (libc::SYS_renameat2, CallKind::Rename),
    (libc::SYS_renameat, CallKind::Rename),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, CallKind::Rename),
    #[cfg(not(target_arch = "x86_64"))]
    (-1, CallKind::Rename),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, CallKind::Open),
    #[cfg(not(target_arch = "x86_64"))]
    (-1, CallKind::Open),
    (libc::SYS_socket, CallKind::Descriptor),
    (libc::SYS_socketpair, CallKind::Descriptor),
    (libc::SYS_accept, CallKind::Descriptor),
    (libc::SYS_accept4, CallKind::Descriptor),
    (libc::SYS_eventfd2, CallKind::Descriptor),
    (libc::SYS_timerfd_create, CallKind::Descriptor),
    (libc::SYS_epoll_create1, CallKind::Descriptor),
    (libc::SYS_pipe2, CallKind::Descriptor),
    (libc::SYS_memfd_create, CallKind::Descriptor),
    (libc::SYS_fcntl, CallKind::Descriptor),
    (libc::SYS_sendto, CallKind::Netlink),
    (libc::SYS_sendmsg, CallKind::Netlink),
];
