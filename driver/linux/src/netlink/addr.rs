//! Addresses of links: RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR.

use super::message::{Attributes, NetlinkMessage, u32_at};
use super::socket::{Reply, Result, Socket};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use terms::IfIndex;

/// An address of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// The link.
    pub index: IfIndex,
    /// Our address.
    pub address: IpAddr,
    /// The length of the prefix that is on the link.
    pub prefix: u8,
}

/// The length of `struct ifaddrmsg`.
const HEADER: usize = 8;
const IFA_FLAGS: u16 = 8;
/// No duplicate address detection: a testbed's address is usable at once.
const IFA_F_NODAD: u32 = 0x02;

impl Socket {
    /// All addresses of all links.
    pub fn addresses(&mut self) -> Result<Vec<Address>> {
        let replies = self.dump("list the addresses", NetlinkMessage::new(libc::RTM_GETADDR, 0, &[0; HEADER]))?;
        Ok(replies.iter().filter_map(address).collect())
    }

    /// Gives a link an address. IPv6 addresses are usable at once (no duplicate address detection).
    ///
    /// # Errors
    /// EEXIST: the link has this address already.
    pub fn add_address(&mut self, address: &Address) -> Result<()> {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        let mut message = with_address(NetlinkMessage::new(libc::RTM_NEWADDR, flags, &header(address)), address);
        if address.address.is_ipv6() {
            message = message.attr_u32(IFA_FLAGS, IFA_F_NODAD);
        }
        self.request("add an address", message)
    }

    /// Removes an address from a link.
    pub fn delete_address(&mut self, address: &Address) -> Result<()> {
        let message = with_address(NetlinkMessage::new(libc::RTM_DELADDR, 0, &header(address)), address);
        self.request("remove an address", message)
    }
}

fn header(address: &Address) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[0] = family(&address.address);
    bytes[1] = address.prefix;
    bytes[4..8].copy_from_slice(&address.index.0.to_ne_bytes());
    bytes
}

fn with_address(message: NetlinkMessage, address: &Address) -> NetlinkMessage {
    let bytes = octets(&address.address);
    message.attr(libc::IFA_LOCAL, &bytes).attr(libc::IFA_ADDRESS, &bytes)
}

pub(super) fn address(reply: &Reply) -> Option<Address> {
    if reply.ty != libc::RTM_NEWADDR {
        return None;
    }
    let attributes = Attributes::after(&reply.body, HEADER);
    let bytes = attributes.get(libc::IFA_LOCAL).or_else(|| attributes.get(libc::IFA_ADDRESS))?;
    Some(Address { index: IfIndex(u32_at(&reply.body, 4)?), address: ip(bytes)?, prefix: *reply.body.get(1)? })
}

/// AF_INET or AF_INET6.
pub(super) fn family(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// The address in network order.
pub(super) fn octets(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Reads four or sixteen bytes.
pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(four)));
    }
    <[u8; 16]>::try_from(bytes).ok().map(|sixteen| IpAddr::V6(Ipv6Addr::from(sixteen)))
}
