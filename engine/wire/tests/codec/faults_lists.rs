//! `FAULTS` P37, P38, P42 to P44, P51, P53 to P55, RFC 5284: Adspecs, lists inside objects, IP headers, what does not fit.

use crate::codec::seeds;

use crate::codec::seeds::{controlled, hop4, ip, sender4, session4, start, video};
use std::net::IpAddr;
use terms::{Adspec, HopExport, Rate, Span, Style};
use wire::iana::{class, error};
use wire::ip::Packet;
use wire::{Builder, Message, MessageType, UserError, ip as packets};

fn path() -> Builder {
    let head = start(MessageType::Path).session(&session4()).hop(&hop4()).time_values(Span::from_secs(30));
    head.sender_template(&sender4(1)).sender_tspec(&video())
}

/// What is wrong with a Path that has this ADSPEC body, and whether it is answered with "bad Adspec value".
fn adspec_fault(body: &[u8]) -> Option<(&'static str, bool)> {
    let bytes = path().raw(class::ADSPEC, 2, body).finish().unwrap();
    let fault = Message::parse(&bytes).err()?;
    let bad = fault.answer.is_some_and(|a| (a.code, a.value) == (error::TRAFFIC_CONTROL, error::TC_BAD_ADSPEC));
    Some((fault.what, bad))
}

fn adspec_of(body: &[u8]) -> Adspec {
    let bytes = path().raw(class::ADSPEC, 2, body).finish().unwrap();
    let Ok(Message::Path(m)) = Message::parse(&bytes) else { panic!("not a Path") };
    m.adspec.unwrap().terms
}

const GENERAL: [u32; 9] = [0x0100_0008, 0x0400_0001, 1, 0x0600_0001, 0x4974_2400, 0x0800_0001, 9, 0x0a00_0001, 1500];
const GUARANTEED: [u32; 9] = [0x0200_0008, 0x8500_0001, 1, 0x8600_0001, 2, 0x8700_0001, 3, 0x8800_0001, 4];
const CONTROLLED: [u32; 1] = [0x0500_0000];

fn body(fragments: &[&[u32]]) -> Vec<u8> {
    let words: Vec<u32> = fragments.concat();
    std::iter::once(words.len() as u32).chain(words).flat_map(u32::to_be_bytes).collect()
}

#[test]
fn p37_fragments() {
    let all = adspec_of(&body(&[&GENERAL, &GUARANTEED, &CONTROLLED]));
    assert_eq!(all.guaranteed.map(|g| (g.c_tot, g.d_tot, g.c_sum, g.d_sum)), Some((1, 2, 3, 4)));
    assert_eq!((all.is_hops, all.bandwidth, all.path_mtu), (1, Rate::from_mbps(8), 1500));
    assert_eq!(adspec_of(&body(&[&GENERAL, &CONTROLLED, &GUARANTEED])), all, "either order");
    assert_eq!(adspec_of(&body(&[&GENERAL, &CONTROLLED])).guaranteed, None);
    let absent = Some(("ADSPEC does not begin with the general parameters", true));
    assert_eq!(adspec_fault(&body(&[&GUARANTEED])), absent);
    assert_eq!(adspec_fault(&body(&[&CONTROLLED, &GENERAL])), absent);
    assert_eq!(adspec_fault(&body(&[])), absent);
    assert_eq!(adspec_fault(&body(&[&GENERAL, &GENERAL])), Some(("general parameters twice", true)));
    assert_eq!(adspec_fault(&body(&[&GENERAL, &GUARANTEED, &GUARANTEED])), Some(("guaranteed service twice", true)));
    assert_eq!(adspec_fault(&body(&[&GENERAL, &CONTROLLED, &CONTROLLED])), Some(("controlled load twice", true)));
    let mut short = GENERAL;
    short[0] = 0x0100_0006;
    assert_eq!(adspec_fault(&body(&[&short[..7]])), Some(("general parameters are not complete", true)));
    let mut nan = GENERAL;
    nan[4] = 0x7fc0_0000;
    assert_eq!(adspec_fault(&body(&[&nan])), Some(("path bandwidth is no rate", true)));
}

