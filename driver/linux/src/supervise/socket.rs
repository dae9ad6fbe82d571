//! A socket of a supervised program, which we hold too. While we do, the program's `close` does not end its connection.

use crate::error::SystemError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType, accept_with, bind, getpeername, getsockname, sockopt};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// IPPROTO_TCP, and IPPROTO_MPTCP, whose packets are TCP's.
const TCP: [i32; 2] = [6, 262];

/// A socket of the program.
#[derive(Debug)]
pub struct TargetSocket(OwnedFd);

impl TargetSocket {
    pub(super) fn of(fd: OwnedFd) -> TargetSocket {
        TargetSocket(fd)
    }

    /// True for a TCP socket.
    pub fn is_tcp(&self) -> bool {
        let protocol = sockopt::socket_protocol(&self.0).ok().flatten();
        sockopt::socket_type(&self.0) == Ok(SocketType::STREAM)
            && protocol.is_some_and(|protocol| TCP.contains(&(protocol.as_raw().get() as i32)))
            && matches!(sockopt::socket_domain(&self.0), Ok(family) if [libc::AF_INET, libc::AF_INET6].contains(&i32::from(family.as_raw())))
    }

    /// True if its calls never wait.
    pub fn is_nonblocking(&self) -> bool {
        fcntl_getfl(&self.0).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
    }

    /// Lets it send at most this many bytes of payload a second, evenly spaced.
    ///
    /// # Errors
    /// The kernel does not support it.
    pub fn pace(&self, bytes_per_s: u64) -> Result<(), SystemError> {
        crate::tcp::pace(&self.0, bytes_per_s)
    }

    /// The kernel's number for the socket, the same for all its descriptors (SO_COOKIE).
    pub fn cookie(&self) -> u64 {
        sockopt::socket_cookie(&self.0).unwrap_or(0)
    }

    /// Its own address; one of IPv4 is written as such, whatever the socket's family.
    pub fn local(&self) -> Option<SocketAddr> {
        getsockname(&self.0).ok().and_then(|address| SocketAddr::try_from(address).ok()).map(plain)
    }

    /// The peer's address, in the same way; `None`: it has none.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer_as_is().map(plain)
    }

    /// The peer's address in the socket's family.
    pub(super) fn peer_as_is(&self) -> Option<SocketAddr> {
        getpeername(&self.0).ok().flatten().and_then(|address| SocketAddr::try_from(address).ok())
    }

    /// Gives a socket that is about to connect its address, and a port of the kernel's choice.
    ///
    /// # Errors
    /// The errno of bind(2).
    pub fn bind_to(&self, source: IpAddr) -> Result<(), i32> {
        let is_six = sockopt::socket_domain(&self.0).is_ok_and(|family| i32::from(family.as_raw()) == libc::AF_INET6);
        let source = match source {
            IpAddr::V4(four) if is_six => four.to_ipv6_mapped().into(),
            other => other,
        };
        bind(&self.0, &SocketAddr::new(source, 0)).map_err(|error| error.raw_os_error())
    }

    /// The next connection of a listening socket; `None`: none is there. It never waits, if only we accept.
    ///
    /// # Errors
    /// The errno of accept(2).
    pub fn accept(&self, nonblocking: bool) -> Result<Option<TargetSocket>, i32> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        if matches!(poll(&mut ready, Some(&at_once)), Ok(0) | Err(_)) {
            return Ok(None);
        }
        let flags = if nonblocking { SocketFlags::NONBLOCK } else { SocketFlags::empty() };
        match accept_with(&self.0, flags | SocketFlags::CLOEXEC) {
            Ok(fd) => Ok(Some(TargetSocket(fd))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.raw_os_error()),
        }
    }

    /// Ends a connection that only we hold with a reset, so that the peer knows at once.
    pub fn reset(self) {
        // Without it the peer sees an end instead.
        let _ = sockopt::set_socket_linger(&self.0, Some(std::time::Duration::ZERO));
    }
}

impl AsFd for TargetSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An address of IPv4 inside IPv6 as one of IPv4.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
