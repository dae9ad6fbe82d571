//! A channel between two processes of ours: whole messages of limited length, each with at most one
//! descriptor (a pair of Unix sockets of type SOCK_SEQPACKET, unix(7)).
//!
//! The kernel keeps the bounds of messages, unlike in a stream: an untrusted peer cannot make this side wait
//! for the rest of one, and a message that is too long is detected. A descriptor is accepted only if the
//! reader wants one.

use crate::error::SystemError;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The longest message, bytes.
pub const MAX_MESSAGE: usize = 16 << 10;

/// One end of a channel.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A message that was received.
#[derive(Debug)]
pub struct ChannelMessage {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The descriptor that came with them, if one was wanted.
    pub fd: Option<OwnedFd>,
}

impl Channel {
    /// Both ends of a new channel; they are non-blocking and not inherited.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn pair() -> Result<(Channel, Channel), SystemError> {
        let mut fds = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: `fds` has room for the two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
            return Err(SystemError::last("make a pair of sockets"));
        }
        // SAFETY: the kernel just gave us both and nobody else has them.
        let [one, two] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok((Channel(one), Channel(two)))
    }

    /// The end that this process inherited from its parent.
    ///
    /// # Errors
    /// The descriptor is no such socket.
    pub fn inherited(fd: OwnedFd) -> Result<Channel, SystemError> {
        let mut kind: libc::c_int = 0;
        let mut size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: `kind` is as large as `size` says and outlives the call; the descriptor is open.
        let rc = unsafe {
            let value = std::ptr::from_mut(&mut kind).cast();
            libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TYPE, value, &mut size)
        };
        if rc != 0 || kind != libc::SOCK_SEQPACKET {
            let what = "it is no channel: this command is started by another of ours, never by hand";
            return Err(SystemError::because("use the inherited socket", io::Error::other(what)));
        }
        Ok(Channel(fd))
    }

    /// Sends a message, with a descriptor if given.
    ///
    /// # Errors
    /// `WouldBlock`: the peer has not read earlier messages; `InvalidInput`: the message is empty or too
    /// long; the peer has closed.
    pub fn send(&self, bytes: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if bytes.is_empty() || bytes.len() > MAX_MESSAGE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control::default();
        // SAFETY: all-zero is a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
        if let Some(fd) = fd {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = space() as _;
            // SAFETY: `control` is aligned and large enough for one header and one descriptor.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
                libc::CMSG_DATA(first).cast::<RawFd>().write_unaligned(fd.as_raw_fd());
            }
        }
        // SAFETY: everything that `header` names outlives the call; `sendmsg` writes to none of it.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &header, libc::MSG_NOSIGNAL) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next message; `None`: the peer has closed. Without `wants_fd` the kernel closes a descriptor that
    /// comes with it.
    ///
    /// # Errors
    /// `WouldBlock`: there is no message; `InvalidData`: the message is too long.
    pub fn receive(&self, wants_fd: bool) -> io::Result<Option<ChannelMessage>> {
        let mut bytes = vec![0; MAX_MESSAGE];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = Control::default();
        // SAFETY: all-zero is a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
        if wants_fd {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = space() as _;
        }
        // SAFETY: everything that `header` names outlives the call and is as large as it says.
        let got = unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        let fd = if wants_fd { taken(&header) } else { None };
        if header.msg_flags & libc::MSG_TRUNC != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
        }
        bytes.truncate(got);
        Ok((got > 0).then_some(ChannelMessage { bytes, fd }))
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> OwnedFd {
        channel.0
    }
}

/// A buffer for one descriptor, aligned as its header must be.
#[derive(Default)]
struct Control([u64; 4]);

/// The length of a header with one descriptor, bytes.
fn space() -> usize {
    // SAFETY: plain arithmetic.
    let bytes = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as usize;
    bytes.min(size_of::<Control>())
}

/// The descriptor of a message; the buffer has room for only one.
fn taken(header: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: the kernel filled the control buffer, which is still there, up to the length that it wrote; a descriptor in it is ours
    // alone.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        let is_one = !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_RIGHTS
            && (*first).cmsg_len as usize >= libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
        is_one.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(first).cast::<RawFd>().read_unaligned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn messages_keep_their_bounds_and_bring_a_descriptor_where_it_is_wanted() {
        let (one, two) = Channel::pair().unwrap();
        assert_eq!(two.receive(true).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let file = File::open("/proc/self/stat").unwrap();
        one.send(b"first", None).unwrap();
        one.send(b"second", Some(file.as_fd())).unwrap();
        one.send(b"third", Some(file.as_fd())).unwrap();
        let first = two.receive(true).unwrap().unwrap();
        assert!(first.bytes == b"first" && first.fd.is_none());
        let second = two.receive(true).unwrap().unwrap();
        let mut text = String::new();
        File::from(second.fd.expect("a descriptor")).read_to_string(&mut text).unwrap();
        assert!(second.bytes == b"second" && text.starts_with(&std::process::id().to_string()), "{text}");
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        assert!(two.receive(false).unwrap().unwrap().fd.is_none());
        assert!(open() <= before, "what is not wanted is not kept");
        for wrong in [&[][..], &[0; MAX_MESSAGE + 1]] {
            assert_eq!(one.send(wrong, None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        drop(one);
        assert!(two.receive(true).unwrap().is_none(), "the other side has gone");
        let stray = std::os::unix::net::UnixStream::pair().unwrap().0;
        assert!(Channel::inherited(stray.into()).is_err());
    }
}
