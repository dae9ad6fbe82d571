//! Rewriting in place: the checksum by difference is the checksum from scratch, and nothing else changes.

use crate::boomerang::seeds::{self, flow4, flow6, packet, plain};
use proptest::prelude::*;
use wire::boomerang::{BoomerangRequest, Hops, Opt, ProbePacket, Rates, Rewrite, TravelDirection, flag, forwarded};

#[test]
fn a_refusing_node_sets_nack_key_and_rates() {
    for flow in [flow4(), flow6()] {
        let hops = [Opt::Hops(Hops { forward: 1, reverse: 0 })];
        let request = BoomerangRequest { options: &hops, ..plain(&flow) };
        let mut bytes = packet(&request, false);
        let mut rewrite = Rewrite::new(&mut bytes).unwrap();
        rewrite.nack();
        rewrite.key(0);
        rewrite.refresh(2);
        rewrite.refresh(200);
        rewrite.rates(0, Rates { forward: 500_000, reverse: 1_000_000 });
        rewrite.count();
        let expected = BoomerangRequest {
            flags: flag::NACK,
            key: 0,
            refresh: 2,
            rates: &[Rates { forward: 500_000, reverse: 1_000_000 }],
            options: &[Opt::Hops(Hops { forward: 2, reverse: 0 })],
            ..request
        };
        assert_eq!(bytes, packet(&expected, false), "as if written so from the start");
    }
}

#[test]
fn a_reply_is_counted_in_the_other_direction() {
    let hops = [Opt::Hops(Hops { forward: 3, reverse: u16::MAX })];
    let mut bytes = packet(&BoomerangRequest { leg: TravelDirection::Reply, options: &hops, ..plain(&flow4()) }, false);
    Rewrite::new(&mut bytes).unwrap().count();
    let probe = ProbePacket::parse(&bytes).unwrap();
    assert_eq!(probe.message.options().next().unwrap().1, Opt::Hops(Hops { forward: 3, reverse: u16::MAX }));
}

#[test]
fn forwarding_takes_one_from_the_ttl() {
    for flow in [flow4(), flow6()] {
        let mut bytes = packet(&plain(&flow), true);
        for ttl in (1..64).rev() {
            assert!(forwarded(&mut bytes));
            let probe = ProbePacket::parse(&bytes).unwrap();
            assert_eq!(probe.ttl, ttl);
        }
        let before = bytes.clone();
        assert!(!forwarded(&mut bytes) && bytes == before, "it ends here");
    }
    assert!(!forwarded(&mut []) && !forwarded(&mut [0x45; 8]) && !forwarded(&mut [0x00; 40]));
}

proptest! {
    #![proptest_config(chance::cases(5_000))]

    #[test]
    fn the_checksum_by_difference_is_the_checksum_from_scratch(
        which in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((0u8..6, any::<u64>()), 0..12),
    ) {
        let seeds = seeds::all();
        let mut bytes = which.get(&seeds).bytes.clone();
        let length = bytes.len();
        let mut rewrite = Rewrite::new(&mut bytes).unwrap();
        for (what, value) in changes {
            match what {
                0 => rewrite.nack(),
                1 => rewrite.key(value),
                2 => rewrite.refresh(value as u8),
                3 => rewrite.rates(0, Rates { forward: u32::MAX, reverse: u32::MAX - (value as u32 & 1) }),
                4 => rewrite.count(),
                _ => rewrite.hop_digest(&[value as u8; 16]),
            }
        }
        prop_assert_eq!(bytes.len(), length);
        prop_assert!(ProbePacket::parse(&bytes).is_ok());
    }
}
