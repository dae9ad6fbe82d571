//! Receiving messages in whole batches, from each socket in turn.

use super::raw::{self, CONTROL, Control, IPV6_ROUTER_ALERT, IPV6_ROUTER_ALERT_ISOLATE, SocketAddress};
use super::{BATCH, LARGEST, PROTOCOL_RSVP, QUEUE_BYTES, ReceivedMessage};
use crate::error::{SystemError, doing};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use terms::IfIndex;
use wire::ip::Packet;

/// A packet up to this length fits in a short buffer. The rest of a longer one, which is rare, goes to a long
/// buffer.
const SHORT: usize = 2048;
/// The distance of the short buffers: not a power of two, so that their first lines do not share cache sets.
const STRIDE: usize = SHORT + 64;

/// The form of a socket's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Whole IPv4 or IPv6 packets.
    Packets,
    /// RSVP messages to this node over IPv6, without their headers.
    Messages,
}

/// The receiving sockets and their buffers.
pub struct MessageReceiver {
    pub(super) sockets: Vec<(OwnedFd, Kind)>,
    /// An epoll descriptor for all of them.
    any: OwnedFd,
    /// The socket to read first next time.
    turn: usize,
    /// The sockets that are yet to be read in this round, a bit each; `None`: a new round begins.
    round: Option<u8>,
    short: Vec<u8>,
    long: Vec<u8>,
    came: Vec<Came>,
    unread: u64,
}

/// The position and the addresses of a received message.
struct Came {
    iif: IfIndex,
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    long: bool,
    at: Range<usize>,
}

