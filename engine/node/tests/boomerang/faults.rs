//! `FAULTS` B1 to B15, one story each.

use super::net::*;
use boomerang::{BoomerangUpcall, Event, FailureReason};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use wire::boomerang::{BoomerangRequest, ProbePacket, Rates, Rewrite, Selector, TravelDirection, answered, flag};
use wire::ip::Header;

/// A message as anybody may write it.
fn forged(src: IpAddr, dst: IpAddr, request: &BoomerangRequest<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.write(&Header { src, dst, protocol: 0, ttl: 64, tos: 0, router_alert: false }, &mut bytes).unwrap();
    bytes
}

fn request(from: usize, to: usize, rates: &'static [Rates]) -> BoomerangRequest<'static> {
    BoomerangRequest {
        leg: TravelDirection::Request,
        id: 1,
        sequence: 1,
        transaction: 77,
        flags: 0,
        refresh: 3,
        key: 1,
        classifier: Selector::of(&flow(from, to, 5_004)),
        mask: Selector::exact(wire::boomerang::Family::V4),
        rates,
        policy: 0,
        options: &[],
    }
}

const SOME: &[Rates] = &[Rates { forward: 3 * MBIT, reverse: MBIT }];

#[test]
pub fn b1_the_far_end_never_replies() {
    let mut net = Net::line("aaau");
    net.reserve(0, ask(3, 3, 1));
    net.run_ms(100);
    assert_eq!(net.held(1, 2), 3_000_000, "forward is held while we wait");
    net.run_ms(8_000);
    assert_eq!(net.said_of(0), [BoomerangUpcall::Silent { messages: 3, over: true }]);
    for n in 0..3 {
        assert!(net.halves(n).is_empty(), "given back with the last message: machine {n}");
    }
}

#[test]
pub fn b2_the_far_end_replies_twice() {
    let mut net = Net::line("aah");
    net.meddle((2, 1), |packet| vec![packet.to_vec(), packet.to_vec()]);
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (3_000_000, 1_000_000));
    assert_eq!(net.said_of(0).len(), 1, "the application hears once");
    assert!(net.events.iter().any(|(n, event)| *n == 0 && matches!(event, Event::Unexpected { .. })));
}

#[test]
pub fn b3_a_reply_without_a_request_makes_no_state() {
    let mut net = Net::line("hah");
    let reply = BoomerangRequest { leg: TravelDirection::Reply, ..request(0, 2, SOME) };
    net.start(2, &forged(address(2), address(0), &reply));
    net.run_ms(100);
    assert!(net.halves(1).is_empty());
    assert!(net.events.iter().any(|(_, event)| matches!(event, Event::Stranger { .. })));
    assert_eq!(net.heard.len(), 1, "and it goes on as somebody's ping");
}

/// A forged refusal of somebody else's session needs its transaction number.
#[test]
pub fn b3_a_forged_refusal_takes_nothing_away() {
    let mut net = Net::line("aah");
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    let reply = BoomerangRequest { leg: TravelDirection::Reply, flags: flag::NACK, ..request(0, 2, SOME) };
    net.start(2, &forged(address(2), address(0), &reply));
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (3_000_000, 1_000_000));
}

#[test]
pub fn b4_a_reply_with_another_rate_is_not_believed_and_reserves_what_it_says_at_most_here() {
    let mut net = Net::line("aah");
    net.meddle((2, 1), |packet| {
        let mut packet = packet.to_vec();
        Rewrite::new(&mut packet).unwrap().rates(0, Rates { forward: 9 * MBIT, reverse: 5 * MBIT });
        vec![packet]
    });
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert_eq!(net.said_of(0), [], "it is no answer");
    assert!(net.events.iter().any(|(n, event)| *n == 0 && matches!(event, Event::Unexpected { .. })));
    net.run_ms(30_000);
    assert!(net.halves(1).is_empty(), "what it made is not refreshed");
}

/// The way back leads over another router, which knows of no request: its half is missing, and the count says so.
#[test]
pub fn b5_an_asymmetric_way_back_is_reported() {
    let mut net = round_about(&boomerang::Config::default());
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(3, 1)), (3_000_000, 0));
    assert_eq!(net.said_of(0).last(), Some(&BoomerangUpcall::HopMismatch { forward: 1, reverse: 0 }));
}

/// `0 - 1 - 2` there, `2 - 3 - 0` back.
pub fn round_about(config: &boomerang::Config) -> Net {
    let mut net = Net::line_with("aah", config);
    net.add('a', config.clone());
    net.wire((2, 3), (3, 2));
    net.wire((3, 1), (0, 3));
    net.find_ways();
    net.set_way(2, 0, 3);
    net
}

#[test]
pub fn b6_a_host_that_answers_some_pings_only() {
    let mut net = Net::line("aah");
    let mut count = 0;
    net.meddle((2, 1), move |packet| {
        count += 1;
        if count % 2 == 0 { vec![packet.to_vec()] } else { vec![] }
    });
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(60_000);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (3_000_000, 1_000_000));
    assert!(!net.events.iter().any(|(_, event)| matches!(event, Event::Expired { .. })));
}

