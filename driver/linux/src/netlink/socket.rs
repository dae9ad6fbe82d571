//! A route netlink socket: it sends a request and waits for its answer.
//!
//! The socket belongs to the network namespace of the thread that opened it, also when it is used elsewhere.
//! Dumps that the kernel interrupted (NLM_F_DUMP_INTR) or that overran (ENOBUFS) are repeated. Errors contain
//! the kernel's message (extended acknowledgement) if it sent one.

use super::message::{Attributes, HEADER, NetlinkMessage, NetlinkMessages, u32_at};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
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

    fn of(protocol: i32) -> Result<Socket> {
        let socket = Socket { fd: open_fd(libc::SOCK_CLOEXEC, protocol, 0)?, sequence: 0, buffer: vec![0; BUFFER] };
        // The kernel answers at once; a limit only keeps a broken one from hanging us.
        let limit = libc::timeval { tv_sec: 10, tv_usec: 0 };
        set_option(&socket.fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit)?;
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
            // SAFETY: `bytes` is valid for reads of its length during the call.
            let sent = unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
            if sent >= 0 {
                return Ok(self.sequence);
            }
            let error = Error::last(what);
            if error.errno != libc::EINTR {
                return Err(error);
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

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Opens a netlink socket bound to these multicast groups (a bit each), with `kind` flags added to SOCK_RAW.
pub(super) fn open_fd(kind: i32, protocol: i32, groups: u32) -> Result<OwnedFd> {
    const WHAT: &str = "open a netlink socket";
    // SAFETY: no pointers are passed; the result is checked before it is owned.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | kind, protocol) };
    if fd < 0 {
        return Err(Error::last(WHAT));
    }
    // SAFETY: `fd` was just returned by the kernel and nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all-zero is a valid `sockaddr_nl`.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    address.nl_groups = groups;
    let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: `address` is a valid `sockaddr_nl` of length `len` that outlives the call.
    if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } < 0 {
        return Err(Error::last(WHAT));
    }
    Ok(fd)
}

/// Receives one datagram from the kernel (datagrams of other senders are skipped).
pub(super) fn receive(fd: &OwnedFd, what: &'static str, buffer: &mut [u8]) -> Result<usize> {
    loop {
        // SAFETY: all-zero is a valid `sockaddr_nl`.
        let mut from: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        let (ptr, size) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: buffer and address are valid for writes of the lengths given, and outlive the call.
        let got =
            unsafe { libc::recvfrom(fd.as_raw_fd(), ptr, size, libc::MSG_TRUNC, (&raw mut from).cast(), &mut len) };
        if got < 0 {
            let error = Error::last(what);
            if error.errno == libc::EINTR {
                continue;
            }
            return Err(error);
        }
        let got = got as usize;
        if from.nl_pid != 0 {
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
