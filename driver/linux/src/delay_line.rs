//! A wire with a delay: each frame that comes in at one interface leaves by the other after a fixed time, both ways
//! (packet(7)). It stands in for a long link where the kernel has no qdisc for that (netem).
//!
//! Frames pass unread, with their place in line kept. The virtual network header goes with each
//! (`PACKET_VNET_HDR`), because a checksum that the sender's device would have computed is not there yet.

use crate::clock::Clock;
use crate::error::SystemError;
use crate::poll::{Poll, PollInterest, Token};
use std::collections::VecDeque;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use terms::{Span, Time};

/// The longest frame with its headers, bytes.
const MAX_FRAME: usize = 10 + 14 + 65_535;
/// The most frames on their way in one direction: 100 ms of 10 Gb/s in packets of 1,500 bytes.
const MAX_HELD: usize = 83_000;
/// The kernel's receive buffer of each end, bytes.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// The most frames that are read from one end before the other has its turn.
const BATCH: usize = 64;
/// Do not show a socket the frames that it sends (linux/if_packet.h).
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// One end: a packet socket on an interface.
#[derive(Debug)]
struct WireEnd(OwnedFd);

/// Frames that go one way.
#[derive(Debug, Default)]
struct Held {
    frames: VecDeque<(Time, Vec<u8>)>,
    /// Buffers of frames that have left.
    spare: Vec<Vec<u8>>,
}

/// A wire between two interfaces of one network namespace.
#[derive(Debug)]
pub struct DelayLine {
    ends: [WireEnd; 2],
    /// The frames that came in at each end.
    held: [Held; 2],
    delay: Span,
    clock: Clock,
    /// The frame that is being read.
    buffer: Vec<u8>,
    dropped: u64,
}

impl DelayLine {
    /// Joins two interfaces of this thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, or CAP_NET_RAW is missing.
    pub fn open(interfaces: [&str; 2], delay: Span, clock: Clock) -> Result<DelayLine, SystemError> {
        let [a, b] = interfaces.map(WireEnd::open);
        Ok(DelayLine { ends: [a?, b?], held: Default::default(), delay, clock, buffer: vec![0; MAX_FRAME], dropped: 0 })
    }

    /// Carries frames until `stop` is true; it is asked about ten times a second.
    ///
    /// # Errors
    /// An interface is gone.
    pub fn carry(&mut self, mut stop: impl FnMut() -> bool) -> Result<(), SystemError> {
        let mut poll = Poll::new(self.clock)?;
        for (number, end) in self.ends.iter().enumerate() {
            poll.add(&end.0, Token(number as u64), PollInterest::Read)?;
        }
        let mut look = self.clock.now();
        loop {
            let now = self.clock.now();
            if now >= look {
                if stop() {
                    return Ok(());
                }
                look = now + Span::from_millis(100);
            }
            let due = self.held.iter().filter_map(|held| held.frames.front()).map(|(at, _)| *at).min();
            poll.wait(Some(due.map_or(look, |due| due.min(look))))?;
            for number in 0..2 {
                self.take(number)?;
                self.give(number);
            }
        }
    }

    /// Frames that were lost because too many were on their way.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes what has come in at one end.
    fn take(&mut self, number: usize) -> Result<(), SystemError> {
        for _ in 0..BATCH {
            let Some(len) = self.ends[number].receive(&mut self.buffer)? else { return Ok(()) };
            let held = &mut self.held[number];
            if held.frames.len() == MAX_HELD {
                self.dropped += 1;
                continue;
            }
            let mut frame = held.spare.pop().unwrap_or_default();
            frame.clear();
            frame.extend_from_slice(&self.buffer[..len]);
            held.frames.push_back((self.clock.now() + self.delay, frame));
        }
        Ok(())
    }

    /// Sends what is due on its way from one end to the other.
    fn give(&mut self, number: usize) {
        let now = self.clock.now();
        let held = &mut self.held[number];
        while held.frames.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, frame)) = held.frames.pop_front() else { return };
            // A full queue behind the other end drops the frame, as a wire's far end would.
            self.ends[1 - number].send(&frame);
            held.spare.push(frame);
        }
    }
}

impl WireEnd {
    fn open(interface: &str) -> Result<WireEnd, SystemError> {
        let what = || format!("put a wire on {interface}");
        let name = CString::new(interface)
            .map_err(|_| SystemError::because(what(), io::Error::from(io::ErrorKind::InvalidInput)))?;
        // SAFETY: `name` is a C string that outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(SystemError::last(what()));
        }
        // Protocol 0: nothing is received before the socket is bound.
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(SystemError::last(what()));
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else has it.
        let end = WireEnd(unsafe { OwnedFd::from_raw_fd(fd) });
        end.prepare(index).map_err(SystemError::doing(what()))?;
        Ok(end)
    }

    fn prepare(&self, index: u32) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER)?;
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        self.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
        let all = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &all)?;
        // SAFETY: all-zero is a valid sockaddr_ll.
        let mut place: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        place.sll_family = libc::AF_PACKET as u16;
        place.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        place.sll_ifindex = index as i32;
        let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `place` is as large as `size` says and outlives the call; the descriptor is open.
        match unsafe { libc::bind(self.0.as_raw_fd(), std::ptr::from_ref(&place).cast(), size) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        let size = size_of::<T>() as libc::socklen_t;
        let value = std::ptr::from_ref(value).cast();
        // SAFETY: `value` is as large as `size` says and outlives the call; the descriptor is open.
        match unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, value, size) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The length of the next frame; `None`: there is none now.
    fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, SystemError> {
        // SAFETY: `buffer` is valid for writes of its length and outlives the call; the descriptor is open.
        let n = unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
        if n >= 0 {
            return Ok(Some(n as usize));
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(SystemError::because("read frames of a wire", error)),
        }
    }

    fn send(&self, frame: &[u8]) {
        // SAFETY: `frame` is valid for reads of its length and outlives the call; the descriptor is open.
        let _ = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
    }
}
