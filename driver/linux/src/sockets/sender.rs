//! Sending messages: they wait in a buffer until [`MessageSender::flush`] passes whole batches to the kernel.

use super::raw::{self, Control, SocketAddress};
use super::{BATCH, Outgoing, PROTOCOL_RSVP, QUEUE_BYTES};
use crate::error::SystemError;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use terms::IfIndex;
use wire::ip::{self, Header};

/// CS6, network control (RFC 4594 section 3.1): the whole octet, code point and ECN.
const NETWORK_CONTROL: u8 = 0xc0;
/// The length of the buffer at which it is flushed before another message is added, bytes.
const MOST_WAITING: usize = 1 << 20;

/// The sending sockets and their buffer.
#[derive(Debug)]
pub struct MessageSender {
    v4: OwnedFd,
    v6: Option<OwnedFd>,
    /// The waiting packets, one after the other.
    pub(super) bytes: Vec<u8>,
    pub(super) waiting: Vec<Waiting>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub end: usize,
    pub oif: Option<IfIndex>,
    pub dst: IpAddr,
}

impl MessageSender {
    /// Opens the sockets in the network namespace of this thread.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or a socket option is not supported.
    pub fn open() -> Result<MessageSender, SystemError> {
        let v4 = raw::socket(libc::AF_INET, libc::IPPROTO_RAW)?;
        raw::set(&v4, libc::IPPROTO_IP, libc::IP_HDRINCL, 1, "IP_HDRINCL")?;
        // Local receivers of a group hear of its senders from us, not from the wire.
        raw::set(&v4, libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0, "IP_MULTICAST_LOOP")?;
        raw::set(&v4, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, QUEUE_BYTES, "SO_SNDBUFFORCE")?;
        let v6 = raw::socket_v6(libc::IPPROTO_RAW)?;
        if let Some(v6) = &v6 {
            raw::set(v6, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, 0, "IPV6_MULTICAST_LOOP")?;
            raw::set(v6, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, QUEUE_BYTES, "SO_SNDBUFFORCE")?;
        }
        Ok(MessageSender { v4, v6, bytes: Vec::new(), waiting: Vec::new() })
    }

    /// Adds a message to the buffer for [`MessageSender::flush`]; flushes first if the buffer is full. `lost`
    /// gets an error for each message that cannot be sent.
    pub fn push(&mut self, message: &Outgoing<'_>, mut lost: impl FnMut(SystemError)) {
        self.make_room(&mut lost);
        let Outgoing { oif, src, dst, ttl, router_alert, bytes } = *message;
        let header = Header { src, dst, protocol: PROTOCOL_RSVP, ttl, tos: NETWORK_CONTROL, router_alert };
        if ip::append(&mut self.bytes, &header, bytes).is_err() {
            return lost(failed(dst, io::Error::from_raw_os_error(libc::EMSGSIZE)));
        }
        self.waiting.push(Waiting { end: self.bytes.len(), oif, dst });
    }

    /// Flushes the buffer if it is full.
    pub(super) fn make_room(&mut self, lost: impl FnMut(SystemError)) {
        if self.bytes.len() >= MOST_WAITING {
            self.flush(lost);
        }
    }

    /// The number of waiting messages.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Passes all waiting messages to the kernel, in order, and empties the buffer. `lost` gets an error for
    /// each that the kernel refused: no route, too long for the interface (messages are never fragmented), or
    /// a full queue.
    pub fn flush(&mut self, mut lost: impl FnMut(SystemError)) {
        let mut next = 0;
        while let Some(first) = self.waiting.get(next) {
            let v6 = first.dst.is_ipv6();
            let run = self.waiting[next..].iter().take(BATCH).take_while(|w| w.dst.is_ipv6() == v6).count();
            let start = next.checked_sub(1).map_or(0, |before| self.waiting[before].end);
            match self.give(v6, start, &self.waiting[next..next + run]) {
                Ok(taken) => next += taken.max(1),
                // The error is the first message's; the others have not been tried.
                Err(error) => {
                    lost(failed(first.dst, error));
                    next += 1;
                }
            }
        }
        self.waiting.clear();
        self.bytes.clear();
    }

    /// Makes one system call; returns the number of messages that the kernel accepted.
    fn give(&self, v6: bool, mut start: usize, messages: &[Waiting]) -> io::Result<usize> {
        let socket = if v6 { self.v6.as_ref() } else { Some(&self.v4) };
        let socket = socket.ok_or(io::ErrorKind::Unsupported)?;
        let mut names = [SocketAddress::none(); BATCH];
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        let mut controls: [Control; BATCH] = [Default::default(); BATCH];
        // SAFETY: all-zero is a valid mmsghdr (null pointers, zero lengths).
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let count = messages.len().min(BATCH);
        for (i, message) in messages.iter().take(BATCH).enumerate() {
            let packet = &self.bytes[start..message.end];
            start = message.end;
            names[i] = SocketAddress::of(message.dst);
            vectors[i] = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
            let header = &mut headers[i].msg_hdr;
            header.msg_name = std::ptr::from_mut(&mut names[i]).cast();
            header.msg_namelen = SocketAddress::len(v6);
            header.msg_iov = &mut vectors[i];
            header.msg_iovlen = 1;
            if let Some(oif) = message.oif {
                header.msg_controllen = raw::leave_by(&mut controls[i], oif, v6) as _;
                header.msg_control = controls[i].as_mut_ptr().cast();
            }
        }
        // SAFETY: everything that the first `count` headers point to outlives the call, and sendmmsg only reads it.
        let n = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
    }
}

fn failed(dst: IpAddr, error: io::Error) -> SystemError {
    SystemError::because(format!("send a message to {dst}"), error)
}
