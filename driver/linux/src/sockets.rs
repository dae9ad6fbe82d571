//! RSVP over raw IPv4 sockets (RFC 2205 section 3.1 and 3.9, RFC 2113 for the Router Alert option).
//!
//! One socket of protocol 46 with `IP_ROUTER_ALERT` gets both the messages addressed to this node and those in
//! transit that carry the option; the latter are *consumed*: the kernel does not forward them, so a listener that
//! hangs makes a hole. Hence the socket never blocks and is closed on shutdown. Another one sends with our own IP
//! header, because Path and PathTear keep the sender's source address.
//!
//! IPv6 needs other sockets (`IPV6_ROUTER_ALERT` on `IPPROTO_RAW`) and comes with IPv6 sessions.

use crate::error::Failed;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use terms::IfIndex;
use wire::ip::Ipv4;

/// RSVP's IP protocol number.
pub const PROTOCOL_RSVP: u8 = 46;

/// At most so many messages are taken from the kernel at once.
const BATCH: usize = 16;
/// The largest IPv4 packet.
const LARGEST: usize = 65_535;
/// Room for IP_PKTINFO's control message, with its alignment.
const CONTROL: usize = 64;
/// What may wait in the kernel: about 10,000 messages of usual size.
const QUEUE_BYTES: i32 = 8 << 20;

/// A message as it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// Where.
    pub iif: IfIndex,
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// TTL as received.
    pub ttl: u8,
    /// The RSVP message: what follows the IP header.
    pub bytes: &'a [u8],
}

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing<'a> {
    /// Out of here; `None`: by the routing table.
    pub oif: Option<IfIndex>,
    /// IP source; need not be ours.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// TTL.
    pub ttl: u8,
    /// Whether every router on the way shall look at it.
    pub router_alert: bool,
    /// The RSVP message.
    pub bytes: &'a [u8],
}

/// The sockets of one node.
pub struct RsvpSockets {
    receive: OwnedFd,
    send: OwnedFd,
    buffers: Vec<u8>,
}

impl RsvpSockets {
    /// Opens them in the network namespace of this thread.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or another option is not to be had.
    pub fn open() -> Result<RsvpSockets, Failed> {
        let receive = raw_socket(PROTOCOL_RSVP.into())?;
        set(&receive, libc::IPPROTO_IP, libc::IP_ROUTER_ALERT, 1, "IP_ROUTER_ALERT")?;
        set(&receive, libc::IPPROTO_IP, libc::IP_PKTINFO, 1, "IP_PKTINFO")?;
        set(&receive, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, QUEUE_BYTES, "SO_RCVBUFFORCE")?;
        let send = raw_socket(libc::IPPROTO_RAW)?;
        set(&send, libc::IPPROTO_IP, libc::IP_HDRINCL, 1, "IP_HDRINCL")?;
        Ok(RsvpSockets { receive, send, buffers: vec![0; BATCH * LARGEST] })
    }

    /// Takes what has come, at most one batch, and shows each message to `each`. Returns whether there may be more.
    ///
    /// # Errors
    /// The kernel broke. What is no whole IPv4 packet is passed over.
    pub fn receive(&mut self, mut each: impl FnMut(Received<'_>)) -> Result<bool, Failed> {
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: LARGEST }; BATCH];
        for (vector, buffer) in vectors.iter_mut().zip(self.buffers.chunks_exact_mut(LARGEST)) {
            vector.iov_base = buffer.as_mut_ptr().cast();
        }
        let mut controls = [[0u64; CONTROL / 8]; BATCH];
        // SAFETY: all-zero is a valid mmsghdr (null pointers, zero lengths).
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((header, vector), control) in headers.iter_mut().zip(&mut vectors).zip(&mut controls) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
        let (fd, none) = (self.receive.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: BATCH headers, each with a buffer and control space that outlive the call and are used by no one else.
        let n = unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), BATCH as u32, libc::MSG_DONTWAIT, none) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(Failed::because("receive RSVP messages", error)),
            };
        }
        let n = n as usize;
        for (header, buffer) in headers[..n].iter().zip(self.buffers.chunks_exact(LARGEST)) {
            let packet = &buffer[..(header.msg_len as usize).min(LARGEST)];
            if let (Some(iif), Some(message)) = (interface_of(&header.msg_hdr), parse(packet)) {
                each(Received { iif, ..message });
            }
        }
        Ok(n == BATCH)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// No route, too long for the interface (messages are never cut), or the interface's queue is full.
    pub fn send(&self, message: &Outgoing<'_>) -> Result<(), Failed> {
        let what = || format!("send an RSVP message to {}", message.dst);
        let (IpAddr::V4(_), IpAddr::V4(dst)) = (message.src, message.dst) else {
            return Err(Failed::because(what(), io::ErrorKind::Unsupported.into()));
        };
        let Some(packet) = packet(message) else {
            return Err(Failed::because(what(), io::Error::from_raw_os_error(libc::EMSGSIZE)));
        };
        send_from(&self.send, message.oif, dst, &packet).map_err(Failed::doing(what()))
    }
}

impl AsRawFd for RsvpSockets {
    /// The one to wait on for reading.
    fn as_raw_fd(&self) -> RawFd {
        self.receive.as_raw_fd()
    }
}

impl std::fmt::Debug for RsvpSockets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RsvpSockets").field("receive", &self.receive).field("send", &self.send).finish_non_exhaustive()
    }
}

