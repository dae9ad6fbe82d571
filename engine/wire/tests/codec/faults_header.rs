//! `FAULTS` P1 to P7 and P16 to P19: the common header.

use crate::codec::seeds;

use wire::{Builder, MalformedMessage, Message, MessageType};

fn path() -> Vec<u8> {
    let seed = seeds::all().into_iter().find(|s| s.name == "path-v4").unwrap();
    seed.bytes
}

/// The path with one of its bytes another, and no checksum.
fn with(at: usize, value: u8) -> Vec<u8> {
    let mut bytes = path();
    bytes[2..4].fill(0);
    bytes[at] = value;
    bytes
}

fn with_length(length: u16) -> Vec<u8> {
    let mut bytes = with(0, 0x10);
    bytes[6..8].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn refused(bytes: &[u8]) -> (&'static str, usize) {
    let MalformedMessage { what, offset, answer } = Message::parse(bytes).expect_err("it must be refused");
    assert_eq!(answer, None, "damage is dropped in silence");
    (what, offset)
}

#[test]
fn p1_shorter_than_a_header() {
    for cut in 0..8 {
        assert_eq!(refused(&path()[..cut]), ("shorter than the common header", 0));
    }
}

#[test]
fn p2_other_versions() {
    for version in [0, 2, 15] {
        assert_eq!(refused(&with(0, version << 4)), ("RSVP version is not 1", 0));
    }
}

#[test]
fn p3_length_below_the_header() {
    for length in [0, 4, 7] {
        assert_eq!(refused(&with_length(length)), ("RSVP Length is below 8", 6));
    }
}

#[test]
fn p4_length_above_what_arrived() {
    let long = path().len() as u16 + 4;
    for length in [long, 65_532] {
        assert_eq!(refused(&with_length(length)), ("RSVP Length is above what arrived", 6));
    }
}

#[test]
fn p5_bytes_after_length_are_not_looked_at() {
    let mut bytes = path();
    let alone = format!("{:?}", Message::parse(&bytes).unwrap());
    bytes.extend([0, 0, 1, 1, 0xff]);
    assert_eq!(format!("{:?}", Message::parse(&bytes).unwrap()), alone);
}

#[test]
fn p6_length_not_whole_words() {
    for length in [9, 10, 11, 65_535] {
        assert_eq!(refused(&with_length(length)), ("RSVP Length is not a multiple of 4", 6));
    }
}

#[test]
fn p7_the_longest_message() {
    // 65,535 is no multiple of four, so 65,532 is the most. One object to ignore fills the message up.
    let start = || Builder::new(MessageType::Path, 63).session(&seeds::session4()).hop(&seeds::hop4());
    let start = || start().time_values(terms::Span::ZERO).sender_template(&seeds::sender4(1));
    let start = || start().sender_tspec(&seeds::video());
    let used = start().finish().unwrap().len();
    let longest = start().raw(0x80, 1, &vec![0; 65_532 - used - 4]).finish().unwrap();
    assert_eq!(longest.len(), 65_532);
    assert!(Message::parse(&longest).is_ok());
    assert!(start().raw(0x80, 1, &vec![0; 65_532 - used - 3]).finish().is_err());
}

#[test]
fn p16_checksum() {
    let mut bytes = path();
    let Message::Path(m) = Message::parse(&bytes).unwrap() else { panic!("not a Path") };
    assert_ne!(m.envelope.header.checksum, 0);
    bytes[2..4].fill(0);
    let Message::Path(m) = Message::parse(&bytes).unwrap() else { panic!("not a Path") };
    assert_eq!(m.envelope.header.checksum, 0, "zero is not checked, but the caller can see it");
    bytes[3] = 1;
    assert_eq!(refused(&bytes), ("RSVP Checksum is wrong", 2));
    // Right over the bytes that a wrong Length covers.
    let mut bytes = with_length(path().len() as u16 - 4);
    let sum = wire::checksum::internet(&bytes[..bytes.len() - 4]);
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(refused(&bytes).0, "object passes the end of what contains it");
}

#[test]
fn p16_a_sum_of_zero_is_sent_as_all_ones() {
    // The value of an object to ignore that makes the sum 0xffff.
    let message = |value: u16| {
        let words = value.to_be_bytes();
        Builder::new(MessageType::Path, 1).raw(0x80, 1, &[words[0], words[1], 0, 0]).finish().unwrap()
    };
    let sum = u16::from_be_bytes([message(0)[2], message(0)[3]]);
    assert_eq!(message(sum)[2..4], [0xff, 0xff]);
}

#[test]
fn p17_message_types() {
    for kind in (0..=u8::MAX).filter(|k| !(1..=7).contains(k)) {
        // A Path under another type's number: what that type needs is not there.
        let expected = match MessageType::from_number(kind) {
            Some(MessageType::Bundle) => "version of a sub-message is not 1",
            Some(MessageType::Ack) => "no MESSAGE_ID_ACK",
            Some(MessageType::Srefresh) => "no MESSAGE_ID_LIST",
            Some(MessageType::Hello) => "no HELLO",
            Some(MessageType::IntegrityChallenge) => "no CHALLENGE",
            Some(_) => "no INTEGRITY in an Integrity Response",
            None => "message type is unknown",
        };
        assert_eq!(refused(&with(1, kind)).0, expected, "type {kind}");
    }
}

#[test]
fn p18_flags_and_reserved_are_ignored_and_sent_as_zero() {
    for flags in 0..16 {
        let bytes = with(0, 0x10 | flags);
        assert_eq!(Message::parse(&bytes).unwrap().envelope().header.flags, flags);
    }
    assert!(Message::parse(&with(5, 0xff)).is_ok());
    assert_eq!((path()[0], path()[5]), (0x10, 0));
}

#[test]
fn p19_send_ttl_is_for_the_caller_to_compare() {
    for ttl in [0, 1, 63, 255] {
        assert_eq!(Message::parse(&with(4, ttl)).unwrap().envelope().header.send_ttl, ttl);
    }
}
