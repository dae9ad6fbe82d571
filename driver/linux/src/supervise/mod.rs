//! Calls of a program that wait for us: before it connects or accepts, we may look, prepare, and let it go on
//! (seccomp's user notification, seccomp_unotify(2)).
//!
//! A filter goes with the program and with all that it starts; it cannot be taken off. `connect`, `accept` and `accept4`
//! stop until they are answered. Ways around them are closed: `io_uring_setup` fails with ENOSYS, as on a kernel without
//! it, data in the first packet (MSG_FASTOPEN) with EOPNOTSUPP, and a program of another architecture is killed, because
//! its calls have other numbers. It is no fence against the program: one of its threads can change an address after it
//! was read, and then has what it would have had without us.
//!
//! When the [`Supervisor`] is gone, the stopped calls fail with ENOSYS, and so do later ones.

mod filter;
mod socket;

pub use socket::TargetSocket;

use crate::channel::Channel;
use crate::error::SystemError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The longest socket address that is read: `struct sockaddr_in6`, bytes.
const LONGEST: usize = size_of::<libc::sockaddr_in6>();

/// The parent's end of what a supervised program sends when it starts.
#[derive(Debug)]
pub struct Starting(Channel);

/// Makes the program that `command` starts, and all that it starts in turn, wait for us at its calls. Who lacks
/// CAP_SYS_ADMIN gives up gains by exec for it (PR_SET_NO_NEW_PRIVS): set-user-ID programs keep the user.
///
/// # Errors
/// No descriptors are left. What fails in the child is the error of `Command::spawn`: EBUSY if another process supervises this
/// process already, ENOSYS on a processor whose calls we do not know.
pub fn at_exec(command: &mut Command) -> Result<Starting, SystemError> {
    let (ours, theirs) = Channel::pair()?;
    let program = filter::program();
    // SAFETY: between fork and exec only `seccomp`, `prctl` and `sendmsg` are called, which are async-signal-safe;
    // nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            let listener = filter::install(&program)?;
            theirs.send(b"l", Some(listener.as_fd()))
        });
    }
    Ok(Starting(ours))
}

impl Starting {
    /// The supervisor, when `Command::spawn` has returned.
    ///
    /// # Errors
    /// The child did not send it.
    pub fn supervisor(self) -> Result<Supervisor, SystemError> {
        let what = "supervise the command";
        let message = self.0.receive(true).map_err(SystemError::doing(what))?;
        let listener = message.and_then(|message| message.fd);
        let missing = || SystemError::because(what, io::Error::other("it sent no descriptor"));
        listener.map(|listener| Supervisor { listener }).ok_or_else(missing)
    }
}

/// Answers the calls of a supervised program. Its descriptor is readable when a call waits, and has ended when no
/// supervised process is left.
#[derive(Debug)]
pub struct Supervisor {
    listener: OwnedFd,
}

/// A call that waits for our answer.
#[derive(Debug)]
pub struct Caught {
    id: u64,
    /// The thread, in our process namespace.
    thread: u32,
    call: CaughtCall,
    fd: i32,
    /// The caller's memory for an address, and its length or the place of its length.
    address: u64,
    length: u64,
}

/// The call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaughtCall {
    /// `connect`.
    Connect,
    /// `accept` or `accept4`, with the flags SOCK_NONBLOCK and SOCK_CLOEXEC.
    Accept {
        /// The new descriptor is non-blocking.
        nonblocking: bool,
        /// The new descriptor is closed at exec.
        cloexec: bool,
    },
}

