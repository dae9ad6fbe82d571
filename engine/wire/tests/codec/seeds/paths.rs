//! Path and PathTear seeds.

use super::{Seed, hop4, hop6, ip, seed, sender4, sender6, session4, session6, start, video};
use terms::{Adspec, Bytes, FilterSpec, GuaranteedTerms, HopExport, Rate, Session, Span, Tspec};
use wire::{Builder, FilterObject, MessageType};

fn path4() -> Builder {
    start(MessageType::Path).session(&session4()).hop(&hop4()).time_values(Span::from_secs(30))
}

fn sent(message: Builder) -> Builder {
    message.sender_template(&sender4(1)).sender_tspec(&video())
}

fn travelled() -> Adspec {
    let hop =
        HopExport { bandwidth: Rate::from_mbps(10), mtu: 1400, latency: Some(Span::from_millis(2)), guaranteed: None };
    let exact = HopExport { guaranteed: Some((1500, 120)), bandwidth: Rate::from_mbps(100), ..hop };
    Adspec::origin(1500).through(&exact).through(&exact)
}

pub fn seeds() -> Vec<Seed> {
    let mut all = plain();
    all.extend(adspecs());
    all.extend(odd());
    all.extend(sealed());
    all.extend(tears());
    all
}

fn plain() -> Vec<Seed> {
    let telnet = Session { protocol: 6, dst_port: 23, ..session4() };
    let ah = Session { protocol: 51, dst_port: 0, ..session4() };
    let group = Session { dst: ip("239.1.2.3"), ..session4() };
    let no_port: FilterObject = FilterSpec { src: ip("10.0.1.1"), src_port: 0 }.into();
    let label = FilterObject::FlowLabel { src: "2001:db8:1::1".parse().unwrap(), label: 0xabcde };
    let to = |s: &Session| start(MessageType::Path).session(s).hop(&hop4()).time_values(Span::from_secs(30));
    let to6 = || start(MessageType::Path).session(&session6()).hop(&hop6()).time_values(Span::from_millis(30_000));
    vec![
        seed("path-v4", "Path, IPv4, UDP, no ADSPEC", sent(path4())),
        seed(
            "path-v4-tcp",
            "Path for TCP to port 23 from any port (source port 0)",
            to(&telnet).sender_template(&no_port).sender_tspec(&video()),
        ),
        seed(
            "path-v4-no-ports",
            "Path for protocol 51 (AH), which has no ports",
            to(&ah).sender_template(&no_port).sender_tspec(&video()),
        ),
        seed("path-v4-multicast", "Path to a multicast group", sent(to(&group))),
        seed("path-v6", "Path, IPv6, by ports", to6().sender_template(&sender6(1)).sender_tspec(&video())),
        seed(
            "path-v6-flow-label",
            "Path, IPv6, sender by flow label, with ADSPEC",
            to6().sender_template(&label).sender_tspec(&video()).adspec(&travelled()),
        ),
    ]
}

fn adspecs() -> Vec<Seed> {
    let controlled = Adspec { guaranteed: None, ..travelled() };
    let broken = Adspec {
        break_bit: true,
        min_latency: None,
        guaranteed: Some(GuaranteedTerms { break_bit: true, ..GuaranteedTerms::default() }),
        controlled_load: Some(true),
        ..travelled()
    };
    let router = Tspec { r: Rate::from_kbps(80), b: Bytes::new(1_000), p: Rate::from_kbps(80), m: 0, M: 0x7fff_ffff };
    vec![
        seed(
            "path-v4-adspec",
            "Path, ADSPEC with all three fragments after two hops",
            sent(path4()).adspec(&travelled()),
        ),
        seed(
            "path-v4-adspec-origin",
            "Path, ADSPEC as a sender starts it",
            sent(path4()).adspec(&Adspec::origin(1500)),
        ),
        seed(
            "path-v4-adspec-broken",
            "Path, ADSPEC with every break bit, latency unknown",
            sent(path4()).adspec(&broken),
        ),
        seed(
            "path-v4-router-values",
            "Path as routers send it: m = 0, M = 0x7fffffff, ADSPEC with an empty controlled-load fragment",
            path4().sender_template(&sender4(1)).sender_tspec(&router).adspec(&controlled),
        ),
        seed(
            "path-v4-adspec-unknown-service",
            "Path, ADSPEC with a fragment of service 9 that we do not know",
            sent(path4()).raw(13, 2, &with_fragment()),
        ),
    ]
}

