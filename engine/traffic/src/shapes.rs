//! Flows of prefixes: the shapes that exist, and the order of their look-ups (tuple-space search: Srinivasan, Suri,
//! Varghese, *Packet classification using tuple space search*, SIGCOMM 1999).
//!
//! The bits of a key that count are the same for all flows of one [`Shape`]: so a packet cut down to them is
//! the key of its flow, and one look-up covers all flows of the shape. An interface has few shapes
//! ([`MOST_SHAPES`]), looked up one after the other until one has the packet; without shapes there is no
//! look-up. The kernel's program (`masks.h`) gets the list in the same order.

use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{FlowKey, Wild};

/// The most shapes of an interface.
pub const MOST_SHAPES: usize = 8;

/// The parts of the keys that count for some flows of prefixes.
///
/// In ascending order the most specific comes first: by the destination, then the source, then the protocol, then the
/// destination's port, then the source's. A shape never comes after one whose flows could cover all of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Shape {
    /// The number of trailing destination bits that do not count.
    pub dst_wild: u8,
    /// The number of trailing source bits that do not count.
    pub src_wild: u8,
    /// True if the protocol does not count.
    pub any_protocol: bool,
    /// True if the destination port does not count.
    pub any_dst_port: bool,
    /// True if the source port does not count.
    pub any_src_port: bool,
    /// True for IPv6 addresses.
    pub is_ipv6: bool,
}

impl Shape {
    /// The shape of a flow of prefixes; `None` for any other: five-tuples and wildcards have other look-ups.
    pub fn of(flow: &FlowKey) -> Option<Shape> {
        flow.is_masked().then_some(Shape {
            dst_wild: flow.wild.dst,
            src_wild: flow.wild.src,
            any_protocol: flow.protocol == 0,
            any_dst_port: flow.dst_port == 0,
            any_src_port: flow.src_port == 0,
            is_ipv6: flow.dst.is_ipv6(),
        })
    }

    /// True if a flow can match this shape's packets: all bits that do not count are zero.
    pub fn is_proper(flow: &FlowKey) -> bool {
        let bits = if flow.dst.is_ipv6() { 128 } else { 32 };
        let cut = Shape::of(flow).is_none_or(|shape| shape.cut(flow) == Some(*flow));
        flow.src.is_ipv6() == flow.dst.is_ipv6() && flow.wild.src <= bits && flow.wild.dst <= bits && cut
    }

    /// The key of the flow of this shape that would match a packet. `None`: the packet is of the other family.
    pub fn cut(&self, packet: &FlowKey) -> Option<FlowKey> {
        if packet.dst.is_ipv6() != self.is_ipv6 {
            return None;
        }
        Some(FlowKey {
            src: without(packet.src, self.src_wild),
            dst: without(packet.dst, self.dst_wild),
            protocol: if self.any_protocol { 0 } else { packet.protocol },
            src_port: if self.any_src_port { 0 } else { packet.src_port },
            dst_port: if self.any_dst_port { 0 } else { packet.dst_port },
            wild: Wild { src: self.src_wild, dst: self.dst_wild },
        })
    }
}

/// An address with its last bits set to zero.
fn without(address: IpAddr, wild: u8) -> IpAddr {
    let wild = u32::from(wild);
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(wild).unwrap_or(0)).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(wild).unwrap_or(0)).into()),
    }
}

/// The shapes of the flows of one interface, and how many flows each has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shapes {
    /// The shapes, in order.
    there: Vec<(Shape, usize)>,
}

impl Shapes {
    /// True if a flow may come: it has no shape, or a known one, or there are fewer than [`MOST_SHAPES`].
    pub fn has_room_for(&self, flow: &FlowKey) -> bool {
        let Some(shape) = Shape::of(flow) else { return true };
        self.there.len() < MOST_SHAPES || self.there.iter().any(|(there, _)| *there == shape)
    }

    /// Counts a flow that came, or went. True if the list of shapes has changed.
    pub fn count(&mut self, flow: &FlowKey, comes: bool) -> bool {
        let Some(shape) = Shape::of(flow) else { return false };
        match (self.there.binary_search_by_key(&shape, |(shape, _)| *shape), comes) {
            (Ok(at), true) => self.there[at].1 += 1,
            (Ok(at), false) if self.there[at].1 > 1 => self.there[at].1 -= 1,
            (Ok(at), false) => {
                self.there.remove(at);
                return true;
            }
            (Err(at), true) => {
                self.there.insert(at, (shape, 1));
                return true;
            }
            (Err(_), false) => {}
        }
        false
    }

    /// The shapes, the most specific first.
    pub fn iter(&self) -> impl Iterator<Item = Shape> + '_ {
        self.there.iter().map(|(shape, _)| *shape)
    }

    /// True if there is no shape.
    pub fn is_empty(&self) -> bool {
        self.there.is_empty()
    }
}
