//! decode(encode(m)) == m and encode(decode(b)) == b over generated messages of both families.

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::boomerang::{
    Aggregate, AuthOption, BoomerangRequest, Family, Hops, Opt, ProbePacket, Rates, Selector, TravelDirection, Uid,
};
use wire::ip::Header;

fn address(family: Family) -> BoxedStrategy<IpAddr> {
    match family {
        Family::V4 => any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))).boxed(),
        Family::V6 => any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))).boxed(),
    }
}

fn selector(family: Family) -> impl Strategy<Value = Selector> {
    let numbers = (any::<u16>(), any::<u16>(), any::<u8>(), any::<u8>(), any::<u16>());
    (address(family), address(family), numbers).prop_map(|(src, dst, (src_port, dst_port, protocol, tos, flags))| {
        Selector { src, dst, src_port, dst_port, protocol, tos, flags }
    })
}

fn option(family: Family) -> impl Strategy<Value = Opt<'static>> {
    let uid = (any::<u64>(), any::<u64>()).prop_map(|(user, credential)| Opt::Uid(Uid { user, credential }));
    let hops = (any::<u16>(), any::<u16>()).prop_map(|(forward, reverse)| Opt::Hops(Hops { forward, reverse }));
    let aggregate = (address(family), any::<u32>(), selector(family), selector(family), any::<u32>()).prop_map(
        |(address, transaction, classifier, mask, rate)| {
            Opt::Aggregation(Aggregate { address, transaction, classifier, mask, rate })
        },
    );
    let auth = (any::<(u32, u64, u32, u32, u8)>(), any::<[u8; 32]>(), any::<[u8; 16]>()).prop_map(
        |((key_id, sequence, forward, reverse, refresh), origin, hop)| {
            Opt::Auth(AuthOption { key_id, sequence, forward, reverse, refresh, origin, hop })
        },
    );
    let unknown =
        (0x9000u16.., 0usize..9).prop_map(|(kind, length)| Opt::Unknown { kind, body: &[0xa5; 8][..length.min(8)] });
    prop_oneof![uid, hops, aggregate, auth, unknown]
}

/// What a [`Request`] borrows, owned.
#[derive(Clone, Debug)]
struct Said {
    request: BoomerangRequest<'static>,
    rates: Vec<Rates>,
    options: Vec<Opt<'static>>,
    header: Header,
}

impl Said {
    fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let request = BoomerangRequest { rates: &self.rates, options: &self.options, ..self.request.clone() };
        request.write(&self.header, &mut bytes).unwrap();
        bytes
    }
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![Just(Family::V4), Just(Family::V6)].prop_flat_map(|family| {
        (
            (
                any::<bool>(),
                any::<u16>(),
                any::<u16>(),
                any::<u32>(),
                any::<u16>(),
                any::<u8>(),
                any::<u64>(),
                any::<u16>(),
            ),
            (selector(family), selector(family)),
            proptest::collection::vec(any::<(u32, u32)>(), 1..8),
            proptest::collection::vec(option(family), 0..5),
            (address(family), address(family), any::<u8>(), any::<u8>(), any::<bool>()),
        )
            .prop_map(move |(numbers, (classifier, mask), rates, options, header)| {
                let (back, id, sequence, transaction, flags, refresh, key, policy) = numbers;
                let leg = if back { TravelDirection::Reply } else { TravelDirection::Request };
                let (mut out, mut reverse): (Vec<u32>, Vec<u32>) = rates.into_iter().unzip();
                out.sort_unstable_by(|a, b| b.cmp(a));
                reverse.sort_unstable_by(|a, b| b.cmp(a));
                let rates: Vec<Rates> =
                    out.into_iter().zip(reverse).map(|(forward, reverse)| Rates { forward, reverse }).collect();
                let policy = if rates.len() == 1 { 0 } else { policy };
                let (src, dst, ttl, tos, router_alert) = header;
                Said {
                    request: BoomerangRequest {
                        leg,
                        id,
                        sequence,
                        transaction,
                        flags,
                        refresh,
                        key,
                        classifier,
                        mask,
                        rates: &[],
                        policy,
                        options: &[],
                    },
                    rates,
                    options,
                    header: Header { src, dst, protocol: family.protocol(), ttl, tos, router_alert },
                }
            })
    })
}

/// What a parsed packet says, in the form that wrote it.
fn read(bytes: &[u8], like: &Said) -> Said {
    let probe = ProbePacket::parse(bytes).unwrap();
    let m = probe.message;
    let policy = match m.qos {
        wire::boomerang::Qos::Bitrate(_) => 0,
        wire::boomerang::Qos::Downgrade { policy, .. } => policy,
    };
    let options: Vec<Opt<'_>> = m.options().map(|(_, option)| option).collect();
    // The walk's slices live as long as `bytes`; the unknown bodies are all of one text.
    let options = options.into_iter().map(|option| match option {
        Opt::Unknown { kind, body } => {
            assert!(body.iter().all(|b| *b == 0xa5));
            Opt::Unknown { kind, body: &[0xa5; 8][..body.len()] }
        }
        Opt::Uid(o) => Opt::Uid(o),
        Opt::Aggregation(o) => Opt::Aggregation(o),
        Opt::Auth(o) => Opt::Auth(o),
        Opt::Hops(o) => Opt::Hops(o),
    });
    Said {
        request: BoomerangRequest {
            leg: m.leg,
            id: m.id,
            sequence: m.sequence,
            transaction: m.transaction,
            flags: m.flags,
            refresh: m.refresh,
            key: m.key,
            classifier: m.classifier,
            mask: m.mask,
            rates: &[],
            policy,
            options: &[],
        },
        rates: m.qos.iter().collect(),
        options: options.collect(),
        header: Header { src: probe.src, dst: probe.dst, ttl: probe.ttl, ..like.header },
    }
}

proptest! {
    #![proptest_config(chance::cases(20_000))]

    #[test]
    fn what_was_said_is_what_is_read_and_written_again(said in said()) {
        let bytes = said.write();
        let back = read(&bytes, &said);
        prop_assert_eq!(format!("{back:?}"), format!("{said:?}"));
        prop_assert_eq!(back.write(), bytes);
    }

    #[test]
    fn any_bytes_are_parsed_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..220), six in any::<bool>()) {
        let _ = ProbePacket::parse(&bytes);
        if bytes.len() > 12 {
            bytes[0] = if six { 129 } else { 8 };
            bytes[1] = 0;
            bytes[8..12].copy_from_slice(&wire::boomerang::MAGIC.to_be_bytes());
        }
        let _ = wire::boomerang::BoomerangMessage::parse(&bytes, None);
        let _ = wire::boomerang::forwarded(&mut bytes);
    }
}
