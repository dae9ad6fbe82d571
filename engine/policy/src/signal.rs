//! What is signalled through the local socket (RSVP, Boomerang), as policy sees it.

use alloc::vec::Vec;
use core::net::IpAddr;

/// Addresses that begin alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix {
    /// Its first address.
    pub addr: IpAddr,
    /// How many bits they have in common: at most 32 of IPv4, 128 of IPv6.
    pub length: u8,
}

/// Of what is signalled: whose packets a rule is about, and how urgent they may be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    /// About packets from these only; empty: from anywhere.
    pub sources: Vec<Prefix>,
    /// About packets to these only; empty: to anywhere.
    pub destinations: Vec<Prefix>,
    /// The highest priority, preempting and defending (RFC 3181), that it allows; `None`: no priority may be said.
    pub priority: Option<u16>,
}

impl Prefix {
    /// One address.
    pub fn host(addr: IpAddr) -> Prefix {
        Prefix { addr, length: if addr.is_ipv4() { 32 } else { 128 } }
    }

    /// Whether all of `other` lie in it.
    pub fn contains(&self, other: &Prefix) -> bool {
        let same = match (self.addr, other.addr) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(32 - u32::from(self.length.min(32))).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(128 - u32::from(self.length.min(128))).unwrap_or(0) == 0
            }
            _ => false,
        };
        same && self.length <= other.length
    }
}
