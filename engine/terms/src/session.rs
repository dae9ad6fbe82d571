//! Identities: RSVP session, sender template and filter spec (RFC 2205 section 1.1), interface index.

use core::net::IpAddr;

/// An interface, by the kernel's index (in the simulator: by position, from 1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IfIndex(pub u32);

/// A data flow with one destination: SESSION, RFC 2205 section A.1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session {
    /// Unicast or multicast destination.
    pub dst: IpAddr,
    /// IP protocol number, not zero.
    pub protocol: u8,
    /// Destination port; zero for protocols without ports. For ESP and AH a number other than zero is the virtual
    /// destination port of RFC 2207: see [`Session::is_gpi`].
    pub dst_port: u16,
}

impl Session {
    /// True if senders are distinguished by their security parameter index, as a generalised port identifier
    /// (RFC 2207). ESP and AH have no ports, and a virtual destination port of zero is illegal (RFC 2207
    /// section 3.1), so that the port alone tells such a session from one for all of the protocol's packets.
    pub const fn is_gpi(&self) -> bool {
        matches!(self.protocol, 50 | 51) && self.dst_port != 0
    }
}

/// One sender of a session: SENDER_TEMPLATE, RFC 2205 section A.10.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SenderTemplate {
    /// The sender's address.
    pub src: IpAddr,
    /// The sender's port, 16 bits; zero for protocols without ports. In a session with generalised port identifiers
    /// ([`Session::is_gpi`]) the security parameter index, 32 bits.
    pub src_port: u32,
}

/// The packets of a reservation: FILTER_SPEC, RFC 2205 section A.9. The same shape as a sender template.
pub type FilterSpec = SenderTemplate;

/// Reservation style: RFC 2205 section 1.3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Style {
    /// Fixed filter: distinct reservations, explicit senders.
    Ff,
    /// Shared explicit: one reservation, explicit senders.
    Se,
    /// Wildcard filter: one reservation, all senders.
    Wf,
}
