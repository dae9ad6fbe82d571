//! The arrival of a message.

use crate::integrity::proof::Proof;
use core::net::IpAddr;
use terms::IfIndex;

/// The arrival of a message: its interface, addresses, TTL and proof of signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The incoming interface.
    pub iif: IfIndex,
    /// IP source.
    pub src: IpAddr,
    /// IP destination.
    pub dst: IpAddr,
    /// IP TTL.
    pub ttl: u8,
    /// True if, by the TTL, every hop since the sender of the message speaks RSVP (RFC 2205 section 3.8).
    pub direct: bool,
    /// The proof that the message was signed, from the check before it waited.
    pub proof: Option<Proof>,
}

impl Arrival {
    /// The interface to answer by; `None`: as the routing table decides.
    pub fn back(&self) -> Option<IfIndex> {
        if self.direct { Some(self.iif) } else { None }
    }
}
