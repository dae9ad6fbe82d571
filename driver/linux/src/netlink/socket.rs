//! A route netlink socket: it sends a request and waits for its answer.
//!
//! The socket belongs to the network namespace of the thread that opened it, also when it is used elsewhere.
//! Dumps that the kernel interrupted (NLM_F_DUMP_INTR) or that overran (ENOBUFS) are repeated. Errors contain
//! the kernel's message (extended acknowledgement) if it sent one.

use super::message::{Attributes, HEADER, NetlinkMessage, NetlinkMessages, u32_at};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RawProtocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, send,
    socket_with, sockopt,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use terms::Fault;

/// A refused request, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The attempted operation.
    pub what: &'static str,
    /// errno.
    pub errno: i32,
    /// The kernel's message, if it sent one.
    pub text: Option<String>,
}

/// Result of a netlink request.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with the errno of the last system call.
    pub fn last(what: &'static str) -> Error {
        Error { what, errno: io::Error::last_os_error().raw_os_error().unwrap_or(0), text: None }
    }

    fn of(what: &'static str, errno: Errno) -> Error {
        Error { what, errno: errno.raw_os_error(), text: None }
    }

    /// An error for an answer that violates the kernel's format.
    pub fn strange(what: &'static str) -> Error {
        Error { what, errno: libc::EPROTO, text: None }
    }

    /// True if the object of the request does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self.errno, libc::ENOENT | libc::ENODEV | libc::ESRCH | libc::ENXIO)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, io::Error::from_raw_os_error(self.errno))?;
        match &self.text {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault { what: error.what, code: error.errno }
    }
}

/// A message of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// Type.
    pub ty: u16,
    /// Family header and attributes.
    pub body: Vec<u8>,
}

/// A route netlink socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// The most attempts at a dump before the error EBUSY.
const DUMP_TRIES: usize = 16;
/// The longest datagram that is read, bytes; the kernel sends at most 32 KiB.
const BUFFER: usize = 1 << 16;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;

enum End {
    Done,
    Again,
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    pub fn open() -> Result<Socket> {
        Socket::of(libc::NETLINK_ROUTE)
    }

    /// The same for families that are looked up by name (generic netlink).
    pub(super) fn generic() -> Result<Socket> {
        Socket::of(libc::NETLINK_GENERIC)
    }

    /// The same for lists of sockets (sock_diag(7)).
    pub(super) fn diag() -> Result<Socket> {
        Socket::of(libc::NETLINK_SOCK_DIAG)
    }

    fn of(protocol: i32) -> Result<Socket> {
        let socket = Socket { fd: open_fd(SocketFlags::CLOEXEC, protocol, 0)?, sequence: 0, buffer: vec![0; BUFFER] };
        // The kernel answers at once; a limit only keeps a broken one from hanging us.
        sockopt::set_socket_timeout(&socket.fd, sockopt::Timeout::Recv, Some(Duration::from_secs(10)))
            .map_err(|error| Error::of("set a netlink socket option", error))?;
        set_option(&socket.fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &(4i32 << 20)).ok();
        set_option(&socket.fd, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &1i32).ok();
        Ok(socket)
    }

    /// Sends a request and waits for its acknowledgement.
    pub fn request(&mut self, what: &'static str, message: NetlinkMessage) -> Result<()> {
        self.exchange(what, message, libc::NLM_F_ACK as u16).map(|_| ())
    }

    /// Sends a request whose answer is one message, such as RTM_GETROUTE.
    pub fn get(&mut self, what: &'static str, message: NetlinkMessage) -> Result<Reply> {
        let replies = self.exchange(what, message, libc::NLM_F_ACK as u16)?;
        replies.into_iter().next().ok_or(Error { what, errno: libc::ENOENT, text: None })
    }

