//! RSVP over raw sockets (RFC 2205 sections 3.1 and 3.9; Router Alert: RFC 2113, RFC 2711), IPv4 and IPv6.
//!
//! IPv4: one socket of protocol 46 with `IP_ROUTER_ALERT` gets the messages addressed to this node and those in transit
//! that carry the option. IPv6 splits the two: what is addressed to us comes to a socket of protocol 46, what is in
//! transit to one of `IPPROTO_RAW` with `IPV6_ROUTER_ALERT`, headers and all. What is taken in transit is *consumed*:
//! the kernel does not forward it, so a listener that hangs makes a hole. Hence no socket ever blocks, what waits in
//! the kernel is bounded, and all are closed on shutdown, before anything else.
//!
//! Other sockets send with an IP header of our own, because Path and PathTear keep the sender's source address.
//!
//! What waits in the kernel is chosen by a filter, the [`IntakeFilter`], so that a flood does not choose for us.
//!
//! [`MessageReceiver`] takes many messages by one system call and [`MessageSender`] gives many to one, both from buffers that are
//! used again: nothing is allocated per message.

mod gate;
mod raw;
mod receiver;
mod sender;
mod whole;

pub use gate::{Dropped, IntakeFilter, OBJECT as GATE};
pub use receiver::MessageReceiver;
pub use sender::MessageSender;

use crate::error::SystemError;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use terms::IfIndex;

/// RSVP's IP protocol number.
pub const PROTOCOL_RSVP: u8 = 46;

/// At most so many messages pass by one system call.
pub const BATCH: usize = 64;
/// The largest packet.
const LARGEST: usize = 65_535;
/// What may wait in the kernel on each socket and each way: about 10,000 messages of usual size.
const QUEUE_BYTES: i32 = 8 << 20;

/// A message as it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedMessage<'a> {
    /// Where.
    pub iif: IfIndex,
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// TTL (hop limit) as received.
    pub ttl: u8,
    /// The RSVP message: what follows the IP headers.
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
    /// TTL (hop limit).
    pub ttl: u8,
    /// Whether every router on the way shall look at it.
    pub router_alert: bool,
    /// The RSVP message.
    pub bytes: &'a [u8],
}

/// The sockets of one node: both halves, which may be taken apart.
#[derive(Debug)]
pub struct RsvpSockets {
    /// What comes in.
    pub receiver: MessageReceiver,
    /// What goes out.
    pub sender: MessageSender,
}

impl RsvpSockets {
    /// Opens them in the network namespace of this thread. On a kernel without IPv6 they are without it.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or another option is not to be had.
    pub fn open() -> Result<RsvpSockets, SystemError> {
        Ok(RsvpSockets { receiver: MessageReceiver::open()?, sender: MessageSender::open()? })
    }

    /// Takes what has come, at most one batch, and shows each message to `each`. Returns whether there may be more.
    ///
    /// # Errors
    /// The kernel broke. What is no whole packet is passed over.
    pub fn receive(&mut self, each: impl FnMut(ReceivedMessage<'_>)) -> Result<bool, SystemError> {
        let more = self.receiver.fill()?;
        self.receiver.messages().for_each(each);
        Ok(more)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// No route, too long for the interface (messages are never cut), or the interface's queue is full.
    pub fn send(&mut self, message: &Outgoing<'_>) -> Result<(), SystemError> {
        let mut failed = None;
        self.sender.push(message, |f| failed = Some(f));
        self.sender.flush(|f| failed = Some(f));
        failed.map_or(Ok(()), Err)
    }
}

impl AsRawFd for RsvpSockets {
    /// The one to wait on for reading.
    fn as_raw_fd(&self) -> RawFd {
        self.receiver.as_raw_fd()
    }
}
