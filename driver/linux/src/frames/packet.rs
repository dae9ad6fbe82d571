//! Frames by a packet socket (packet(7)), `recvmmsg` and `sendmmsg`: on every kernel and interface.
//!
//! Not the mapped ring (`TPACKET_V3`): it hands blocks over after a millisecond at the earliest unless they are full,
//! and a plane that schedules must see a packet when it comes. The price is one copy a frame each way.

use super::{BURST, BurstSent, FrameBuffer, FrameIo, HEADROOM, Offload};
use crate::clock;
use crate::error::SystemError;
use crate::packet_socket::{self, Beside, PACKET_IGNORE_OUTGOING};
use rustix::net::netdevice::name_to_index;
use rustix::net::{SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use terms::Span;

/// The longest frame that is not cut into segments yet: what it may have beside its buffer.
const LONGEST: usize = 14 + 8 + 65_535;
/// The kernel's receive buffer, bytes: some tens of milliseconds of 1 Gb/s.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// The kernel's send buffer, bytes.
const SEND_BUFFER: libc::c_int = 1 << 20;
/// Words of room for one `struct tpacket_auxdata`, one `struct timespec`, and their headers.
const CONTROL: usize = 10;

/// A packet socket that is bound to one interface, and sees every frame on it.
#[derive(Debug)]
pub struct PacketFrames {
    socket: OwnedFd,
    name: String,
    /// The ends of frames that did not fit into the buffers of the last burst.
    rest: Box<[u8]>,
    rests: [usize; BURST],
    /// True if frames come with their ages.
    aged: bool,
}

impl PacketFrames {
    /// Opens an interface of this thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, or CAP_NET_RAW is missing.
    pub fn open(interface: &str) -> Result<PacketFrames, SystemError> {
        let what = || format!("open {interface} for frames");
        let (socket, index) = packet_socket::open(interface, SocketType::RAW, SocketFlags::NONBLOCK)
            .map_err(SystemError::doing(what()))?;
        let rest = vec![0; BURST * LONGEST].into_boxed_slice();
        let frames = PacketFrames { socket, name: interface.into(), rest, rests: [0; BURST], aged: false };
        frames.prepare(index).map_err(SystemError::doing(what()))?;
        Ok(frames)
    }

    /// From now on frames come with their ages, which takes the kernel some tens of nanoseconds a frame.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn with_ages(mut self) -> Result<PacketFrames, SystemError> {
        packet_socket::set(&self.socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
            .map_err(SystemError::doing(format!("time the frames of {}", self.name)))?;
        self.aged = true;
        Ok(self)
    }

    fn prepare(&self, index: u32) -> io::Result<()> {
        let set = |level, option, value: libc::c_int| packet_socket::set(&self.socket, level, option, &value);
        set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)?;
        set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER)?;
        set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        set(libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        packet_socket::promiscuous(&self.socket, index)?;
        packet_socket::bind(&self.socket, index)
    }

    /// `Ok` for what passes by itself (an interface that is down), the error if the interface is gone.
    fn judge(&self, error: io::Error, doing: &str) -> Result<(), SystemError> {
        let there = match error.raw_os_error() {
            Some(libc::ENETDOWN) => name_to_index(&self.socket, &self.name).is_ok(),
            _ => false,
        };
        let what = || format!("{doing} {}: the interface is gone", self.name);
        if there { Ok(()) } else { Err(SystemError::because(what(), error)) }
    }
}

impl AsFd for PacketFrames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An `iovec` of bytes.
fn iovec(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast(), iov_len: len }
}