#[test]
fn p37_break_bits_and_narrower_values() {
    let broken = |f: &[u32]| [&[f[0] | 0x0080_0000], &f[1..]].concat();
    let all = adspec_of(&body(&[&broken(&GENERAL), &broken(&GUARANTEED), &broken(&CONTROLLED)]));
    assert!(all.break_bit && all.guaranteed.unwrap().break_bit && all.controlled_load.unwrap());
    // A broken guaranteed fragment without terms.
    assert!(adspec_of(&body(&[&GENERAL, &[0x0280_0000]])).guaranteed.unwrap().break_bit);
    assert_eq!(
        adspec_fault(&body(&[&GENERAL, &[0x0200_0000]])),
        Some(("guaranteed service terms are not complete", true))
    );
    // A service narrows bandwidth and MTU for itself: the narrower counts.
    let narrow = [0x0500_0004, 0x0600_0001, 125_000f32.to_bits(), 0x0a00_0001, 576];
    let read = adspec_of(&body(&[&GENERAL, &narrow]));
    assert_eq!((read.bandwidth, read.path_mtu), (Rate::from_mbps(1), 576));
}

#[test]
fn p37_fragments_we_do_not_know_travel_on_with_their_break_bit() {
    let seed = seeds::all().into_iter().find(|s| s.name == "path-v4-adspec-unknown-service").unwrap();
    let Ok(Message::Path(m)) = Message::parse(&seed.bytes) else { panic!("not a Path") };
    let arrived = m.adspec.unwrap();
    let bytes = path().adspec_onward(&arrived.terms, &arrived).finish().unwrap();
    let Ok(Message::Path(m)) = Message::parse(&bytes) else { panic!("not a Path") };
    let last = m.adspec.unwrap().fragments.last().unwrap();
    assert_eq!((last.number, last.break_bit, last.body), (9, true, &[200, 0, 0, 1, 0, 0, 0, 42][..]));
}

#[test]
fn p38_latency_that_nobody_knows_stays_unknown() {
    let mut unknown = GENERAL;
    unknown[6] = u32::MAX;
    let read = adspec_of(&body(&[&unknown]));
    assert_eq!(read.min_latency, None);
    let hop = HopExport { bandwidth: Rate::INFINITE, mtu: 9000, latency: Some(Span::from_micros(1)), guaranteed: None };
    assert_eq!(read.through(&hop).min_latency, None);
    // What 32 bits cannot say is written as unknown.
    for (micros, expected) in [(u64::from(u32::MAX) - 1, Some(())), (u64::from(u32::MAX), None), (1 << 40, None)] {
        let sent = Adspec { min_latency: Some(Span::from_micros(micros)), ..read };
        let bytes = path().adspec(&sent).finish().unwrap();
        let Ok(Message::Path(m)) = Message::parse(&bytes) else { panic!("not a Path") };
        assert_eq!(m.adspec.unwrap().terms.min_latency.map(drop), expected, "{micros} us");
    }
}

#[test]
fn p42_scopes() {
    for count in [0usize, 1, 16_000] {
        let senders: Vec<IpAddr> =
            (0..count as u32).map(|i| IpAddr::from((0x0a00_0000 + i % 7).to_be_bytes())).collect();
        let head = start(MessageType::Resv).session(&session4()).hop(&hop4()).time_values(Span::ZERO);
        let bytes = head.scope(&senders).style(Style::Wf).flowspec(&controlled()).finish().unwrap();
        let Ok(Message::Resv(m)) = Message::parse(&bytes) else { panic!("not a Resv") };
        let scope = m.scope.unwrap();
        assert_eq!((scope.len(), scope.is_empty()), (count, count == 0));
        assert!(scope.iter().eq(senders), "duplicates stay, order stays");
    }
}

