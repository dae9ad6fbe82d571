//! A wire with a delay: each frame that comes in at one interface leaves by the other after a fixed time, both ways
//! (packet(7)). It stands in for a long link where the kernel has no qdisc for that (netem).
//!
//! Frames pass unread, with their place in line kept. The virtual network header goes with each
//! (`PACKET_VNET_HDR`), because a checksum that the sender's device would have computed is not there yet.

use crate::clock::Clock;
use crate::error::SystemError;
use crate::packet_socket::{self, PACKET_IGNORE_OUTGOING};
use crate::poll::{Poll, PollInterest, Token};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, recv, send};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use terms::{Span, Time};

/// The longest frame with its headers, bytes.
const MAX_FRAME: usize = 10 + 14 + 65_535;
/// The most frames on their way in one direction: 100 ms of 10 Gb/s in packets of 1,500 bytes.
const MAX_HELD: usize = 83_000;
/// The kernel's receive buffer of each end, bytes.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// The most frames that are read from one end before the other has its turn.
const BATCH: usize = 64;

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
        let (socket, index) = packet_socket::open(interface, SocketType::RAW, SocketFlags::empty())
            .map_err(SystemError::doing(what()))?;
        let end = WireEnd(socket);
        end.prepare(index).map_err(SystemError::doing(what()))?;
        Ok(end)
    }

    fn prepare(&self, index: u32) -> io::Result<()> {
        let set = |level, option, value: libc::c_int| packet_socket::set(&self.0, level, option, &value);
        set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)?;
        set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        packet_socket::promiscuous(&self.0, index)?;
        packet_socket::bind(&self.0, index)
    }

    /// The length of the next frame; `None`: there is none now.
    fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, SystemError> {
        match recv(&self.0, buffer, RecvFlags::DONTWAIT) {
            Ok((_, n)) => Ok(Some(n)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(SystemError::because("read frames of a wire", error.into())),
        }
    }

    fn send(&self, frame: &[u8]) {
        // What has no room is lost, as on a wire.
        let _ = send(&self.0, frame, SendFlags::DONTWAIT);
    }
}