impl FrameIo for PacketFrames {
    fn receive(&mut self, into: &mut [FrameBuffer]) -> Result<usize, SystemError> {
        let most = into.len().min(BURST);
        let mut pieces = [[iovec(std::ptr::null_mut(), 0); 3]; BURST];
        let mut controls = [[0u64; CONTROL]; BURST];
        // SAFETY: all-zero is a valid mmsghdr: no name, no pieces, no control.
        let mut messages: [libc::mmsghdr; BURST] = unsafe { std::mem::zeroed() };
        for (nth, frame) in into.iter_mut().enumerate().take(most) {
            let room = &mut frame.room[HEADROOM..];
            pieces[nth] = [
                iovec(std::ptr::from_mut(&mut frame.offload).cast(), size_of::<Offload>()),
                iovec(room.as_mut_ptr(), room.len()),
                iovec(self.rest[nth * LONGEST..(nth + 1) * LONGEST].as_mut_ptr(), LONGEST),
            ];
            let header = &mut messages[nth].msg_hdr;
            header.msg_iov = pieces[nth].as_mut_ptr();
            header.msg_iovlen = 3;
            header.msg_control = controls[nth].as_mut_ptr().cast();
            header.msg_controllen = (CONTROL * 8) as _;
        }
        let (fd, wait) = (self.socket.as_raw_fd(), std::ptr::null_mut());
        // Before the call, or a thread that is held up in it would take frames for older than they are.
        let wall = if self.aged { clock::wall() } else { 0 };
        // SAFETY: the first `most` messages point to pieces and controls on this stack, and those to buffers of `into`
        // and of `self`, all of the stated lengths and alive until the call returns; any bytes are a valid `Offload`.
        let got = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), most as u32, libc::MSG_DONTWAIT as _, wait) };
        self.rests = [0; BURST];
        if got < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => self.judge(error, "read frames of").map(|()| 0),
            };
        }
        let got = got as usize;
        for (nth, (frame, message)) in into.iter_mut().zip(&messages).take(got).enumerate() {
            let len = (message.msg_len as usize).saturating_sub(size_of::<Offload>());
            let room = frame.room.len() - HEADROOM;
            (frame.start, frame.len) = (HEADROOM, len.min(room));
            self.rests[nth] = len.saturating_sub(room).min(LONGEST);
            // SAFETY: the header is the kernel's, over a control buffer that lives.
            let beside = unsafe { Beside::of(&message.msg_hdr) };
            if let Some(tag) = beside.tag() {
                frame.tag(tag);
            }
            frame.age = beside.stamp().map_or(Span::ZERO, |stamp| Span::from_nanos(wall.saturating_sub(stamp)));
        }
        Ok(got)
    }

    fn rest(&self, nth: usize) -> &[u8] {
        let len = self.rests.get(nth).copied().unwrap_or(0);
        self.rest.get(nth * LONGEST..nth * LONGEST + len).unwrap_or(&[])
    }

    fn send(&mut self, frames: &[FrameBuffer]) -> Result<BurstSent, SystemError> {
        let most = frames.len().min(BURST);
        let mut pieces = [[iovec(std::ptr::null_mut(), 0); 2]; BURST];
        // SAFETY: all-zero is a valid mmsghdr: no name, no pieces, no control.
        let mut messages: [libc::mmsghdr; BURST] = unsafe { std::mem::zeroed() };
        for (nth, frame) in frames.iter().enumerate().take(most) {
            // The kernel only reads what it sends.
            let bytes = frame.bytes();
            pieces[nth] = [
                iovec(std::ptr::from_ref(&frame.offload).cast_mut().cast(), size_of::<Offload>()),
                iovec(bytes.as_ptr().cast_mut(), bytes.len()),
            ];
            messages[nth].msg_hdr.msg_iov = pieces[nth].as_mut_ptr();
            messages[nth].msg_hdr.msg_iovlen = 2;
        }
        let fd = self.socket.as_raw_fd();
        // SAFETY: the first `most` messages point to pieces on this stack, and those to `frames`, all of the stated
        // lengths and alive until the call returns.
        let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), most as u32, libc::MSG_DONTWAIT as _) };
        if sent >= 0 {
            return Ok(BurstSent::Went(sent as usize));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR) => Ok(BurstSent::Full),
            Some(libc::ENOBUFS | libc::EMSGSIZE | libc::EINVAL) => Ok(BurstSent::Dropped),
            _ => self.judge(error, "send frames by").map(|()| BurstSent::Dropped),
        }
    }

    fn missed(&mut self) -> u64 {
        // SAFETY: all-zero is a valid tpacket_stats.
        let mut found: libc::tpacket_stats = unsafe { std::mem::zeroed() };
        let mut size = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        let (fd, place) = (self.socket.as_raw_fd(), std::ptr::from_mut(&mut found).cast());
        // SAFETY: `found` is as large as `size` says and outlives the call.
        let rc = unsafe { libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, place, &mut size) };
        if rc == 0 { u64::from(found.tp_drops) } else { 0 }
    }
}
