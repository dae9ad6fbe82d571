//! The seed corpus: every form of the message once, as whole IP packets, kept in `engine/wire/probes` as hex that people
//! can read; shared by the tests and the fuzz target.

use std::net::IpAddr;
use std::path::PathBuf;
use terms::FlowKey;
use wire::boomerang::{
    Aggregate, AuthOption, BoomerangRequest, Family, Hops, Opt, Rates, Selector, TravelDirection, Uid, flag,
};
use wire::ip::Header;

pub struct Seed {
    pub name: &'static str,
    pub about: &'static str,
    pub bytes: Vec<u8>,
}

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("probes")
}

pub fn flow4() -> FlowKey {
    FlowKey {
        src: ip("10.0.1.1"),
        dst: ip("10.0.2.2"),
        protocol: 17,
        src_port: 5004,
        dst_port: 5006,
        wild: terms::Wild::NONE,
    }
}

pub fn flow6() -> FlowKey {
    FlowKey { src: ip("2001:db8:1::1"), dst: ip("2001:db8:2::2"), ..flow4() }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The plainest message: 3 Mb/s out, 1 Mb/s back.
pub fn plain(flow: &FlowKey) -> BoomerangRequest<'static> {
    BoomerangRequest {
        leg: TravelDirection::Request,
        id: 0x1234,
        sequence: 1,
        transaction: 0x0102_0304,
        flags: 0,
        refresh: 3,
        key: 1,
        classifier: Selector::of(flow),
        mask: Selector::exact(Family::of(flow.dst)),
        rates: &[Rates { forward: 3_000_000, reverse: 1_000_000 }],
        policy: 0,
        options: &[],
    }
}

pub fn packet(request: &BoomerangRequest<'_>, router_alert: bool) -> Vec<u8> {
    let (src, dst) = (request.classifier.src, request.classifier.dst);
    let (src, dst) = if request.leg == TravelDirection::Reply { (dst, src) } else { (src, dst) };
    let mut bytes = Vec::new();
    request.write(&Header { src, dst, protocol: 0, ttl: 64, tos: 0, router_alert }, &mut bytes).unwrap();
    bytes
}

pub const VECTOR: &[Rates] = &[
    Rates { forward: 3_000_000, reverse: 1_000_000 },
    Rates { forward: 2_000_000, reverse: 1_000_000 },
    Rates { forward: 500_000, reverse: 0 },
];

pub fn auth() -> AuthOption {
    let (mut origin, mut hop) = ([0; 32], [0; 16]);
    origin.iter_mut().enumerate().for_each(|(i, octet)| *octet = i as u8);
    hop.iter_mut().enumerate().for_each(|(i, octet)| *octet = 0xf0 + i as u8);
    AuthOption { key_id: 7, sequence: 1 << 32, forward: 3_000_000, reverse: 1_000_000, refresh: 3, origin, hop }
}

pub fn aggregate(flow: &FlowKey) -> Aggregate {
    let exact = Selector::exact(Family::of(flow.dst));
    let mask = match flow.dst {
        IpAddr::V4(_) => Selector { src: ip("255.255.255.0"), src_port: 0, dst_port: 0, ..exact },
        IpAddr::V6(_) => Selector { src: ip("ffff:ffff:ffff:ffff::"), src_port: 0, dst_port: 0, ..exact },
    };
    let router = if flow.dst.is_ipv4() { ip("10.0.1.254") } else { ip("2001:db8:1::fe") };
    Aggregate { address: router, transaction: 99, classifier: Selector::of(flow), mask, rate: 10_000_000 }
}