/// A translator gives the request another identifier and sequence number, and the reply the old ones back or not: neither is asked for.
#[test]
pub fn b7_a_nat_rewrites_identifier_and_sequence() {
    let mut net = Net::line("aah");
    net.meddle((2, 1), |packet| {
        let mut packet = packet.to_vec();
        packet[24..28].copy_from_slice(&[0xaa, 0xbb, 0xcc, 0xdd]);
        packet[22..24].fill(0);
        let sum = wire::checksum::internet(&packet[20..]);
        packet[22..24].copy_from_slice(&sum.to_be_bytes());
        vec![packet]
    });
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { .. })));
}

#[test]
pub fn b8_a_truncated_or_fragmented_probe_goes_on_and_reserves_nothing() {
    let mut net = Net::line("hah");
    let whole = forged(address(0), address(2), &request(0, 2, SOME));
    let mut cut = whole[..80].to_vec();
    cut[2..4].copy_from_slice(&80u16.to_be_bytes());
    let mut fragment = whole.clone();
    fragment[6] = 0x20;
    for packet in [&mut cut, &mut fragment] {
        packet[10..12].fill(0);
        let sum = wire::checksum::internet(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        net.put(0, 2, packet);
    }
    net.run_ms(100);
    assert!(net.halves(1).is_empty());
    let lengths: Vec<usize> = net.heard.iter().map(|(_, packet)| packet.len()).collect();
    assert_eq!(lengths, [80, 92]);
}

/// What the nodes before the refusing one hold is free again when the refusal passes them.
#[test]
pub fn b9_a_hop_refuses_in_the_middle() {
    let mut net = Net::line("aaaah");
    net.load(2, 2, 7);
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(7);
    assert_eq!(net.held(1, 2), 0, "one round trip, less a wire");
    assert!(net.events.iter().any(|(n, event)| *n == 1 && matches!(event, Event::Reverted { .. })));
}

#[test]
pub fn b10_nothing_goes_towards_everybody() {
    let mut net = Net::line("hah");
    for (dst, why) in [
        ("255.255.255.255", FailureReason::Address),
        ("240.0.0.1", FailureReason::Address),
        ("0.0.0.0", FailureReason::Address),
        ("127.0.0.1", FailureReason::Address),
        ("224.0.0.1", FailureReason::NoEcho),
        ("232.1.1.1", FailureReason::NoEcho),
    ] {
        let packet = forged(address(0), dst.parse().unwrap(), &request(0, 2, SOME));
        net.put(0, 2, &packet);
        net.run_ms(10);
        assert_eq!(net.dropped.pop(), Some((1, why)), "{dst}");
        // Nor as the reply to a request that claims to come from there.
        let packet = forged(dst.parse().unwrap(), address(2), &request(0, 2, SOME));
        net.put(0, 2, &packet);
        net.run_ms(10);
        assert_eq!(net.dropped.pop(), Some((1, FailureReason::Address)), "from {dst}");
    }
    assert!(net.heard.is_empty() && net.halves(1).is_empty());
}

/// Somebody floods set-ups with spoofed flows: he gets what one source may have and the node no more than its table.
#[test]
pub fn b11_a_flood_of_forged_set_ups_is_bounded() {
    let config = boomerang::Config { per_source: 1_000, most_sessions: 60, ..boomerang::Config::default() };
    let mut net = Net::line_with("hah", &config);
    for n in 0..500u16 {
        let mut message = request(0, 2, &[Rates { forward: 1_000, reverse: 0 }]);
        message.classifier.src_port = n;
        net.put(0, 2, &forged(address(0), address(2), &message));
    }
    net.run_ms(1);
    assert!((40..=60).contains(&net.halves(1).len()), "{}", net.halves(1).len());
    assert!(net.events.iter().any(|(_, event)| matches!(event, Event::Full { .. })));
    for _ in 0..2_000 {
        net.put(0, 2, &forged(address(0), address(2), &request(0, 2, SOME)));
    }
    net.run_ms(1);
    let loud = net.dropped.iter().filter(|(_, why)| *why == FailureReason::TooMany).count();
    assert!(loud > 1_000, "{loud}");
    let amplified = net.heard.iter().filter(|(n, _)| *n == 2).count();
    assert!(amplified <= 1_001, "never more out than in: {amplified}");
    net.run_ms(11_000);
    assert!(net.halves(1).is_empty());
}

#[test]
pub fn b12_a_refresh_slower_than_the_life_of_state() {
    let mut net = Net::line("hah");
    for _ in 0..3 {
        net.start(0, &forged(address(0), address(2), &request(0, 2, SOME)));
        net.run_ms(10_000);
        assert_eq!(net.held(1, 2), 3_000_000);
        net.run_ms(2_000);
        assert_eq!(net.held(1, 2), 0, "made anew each time");
    }
}

/// Two initiating nodes say the same flow: there is one session, and the last message decides.
#[test]
pub fn b12_two_initiators_of_one_flow() {
    let mut net = Net::line("hah");
    net.start(0, &forged(address(0), address(2), &request(0, 2, SOME)));
    net.run_ms(10);
    let other =
        BoomerangRequest { transaction: 5, rates: &[Rates { forward: 2 * MBIT, reverse: 0 }], ..request(0, 2, SOME) };
    net.put(0, 2, &forged(address(9), address(2), &other));
    net.run_ms(10);
    assert_eq!((net.held(1, 2), net.halves(1)[0].initiator), (2_000_000, address(9)));
    // The first one's late refusal does not touch what the second has.
    let refusal = BoomerangRequest { leg: TravelDirection::Reply, flags: flag::NACK, ..request(0, 2, SOME) };
    net.start(2, &forged(address(2), address(0), &refusal));
    net.run_ms(10);
    assert_eq!(net.held(1, 2), 2_000_000);
}

#[test]
pub fn b13_a_lost_release() {
    let mut net = Net::line("aah");
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    let mut lost = 0;
    net.meddle((0, 2), move |packet| {
        lost += 1;
        if lost == 1 { vec![] } else { vec![packet.to_vec()] }
    });
    net.release(0);
    net.run_ms(100);
    assert_eq!(net.held(1, 2), 3_000_000);
    net.run_ms(3_000);
    assert!(net.halves(1).is_empty(), "said again");
    // And where every one is lost, time ends it.
    let mut net = Net::line("aah");
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    net.meddle((0, 2), |_| vec![]);
    net.release(0);
    net.run_ms(11_000);
    assert!(net.halves(1).is_empty());
    assert_eq!(net.said_of(0).last(), Some(&BoomerangUpcall::Released));
}

#[test]
pub fn b14_a_router_restarts_while_the_message_is_out() {
    let mut net = Net::line("aaaah");
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(4);
    assert_eq!(net.held(2, 2), 3_000_000);
    net.restart(2);
    net.run_ms(96);
    assert_eq!((net.held(2, 2), net.held(2, 1)), (0, 0), "it knows of no request, so the reply makes nothing");
    assert_eq!(net.said_of(0).last(), Some(&BoomerangUpcall::HopMismatch { forward: 3, reverse: 2 }));
    net.run_ms(3_000);
    assert_eq!((net.held(2, 2), net.held(2, 1)), (3_000_000, 1_000_000), "the next refresh makes it whole");
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::HopMismatch { .. })));
    assert_eq!(net.node(0).boomerang().sessions().next().unwrap().hops, Some((3, 3)));
}