impl MessageReceiver {
    /// Opens the sockets in the network namespace of this thread.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or a socket option is not supported.
    pub fn open() -> Result<MessageReceiver, SystemError> {
        let v4 = raw::socket(libc::AF_INET, PROTOCOL_RSVP.into())?;
        raw::set(&v4, libc::IPPROTO_IP, libc::IP_ROUTER_ALERT, 1, "IP_ROUTER_ALERT")?;
        raw::set(&v4, libc::IPPROTO_IP, libc::IP_PKTINFO, 1, "IP_PKTINFO")?;
        let mut sockets = vec![(v4, Kind::Packets)];
        if let Some(to_us) = raw::socket_v6(PROTOCOL_RSVP.into())? {
            raw::set(&to_us, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1, "IPV6_RECVHOPLIMIT")?;
            raw::set(&to_us, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1, "IPV6_RECVPKTINFO")?;
            sockets.push((to_us, Kind::Messages));
        }
        if let Some(transit) = raw::socket_v6(libc::IPPROTO_RAW)? {
            let rsvp = i32::from(wire::ip::ALERT_RSVP);
            // Before the alert: not one message of another namespace may come in between.
            raw::set(&transit, libc::IPPROTO_IPV6, IPV6_ROUTER_ALERT_ISOLATE, 1, "IPV6_ROUTER_ALERT_ISOLATE")?;
            raw::set(&transit, libc::IPPROTO_IPV6, IPV6_ROUTER_ALERT, rsvp, "IPV6_ROUTER_ALERT")?;
            raw::set(&transit, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1, "IPV6_RECVPKTINFO")?;
            sockets.push((transit, Kind::Packets));
        }
        for (socket, _) in &sockets {
            raw::set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, QUEUE_BYTES, "SO_RCVBUFFORCE")?;
        }
        let any = wait_on(sockets.iter().map(|(socket, _)| socket))?;
        let (short, long) = (vec![0; BATCH * STRIDE], vec![0; BATCH * LARGEST]);
        Ok(MessageReceiver {
            sockets,
            any,
            turn: 0,
            round: None,
            short,
            long,
            came: Vec::with_capacity(BATCH),
            unread: 0,
        })
    }

    /// Receives one batch from the next socket with messages. Returns true if any socket may have more. False
    /// ends a round: each socket that was readable at its beginning was read until it had less than a whole
    /// batch. What came meanwhile makes the receiver readable again.
    ///
    /// # Errors
    /// The kernel failed.
    pub fn fill(&mut self) -> Result<bool, SystemError> {
        self.came.clear();
        let mut unread = match self.round.take() {
            Some(unread) => unread,
            None => self.readable()?,
        };
        for _ in 0..self.sockets.len() {
            let turn = self.turn;
            self.turn = (turn + 1) % self.sockets.len();
            if unread & 1 << turn == 0 {
                continue;
            }
            let count = self.fill_from(turn)?;
            if count < BATCH {
                unread &= !(1 << turn);
            }
            if count > 0 {
                self.round = Some(unread);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The sockets with messages, a bit each.
    fn readable(&self) -> Result<u8, SystemError> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        // SAFETY: `events` has room for 8 and outlives the call.
        let n = unsafe { libc::epoll_wait(self.any.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, 0) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(u8::MAX),
                _ => Err(SystemError::because("look at the raw sockets", error)),
            };
        }
        Ok(events[..n as usize].iter().fold(0, |all, event| all | 1 << { event.u64 }))
    }

    /// The messages of the last [`MessageReceiver::fill`]. Packets that are not whole or not RSVP are
    /// skipped.
    pub fn messages(&self) -> impl Iterator<Item = ReceivedMessage<'_>> {
        self.came.iter().map(|came| {
            let bytes = if came.long { &self.long[came.at.clone()] } else { &self.short[came.at.clone()] };
            ReceivedMessage { iif: came.iif, src: came.src, dst: came.dst, ttl: came.ttl, bytes }
        })
    }

    /// The number of packets skipped so far.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// The number of messages that the kernel dropped so far because a queue was full.
    pub fn dropped(&self) -> u64 {
        self.sockets.iter().map(|(socket, _)| raw::dropped(socket)).sum()
    }

    /// Starts to receive messages to a multicast group on `interface`: a receiver's node needs it for Path
    /// messages.
    ///
    /// # Errors
    /// The kernel refuses; joining twice is no error.
    pub fn join(&mut self, group: IpAddr, interface: IfIndex) -> Result<(), SystemError> {
        self.membership(group, interface, libc::IP_ADD_MEMBERSHIP, libc::IPV6_ADD_MEMBERSHIP)
    }

    /// Stops receiving them.
    ///
    /// # Errors
    /// The kernel refuses; leaving a group that was not joined is no error.
    pub fn leave(&mut self, group: IpAddr, interface: IfIndex) -> Result<(), SystemError> {
        self.membership(group, interface, libc::IP_DROP_MEMBERSHIP, libc::IPV6_DROP_MEMBERSHIP)
    }

    fn membership(&mut self, group: IpAddr, interface: IfIndex, v4: i32, v6: i32) -> Result<(), SystemError> {
        let of = |kind: Kind| self.sockets.iter().find(|(_, k)| *k == kind).map(|(socket, _)| socket);
        let none = || SystemError::because(format!("join {group}"), io::ErrorKind::Unsupported.into());
        let done = match group {
            IpAddr::V4(group) => {
                let imr_multiaddr = libc::in_addr { s_addr: u32::from(group).to_be() };
                let imr_address = libc::in_addr { s_addr: 0 };
                let ask = libc::ip_mreqn { imr_multiaddr, imr_address, imr_ifindex: interface.0 as i32 };
                let socket = of(Kind::Packets).ok_or_else(none)?;
                raw::set_bytes(socket, libc::IPPROTO_IP, v4, &ask, "the membership of a group")
            }
            IpAddr::V6(group) => {
                let ipv6mr_multiaddr = libc::in6_addr { s6_addr: group.octets() };
                let ask = libc::ipv6_mreq { ipv6mr_multiaddr, ipv6mr_interface: interface.0 as _ };
                let socket = of(Kind::Messages).ok_or_else(none)?;
                raw::set_bytes(socket, libc::IPPROTO_IPV6, v6, &ask, "the membership of a group")
            }
        };
        match done {
            Err(failed) if matches!(failed.code(), libc::EADDRINUSE | libc::EADDRNOTAVAIL) => Ok(()),
            done => done,
        }
    }

    /// Receives one batch from one socket; returns the number of packets.
    fn fill_from(&mut self, turn: usize) -> Result<usize, SystemError> {
        let (socket, kind) = &self.sockets[turn];
        let (fd, kind) = (socket.as_raw_fd(), *kind);
        let mut vectors = [[libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 2]; BATCH];
        let places = self.short.chunks_exact_mut(STRIDE).zip(self.long.chunks_exact_mut(LARGEST));
        for (vector, (short, long)) in vectors.iter_mut().zip(places) {
            vector[0] = libc::iovec { iov_base: short.as_mut_ptr().cast(), iov_len: SHORT };
            let rest = &mut long[SHORT..];
            vector[1] = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        }
        let mut names = [SocketAddress::none(); BATCH];
        let mut controls: [Control; BATCH] = [Default::default(); BATCH];
        // SAFETY: all-zero is a valid mmsghdr (null pointers, zero lengths).
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (i, header) in headers.iter_mut().enumerate() {
            header.msg_hdr.msg_iov = vectors[i].as_mut_ptr();
            header.msg_hdr.msg_iovlen = 2;
            header.msg_hdr.msg_name = std::ptr::from_mut(&mut names[i]).cast();
            header.msg_hdr.msg_namelen = size_of::<SocketAddress>() as libc::socklen_t;
            header.msg_hdr.msg_control = controls[i].as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
        let none = std::ptr::null_mut();
        // SAFETY: BATCH headers, each with buffers, name and control space that outlive the call and are used by no one
        // else.
        let n = unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), BATCH as u32, libc::MSG_DONTWAIT, none) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(SystemError::because("receive RSVP messages", error)),
            };
        }
        for (place, (header, name)) in headers[..n as usize].iter().zip(&names).enumerate() {
            let length = (header.msg_len as usize).min(LARGEST);
            match self.read(place, length, kind, &raw::beside(&header.msg_hdr), name) {
                Some(came) => self.came.push(came),
                None => self.unread += 1,
            }
        }
        Ok(n as usize)
    }

    /// Reads the message in a buffer.
    fn read(
        &mut self,
        place: usize,
        length: usize,
        kind: Kind,
        beside: &raw::Beside,
        name: &SocketAddress,
    ) -> Option<Came> {
        let long = length > SHORT;
        let (short_at, long_at) = (place * STRIDE, place * LARGEST);
        if long {
            let (short, long) = (&self.short[short_at..short_at + SHORT], &mut self.long[long_at..long_at + SHORT]);
            long.copy_from_slice(short);
        }
        let (all, start) = if long { (&self.long, long_at) } else { (&self.short, short_at) };
        let bytes = &all[start..start + length];
        let iif = beside.iif?;
        if kind == Kind::Messages {
            let (src, dst, ttl) = (name.v6()?.into(), beside.dst?.into(), beside.hop_limit?);
            return Some(Came { iif, src, dst, ttl, long, at: start..start + length });
        }
        let (packet, header) = parse(bytes)?;
        let at = start + header..start + header + packet.payload().len();
        Some(Came { iif, src: packet.src(), dst: packet.dst(), ttl: packet.ttl(), long, at })
    }
}

