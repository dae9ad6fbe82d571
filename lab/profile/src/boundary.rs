//! A boundary around a node, with a checkpoint at every crossing: the times at which each message enters and
//! leaves.
//!
//! *Downstream* is the direction of Path and of a Boomerang request, *upstream* that of Resv and of the
//! reply. The other ends of the node's own wires are checkpoint 1 of *Profiling resource reservation
//! protocols*, the node's interfaces are checkpoint 2.

use linux::bpf::checkpoint::{Checkpoint, Passed};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use terms::Session;
use wire::boomerang::{Opt, ProbePacket, TravelDirection};
use wire::iana::class;
use wire::{MessageType, Salvage};

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum What {
    /// An RSVP message.
    Rsvp(MessageType),
    /// A Boomerang request.
    Request,
    /// A Boomerang reply.
    Reply,
}

impl What {
    /// True if it travels in the direction of the data.
    fn is_downstream(self) -> bool {
        match self {
            What::Rsvp(kind) => {
                matches!(kind, MessageType::Path | MessageType::PathTear | MessageType::ResvErr | MessageType::ResvConf)
            }
            What::Request => true,
            What::Reply => false,
        }
    }
}

/// A message's name: its kind, and its session's destination and port, or its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageName {
    /// The kind of message.
    pub what: What,
    /// The number of its session or transaction.
    pub of: u64,
}

/// Returns the number that identifies a session.
pub fn session_number(session: &Session) -> u64 {
    let dst = match session.dst {
        std::net::IpAddr::V4(dst) => u64::from(u32::from(dst)),
        std::net::IpAddr::V6(_) => 0,
    };
    dst << 24 | u64::from(session.dst_port) << 8 | u64::from(session.protocol)
}

/// Returns the name of a message from its first bytes, IP header included.
pub fn name(packet: &[u8]) -> Option<MessageName> {
    if packet.get(9) == Some(&46) {
        let message = packet.get(usize::from(packet.first()? & 0xf) * 4..)?;
        // What was kept may end within the message, whose length is then more than there is; and it has no checksum.
        let mut head = message.to_vec();
        let cut = whole_objects(&head);
        head.truncate(cut);
        head.get_mut(2..4)?.fill(0);
        head.get_mut(6..8)?.copy_from_slice(&u16::try_from(cut).ok()?.to_be_bytes());
        let found = Salvage::read(&head)?;
        return Some(MessageName { what: What::Rsvp(found.kind), of: session_number(&found.session?) });
    }
    let probe = ProbePacket::parse(packet).ok()?;
    let what = if probe.message.leg == TravelDirection::Reply { What::Reply } else { What::Request };
    Some(MessageName { what, of: u64::from(probe.message.transaction) })
}

/// Returns the end of the last complete object, bytes.
fn whole_objects(message: &[u8]) -> usize {
    let mut at = 8;
    while let Some(&[hi, lo, _, _]) = message.get(at..).and_then(<[u8]>::first_chunk::<4>) {
        let length = usize::from(u16::from_be_bytes([hi, lo]));
        if length < 4 || at + length > message.len() {
            break;
        }
        at += length;
    }
    at
}

/// Returns a Path's hop, and the handle that a Resv must return (RSVP_HOP, IPv4).
pub fn hop_of(packet: &[u8]) -> Option<(Ipv4Addr, u32)> {
    let message = packet.get(usize::from(packet.first()? & 0xf) * 4..)?;
    let mut at = 8;
    loop {
        let &[hi, lo, kind, _] = message.get(at..)?.first_chunk::<4>()?;
        if kind == class::RSVP_HOP {
            let &[a, b, c, d, w, x, y, z] = message.get(at + 4..)?.first_chunk::<8>()?;
            return Some((Ipv4Addr::new(a, b, c, d), u32::from_be_bytes([w, x, y, z])));
        }
        at += usize::from(u16::from_be_bytes([hi, lo])).max(4);
    }
}

/// Returns the number of aware nodes that a Boomerang request has met, if it counts them (HOPS).
fn met(packet: &[u8]) -> Option<u16> {
    let probe = ProbePacket::parse(packet).ok()?;
    probe.message.options().find_map(|(_, option)| match option {
        Opt::Hops(hops) => Some(hops.forward),
        _ => None,
    })
}

