//! A channel between two processes of ours: whole messages of limited length, each with at most one
//! descriptor (a pair of Unix sockets of type SOCK_SEQPACKET, unix(7)).
//!
//! The kernel keeps the bounds of messages, unlike in a stream: an untrusted peer cannot make this side wait
//! for the rest of one, and a message that is too long is detected. A descriptor is accepted only if the
//! reader wants one.

use crate::error::{SystemError, doing};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest message, bytes.
pub const MAX_MESSAGE: usize = 16 << 10;

/// The room for one descriptor beside a message, bytes.
const ONE_DESCRIPTOR: usize = rustix::cmsg_space!(ScmRights(1));

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
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let made = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        made.map(|(one, two)| (Channel(one), Channel(two))).map_err(doing("make a pair of sockets"))
    }

    /// The end that this process inherited from its parent.
    ///
    /// # Errors
    /// The descriptor is no such socket.
    pub fn inherited(fd: OwnedFd) -> Result<Channel, SystemError> {
        if sockopt::socket_type(&fd) != Ok(SocketType::SEQPACKET) {
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
        let mut space = [MaybeUninit::uninit(); ONE_DESCRIPTOR];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if fd.is_some() && !control.push(SendAncillaryMessage::ScmRights(fd.as_slice())) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message; `None`: the peer has closed. Without `wants_fd` the kernel closes a descriptor that
    /// comes with it.
    ///
    /// # Errors
    /// `WouldBlock`: there is no message; `InvalidData`: the message is too long.
    pub fn receive(&self, wants_fd: bool) -> io::Result<Option<ChannelMessage>> {
        let mut bytes = vec![0; MAX_MESSAGE];
        let mut space = [MaybeUninit::uninit(); ONE_DESCRIPTOR];
        let room = if wants_fd { &mut space[..] } else { &mut [] };
        let mut control = RecvAncillaryBuffer::new(room);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&self.0, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        // The room is for one; a descriptor that is not taken out is closed.
        let fd = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
        }
        bytes.truncate(got.bytes);
        Ok((got.bytes > 0).then_some(ChannelMessage { bytes, fd }))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> OwnedFd {
        channel.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;

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
