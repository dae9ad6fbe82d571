//! A Boomerang message: the ICMP echo that carries it, checked once.

use super::qos::Qos;
use super::{OptionWalk, Selector, VERSION, at, flag, format, icmp, kind};
use crate::{MalformedMessage, checksum, ip};
use core::net::IpAddr;

/// The address family of a message, as its ICMP version shows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Length of a Classifier, octets.
    pub fn selector(self) -> usize {
        match self {
            Family::V4 => 16,
            Family::V6 => 40,
        }
    }

    /// The ICMP protocol number.
    pub fn protocol(self) -> u8 {
        match self {
            Family::V4 => icmp::IPPROTO_ICMP,
            Family::V6 => icmp::IPPROTO_ICMPV6,
        }
    }

    /// The low half of the Container's format.
    pub fn format(self) -> u8 {
        match self {
            Family::V4 => format::IPV4,
            Family::V6 => format::IPV6,
        }
    }
}

/// The direction in which a message travels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TravelDirection {
    /// Out, as an echo request: forward rates are reserved.
    Request,
    /// Back, as an echo reply: reverse rates are reserved.
    Reply,
}

/// A checked message. Every field is as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoomerangMessage<'a> {
    /// Address family.
    pub family: Family,
    /// The direction: out or back.
    pub leg: TravelDirection,
    /// ICMP identifier.
    pub id: u16,
    /// ICMP sequence number.
    pub sequence: u16,
    /// The initiating node's number for this exchange.
    pub transaction: u32,
    /// [`flag`]s.
    pub flags: u16,
    /// Seconds to the initiating node's next message; a node may shorten it.
    pub refresh: u8,
    /// Padding of the Reservation header; carried along.
    pub padding: u16,
    /// 1: open; a product of primes: locked; 0: a node could not reserve.
    pub key: u64,
    /// The flow whose packets the reservation serves.
    pub classifier: Selector,
    /// The bits of the classifier that count.
    pub mask: Selector,
    /// The rates that are asked for.
    pub qos: Qos<'a>,
    /// The bytes after the QoS body, options first.
    pub tail: &'a [u8],
    /// The message's length, octets.
    pub length: usize,
}

/// The family and the direction of a message with this header, if it is a Boomerang message.
fn introduced(head: &[u8; 32]) -> Result<(Family, TravelDirection), MalformedMessage> {
    let wrong = |what, offset| Err(MalformedMessage::silent(what, offset));
    let (family, leg) = match head[0] {
        icmp::REQUEST_V4 => (Family::V4, TravelDirection::Request),
        icmp::REPLY_V4 => (Family::V4, TravelDirection::Reply),
        icmp::REQUEST_V6 => (Family::V6, TravelDirection::Request),
        icmp::REPLY_V6 => (Family::V6, TravelDirection::Reply),
        _ => return wrong("not an ICMP echo", 0),
    };
    if head[1] != 0 {
        return wrong("ICMP code of an echo is not 0", 1);
    }
    if u32::from_be_bytes([head[8], head[9], head[10], head[11]]) != super::MAGIC {
        return wrong("no Boomerang magic", at::MAGIC);
    }
    if head[16] != kind::RESERVATION {
        return wrong("Boomerang type is not a reservation", 16);
    }
    if head[17] & 0x0f != family.format() {
        return wrong("Boomerang family is not that of the packet", 17);
    }
    if head[21] != VERSION {
        return wrong("Boomerang version is not 1", 21);
    }
    Ok((family, leg))
}

impl<'a> BoomerangMessage<'a> {
    /// Reads an ICMP or ICMPv6 message. With `ends`, the source and destination of its packet, the checksum
    /// is verified; without them, an ICMPv6 checksum is not.
    ///
    /// # Errors
    /// [`MalformedMessage`], always without an answer: anything but a Boomerang message is an ordinary ping.
    pub fn parse(bytes: &'a [u8], ends: Option<(IpAddr, IpAddr)>) -> Result<BoomerangMessage<'a>, MalformedMessage> {
        let wrong = |what, offset| Err(MalformedMessage::silent(what, offset));
        let Some((head, rest)) = bytes.split_first_chunk::<32>() else {
            return wrong("shorter than a Boomerang header", 0);
        };
        let (family, leg) = introduced(head)?;
        let length = family.selector();
        let selectors = rest.split_at_checked(length).and_then(|(c, rest)| Some((c, rest.split_at_checked(length)?)));
        let Some((classifier, (mask, rest))) = selectors else {
            return wrong("Boomerang Classifier and Mask are cut off", at::SELECTORS);
        };
        let (Some(classifier), Some(mask)) = (Selector::read(family, classifier), Selector::read(family, mask)) else {
            return wrong("Boomerang Classifier and Mask are cut off", at::SELECTORS);
        };
        let (qos, tail) = Qos::read(head[17] & 0xf0, rest, bytes.len().saturating_sub(rest.len()))?;
        if !sum_is_right(family, bytes, ends) {
            return wrong("ICMP checksum is wrong", at::CHECKSUM);
        }
        Ok(BoomerangMessage {
            family,
            leg,
            id: u16::from_be_bytes([head[4], head[5]]),
            sequence: u16::from_be_bytes([head[6], head[7]]),
            transaction: u32::from_be_bytes([head[12], head[13], head[14], head[15]]),
            flags: u16::from_be_bytes([head[18], head[19]]),
            refresh: head[20],
            padding: u16::from_be_bytes([head[22], head[23]]),
            key: u64::from_be_bytes([head[24], head[25], head[26], head[27], head[28], head[29], head[30], head[31]]),
            classifier,
            mask,
            qos,
            tail,
            length: bytes.len(),
        })
    }

    /// True if a node before this one could not reserve.
    pub fn is_nack(&self) -> bool {
        self.flags & flag::NACK != 0
    }

    /// True if the far end must not answer.
    pub fn is_no_echo(&self) -> bool {
        self.flags & flag::NO_ECHO != 0
    }

    /// The options, up to the first of unknown length.
    pub fn options(&self) -> OptionWalk<'a> {
        OptionWalk::new(self.family, self.tail, self.length.saturating_sub(self.tail.len()))
    }

    /// The offset of the QoS body's pairs, from the first byte of the ICMP message.
    pub fn rates_at(&self) -> usize {
        at::SELECTORS.saturating_add(self.family.selector().saturating_mul(2)).saturating_add(self.qos.offset())
    }
}

fn sum_is_right(family: Family, bytes: &[u8], ends: Option<(IpAddr, IpAddr)>) -> bool {
    match (family, ends) {
        (Family::V4, _) => checksum::internet(bytes) == 0,
        (Family::V6, None) => true,
        (Family::V6, Some((src, dst))) => {
            let pseudo = ip::pseudo_header(src, dst, icmp::IPPROTO_ICMPV6, bytes.len());
            checksum::fold(checksum::sum(bytes).wrapping_add(pseudo)) == u16::MAX
        }
    }
}