/// An old device cuts the body off or blanks it: then nobody here has ever seen a message.
#[test]
pub fn b15_an_old_router_strips_or_zeroes_the_body() {
    for cut in [true, false] {
        let mut net = Net::line("aah");
        let seen = Rc::new(RefCell::new(0));
        let count = Rc::clone(&seen);
        net.meddle((2, 1), move |packet| {
            *count.borrow_mut() += 1;
            let mut packet = packet.to_vec();
            if cut {
                packet.truncate(28);
                packet[2..4].copy_from_slice(&28u16.to_be_bytes());
            }
            packet[28..].fill(0);
            packet[10..12].fill(0);
            let sum = wire::checksum::internet(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            packet[22..24].fill(0);
            let sum = wire::checksum::internet(&packet[20..]);
            packet[22..24].copy_from_slice(&sum.to_be_bytes());
            vec![packet]
        });
        net.reserve(0, ask(2, 3, 1));
        net.run_ms(8_000);
        assert!(*seen.borrow() >= 3);
        assert_eq!(net.said_of(0), [BoomerangUpcall::Silent { messages: 3, over: true }]);
        assert!(net.halves(1).is_empty());
    }
}

#[test]
pub fn a_message_whose_time_is_over_ends_and_reserves_nothing() {
    let mut net = Net::line("hah");
    let mut packet = Vec::new();
    let header = Header { src: address(0), dst: address(2), protocol: 0, ttl: 1, tos: 0, router_alert: false };
    request(0, 2, SOME).write(&header, &mut packet).unwrap();
    net.put(0, 2, &packet);
    net.run_ms(10);
    assert_eq!((net.dropped.pop(), net.halves(1).len()), (Some((1, FailureReason::Ttl)), 0));
}

/// An answer says what was asked, octet for octet, but for what nodes rewrite.
#[test]
pub fn an_answer_is_the_request_turned() {
    let packet = forged(address(0), address(2), &request(0, 2, SOME));
    let mut reply = packet.clone();
    assert!(answered(&mut reply) && !answered(&mut reply.clone()));
    let probe = ProbePacket::parse(&reply).unwrap();
    assert_eq!((probe.src, probe.dst, probe.message.leg), (address(2), address(0), TravelDirection::Reply));
    assert_eq!(reply[24..], packet[24..]);
}