impl Supervisor {
    /// The next call; `None`: none waits.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn next(&self) -> Result<Option<Caught>, SystemError> {
        // It would wait for one.
        if !self.state().contains(PollFlags::IN) {
            return Ok(None);
        }
        // SAFETY: all zeroes is a value of this plain structure, and what the kernel wants to find there.
        let mut found: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        if self.ioctl(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut found) < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => Ok(None),
                _ => Err(SystemError::because("read a call of the command", error)),
            };
        }
        let [fd, address, length, flags, ..] = found.data.args;
        // accept has no fourth argument.
        let flags = if i64::from(found.data.nr) == libc::SYS_accept4 { flags as i32 } else { 0 };
        let call = match i64::from(found.data.nr) {
            libc::SYS_connect => CaughtCall::Connect,
            _ => CaughtCall::Accept {
                nonblocking: flags & libc::SOCK_NONBLOCK != 0,
                cloexec: flags & libc::SOCK_CLOEXEC != 0,
            },
        };
        Ok(Some(Caught { id: found.id, thread: found.pid, call, fd: fd as i32, address, length }))
    }

    /// True if no supervised process is left.
    pub fn has_ended(&self) -> bool {
        self.state().contains(PollFlags::HUP)
    }

    fn state(&self) -> PollFlags {
        let mut one = [PollFd::new(&self.listener, PollFlags::IN)];
        match poll(&mut one, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) => one[0].revents(),
            Err(_) => PollFlags::empty(),
        }
    }

    /// True if the call still waits: its thread has neither ended nor been interrupted by a signal.
    pub fn waits(&self, caught: &Caught) -> bool {
        let mut id = caught.id;
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id) == 0
    }

    /// Lets the kernel carry the call out. A call that went meanwhile is no error, here and below.
    pub fn go_on(&self, caught: &Caught) {
        self.answer(caught, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    /// Makes the call fail with this errno.
    pub fn fail(&self, caught: &Caught, errno: i32) {
        self.answer(caught, -errno, 0);
    }

    /// Makes the call fail as a refused connection does: `connect` with ECONNREFUSED, `accept` with ECONNABORTED.
    pub fn refuse(&self, caught: &Caught) {
        let errno = if caught.call == CaughtCall::Connect { libc::ECONNREFUSED } else { libc::ECONNABORTED };
        self.fail(caught, errno);
    }

    /// Makes `accept` say that there is no connection (EAGAIN).
    pub fn nothing_yet(&self, caught: &Caught) {
        self.fail(caught, libc::EAGAIN);
    }

    fn answer(&self, caught: &Caught, error: i32, flags: u32) {
        let mut said = libc::seccomp_notif_resp { id: caught.id, val: 0, error, flags };
        // It fails only if the call has gone.
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut said);
    }

    /// Gives the caller a copy of `socket` as the result of its `accept`, with the peer's address. False: the call went,
    /// or its process can hold no more descriptors.
    pub fn give(&self, caught: &Caught, socket: &TargetSocket) -> bool {
        let CaughtCall::Accept { cloexec, .. } = caught.call else { return false };
        if caught.address != 0
            && let Some(peer) = socket.peer_as_is()
            && self.waits(caught)
        {
            // A wrong place for it is the caller's mistake, which the kernel answers with EFAULT; here it has no address.
            let _ = caught.write_address(peer);
        }
        let mut added = libc::seccomp_notif_addfd {
            id: caught.id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: socket.as_fd().as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if cloexec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut added) >= 0
    }

    /// The socket that the call is about; `None`: it is none of the caller's descriptors, or not ours to see.
    pub fn socket(&self, caught: &Caught) -> Option<TargetSocket> {
        let process = process_of(caught.thread)?;
        let handle = pidfd_open(process, PidfdFlags::empty()).ok()?;
        let fd = pidfd_getfd(&handle, caught.fd, PidfdGetfdFlags::empty()).ok()?;
        // The number was another process's, if the thread has ended since.
        self.waits(caught).then(|| TargetSocket::of(fd))
    }

    /// The address that `connect` names; `None`: of another family than IPv4 and IPv6, or not to be read.
    pub fn destination(&self, caught: &Caught) -> Option<SocketAddr> {
        let mut bytes = [0; LONGEST];
        let long = usize::try_from(caught.length).ok()?.min(LONGEST);
        let bytes = bytes.get_mut(..long)?;
        read_memory(caught.thread, caught.address, bytes)?;
        decode(bytes).filter(|_| self.waits(caught))
    }

    fn ioctl<T>(&self, number: libc::Ioctl, value: &mut T) -> i32 {
        // SAFETY: every caller passes the structure that belongs to the request, valid for reads and writes.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), number, std::ptr::from_mut(value)) }
    }
}