impl AsFd for MessageReceiver {
    /// The descriptor to wait on for reading.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.any.as_fd()
    }
}

impl std::fmt::Debug for MessageReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("sockets", &self.sockets).finish_non_exhaustive()
    }
}

/// A whole packet with an RSVP message, and the offset of the message in it. Fragments are rejected: the
/// kernel reassembles those of IPv4 and those addressed to this node; a router cannot reassemble those of
/// IPv6 hosts.
fn parse(bytes: &[u8]) -> Option<(Packet<'_>, usize)> {
    let packet = Packet::parse(bytes).ok().filter(|p| p.protocol() == PROTOCOL_RSVP && !p.is_fragment())?;
    let header = (packet.payload().as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
    Some((packet, header))
}

/// A descriptor that is readable when any of these sockets is, and tells their indices.
fn wait_on<'a>(sockets: impl Iterator<Item = &'a OwnedFd>) -> Result<OwnedFd, SystemError> {
    let any = epoll::create(CreateFlags::CLOEXEC).map_err(doing("make an epoll"))?;
    for (n, socket) in (0..).zip(sockets) {
        epoll::add(&any, socket, EventData::new_u64(n), EventFlags::IN).map_err(doing("watch a raw socket"))?;
    }
    Ok(any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(src: &str, dst: &str, router_alert: bool) -> Vec<u8> {
        wire::ip::packet(src.parse().unwrap(), dst.parse().unwrap(), PROTOCOL_RSVP, 63, router_alert, b"message!")
            .unwrap()
    }

    #[test]
    fn a_message_is_found_in_its_packet() {
        for (src, dst, plain) in [("10.0.0.1", "10.0.9.2", 20), ("2001:db8::1", "2001:db8:9::2", 40)] {
            for router_alert in [false, true] {
                let bytes = packet(src, dst, router_alert);
                let option = if plain == 20 { 4 } else { 8 };
                let (found, header) = parse(&bytes).unwrap();
                assert_eq!(header, plain + if router_alert { option } else { 0 });
                assert_eq!((found.src().to_string(), found.dst().to_string()), (src.into(), dst.into()));
                assert_eq!((found.ttl(), &bytes[header..]), (63, &b"message!"[..]));
            }
        }
    }

    #[test]
    fn what_is_no_packet_of_rsvp_is_nothing() {
        for good in [packet("10.0.0.1", "10.0.9.2", true), packet("2001:db8::1", "2001:db8:9::2", true)] {
            for cut in 0..good.len() {
                assert!(parse(&good[..cut]).is_none(), "cut at {cut}");
            }
            let trailing = [&good[..], b"padding"].concat();
            let found = parse(&trailing).unwrap().0.payload().len();
            assert_eq!(found, 8, "what follows the packet's own length is not the message");
        }
        let good = packet("10.0.0.1", "10.0.9.2", true);
        for (at, value) in [(0, 0x66), (0, 0x44), (2, 0xff), (3, 23), (9, 17), (6, 0x20)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(parse(&bad).is_none(), "byte {at} = {value}");
        }
    }
}