    /// Sends a request and collects all messages of the answer. An interrupted dump is repeated.
    pub fn dump(&mut self, what: &'static str, message: NetlinkMessage) -> Result<Vec<Reply>> {
        for _ in 0..DUMP_TRIES {
            let sequence = self.send(what, message.clone(), (libc::NLM_F_DUMP | libc::NLM_F_ACK) as u16)?;
            let mut replies = Vec::new();
            match self.collect(what, sequence, true, &mut replies) {
                Ok(End::Done) => return Ok(replies),
                Ok(End::Again) => {}
                Err(error) if error.errno == libc::ENOBUFS || error.errno == libc::EINTR => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error { what, errno: libc::EBUSY, text: Some("the dump was interrupted every time".into()) })
    }

    fn exchange(&mut self, what: &'static str, message: NetlinkMessage, flags: u16) -> Result<Vec<Reply>> {
        let sequence = self.send(what, message, flags)?;
        let mut replies = Vec::new();
        self.collect(what, sequence, false, &mut replies)?;
        Ok(replies)
    }

    fn send(&mut self, what: &'static str, message: NetlinkMessage, flags: u16) -> Result<u32> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let bytes = message.finish(self.sequence, flags);
        loop {
            match send(&self.fd, &bytes, SendFlags::empty()) {
                Ok(_) => return Ok(self.sequence),
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::of(what, error)),
            }
        }
    }

    /// Reads up to the acknowledgement of `sequence`, or the end of its dump.
    fn collect(&mut self, what: &'static str, sequence: u32, dump: bool, out: &mut Vec<Reply>) -> Result<End> {
        let mut interrupted = false;
        loop {
            let len = receive(&self.fd, what, &mut self.buffer)?;
            for view in NetlinkMessages::new(&self.buffer[..len]) {
                if view.sequence != sequence {
                    continue; // the rest of an answer that was given up
                }
                interrupted |= dump && view.flags & libc::NLM_F_DUMP_INTR as u16 != 0;
                match i32::from(view.ty) {
                    libc::NLMSG_ERROR => {
                        verdict(what, view.body, view.flags)?;
                        return Ok(if interrupted { End::Again } else { End::Done });
                    }
                    libc::NLMSG_DONE => {
                        let errno = u32_at(view.body, 0).unwrap_or(0) as i32;
                        if errno < 0 {
                            return Err(Error { what, errno: errno.saturating_neg(), text: None });
                        }
                        return Ok(if interrupted { End::Again } else { End::Done });
                    }
                    libc::NLMSG_NOOP => {}
                    libc::NLMSG_OVERRUN => return Err(Error { what, errno: libc::ENOBUFS, text: None }),
                    _ => out.push(Reply { ty: view.ty, body: view.body.to_vec() }),
                }
            }
        }
    }
}

/// Opens a netlink socket bound to these multicast groups (a bit each), of type SOCK_RAW.
pub(super) fn open_fd(flags: SocketFlags, protocol: i32, groups: u32) -> Result<OwnedFd> {
    let refused = |error| Error::of("open a netlink socket", error);
    let protocol = RawProtocol::new(protocol as u32).map(Protocol::from_raw);
    let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol).map_err(refused)?;
    bind(&fd, &SocketAddrNetlink::new(0, groups)).map_err(refused)?;
    Ok(fd)
}

/// Receives one datagram from the kernel (datagrams of other senders are skipped).
pub(super) fn receive(fd: &OwnedFd, what: &'static str, buffer: &mut [u8]) -> Result<usize> {
    loop {
        let (got, from) = match recvfrom(fd, &mut *buffer, RecvFlags::TRUNC) {
            Ok((_, got, from)) => (got, from),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(Error::of(what, error)),
        };
        let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
        if from.is_none_or(|from| from.pid() != 0) {
            continue;
        }
        if got > buffer.len() {
            return Err(Error { what, errno: libc::ENOBUFS, text: None });
        }
        return Ok(got);
    }
}

fn set_option<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for reads of `len` bytes during the call.
    let rc = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len) };
    if rc < 0 { Err(Error::last("set a netlink socket option")) } else { Ok(()) }
}

/// Reads NLMSG_ERROR: errno, the request (or only its header), attributes.
pub(super) fn verdict(what: &'static str, body: &[u8], flags: u16) -> Result<()> {
    let errno = u32_at(body, 0).ok_or(Error::strange(what))? as i32;
    if errno == 0 {
        return Ok(());
    }
    let request = if flags & NLM_F_CAPPED != 0 {
        HEADER
    } else {
        u32_at(body, 4).map_or(HEADER, |len| (len as usize).max(HEADER)).min(body.len())
    };
    let text = match flags & NLM_F_ACK_TLVS {
        0 => None,
        _ => Attributes::after(body, 4 + request).string(NLMSGERR_ATTR_MSG),
    };
    Err(Error { what, errno: errno.saturating_neg(), text })
}