impl AsFd for Supervisor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Caught {
    /// The call.
    pub fn call(&self) -> CaughtCall {
        self.call
    }

    /// Writes an address where `accept` wants it, as much as there is room for (accept(2)).
    fn write_address(&self, address: SocketAddr) -> Option<()> {
        let bytes = encode(address);
        let mut room = [0; 4];
        read_memory(self.thread, self.length, &mut room)?;
        let room = usize::try_from(i32::from_ne_bytes(room)).ok()?.min(bytes.len());
        write_memory(self.thread, self.address, &bytes[..room])?;
        write_memory(self.thread, self.length, &(bytes.len() as u32).to_ne_bytes())
    }
}

/// The process of a thread.
fn process_of(thread: u32) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(line.trim().parse().ok()?)
}

/// Reads `struct sockaddr_in` or `sockaddr_in6` (ip(7), ipv6(7)).
fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match family {
        libc::AF_INET => {
            let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some((Ipv4Addr::from(ip), port).into())
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let scope = bytes.get(24..).and_then(|rest| rest.first_chunk()).map_or(0, |n| u32::from_ne_bytes(*n));
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
        }
        _ => None,
    }
}

fn encode(address: SocketAddr) -> Vec<u8> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u16;
    let mut bytes = family.to_ne_bytes().to_vec();
    bytes.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(four) => {
            bytes.extend(four.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(six) => {
            bytes.extend(six.flowinfo().to_ne_bytes());
            bytes.extend(six.ip().octets());
            bytes.extend(six.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// Reads all of `bytes` from another process's memory.
fn read_memory(thread: u32, place: u64, bytes: &mut [u8]) -> Option<()> {
    let (ours, theirs) = (vector(bytes.as_mut_ptr() as u64, bytes.len()), vector(place, bytes.len()));
    // SAFETY: `ours` is valid for writes of its length; the kernel checks the other process's addresses.
    let done = unsafe { libc::process_vm_readv(thread as i32, &ours, 1, &theirs, 1, 0) };
    (usize::try_from(done) == Ok(bytes.len())).then_some(())
}

fn write_memory(thread: u32, place: u64, bytes: &[u8]) -> Option<()> {
    let (ours, theirs) = (vector(bytes.as_ptr() as u64, bytes.len()), vector(place, bytes.len()));
    // SAFETY: `ours` is valid for reads of its length; the kernel checks the other process's addresses.
    let done = unsafe { libc::process_vm_writev(thread as i32, &ours, 1, &theirs, 1, 0) };
    (usize::try_from(done) == Ok(bytes.len())).then_some(())
}

fn vector(place: u64, len: usize) -> libc::iovec {
    libc::iovec { iov_base: place as usize as *mut libc::c_void, iov_len: len }
}

/// The address that packets to `to` would have as their source; `None`: there is no route.
pub fn source_towards(to: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // Nothing is sent: the kernel looks the route up.
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    socket.connect((to, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["10.0.0.1:80", "[fd00::1]:443", "[fe80::1%3]:1", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let bytes = encode(address);
            assert_eq!(decode(&bytes), Some(address));
            // A short one is none.
            assert_eq!(decode(&bytes[..7.min(bytes.len())]), None);
        }
        assert_eq!((decode(&[]), decode(&[1]), decode(&[1, 0, 0, 0, 0, 0, 0, 0])), (None, None, None));
    }
}
