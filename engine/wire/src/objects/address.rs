//! Objects that hold addresses: SESSION, RSVP_HOP, SCOPE, FILTER_SPEC, SENDER_TEMPLATE, RESV_CONFIRM
//! (RFC 2205 sections A.1, A.2, A.6, A.9, A.10, A.14; with generalised port identifiers RFC 2207 section 3).
//!
//! A sender and a hop must be a host's address; a destination must not be unspecified, loopback or broadcast
//! (`FAULTS` P32): no other address can have a reservation or an answer.

use super::unknown_ctype;
use crate::MalformedMessage;
use crate::iana::ctype;
use crate::object::Object;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use terms::{SenderTemplate, Session};

/// SESSION: the session and its flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SessionObject {
    /// The session.
    pub session: Session,
    /// Flags as sent; 0x01 is E_Police.
    pub flags: u8,
}

/// RSVP_HOP: the node that sent this message, and its interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RsvpHop {
    /// The neighbour's address on the link.
    pub addr: IpAddr,
    /// Logical interface handle: echoed to the neighbour, never interpreted.
    pub lih: u32,
}

/// FILTER_SPEC or SENDER_TEMPLATE: a sender of the session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FilterObject {
    /// By address and port (C-Types 1 and 2).
    Ports(SenderTemplate),
    /// By address and generalised port identifier, in place of the port (RFC 2207, C-Types 4 and 5).
    Gpi(SenderTemplate),
    /// By IPv6 address and flow label (C-Type 3).
    FlowLabel {
        /// The sender.
        src: Ipv6Addr,
        /// The flow label, 20 bits; the reserved bits before it are ignored.
        label: u32,
    },
}