/// The four crossings of messages, and the times of each message.
pub struct Boundary {
    /// Downstream in, downstream out, upstream in, upstream out.
    points: [Checkpoint; 4],
    entered: HashMap<MessageName, u64>,
    left: HashMap<MessageName, u64>,
    /// The hop of the last Path that left the node.
    hop: Option<(Ipv4Addr, u32)>,
    /// The number of aware nodes in the last Boomerang request that left.
    met: Option<u16>,
}

impl Boundary {
    /// Creates a boundary of these checkpoints: downstream in and out, upstream in and out.
    pub fn new(points: [Checkpoint; 4]) -> Boundary {
        Boundary { points, entered: HashMap::new(), left: HashMap::new(), hop: None, met: None }
    }

    /// Reads the messages that have passed.
    pub fn look(&mut self) {
        for (place, point) in self.points.iter_mut().enumerate() {
            let (downstream, out) = (place < 2, place % 2 == 1);
            while let Some(Passed { at, bytes }) = point.take() {
                let Some(name) = name(&bytes).filter(|name| name.what.is_downstream() == downstream) else { continue };
                if out && name.what == What::Rsvp(MessageType::Path) {
                    self.hop = hop_of(&bytes).or(self.hop);
                }
                if out && name.what == What::Request {
                    self.met = met(&bytes).or(self.met);
                }
                let crossed = if out { &mut self.left } else { &mut self.entered };
                // The first counts: what comes again later is its refresh.
                crossed.entry(name).or_insert(at);
            }
        }
    }

    /// Returns a message's time in the node, us; `None` if it has not left (yet).
    pub fn inside(&self, name: &MessageName) -> Option<f64> {
        let (entered, left) = (self.entered.get(name)?, self.left.get(name)?);
        Some(left.saturating_sub(*entered) as f64 / 1e3)
    }

    /// True if a message has left the node.
    pub fn has_left(&self, name: &MessageName) -> bool {
        self.left.contains_key(name)
    }

    /// Returns how many of these messages have entered, and how many have left.
    pub fn count<'a>(&self, names: impl Iterator<Item = &'a MessageName>) -> (usize, usize) {
        names.fold((0, 0), |(entered, left), name| {
            let here = |crossed: &HashMap<MessageName, u64>| usize::from(crossed.contains_key(name));
            (entered + here(&self.entered), left + here(&self.left))
        })
    }

    /// Returns the hop and the handle of the last Path that left.
    pub fn hop(&self) -> Option<(Ipv4Addr, u32)> {
        self.hop
    }

    /// Returns the number of aware nodes in the last request that counts them.
    pub fn met(&self) -> Option<u16> {
        self.met
    }

    /// Forgets all messages, but not the hop.
    pub fn forget(&mut self) {
        self.look();
        self.entered.clear();
        self.left.clear();
    }

    /// Forgets all messages, the hop and the count of aware nodes.
    pub fn forget_all(&mut self) {
        self.forget();
        (self.hop, self.met) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transit::{FIRST, down, up};

    fn packet(message: &[u8]) -> Vec<u8> {
        let (src, dst) = ([10, 1, 1, 1].into(), [172, 0, 0, 5].into());
        wire::ip::packet(src, dst, 46, 63, true, message).unwrap()
    }

    #[test]
    fn a_message_is_known_by_its_first_bytes() {
        let (path, resv) = (packet(&down(MessageType::Path, 5, FIRST)), packet(&up(MessageType::Resv, 5)));
        let (short, whole) = (name(&path[..96]).unwrap(), name(&path).unwrap());
        assert_eq!(short, whole);
        assert_eq!(whole.what, What::Rsvp(MessageType::Path));
        assert_eq!(name(&resv).unwrap().of, whole.of, "one session");
        assert_ne!(name(&packet(&down(MessageType::Path, 6, FIRST))).unwrap().of, whole.of);
        assert_eq!(hop_of(&path), Some((Ipv4Addr::new(10, 255, 1, 2), 7)));
        assert!((0..path.len()).all(|cut| name(&path[..cut]).is_none_or(|n| n.of == whole.of)));
        assert_eq!((name(&[]), name(&[0x45; 20]), hop_of(&[0x4f; 9])), (None, None, None));
    }
}
