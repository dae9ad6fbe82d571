//! Golden bytes: the draft's figures laid out by hand, and the corpus, which is what the writer writes today. `BLESS=1`
//! rewrites the files after a deliberate change.

use crate::boomerang::seeds::{self, flow4, flow6, plain};
use std::collections::BTreeSet;
use wire::boomerang::{ProbePacket, TravelDirection, is_boomerang};

/// 92 octets, each from the draft's figures.
#[test]
fn an_ipv4_message_is_92_octets() {
    #[rustfmt::skip]
    let expected = [
        // IPv4: length 92, TTL 64, ICMP, checksum; 10.0.1.1 to 10.0.2.2
        0x45, 0x00, 0x00, 0x5c, 0x00, 0x00, 0x00, 0x00, 0x40, 0x01, 0x63, 0x9d, 10, 0, 1, 1, 10, 0, 2, 2,
        // echo request, checksum, identifier, sequence
        0x08, 0x00, 0xb5, 0xd9, 0x12, 0x34, 0x00, 0x01,
        // Container: magic, transaction id, type, format, flags
        0x47, 0x11, 0x47, 0x11, 0x01, 0x02, 0x03, 0x04, 0x10, 0x12, 0x00, 0x00,
        // Reservation: refresh 3 s, version 1, padding, KEY 1
        0x03, 0x01, 0x00, 0x00, 0, 0, 0, 0, 0, 0, 0, 1,
        // Classifier: UDP 5004 to 5006, EF
        10, 0, 1, 1, 10, 0, 2, 2, 0x13, 0x8c, 0x13, 0x8e, 17, 0xb8, 0, 0,
        // Mask
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0,
        // BITRATE: 3,000,000 out, 1,000,000 back
        0x00, 0x2d, 0xc6, 0xc0, 0x00, 0x0f, 0x42, 0x40,
    ];
    let bytes = seeds::packet(&plain(&flow4()), false);
    assert_eq!(bytes.len(), 92);
    // The two checksums are right by arithmetic that is not ours.
    assert_eq!((ones(&bytes[..20]), ones(&bytes[20..])), (0xffff, 0xffff));
    let no_sums = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[10..12].fill(0);
        bytes[22..24].fill(0);
        bytes
    };
    assert_eq!(no_sums(&bytes), no_sums(&expected));
    // 245 bit/s at a refresh every 3 s, as the framework draft counts.
    assert_eq!(bytes.len() * 8 / 3, 245);
}

#[test]
fn an_ipv6_message_is_160_octets() {
    assert_eq!(seeds::packet(&plain(&flow6()), false).len(), 160);
}

/// The ones' complement sum, the slow way.
fn ones(bytes: &[u8]) -> u32 {
    let mut sum: u32 = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

#[test]
fn the_files_are_what_the_writer_writes() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut expected = BTreeSet::new();
    for seed in seeds::all() {
        let path = seeds::folder().join(format!("{}.hex", seed.name));
        assert!(expected.insert(path.clone()), "{} twice", seed.name);
        let text = seeds::write_hex(&seed);
        assert_eq!(seeds::read_hex(&text), seed.bytes, "{}", seed.name);
        if bless {
            std::fs::create_dir_all(seeds::folder()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(there, text, "{}: run with BLESS=1 if the change is meant", seed.name);
    }
    let found: BTreeSet<_> = std::fs::read_dir(seeds::folder()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(found, expected, "files in the folder and seeds");
}

#[test]
fn every_seed_is_what_its_name_says() {
    for seed in seeds::all() {
        assert!(is_boomerang(&seed.bytes), "{}", seed.name);
        let probe = ProbePacket::parse(&seed.bytes).unwrap_or_else(|e| panic!("{}: {e}", seed.name));
        assert_eq!(probe.message.leg == TravelDirection::Reply, seed.name.starts_with("reply"), "{}", seed.name);
        assert_eq!(probe.src.is_ipv6(), seed.name.contains("v6"), "{}", seed.name);
        assert_eq!(probe.initiator(), if probe.src.is_ipv6() { flow6().src } else { flow4().src }, "{}", seed.name);
    }
}
