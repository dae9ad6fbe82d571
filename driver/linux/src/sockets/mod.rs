//! RSVP over raw sockets (RFC 2205 sections 3.1 and 3.9; Router Alert: RFC 2113, RFC 2711), IPv4 and IPv6.
//!
//! IPv4: one socket of protocol 46 with `IP_ROUTER_ALERT` receives the messages addressed to this node and
//! those in transit with the option. IPv6 needs two sockets: messages addressed to this node come to a socket
//! of protocol 46, those in transit to one of `IPPROTO_RAW` with `IPV6_ROUTER_ALERT`, with their headers.
//! Messages in transit are *consumed*: the kernel does not forward them, so a listener that hangs loses them.
//! Hence no socket ever blocks, the queues in the kernel are bounded, and all sockets are closed first on
//! shutdown.
//!
//! Other sockets send with an IP header of our own, because Path and PathTear keep the sender's source
//! address.
//!
//! A filter, the [`IntakeFilter`], selects the messages that enter the queues, so that a flood does not.
//!
//! [`MessageReceiver`] receives many messages by one system call and [`MessageSender`] sends many by one,
//! both with reused buffers: there is no allocation per message.

mod gate;
pub(crate) mod raw;
mod receiver;
mod sender;
mod whole;

pub use gate::{Dropped, IntakeFilter, OBJECT as GATE};
pub use receiver::MessageReceiver;
pub use sender::MessageSender;

use crate::error::SystemError;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use terms::IfIndex;

/// RSVP's IP protocol number.
pub const PROTOCOL_RSVP: u8 = 46;

/// The most messages in one system call.
pub const BATCH: usize = 64;
/// The largest packet, bytes.
const LARGEST: usize = 65_535;
/// The queue of each socket in the kernel, each way, bytes: about 10,000 messages of usual size.
const QUEUE_BYTES: i32 = 8 << 20;

/// A received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedMessage<'a> {
    /// The interface by which it came in.
    pub iif: IfIndex,
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// TTL (hop limit) as received.
    pub ttl: u8,
    /// The RSVP message, without the IP headers.
    pub bytes: &'a [u8],
}

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing<'a> {
    /// The interface by which it leaves; `None`: by the routing table.
    pub oif: Option<IfIndex>,
    /// IP source; it need not be an address of this node.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// TTL (hop limit).
    pub ttl: u8,
    /// True if every router on the path must examine it.
    pub router_alert: bool,
    /// The RSVP message.
    pub bytes: &'a [u8],
}

/// The sockets of one node: a receiver and a sender, which may be separated.
#[derive(Debug)]
pub struct RsvpSockets {
    /// The receiving sockets.
    pub receiver: MessageReceiver,
    /// The sending sockets.
    pub sender: MessageSender,
}

impl RsvpSockets {
    /// Opens them in the network namespace of this thread; without IPv6 if the kernel has none.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or a socket option is not supported.
    pub fn open() -> Result<RsvpSockets, SystemError> {
        Ok(RsvpSockets { receiver: MessageReceiver::open()?, sender: MessageSender::open()? })
    }

    /// Receives at most one batch, and passes each message to `each`. Returns true if there may be more.
    ///
    /// # Errors
    /// The kernel failed. Packets that are not whole are skipped.
    pub fn receive(&mut self, each: impl FnMut(ReceivedMessage<'_>)) -> Result<bool, SystemError> {
        let more = self.receiver.fill()?;
        self.receiver.messages().for_each(each);
        Ok(more)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// There is no route, the message is too long for the interface (messages are never fragmented), or the
    /// interface's queue is full.
    pub fn send(&mut self, message: &Outgoing<'_>) -> Result<(), SystemError> {
        let mut failed = None;
        self.sender.push(message, |f| failed = Some(f));
        self.sender.flush(|f| failed = Some(f));
        failed.map_or(Ok(()), Err)
    }
}

impl AsFd for RsvpSockets {
    /// The descriptor to wait on for reading.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}
