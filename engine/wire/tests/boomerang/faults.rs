//! What is no message, one test a rule. Whatever is refused here is somebody's ping and goes on untouched.

use crate::boomerang::seeds::{self, flow4, flow6, packet, plain};
use wire::boomerang::{BoomerangRequest, Family, Opt, ProbePacket, Rates, Selector, is_boomerang};
use wire::checksum;

/// The plain IPv4 message with `octets` at `place` of its ICMP message, checksum right; what the parser says.
fn with(place: usize, octets: &[u8]) -> Result<(), &'static str> {
    let mut bytes = packet(&plain(&flow4()), false);
    bytes[20 + place..20 + place + octets.len()].copy_from_slice(octets);
    bytes[22..24].fill(0);
    let sum = checksum::internet(&bytes[20..]);
    bytes[22..24].copy_from_slice(&sum.to_be_bytes());
    ProbePacket::parse(&bytes).map(|_| ()).map_err(|e| e.what)
}

#[test]
fn header_fields_that_are_not_ours() {
    assert_eq!(with(8, &[0x47]), Ok(()), "unchanged");
    assert_eq!(with(0, &[3]), Err("not an ICMP echo"));
    assert_eq!(with(0, &[128]), Err("Boomerang family is not that of the packet"));
    assert_eq!(with(1, &[1]), Err("ICMP code of an echo is not 0"));
    assert_eq!(with(8, &[0x48]), Err("no Boomerang magic"));
    assert_eq!(with(16, &[0x20]), Err("Boomerang type is not a reservation"));
    assert_eq!(with(17, &[0x1a]), Err("Boomerang family is not that of the packet"));
    assert_eq!(with(17, &[0x22]), Err("Boomerang INTSERV body is not defined"));
    assert_eq!(with(17, &[0x42]), Err("Boomerang QoS format is unknown"));
    assert_eq!(with(21, &[2]), Err("Boomerang version is not 1"));
}

#[test]
fn downgrade_vectors_that_mean_nothing() {
    // 3,000,000 read as a vector header: size 0.
    assert_eq!(with(17, &[0x32]), Err("Boomerang DOWNGRADE vector is empty"));
    let up = [Rates { forward: 1, reverse: 1 }, Rates { forward: 2, reverse: 0 }];
    let bytes = packet(&BoomerangRequest { rates: &up, ..plain(&flow4()) }, false);
    assert_eq!(ProbePacket::parse(&bytes).unwrap_err().what, "Boomerang DOWNGRADE vector rises");
    let equal = [Rates { forward: 1, reverse: 1 }; 255];
    let bytes = packet(&BoomerangRequest { rates: &equal, ..plain(&flow4()) }, false);
    assert_eq!(ProbePacket::parse(&bytes).unwrap().message.qos.count(), 255);
    let size = BoomerangRequest { rates: &[Rates::default(); 256], ..plain(&flow4()) }.icmp();
    assert!(size.is_err() && BoomerangRequest { rates: &[], ..plain(&flow4()) }.icmp().is_err());
}

#[test]
fn wrong_checksums() {
    for flow in [flow4(), flow6()] {
        let mut bytes = packet(&plain(&flow), false);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(ProbePacket::parse(&bytes).unwrap_err().what, "ICMP checksum is wrong");
        assert!(is_boomerang(&bytes), "the filter does not verify");
    }
    let mut bytes = packet(&plain(&flow4()), false);
    bytes[8] ^= 1;
    assert_eq!(ProbePacket::parse(&bytes).unwrap_err().what, "IPv4 header checksum is wrong");
}

/// The pseudo header binds an ICMPv6 message to its addresses.
#[test]
fn an_ipv6_address_that_changed_under_way() {
    let mut bytes = packet(&plain(&flow6()), false);
    bytes[39] ^= 1;
    assert_eq!(ProbePacket::parse(&bytes).unwrap_err().what, "ICMP checksum is wrong");
}

#[test]
fn fragments() {
    let mut bytes = packet(&plain(&flow4()), false);
    for (hi, lo) in [(0x20, 0), (0, 1)] {
        (bytes[6], bytes[7]) = (hi, lo);
        bytes[10..12].fill(0);
        let sum = checksum::internet(&bytes[..20]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(ProbePacket::parse(&bytes).unwrap_err().what, "a fragment is not a whole message");
        assert!(!is_boomerang(&bytes));
    }
}

#[test]
fn trailing_bytes_behind_the_packet_are_not_part_of_it() {
    let mut bytes = packet(&plain(&flow4()), false);
    bytes.extend_from_slice(&[0xee; 10]);
    let probe = ProbePacket::parse(&bytes).unwrap();
    assert_eq!((probe.total, probe.message.tail.len()), (92, 0));
}

#[test]
fn an_option_without_a_length_ends_the_walk() {
    let seed = seeds::all().into_iter().find(|seed| seed.name == "request-v4-unmeasured").unwrap();
    let message = ProbePacket::parse(&seed.bytes).unwrap().message;
    assert_eq!(message.options().count(), 1);
    assert_eq!(message.options().remainder().len(), 12 + 8);
}

/// Ours of a wrong length is not decoded, but passed over.
#[test]
fn our_options_of_a_wrong_length() {
    for kind in [wire::boomerang::option_type::AUTH, wire::boomerang::option_type::HOPS] {
        let options = [Opt::Unknown { kind, body: &[1; 6] }, Opt::Hops(Default::default())];
        let bytes = packet(&BoomerangRequest { options: &options, ..plain(&flow4()) }, false);
        let probe = ProbePacket::parse(&bytes).unwrap();
        let walked: Vec<Opt<'_>> = probe.message.options().map(|(_, option)| option).collect();
        assert_eq!(walked, options);
    }
}

#[test]
fn masks() {
    let exact = Selector::exact(Family::V4);
    assert!(exact.is_exact() && Selector::exact(Family::V6).is_exact());
    assert!(Selector { tos: 0xff, flags: 0xffff, ..exact }.is_exact(), "TOS and flags do not tell sessions apart");
    assert!(!Selector { src_port: 0xfffe, ..exact }.is_exact());
    let classifier = Selector::of(&flow4());
    assert_eq!(classifier.under(&exact).flow(), flow4());
    let net = Selector { src: seeds::ip("255.255.0.0"), src_port: 0, ..exact };
    assert_eq!(classifier.under(&net).src, seeds::ip("10.0.0.0"));
    assert_eq!(classifier.turned().turned(), classifier);
    assert_eq!(classifier.turned().flow().src_port, 5006);
}
