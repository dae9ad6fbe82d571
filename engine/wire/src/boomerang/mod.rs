//! Boomerang on the wire: a reservation inside an ICMP echo (draft-bergkvist-boomerang-spec-00, June 1999).
//!
//! The initiating node sends an ICMP echo request with a Container, a Reservation and perhaps options behind the ICMP
//! header. Any host that answers ping sends the same bytes back, and the far end needs to do no more. Every
//! aware node on the way reserves and rewrites a few fields in place; none originates anything. A message has
//! 92 octets in IPv4, IP header included, and 160 in IPv6, in ICMPv6 echo messages (the draft gives IPv6
//! classifiers but no ICMPv6 text).
//!
//! ```text
//! ICMP echo   type, code, checksum | identifier, sequence number
//! Container   0x47114711 | transaction id | type, format, flags
//! Reservation refresh s, version 1, padding | KEY (64 bits) | Classifier | Mask | QoS body
//! options     type, flags | body                                        (none, or as many as there are)
//! ```
//!
//! [`BoomerangMessage::parse`] reads an ICMP message, [`ProbePacket::parse`] an IP packet; [`Rewrite`]
//! changes a packet in place and updates its checksums by difference (RFC 1624); [`BoomerangRequest`] writes
//! a message. Points that the draft leaves open are decided in `docs/boomerang.md`.

pub mod describe;
mod message;
mod option;
mod probe;
mod qos;
mod request;
mod rewrite;
mod selector;
mod splice;

pub use describe::describe;
pub use message::{BoomerangMessage, Family, TravelDirection};
pub use option::{Aggregate, AuthOption, Hops, Opt, OptionWalk, Uid};
pub use probe::{ProbePacket, is_boomerang};
pub use qos::{Qos, Rates};
pub use request::BoomerangRequest;
pub use rewrite::{Places, Rewrite, answered, forwarded};
pub use selector::Selector;
pub use splice::{with_option, without_option};

/// MAGIC of the Container.
pub const MAGIC: u32 = 0x4711_4711;
/// Version of the Reservation header.
pub const VERSION: u8 = 1;

/// Container types.
pub mod kind {
    /// BOOMERANG_RESERVATION.
    pub const RESERVATION: u8 = 0x10;
    /// DS MARKER_SETUP; the draft defines no body, so it is not understood.
    pub const MARKER_SETUP: u8 = 0x20;
}

/// Container formats: the family in the low half, the form of the QoS body in the high half.
pub mod format {
    /// PF_IPv4.
    pub const IPV4: u8 = 0x02;
    /// PF_IPv6.
    pub const IPV6: u8 = 0x0a;
    /// One pair of rates.
    pub const BITRATE: u8 = 0x10;
    /// INTSERV; the draft defines no body, so it is not understood.
    pub const INTSERV: u8 = 0x20;
    /// A vector of pairs, best first.
    pub const DOWNGRADE: u8 = 0x30;
}

/// Container flags.
pub mod flag {
    /// A node could not reserve.
    pub const NACK: u16 = 0x0001;
    /// The far end must not answer. The draft names it and gives no number: this one is ours.
    pub const NO_ECHO: u16 = 0x0002;
}

/// Option types. The draft's two have fixed sizes; ours, from [`OURS`] up, carry their body's length in the flags.
pub mod option_type {
    /// Boomerang_UID.
    pub const UID: u16 = 0x0001;
    /// RESV_AGGREGATION.
    pub const AGGREGATION: u16 = 0x0002;
    /// The first option type whose flags are the length of its body, so that an unknown one can be skipped.
    pub const OURS: u16 = 0x8000;
    /// Proof of the initiating node (HMAC-SHA-256).
    pub const AUTH: u16 = 0x8001;
    /// The count of aware nodes that the message has passed.
    pub const HOPS: u16 = 0x8002;
}

/// ICMP (RFC 792) and ICMPv6 (RFC 4443) echo.
pub mod icmp {
    /// Protocol number of ICMP.
    pub const IPPROTO_ICMP: u8 = 1;
    /// Protocol number of ICMPv6.
    pub const IPPROTO_ICMPV6: u8 = 58;
    /// Echo request.
    pub const REQUEST_V4: u8 = 8;
    /// Echo reply.
    pub const REPLY_V4: u8 = 0;
    /// Echo request.
    pub const REQUEST_V6: u8 = 128;
    /// Echo reply.
    pub const REPLY_V6: u8 = 129;
}

/// Offsets of the fields, from the first byte of the ICMP message.
pub(crate) mod at {
    pub const CHECKSUM: usize = 2;
    pub const MAGIC: usize = 8;
    pub const FLAGS: usize = 18;
    pub const REFRESH: usize = 20;
    pub const KEY: usize = 24;
    pub const SELECTORS: usize = 32;
}