pub fn all() -> Vec<Seed> {
    let (v4, v6) = (plain(&flow4()), plain(&flow6()));
    let seed = |name, about, request: &BoomerangRequest<'_>| Seed { name, about, bytes: packet(request, false) };
    let uid = Opt::Uid(Uid { user: 1_000, credential: 0xdead_beef });
    let hops = Opt::Hops(Hops { forward: 2, reverse: 1 });
    let ours = Opt::Unknown { kind: 0x8fff, body: &[1, 2, 3, 4] };
    let everything4 = [uid, Opt::Aggregation(aggregate(&flow4())), Opt::Auth(auth()), hops, ours];
    let everything6 = [uid, Opt::Aggregation(aggregate(&flow6())), Opt::Auth(auth()), hops, ours];
    let mask = Selector { src: ip("255.255.0.0"), src_port: 0, ..Selector::exact(Family::V4) };
    let group = Selector { dst: ip("232.1.1.1"), ..v4.classifier };
    vec![
        seed("request-v4", "A request: 92 octets", &v4),
        seed("request-v6", "A request in ICMPv6: 160 octets", &v6),
        seed("reply-v4", "The reply to it", &BoomerangRequest { leg: TravelDirection::Reply, ..v4.clone() }),
        seed("reply-v6", "The reply in ICMPv6", &BoomerangRequest { leg: TravelDirection::Reply, ..v6.clone() }),
        Seed { name: "request-v4-alert", about: "With Router Alert", bytes: packet(&v4, true) },
        seed(
            "reply-v4-nack",
            "Refused: NACK, KEY 0, what is free",
            &BoomerangRequest {
                leg: TravelDirection::Reply,
                flags: flag::NACK,
                key: 0,
                rates: &[Rates { forward: 500_000, reverse: 0 }],
                ..v4.clone()
            },
        ),
        seed(
            "request-v4-release",
            "Rate zero in both directions",
            &BoomerangRequest { rates: &[Rates { forward: 0, reverse: 0 }], ..v4.clone() },
        ),
        seed("request-v4-downgrade", "A vector of three", &BoomerangRequest { rates: VECTOR, policy: 5, ..v4.clone() }),
        seed("request-v6-downgrade", "A vector of three in ICMPv6", &BoomerangRequest { rates: VECTOR, ..v6.clone() }),
        seed("request-v4-mask", "A session of all senders of a net", &BoomerangRequest { mask, ..v4.clone() }),
        seed(
            "request-v4-group",
            "One to many: a group, no echo",
            &BoomerangRequest { classifier: group, flags: flag::NO_ECHO, ..v4.clone() },
        ),
        seed(
            "request-v4-options",
            "Every option, and one unknown",
            &BoomerangRequest { options: &everything4, ..v4.clone() },
        ),
        seed("request-v6-options", "Every option in ICMPv6", &BoomerangRequest { options: &everything6, ..v6.clone() }),
        seed(
            "reply-v4-locked",
            "Reserved, but locked: KEY is a product of primes",
            &BoomerangRequest { leg: TravelDirection::Reply, key: 1_000_003 * 1_000_033, ..v4.clone() },
        ),
        seed(
            "request-v4-unmeasured",
            "An option of the draft's range that is unknown ends the walk",
            &BoomerangRequest { options: &[hops, Opt::Unknown { kind: 0x0077, body: &[9; 8] }, hops], ..v4 },
        ),
    ]
}

/// The bytes of a hex file: `#` begins a comment.
pub fn read_hex(text: &str) -> Vec<u8> {
    let digits: String =
        text.lines().flat_map(|l| l.split('#').next().unwrap().chars()).filter(|c| !c.is_whitespace()).collect();
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// A seed as a hex file: what it is, then a part of the message a line.
pub fn write_hex(seed: &Seed) -> String {
    let probe = wire::boomerang::ProbePacket::parse(&seed.bytes).unwrap();
    let (message, start) = (&probe.message, probe.at);
    let selector = message.family.selector();
    let rates = start + message.rates_at();
    let tail = start + message.length - message.tail.len();
    let mut cuts = vec![
        (0, "IP header"),
        (start, "ICMP echo"),
        (start + 8, "Container"),
        (start + 20, "Reservation"),
        (start + 32, "Classifier"),
        (start + 32 + selector, "Mask"),
    ];
    let body = start + 32 + 2 * selector;
    if body < rates {
        cuts.push((body, "DOWNGRADE"));
    }
    cuts.extend((rates..tail).step_by(8).map(|at| (at, "forward, reverse")));
    cuts.extend(message.options().map(|(at, _)| (start + at - 4, "option")));
    let rest = probe.total - message.options().remainder().len();
    if rest < probe.total {
        cuts.push((rest, "not understood"));
    }
    let mut out = format!("# {}\n", seed.about);
    for (i, (from, what)) in cuts.iter().enumerate() {
        let to = cuts.get(i + 1).map_or(seed.bytes.len(), |(to, _)| *to);
        let hex: Vec<String> = seed.bytes[*from..to].iter().map(|b| format!("{b:02x}")).collect();
        out += &format!("{}  # {what}\n", hex.join(" "));
    }
    out
}