/// The ADSPEC of a sender with one more fragment: service 9, break bit clear, parameter 200 of one word.
fn with_fragment() -> Vec<u8> {
    let message = path4().adspec(&Adspec::origin(1500)).finish().unwrap();
    let at = 8 + 12 + 12 + 8;
    let mut body = message[at + 4..].to_vec();
    body.extend([9, 0, 0, 2, 200, 0, 0, 1, 0, 0, 0, 42]);
    let words = (body.len() / 4 - 1) as u16;
    body[2..4].copy_from_slice(&words.to_be_bytes());
    body
}

fn odd() -> Vec<Seed> {
    // POLICY_DATA: offset 16, one option (class 2, 8 bytes), one element (P-type 7).
    let policy = [0, 16, 0, 0, 0, 8, 2, 1, 0xaa, 0xbb, 0xcc, 0xdd, 0, 8, 0, 7, 1, 2, 3, 4];
    let strange = path4().raw(0, 0, &[1, 2, 3, 4]).raw(0x90, 1, &[9; 8]).raw(0xc5, 3, &[7; 12]);
    let turned = start(MessageType::Path)
        .adspec(&travelled())
        .sender_tspec(&video())
        .sender_template(&sender4(1))
        .time_values(Span::from_secs(30))
        .hop(&hop4())
        .session_flags(&session4(), 1);
    let mut bare = seed("path-v4-no-checksum", "Path without a checksum (zero)", sent(path4()));
    bare.bytes[2..4].fill(0);
    let mut long = seed("path-v4-trailing", "Path with bytes after RSVP Length", sent(path4()));
    long.bytes.extend([0xff; 6]);
    vec![
        seed("path-v4-policy", "Path, POLICY_DATA with an option and an element", sent(path4().raw(14, 1, &policy))),
        seed("path-v4-unknown", "Path, NULL, a class to ignore (0x90) and one to forward (0xc5)", sent(strange)),
        seed("path-v4-any-order", "Path with its objects the other way round, E_Police set", turned),
        seed(
            "path-v4-fast-refresh",
            "Path, refresh period 1 ms",
            sent(start(MessageType::Path).session(&session4()).hop(&hop4()).time_values(Span::from_millis(1))),
        ),
        bare,
        long,
    ]
}

fn sealed() -> Vec<Seed> {
    let with = |flags, digest| {
        let head = start(MessageType::Path).integrity(flags, 0x0102_0304_0506, 0xe800_1234_0000_0001, digest);
        sent(head.session(&session4()).hop(&hop4()).time_values(Span::from_secs(30)))
    };
    vec![
        seed("path-v4-integrity-md5", "Path, INTEGRITY as long as HMAC-MD5 (digest not computed)", with(0, 16)),
        seed("path-v4-integrity-sha1", "Path, INTEGRITY as long as HMAC-SHA1, handshake flag 0x01", with(1, 20)),
        seed(
            "path-v4-integrity-sha256",
            "Path, INTEGRITY as long as HMAC-SHA-256, handshake flag 0x80",
            with(0x80, 32),
        ),
    ]
}

fn tears() -> Vec<Seed> {
    let tear4 = || start(MessageType::PathTear).session(&session4()).hop(&hop4());
    let tear6 = start(MessageType::PathTear).session(&session6()).hop(&hop6());
    vec![
        seed("pathtear-v4", "PathTear, IPv4", tear4().sender_template(&sender4(1))),
        seed("pathtear-v4-tspec", "PathTear that repeats the sender descriptor", sent(tear4()).adspec(&travelled())),
        seed("pathtear-v6", "PathTear, IPv6", tear6.sender_template(&sender6(1))),
    ]
}
