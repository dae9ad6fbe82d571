//! Counts packets on an interface: a packet socket that sees UDP to one port, with the kernel's time stamps.
//!
//! Experiments measure loss and rates here, not in the application, so that a slow reader does not look like
//! a lossy network (packet(7), socket(7); the filter is classic BPF, checked by the kernel). Outgoing packets
//! are seen after the queueing discipline, at the moment they leave.

use crate::clock::Clock;
use crate::error::SystemError;
use crate::packet_socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType};
use std::os::fd::{AsRawFd, OwnedFd};
use terms::{Span, Time};

/// The bytes of each packet that are kept, from the IP header on.
pub const HEAD: usize = 96;

/// The kernel's receive buffer, bytes: minutes of a video stream, so that a busy machine loses nothing.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;

/// `SKF_AD_OFF + SKF_AD_PROTOCOL` of `linux/filter.h`: the EtherType, independent of the length of the link
/// header.
const ETHERTYPE: u32 = (-0x1000_i32) as u32;

/// A packet that passed the interface.
#[derive(Clone, Copy, Debug)]
pub struct CapturedFrame {
    /// The kernel's time stamp.
    pub at: Time,
    /// The same on the wall clock, ns, as the kernel wrote it: two of them differ by what passed between the packets, also
    /// if this process was held up while it read them. 0: none.
    pub stamp: u64,
    /// True if the packet was leaving.
    pub outgoing: bool,
    /// Total length of the IP packet, bytes.
    pub len: u32,
    head: [u8; HEAD],
    kept: usize,
}

impl CapturedFrame {
    /// The first bytes of the IP packet: all of it, or [`HEAD`].
    pub fn head(&self) -> &[u8] {
        &self.head[..self.kept]
    }

    /// The bytes after the UDP header within [`CapturedFrame::head`].
    pub fn payload(&self) -> &[u8] {
        let start = self.head.first().map_or(0, |first| usize::from(first & 0xf) * 4) + 8;
        self.head().get(start..).unwrap_or(&[])
    }
}

/// An open capture. It starts when it is opened.
#[derive(Debug)]
pub struct Capture {
    socket: OwnedFd,
    clock: Clock,
}

impl Capture {
    /// Captures IPv4 UDP packets to `port` on `interface` of the network namespace of this thread.
    ///
    /// # Errors
    /// There is no such interface, or CAP_NET_RAW is missing.
    pub fn udp_to(interface: &str, port: u16, clock: Clock) -> Result<Capture, SystemError> {
        let what = || format!("capture on {interface}");
        let (socket, index) = packet_socket::open(interface, SocketType::DGRAM, SocketFlags::empty())
            .map_err(SystemError::doing(what()))?;
        let capture = Capture { socket, clock };
        let bound = capture.prepare(port).and_then(|()| packet_socket::bind(&capture.socket, index));
        bound.map_err(SystemError::doing(what()))?;
        Ok(capture)
    }

    fn prepare(&self, port: u16) -> std::io::Result<()> {
        let mut program = udp_filter(port);
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        packet_socket::set(&self.socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
        packet_socket::set(&self.socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER)?;
        packet_socket::set(&self.socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
    }

    /// The next packet; `None` if none passes within `patience`.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn next(&mut self, patience: Span) -> Result<Option<CapturedFrame>, SystemError> {
        let what = "read captured packets";
        let patience = Timespec {
            tv_sec: (patience.as_nanos() / 1_000_000_000) as i64,
            tv_nsec: (patience.as_nanos() % 1_000_000_000) as i64,
        };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(SystemError::because(what, error.into())),
        }
        let mut head = [0u8; HEAD];
        // SAFETY: all-zero is valid for these plain C structures.
        let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) = unsafe { std::mem::zeroed() };
        let mut control = [0u64; 16];
        let mut part = libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEAD };
        message.msg_name = std::ptr::from_mut(&mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: every pointer in `message` is to a local that outlives the call, with its true size beside it.
        let n = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
        if n < 0 {
            let error = std::io::Error::last_os_error();
            if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) {
                return Ok(None);
            }
            return Err(SystemError::because(what, error));
        }
        let kept = (n as usize).min(HEAD);
        // SAFETY: `recvmsg` filled the message in, and its control buffer is `control`.
        let stamp = unsafe { packet_socket::Beside::of(&message) }.stamp();
        Ok(Some(CapturedFrame {
            at: self.clock.from_wall(stamp),
            stamp: stamp.unwrap_or(0),
            outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
            len: u32::from(u16::from_be_bytes([head[2], head[3]])),
            head,
            kept,
        }))
    }

    /// Packets that the kernel dropped for lack of room since the last call. Any value but zero makes a loss
    /// figure void.
    ///
    /// # Errors
    /// The kernel has no such statistics.
    pub fn overrun(&mut self) -> Result<u32, SystemError> {
        let mut found = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut size = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: `found` is as large as `size` says and outlives the call; the descriptor is open.
        let rc = unsafe {
            let value = std::ptr::from_mut(&mut found).cast();
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &mut size)
        };
        if rc == 0 { Ok(found.tp_drops) } else { Err(SystemError::last("read the capture's statistics")) }
    }
}

/// Accepts IPv4 UDP packets to `port`, except later fragments; keeps [`HEAD`] bytes. Offsets count from the
/// IP header, at which a `SOCK_DGRAM` packet socket begins.
fn udp_filter(port: u16) -> [libc::sock_filter; 11] {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, absolute, word, half, byte) = (libc::BPF_LD, libc::BPF_ABS, libc::BPF_W, libc::BPF_H, libc::BPF_B);
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    [
        op(load | word | absolute, 0, 0, ETHERTYPE),
        op(equal, 0, 7, libc::ETH_P_IP as u32),
        op(load | byte | absolute, 0, 0, 9),
        op(equal, 0, 5, libc::IPPROTO_UDP as u32),
        op(load | half | absolute, 0, 0, 6),
        op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 3, 0, 0x1fff),
        op(libc::BPF_LDX | byte | libc::BPF_MSH, 0, 0, 0),
        op(load | half | libc::BPF_IND, 0, 0, 2),
        op(equal, 1, 0, u32::from(port)),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, HEAD as u32),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn sees_what_goes_to_its_port_and_nothing_else() {
        let clock = Clock::start();
        let mut capture = match Capture::udp_to("lo", 47_101, clock) {
            Ok(capture) => capture,
            Err(failed) => {
                bench::skipped(failed);
                return;
            }
        };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let before = clock.now();
        for port in [47_102, 47_101, 47_103] {
            socket.send_to(&[7; 100], ("127.0.0.1", port)).unwrap();
        }
        socket.send_to(&[8; 10], ("127.0.0.1", 47_101)).unwrap();
        let mut seen = Vec::new();
        while let Some(packet) = capture.next(Span::from_millis(300)).unwrap() {
            seen.push(packet);
        }
        // The loopback interface shows every packet twice: leaving, and coming in.
        let incoming: Vec<&CapturedFrame> = seen.iter().filter(|packet| !packet.outgoing).collect();
        assert_eq!(seen.len(), 4);
        assert_eq!(incoming.iter().map(|packet| packet.len).collect::<Vec<_>>(), [128, 38]);
        assert_eq!(incoming[0].payload(), [7; HEAD - 28]);
        assert_eq!(incoming[1].payload(), [8; 10]);
        let slack = Span::from_millis(50);
        assert!(seen.iter().all(|packet| packet.at + slack >= before && packet.at <= clock.now() + slack));
        assert_eq!(capture.overrun().unwrap(), 0);
        assert!(Capture::udp_to("no-such-if", 1, clock).is_err());
    }
}
