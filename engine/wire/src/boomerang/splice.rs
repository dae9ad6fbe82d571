//! Adding an option to a message and removing one: the only changes of length that a node makes, and only if
//! it is configured to aggregate sessions (RESV_AGGREGATION).

use super::{Family, Opt, ProbePacket, at};
use crate::{checksum, ip};
use alloc::vec::Vec;

/// The packet with an option before all others, so that one of unknown length cannot hide it. `None` if it is
/// not a message, or would be too long.
pub fn with_option(packet: &[u8], option: &Opt<'_>) -> Option<Vec<u8>> {
    let probe = ProbePacket::parse(packet).ok()?;
    let place = probe.total.checked_sub(probe.message.tail.len())?;
    let mut body = Vec::new();
    option.write(&mut body);
    let spliced = [packet.get(..place)?, &body, packet.get(place..probe.total)?].concat();
    sealed(&probe, spliced)
}

/// The packet without the first option of a type; `None` if there is none.
pub fn without_option(packet: &[u8], kind: u16) -> Option<Vec<u8>> {
    let probe = ProbePacket::parse(packet).ok()?;
    let mut options = probe.message.options();
    while let Some((body, option)) = options.next() {
        if option.kind() == kind {
            let start = probe.at.checked_add(body)?.checked_sub(4)?;
            let end = probe.total.checked_sub(options.rest().len())?;
            let spliced = [packet.get(..start)?, packet.get(end..probe.total)?].concat();
            return sealed(&probe, spliced);
        }
    }
    None
}

/// The packet with updated lengths and checksums.
fn sealed(probe: &ProbePacket<'_>, mut packet: Vec<u8>) -> Option<Vec<u8>> {
    let (family, length) = (probe.message.family, packet.len());
    let (field, said) = match family {
        Family::V4 => (2, length),
        Family::V6 => (4, length.checked_sub(40)?),
    };
    packet.get_mut(field..)?.first_chunk_mut::<2>()?.copy_from_slice(&u16::try_from(said).ok()?.to_be_bytes());
    if family == Family::V4 {
        packet.get_mut(10..12)?.fill(0);
        let sum = checksum::internet(packet.get(..probe.at)?);
        packet.get_mut(10..12)?.copy_from_slice(&sum.to_be_bytes());
    }
    let message = packet.get_mut(probe.at..)?;
    message.get_mut(at::CHECKSUM..4)?.fill(0);
    let pseudo = match family {
        Family::V4 => 0,
        Family::V6 => ip::pseudo_header(probe.src, probe.dst, family.protocol(), message.len()),
    };
    let sum = !checksum::fold(checksum::sum(message).wrapping_add(pseudo));
    message.get_mut(at::CHECKSUM..4)?.copy_from_slice(&sum.to_be_bytes());
    Some(packet)
}
