//! Flows of prefixes: which of them exist, and in what order a packet asks for them (tuple-space search: Srinivasan, Suri,
//! Varghese, *Packet classification using tuple space search*, SIGCOMM 1999).
//!
//! What of a key counts is the same for all flows of one [`Shape`]: so a packet cut down to that is the key of the
//! flow that it belongs to, and one look-up asks all flows of the shape. An interface has few shapes ([`MOST_SHAPES`]), asked
//! one after the other until one has the packet; where there is none, nothing is asked. The kernel's program (`masks.h`) is
//! written the list in the same order.

use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{FlowKey, Wild};

/// The most shapes of an interface.
pub const MOST_SHAPES: usize = 8;

/// What counts of the keys of some flows of prefixes.
///
/// In ascending order the closest comes first: by the destination, then the source, then the protocol, then the
/// destination's port, then the source's. A shape never comes behind one whose flows could hold all of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Shape {
    /// How many bits of the destination do not count.
    pub dst_wild: u8,
    /// And of the source.
    pub src_wild: u8,
    /// Whether the protocol does not.
    pub any_protocol: bool,
    /// Whether the destination port does not.
    pub any_dst_port: bool,
    /// Nor the source port.
    pub any_src_port: bool,
    /// Of IPv6 addresses.
    pub is_ipv6: bool,
}

impl Shape {
    /// The shape of a flow of prefixes; `None` if it is none: five-tuples and wildcards are looked up otherwise.
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

    /// Whether a flow can have this shape's packets: nothing is said in the bits that do not count.
    pub fn is_proper(flow: &FlowKey) -> bool {
        let bits = if flow.dst.is_ipv6() { 128 } else { 32 };
        let cut = Shape::of(flow).is_none_or(|shape| shape.cut(flow) == Some(*flow));
        flow.src.is_ipv6() == flow.dst.is_ipv6() && flow.wild.src <= bits && flow.wild.dst <= bits && cut
    }

    /// What counts of a packet: the key of the flow of this shape that has it. `None`: it is of the other family.
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

/// An address without its last bits.
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
    /// In order.
    there: Vec<(Shape, usize)>,
}

impl Shapes {
    /// Whether a flow may come: it has no shape, or one that is there, or there are fewer than [`MOST_SHAPES`].
    pub fn has_room_for(&self, flow: &FlowKey) -> bool {
        let Some(shape) = Shape::of(flow) else { return true };
        self.there.len() < MOST_SHAPES || self.there.iter().any(|(there, _)| *there == shape)
    }

    /// Notes that a flow came, or went. Whether the list of shapes is another now.
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

    /// The shapes, the closest first.
    pub fn iter(&self) -> impl Iterator<Item = Shape> + '_ {
        self.there.iter().map(|(shape, _)| *shape)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.there.is_empty()
    }
}
