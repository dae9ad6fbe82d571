//! Extracts the IP packet from a captured frame, for the link types on which IP is usually captured.

/// Link types, by their registered numbers.
const NULL: u32 = 0;
const ETHERNET: u32 = 1;
const RAW_BSD: u32 = 12;
const RAW_OPENBSD: u32 = 14;
const RAW: u32 = 101;
const LINUX_SLL: u32 = 113;
const IPV4: u32 = 228;
const IPV6: u32 = 229;
const LINUX_SLL2: u32 = 276;

/// Ethertypes.
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;

/// Returns the IP packet in a frame; `None` if it carries another protocol, or the link type is unknown.
pub fn ip_packet(link: u32, frame: &[u8]) -> Option<&[u8]> {
    match link {
        RAW | RAW_BSD | RAW_OPENBSD | IPV4 | IPV6 => Some(frame),
        NULL => frame.get(4..),
        ETHERNET => by_ethertype(frame.get(12..)?),
        LINUX_SLL => by_ethertype(frame.get(14..)?),
        LINUX_SLL2 => {
            let kind = u16::from_be_bytes(*frame.first_chunk::<2>()?);
            if is_ip(kind) { frame.get(20..) } else { None }
        }
        _ => None,
    }
}

/// Returns the IP packet behind an ethertype and up to two VLAN tags.
fn by_ethertype(mut rest: &[u8]) -> Option<&[u8]> {
    for _ in 0..3 {
        let (kind, after) = rest.split_first_chunk::<2>()?;
        match u16::from_be_bytes(*kind) {
            ETHERTYPE_VLAN | ETHERTYPE_QINQ => rest = after.get(2..)?,
            kind if is_ip(kind) => return Some(after),
            _ => return None,
        }
    }
    None
}

fn is_ip(kind: u16) -> bool {
    matches!(kind, ETHERTYPE_IPV4 | ETHERTYPE_IPV6)
}