#[test]
fn p43_policy_data() {
    let fault = |body: &[u8]| Message::parse(&path().raw(class::POLICY_DATA, 1, body).finish().unwrap()).map(drop);
    let good = [0, 16, 0, 0, 0, 8, 2, 1, 9, 9, 9, 9, 0, 8, 0, 7, 1, 2, 3, 4];
    assert_eq!(fault(&good), Ok(()));
    for (at, value) in [(1, 0), (1, 3), (1, 7), (1, 28), (0, 1), (5, 0), (5, 3), (5, 12), (13, 0), (13, 3), (13, 12)] {
        let mut bad = good;
        bad[at] = value;
        let fault = fault(&bad).expect_err("it must be refused");
        assert_eq!(fault.answer, None, "byte {at} = {value}");
    }
    // Options that are objects we know are not decoded any deeper: nesting ends here.
    let mut nested = good;
    nested[6] = class::INTEGRITY;
    assert_eq!(fault(&nested), Ok(()));
}

#[test]
fn p44_integrity() {
    for length in (0..=32).step_by(4) {
        let head = start(MessageType::Path).raw(class::INTEGRITY, 1, &vec![0; length]);
        let message = head.session(&session4()).hop(&hop4()).time_values(Span::ZERO);
        let bytes = message.sender_template(&sender4(1)).sender_tspec(&video()).finish().unwrap();
        assert_eq!(Message::parse(&bytes).is_ok(), length >= 32, "INTEGRITY of {} bytes", length + 4);
    }
    let twice = start(MessageType::Path).integrity(0, 1, 1, 16).integrity(0, 1, 2, 16).finish().unwrap();
    assert_eq!(Message::parse(&twice).unwrap_err().what, "INTEGRITY is not the first object");
    let seed = seeds::all().into_iter().find(|s| s.name == "path-v4-integrity-sha1").unwrap();
    let message = Message::parse(&seed.bytes).unwrap();
    let found = message.envelope().integrity.unwrap();
    assert_eq!((found.key_id, found.sequence), (0x0102_0304_0506, 0xe800_1234_0000_0001));
    assert_eq!((found.digest.len(), found.digest_at, found.handshake()), (20, Builder::<Vec<u8>>::DIGEST_AT, true));
    assert_eq!(message.envelope().header.checksum, 0, "not computed where there is INTEGRITY");
}

#[test]
fn p51_p54_ipv4_headers() {
    let whole = packets::packet(ip("10.0.1.1"), ip("10.0.2.2"), 46, 63, true, &[1, 2, 3, 4]).unwrap();
    let Ok(Packet::V4(packet)) = Packet::parse(&whole) else { panic!("not IPv4") };
    assert_eq!((packet.router_alert(), packet.checksum_ok, packet.ttl), (Some(0), true, 63));
    assert_eq!((packet.payload, packet.is_fragment()), (&[1, 2, 3, 4][..], false));
    for header in 0..16u8 {
        // Options of NOPs, then the header length another.
        let mut bytes = whole.clone();
        bytes.splice(20..24, [1; 40]);
        bytes[0] = 0x40 | header;
        bytes[3] = bytes.len() as u8;
        let parsed = Packet::parse(&bytes);
        assert_eq!(parsed.is_ok(), header >= 5, "ihl {header}");
        assert_eq!(parsed.ok().and_then(|p| p.router_alert()), None);
    }
    for (at, value) in [(6, 0x20), (6, 0x1f), (7, 1)] {
        let mut bytes = whole.clone();
        bytes[at] = value;
        assert!(Packet::parse(&bytes).unwrap().is_fragment());
    }
    for (length, rest) in [(0, true), (1, true), (5, true), (255, true), (4, false)] {
        let mut bytes = whole.clone();
        bytes[21] = length;
        assert_eq!(Packet::parse(&bytes).is_err(), rest, "option length {length}");
    }
    for cut in 0..whole.len() {
        assert!(Packet::parse(&whole[..cut]).is_err());
    }
}

