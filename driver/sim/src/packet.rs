//! What travels on the links.

use std::rc::Rc;
use terms::{FlowKey, Time};

/// Length of an IPv4 header without options, bytes.
pub const IPV4_HEADER: u32 = 20;
/// Length of the Router Alert option (RFC 2113), bytes.
pub const ROUTER_ALERT: u32 = 4;
/// IP protocol number of RSVP.
pub const RSVP: u8 = 46;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

/// A packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Who talks to whom.
    pub flow: FlowKey,
    /// Length, IP header included, bytes.
    pub len: u32,
    /// Time to live.
    pub ttl: u8,
    /// What is in it.
    pub body: Body,
}

/// What is in a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// A packet of a traffic source.
    Data(Data),
    /// An RSVP message.
    Signal {
        /// Whether the Router Alert option is on it.
        alert: bool,
        /// The message.
        bytes: Rc<[u8]>,
    },
}

/// The mark that a source leaves in its packets for its sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Which source, by its number in the scenario.
    pub source: u32,
    /// Number of the packet.
    pub sequence: u64,
    /// Number of the frame that it is a part of; packets of sources without frames are a frame each.
    pub frame: u64,
    /// When it was sent.
    pub sent: Time,
}