/// SCOPE: the senders that a wildcard Resv must reach. Addresses may repeat; none is checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope<'a> {
    /// C-Type 1.
    V4(&'a [u8]),
    /// C-Type 2.
    V6(&'a [u8]),
}

impl SessionObject {
    pub(super) fn decode(object: &Object<'_>) -> Result<SessionObject, MalformedMessage> {
        let gpi = matches!(object.ctype, ctype::SESSION_GPI_IPV4 | ctype::SESSION_GPI_IPV6);
        let (dst, rest) = match object.ctype {
            ctype::SESSION_GPI_IPV4 => split_v4(object)?,
            ctype::SESSION_GPI_IPV6 => split_v6(object)?,
            _ => split_address(object)?,
        };
        let &[protocol, flags, hi, lo] = rest else {
            return Err(object.fault("SESSION has the wrong length", 0));
        };
        if protocol == 0 {
            return Err(object.fault("session protocol is 0", object.body.len().saturating_sub(4)));
        }
        if is_nobody(dst) {
            return Err(object.fault("session destination is not one that can be reserved for", 0));
        }
        let session = Session { dst, protocol, dst_port: u16::from_be_bytes([hi, lo]) };
        // ESP and AH have no ports: with a number for one a session is of the other form (RFC 2207 section 3.1).
        if session.is_gpi() != gpi {
            return Err(object
                .fault("session form does not go with its protocol and port", object.body.len().saturating_sub(4)));
        }
        Ok(SessionObject { session, flags })
    }
}

impl RsvpHop {
    pub(super) fn decode(object: &Object<'_>) -> Result<RsvpHop, MalformedMessage> {
        let (addr, rest) = split_address(object)?;
        let &[a, b, c, d] = rest else {
            return Err(object.fault("RSVP_HOP has the wrong length", 0));
        };
        if !is_host(addr) {
            return Err(object.fault("hop is not a host's address", 0));
        }
        Ok(RsvpHop { addr, lih: u32::from_be_bytes([a, b, c, d]) })
    }
}

impl FilterObject {
    pub(super) fn decode(object: &Object<'_>) -> Result<FilterObject, MalformedMessage> {
        let (src, rest) = match object.ctype {
            ctype::IPV6_FLOW_LABEL | ctype::FILTER_GPI_IPV6 => split_v6(object)?,
            ctype::FILTER_GPI_IPV4 => split_v4(object)?,
            _ => split_address(object)?,
        };
        let &[a, b, c, d] = rest else {
            return Err(object.fault("filter has the wrong length", 0));
        };
        if !is_host(src) {
            return Err(object.fault("sender is not a host's address", 0));
        }
        Ok(match (object.ctype, src) {
            (ctype::IPV6_FLOW_LABEL, IpAddr::V6(src)) => {
                FilterObject::FlowLabel { src, label: u32::from_be_bytes([0, b & 0x0f, c, d]) }
            }
            (ctype::FILTER_GPI_IPV4 | ctype::FILTER_GPI_IPV6, _) => {
                FilterObject::Gpi(SenderTemplate { src, src_port: u32::from_be_bytes([a, b, c, d]) })
            }
            _ => FilterObject::Ports(SenderTemplate { src, src_port: u32::from_be_bytes([0, 0, c, d]) }),
        })
    }

    /// The sender's address.
    pub fn src(&self) -> IpAddr {
        match self {
            FilterObject::Ports(template) | FilterObject::Gpi(template) => template.src,
            FilterObject::FlowLabel { src, .. } => IpAddr::V6(*src),
        }
    }

    /// The address and port (or its generalised identifier), unless a flow label names the sender.
    pub fn ports(&self) -> Option<SenderTemplate> {
        match self {
            FilterObject::Ports(template) | FilterObject::Gpi(template) => Some(*template),
            FilterObject::FlowLabel { .. } => None,
        }
    }
}

impl From<SenderTemplate> for FilterObject {
    fn from(template: SenderTemplate) -> FilterObject {
        FilterObject::Ports(template)
    }
}

impl<'a> Scope<'a> {
    pub(super) fn decode(object: &Object<'a>) -> Result<Scope<'a>, MalformedMessage> {
        match object.ctype {
            // Every body is a multiple of four bytes.
            ctype::IPV4 => Ok(Scope::V4(object.body)),
            ctype::IPV6 if object.body.len().is_multiple_of(16) => Ok(Scope::V6(object.body)),
            ctype::IPV6 => Err(object.fault("SCOPE is not whole IPv6 addresses", 0)),
            _ => Err(unknown_ctype(object)),
        }
    }

    /// The number of addresses.
    pub fn len(&self) -> usize {
        match self {
            Scope::V4(bytes) => bytes.len() >> 2,
            Scope::V6(bytes) => bytes.len() >> 4,
        }
    }

    /// True if the list is empty: the message must then not be forwarded (RFC 2205 section 3.4).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The addresses, in order.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + 'a {
        let (v4, v6) = match *self {
            Scope::V4(bytes) => (bytes, &[][..]),
            Scope::V6(bytes) => (&[][..], bytes),
        };
        let v4 = v4.chunks_exact(4).filter_map(|c| <[u8; 4]>::try_from(c).ok().map(IpAddr::from));
        v4.chain(v6.chunks_exact(16).filter_map(|c| <[u8; 16]>::try_from(c).ok().map(IpAddr::from)))
    }
}

/// RESV_CONFIRM: the receiver that asks for a confirmation. It is a host's address, because we send there.
pub(super) fn confirm(object: &Object<'_>) -> Result<IpAddr, MalformedMessage> {
    let (addr, rest) = split_address(object)?;
    if !rest.is_empty() {
        return Err(object.fault("RESV_CONFIRM has the wrong length", 0));
    }
    if !is_host(addr) {
        return Err(object.fault("receiver to be told is not a host's address", 0));
    }
    Ok(addr)
}

/// The address at the start of a body; the C-Type gives its family.
pub(super) fn split_address<'a>(object: &Object<'a>) -> Result<(IpAddr, &'a [u8]), MalformedMessage> {
    match object.ctype {
        ctype::IPV4 => split_v4(object),
        ctype::IPV6 => split_v6(object),
        _ => Err(unknown_ctype(object)),
    }
}

fn split_v4<'a>(object: &Object<'a>) -> Result<(IpAddr, &'a [u8]), MalformedMessage> {
    match object.body.split_first_chunk::<4>() {
        Some((addr, rest)) => Ok((IpAddr::from(*addr), rest)),
        None => Err(object.fault("no room for an IPv4 address", 0)),
    }
}

fn split_v6<'a>(object: &Object<'a>) -> Result<(IpAddr, &'a [u8]), MalformedMessage> {
    match object.body.split_first_chunk::<16>() {
        Some((addr, rest)) => Ok((IpAddr::from(*addr), rest)),
        None => Err(object.fault("no room for an IPv6 address", 0)),
    }
}

fn is_host(addr: IpAddr) -> bool {
    !(is_nobody(addr) || addr.is_multicast())
}

/// True for an unspecified, loopback or broadcast address, and for an IPv4-mapped IPv6 address (RFC 4291
/// section 2.5.5.2: never on a wire).
fn is_nobody(addr: IpAddr) -> bool {
    let odd = match addr {
        IpAddr::V4(v4) => v4 == Ipv4Addr::BROADCAST,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some(),
    };
    addr.is_unspecified() || addr.is_loopback() || odd
}