#[test]
fn p53_ipv6_router_alert() {
    let whole = packets::packet(ip("2001:db8::1"), ip("2001:db8::2"), 46, 9, true, &[7; 8]).unwrap();
    let parsed = Packet::parse(&whole).unwrap();
    assert_eq!((parsed.protocol(), parsed.router_alert(), parsed.payload()), (46, Some(1), &[7; 8][..]));
    let without = packets::packet(ip("2001:db8::1"), ip("2001:db8::2"), 46, 9, false, &[7; 8]).unwrap();
    assert_eq!(Packet::parse(&without).unwrap().router_alert(), None);
    for value in [0u16, 2, 0xffff] {
        let mut bytes = whole.clone();
        bytes[44..46].copy_from_slice(&value.to_be_bytes());
        assert_eq!(Packet::parse(&bytes).unwrap().router_alert(), Some(value));
    }
    let mut jumbo = without.clone();
    jumbo[4..6].fill(0);
    assert_eq!(Packet::parse(&jumbo).unwrap().payload(), &[], "a payload length of 0 is no payload");
    for at in 40..48 {
        for value in 0..=255 {
            let mut bytes = whole.clone();
            bytes[at] = value;
            let _ = Packet::parse(&bytes);
        }
    }
    // A chain of extension headers ends.
    let mut chain =
        packets::packet(ip("2001:db8::1"), ip("2001:db8::2"), 60, 9, false, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(20))
            .unwrap();
    assert_eq!(Packet::parse(&chain).unwrap_err().what, "too many IPv6 extension headers");
    chain.truncate(60);
    assert!(Packet::parse(&chain).is_err());
}

#[test]
fn p55_what_does_not_fit_is_an_error() {
    let big = vec![0u8; 65_528];
    assert!(start(MessageType::Path).raw(0x80, 1, &big).finish().is_err(), "message");
    assert!(start(MessageType::Path).raw(0x80, 1, &[big.clone(), big].concat()).finish().is_err(), "object");
    let mut buffer = [0u8; 100];
    let fits = Builder::within(&mut buffer, MessageType::Path, 1).raw(0x80, 1, &[0; 88]).finish();
    assert_eq!(fits, Ok(100));
    let over = Builder::within(&mut buffer, MessageType::Path, 1).raw(0x80, 1, &[0; 89]).finish();
    assert_eq!(over.unwrap_err().limit, 100);
    assert!(Builder::within(&mut [0; 7], MessageType::Path, 1).finish().is_err());
    let many: Vec<IpAddr> = vec![ip("10.0.0.1"); 16_384];
    assert!(start(MessageType::Resv).scope(&many).finish().is_err());
    assert!(packets::packet(ip("10.0.0.1"), ip("10.0.0.2"), 46, 1, true, &[0; 65_512]).is_err());
    assert!(packets::packet(ip("10.0.0.1"), ip("10.0.0.2"), 46, 1, true, &[0; 65_511]).is_ok());
}

#[test]
fn user_error_words() {
    let sent = |text: &str| {
        let words = UserError { enterprise: 32_473, sub_org: 2, value: 3, text };
        let error = wire::ErrorSpec { node: ip("10.0.3.1"), flags: 0, code: 2, value: 0 };
        start(MessageType::PathErr).session(&session4()).error_spec(&error).user_error(&words).finish().unwrap()
    };
    let read = |bytes: &[u8]| match Message::parse(bytes) {
        Ok(Message::PathErr(m)) => m.user_error.map(|u| (u.enterprise, u.sub_org, u.value, u.text.to_owned())),
        other => panic!("{other:?}"),
    };
    for text in ["", "a", "abcd", "Größe: 12 Mbit/s", &"x".repeat(255)] {
        assert_eq!(read(&sent(text)), Some((32_473, 2, 3, text.to_owned())));
    }
    // 300 bytes of two-byte letters: 254 fit, and no letter is cut in two.
    assert_eq!(read(&sent(&"ö".repeat(150))).unwrap().3, "ö".repeat(127));
    // Bytes that are no UTF-8 end the text; a length past the object is damage.
    let mut bytes = sent("abcd");
    let at = bytes.len() - 4;
    bytes[2..4].fill(0);
    bytes[at + 2] = 0xff;
    assert_eq!(read(&bytes).unwrap().3, "ab");
    bytes[at - 3] = 5;
    assert_eq!(Message::parse(&bytes).unwrap_err().what, "error description passes the end of its object");
}
