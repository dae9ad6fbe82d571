//! Classifier and Mask: the packets that a reservation serves, and the bits that count.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Family;
use alloc::vec::Vec;
use terms::{FlowKey, Wild};

/// A Classifier, or a Mask of the same layout (16 octets in IPv4, 40 in IPv6).
///
/// The Classifier names the packets of the forward direction, away from the initiating node; those of the reverse
/// direction have ends and ports exchanged ([`Selector::turned`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Selector {
    /// The source address of the forward flow.
    pub src: IpAddr,
    /// The destination address of the forward flow; of the same family.
    pub dst: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol.
    pub protocol: u8,
    /// The per-hop behaviour that is asked for, as a TOS octet. It does not tell sessions apart.
    pub tos: u8,
    /// No meaning in the draft; carried along.
    pub flags: u16,
}

impl Selector {
    /// The Classifier of one five-tuple, with EF.
    pub fn of(flow: &FlowKey) -> Selector {
        let &FlowKey { src, dst, protocol, src_port, dst_port, .. } = flow;
        Selector { src, dst, src_port, dst_port, protocol, tos: EF, flags: 0 }
    }

    /// The Mask of a whole five-tuple: every bit that distinguishes sessions counts.
    pub fn exact(family: Family) -> Selector {
        let (src, dst) = match family {
            Family::V4 => (IpAddr::V4(Ipv4Addr::BROADCAST), IpAddr::V4(Ipv4Addr::BROADCAST)),
            Family::V6 => {
                let all = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));
                (all, all)
            }
        };
        Selector { src, dst, src_port: u16::MAX, dst_port: u16::MAX, protocol: u8::MAX, tos: 0, flags: 0 }
    }

    /// True if this selector, as a Mask, selects one five-tuple.
    pub fn is_exact(&self) -> bool {
        let exact = Selector::exact(if self.src.is_ipv4() { Family::V4 } else { Family::V6 });
        Selector { tos: 0, flags: 0, ..*self } == exact
    }

    /// The bits of a Classifier that count under a Mask, without TOS and flags.
    pub fn under(&self, mask: &Selector) -> Selector {
        Selector {
            src: both(self.src, mask.src),
            dst: both(self.dst, mask.dst),
            src_port: self.src_port & mask.src_port,
            dst_port: self.dst_port & mask.dst_port,
            protocol: self.protocol & mask.protocol,
            tos: 0,
            flags: 0,
        }
    }

    /// The selector of the other direction: ends and ports exchanged. Works for a Mask too.
    pub fn turned(&self) -> Selector {
        Selector { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..*self }
    }

    /// The five-tuple.
    pub fn flow(&self) -> FlowKey {
        let &Selector { src, dst, protocol, src_port, dst_port, .. } = self;
        FlowKey { src, dst, protocol, src_port, dst_port, wild: Wild::NONE }
    }

    /// For a Mask: the number of trailing address bits that do not count. `None`: an address mask is no prefix.
    pub fn wild(&self) -> Option<Wild> {
        Some(Wild { src: wild_of(self.src)?, dst: wild_of(self.dst)? })
    }

    /// The flow key of all packets under a mask: prefixes of addresses, or any sender if only the source is
    /// left out. For a mask that is no prefix, the mask itself distinguishes the flows.
    pub fn flow_under(&self, mask: &Selector) -> FlowKey {
        let flow = self.under(mask).flow();
        let all = if mask.src.is_ipv4() { 32 } else { 128 };
        match mask.wild() {
            Some(Wild { src, dst: 0 }) if src == all && mask.protocol != 0 => flow,
            Some(wild) => FlowKey { wild, ..flow },
            None => flow,
        }
    }

    /// Reads a selector; `None` unless the length is that of the family.
    pub(crate) fn read(family: Family, bytes: &[u8]) -> Option<Selector> {
        let (src, rest) = address(family, bytes)?;
        let (dst, rest) = address(family, rest)?;
        let &[s1, s0, d1, d0, protocol, tos, f1, f0] = rest else { return None };
        let [src_port, dst_port, flags] = [[s1, s0], [d1, d0], [f1, f0]].map(u16::from_be_bytes);
        Some(Selector { src, dst, src_port, dst_port, protocol, tos, flags })
    }

    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        for address in [self.src, self.dst] {
            match address {
                IpAddr::V4(address) => to.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => to.extend_from_slice(&address.octets()),
            }
        }
        to.extend_from_slice(&self.src_port.to_be_bytes());
        to.extend_from_slice(&self.dst_port.to_be_bytes());
        to.extend_from_slice(&[self.protocol, self.tos]);
        to.extend_from_slice(&self.flags.to_be_bytes());
    }
}

/// Expedited forwarding, 101110 with ECN 00.
const EF: u8 = 0xb8;

/// Reads an address of the family; returns it with the bytes after it.
pub(crate) fn address(family: Family, bytes: &[u8]) -> Option<(IpAddr, &[u8])> {
    match family {
        Family::V4 => bytes.split_first_chunk::<4>().map(|(a, rest)| (IpAddr::from(*a), rest)),
        Family::V6 => bytes.split_first_chunk::<16>().map(|(a, rest)| (IpAddr::from(*a), rest)),
    }
}

/// The number of trailing bits that an address mask leaves out; `None` if it is no prefix.
fn wild_of(mask: IpAddr) -> Option<u8> {
    let (bits, width) = match mask {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32u32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let ones = bits.leading_ones();
    let rest = bits.checked_shl(ones).unwrap_or(0);
    u8::try_from(width.checked_sub(ones)?).ok().filter(|_| rest == 0)
}

/// The bits of `a` that are set in `mask`; `a` if the families differ, which a parsed message excludes.
fn both(a: IpAddr, mask: IpAddr) -> IpAddr {
    match (a, mask) {
        (IpAddr::V4(a), IpAddr::V4(m)) => IpAddr::V4(a & m),
        (IpAddr::V6(a), IpAddr::V6(m)) => IpAddr::V6(a & m),
        _ => a,
    }
}
