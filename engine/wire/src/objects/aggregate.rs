//! SESSION, SENDER_TEMPLATE and FILTER_SPEC of aggregate reservations: RFC 3175 section 5.
//!
//! They are decoded for people and for the answer. No message with an aggregate session is taken: its parse is
//! refused with a PathErr or ResvErr in return.

use crate::MalformedMessage;
use crate::iana::{ctype, error};
use crate::object::Object;
use core::net::IpAddr;

/// SESSION of an aggregate reservation: a deaggregator, and the code point of the packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AggregateSession {
    /// The deaggregator, which the reservation ends at.
    pub dst: IpAddr,
    /// Flags as sent.
    pub flags: u8,
    /// DSCP, 6 bits; the two bits above it are ignored.
    pub dscp: u8,
}

/// The text of the refusal of an aggregate session.
pub const AGGREGATE_REFUSED: &str = "aggregate sessions (RFC 3175) are not offered: reserve for each flow";

/// True if the object is of the form of RFC 3175.
pub(crate) fn is_aggregate(object: &Object<'_>) -> bool {
    matches!(object.ctype, ctype::AGGREGATE_IPV4 | ctype::AGGREGATE_IPV6)
}

impl AggregateSession {
    pub(super) fn decode(object: &Object<'_>) -> Result<AggregateSession, MalformedMessage> {
        let (dst, rest) = split(object)?;
        let &[_, flags, _, dscp] = rest else {
            return Err(object.fault("SESSION has the wrong length", 0));
        };
        Ok(AggregateSession { dst, flags, dscp: dscp & 0x3f })
    }
}

/// The aggregator that a SENDER_TEMPLATE or FILTER_SPEC names.
pub(super) fn aggregator(object: &Object<'_>) -> Result<IpAddr, MalformedMessage> {
    let (src, rest) = split(object)?;
    if rest.is_empty() { Ok(src) } else { Err(object.fault("filter has the wrong length", 0)) }
}

/// The refusal of a message with such an object.
pub(crate) fn refused(object: &Object<'_>) -> MalformedMessage {
    MalformedMessage::answered(AGGREGATE_REFUSED, object.offset, error::UNKNOWN_CTYPE, object.class_and_ctype())
}

fn split<'a>(object: &Object<'a>) -> Result<(IpAddr, &'a [u8]), MalformedMessage> {
    let found = match object.ctype {
        ctype::AGGREGATE_IPV4 => object.body.split_first_chunk::<4>().map(|(addr, rest)| (IpAddr::from(*addr), rest)),
        _ => object.body.split_first_chunk::<16>().map(|(addr, rest)| (IpAddr::from(*addr), rest)),
    };
    found.ok_or_else(|| object.fault("no room for an address", 0))
}