fn raw_socket(protocol: i32) -> Result<OwnedFd, Failed> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, protocol) };
    if fd < 0 {
        return Err(Failed::last("open a raw socket"));
    }
    // SAFETY: the kernel just gave us this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set(socket: &OwnedFd, level: i32, option: i32, value: i32, name: &str) -> Result<(), Failed> {
    let size = size_of::<i32>() as libc::socklen_t;
    let pointer = std::ptr::from_ref(&value).cast();
    // SAFETY: the value is `size` bytes long and outlives the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, size) } {
        0 => Ok(()),
        _ => Err(Failed::last(format!("set {name} on a raw socket"))),
    }
}

/// The interface that IP_PKTINFO names.
fn interface_of(header: &libc::msghdr) -> Option<IfIndex> {
    // SAFETY: the kernel filled the control space and its length in; the walk stays inside them.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = control.as_ref() {
            if found.cmsg_level == libc::IPPROTO_IP && found.cmsg_type == libc::IP_PKTINFO {
                let pktinfo = libc::CMSG_DATA(control).cast::<libc::in_pktinfo>().read_unaligned();
                return u32::try_from(pktinfo.ipi_ifindex).ok().map(IfIndex);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

/// The message in a packet; the interface is not in it.
fn parse(packet: &[u8]) -> Option<Received<'_>> {
    let packet = Ipv4::parse(packet).ok().filter(|packet| packet.protocol == PROTOCOL_RSVP)?;
    let (src, dst) = (IpAddr::V4(packet.src), IpAddr::V4(packet.dst));
    Some(Received { iif: IfIndex(0), src, dst, ttl: packet.ttl, bytes: packet.payload })
}

/// The packet; the kernel fills in its identification and checksum. `None` if it would be too long.
fn packet(message: &Outgoing<'_>) -> Option<Vec<u8>> {
    /// CS6, network control (RFC 4594 section 3.1): the whole octet, code point and ECN.
    const NETWORK_CONTROL: u8 = 0xc0;
    let Outgoing { src, dst, ttl, router_alert, bytes, .. } = *message;
    let mut packet = wire::ip::packet(src, dst, PROTOCOL_RSVP, ttl, router_alert, bytes).ok()?;
    *packet.get_mut(1)? = NETWORK_CONTROL;
    Some(packet)
}

fn send_from(socket: &OwnedFd, oif: Option<IfIndex>, dst: Ipv4Addr, packet: &[u8]) -> io::Result<()> {
    // SAFETY: all-zero is a valid sockaddr_in.
    let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    to.sin_family = libc::AF_INET as libc::sa_family_t;
    to.sin_addr.s_addr = u32::from(dst).to_be();
    let mut vector = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
    let mut control = [0u64; CONTROL / 8];
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = std::ptr::from_mut(&mut to).cast();
    header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    if let Some(IfIndex(index)) = oif {
        let size = size_of::<libc::in_pktinfo>() as u32;
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: the control space is aligned and larger than one header with an in_pktinfo (28 of 64 bytes).
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(size) as _;
            let first = libc::CMSG_FIRSTHDR(&header);
            (*first).cmsg_level = libc::IPPROTO_IP;
            (*first).cmsg_type = libc::IP_PKTINFO;
            (*first).cmsg_len = libc::CMSG_LEN(size) as _;
            let mut choice: libc::in_pktinfo = std::mem::zeroed();
            choice.ipi_ifindex = index as i32;
            libc::CMSG_DATA(first).cast::<libc::in_pktinfo>().write_unaligned(choice);
        }
    }
    // SAFETY: everything that `header` points to outlives the call, and sendmsg only reads it.
    if unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_DONTWAIT) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: Outgoing<'_> = Outgoing {
        oif: None,
        src: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        dst: IpAddr::V4(Ipv4Addr::new(10, 0, 9, 2)),
        ttl: 63,
        router_alert: true,
        bytes: b"message!",
    };

    #[test]
    fn what_is_sent_is_what_is_read() {
        for router_alert in [false, true] {
            let sent = Outgoing { router_alert, ..PATH };
            let bytes = packet(&sent).unwrap();
            assert_eq!(bytes[1], 0xc0, "network control");
            assert_eq!(bytes.len(), if router_alert { 32 } else { 28 });
            let read = parse(&bytes).unwrap();
            assert_eq!((read.src, read.dst, read.ttl, read.bytes), (PATH.src, PATH.dst, 63, PATH.bytes));
        }
    }

    #[test]
    fn what_is_no_packet_is_nothing() {
        let good = packet(&PATH).unwrap();
        for cut in 0..good.len() {
            assert!(parse(&good[..cut]).is_none(), "cut at {cut}");
        }
        for (at, value) in [(0, 0x66), (0, 0x44), (2, 0xff), (3, 23), (9, 17)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(parse(&bad).is_none(), "byte {at} = {value}");
        }
        let trailing = [&good[..], b"padding"].concat();
        assert_eq!(parse(&trailing).unwrap().bytes, PATH.bytes, "what follows the total length is not the message");
    }

    #[test]
    fn a_message_too_long_for_a_packet_is_refused() {
        let long = vec![0; LARGEST - 23];
        assert!(packet(&Outgoing { bytes: &long, ..PATH }).is_none());
        assert!(packet(&Outgoing { bytes: &long[1..], ..PATH }).is_some());
    }
}
