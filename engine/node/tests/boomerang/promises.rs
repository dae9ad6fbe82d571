//! What the protocol promises when nothing is wrong, and when there is not enough.

use super::net::*;
use boomerang::{BoomerangUpcall, Event};
use terms::{FlowKey, Rate};
use wire::boomerang::{ProbePacket, Rates, Selector};

fn granted(forward: u32, reverse: u32) -> BoomerangUpcall {
    BoomerangUpcall::Reserved { rates: rates(forward * MBIT, reverse * MBIT), refresh: 3, hops: Some((2, 2)) }
}

#[test]
pub fn both_directions_are_reserved_in_one_round_trip_past_an_unaware_router_and_an_unmodified_host() {
    let mut net = Net::line("aauah");
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(4);
    assert_eq!((net.held(1, 2), net.held(3, 2)), (3_000_000, 3_000_000), "forward on the way out");
    assert_eq!((net.held(3, 1), net.held(1, 1)), (0, 0));
    net.run_ms(4);
    assert_eq!((net.held(3, 1), net.held(1, 1)), (1_000_000, 1_000_000), "reverse on the way back");
    assert_eq!(net.held(0, 2), 3_000_000, "and where it starts");
    assert_eq!(net.said_of(0), [granted(3, 1)]);
    assert_eq!(net.sent, 8, "one message out, one back, over four wires");
    assert!(net.halves(1).iter().all(|half| half.installed));
}

#[test]
pub fn refreshes_keep_it_and_never_touch_the_ledger() {
    let mut net = Net::line("aah");
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    let events = net.events.len();
    net.run_ms(60_000);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (3_000_000, 1_000_000));
    assert_eq!(net.events.len(), events, "nothing happened");
    // One message of 92 octets and eight for the count, at most every three quarters of 3 s, at least every 3 s.
    let exchanges = net.sent / 4;
    assert!((20..=28).contains(&exchanges), "{exchanges} exchanges in 60 s");
}

#[test]
pub fn whoever_stops_refreshing_loses_it_after_three_and_a_half_intervals() {
    let mut net = Net::line("aah");
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    net.meddle((0, 2), |_| vec![]);
    net.run_ms(10_300);
    assert_eq!(net.held(1, 2), 3_000_000, "10.5 s after the last");
    net.run_ms(400);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (0, 0));
    assert_eq!(net.events.iter().filter(|(n, e)| *n == 1 && matches!(e, Event::Expired { .. })).count(), 2);
}

#[test]
pub fn three_refreshes_in_a_row_may_be_lost() {
    let mut net = Net::line("aah");
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    let mut count = 0;
    net.meddle((0, 2), move |packet| {
        count += 1;
        if count % 4 == 0 { vec![packet.to_vec()] } else { vec![] }
    });
    net.run_ms(60_000);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (3_000_000, 1_000_000));
    assert!(!net.events.iter().any(|(_, event)| matches!(event, Event::Expired { .. })));
    assert!(
        net.said_of(0).contains(&BoomerangUpcall::Silent { messages: 3, over: false }),
        "and the application hears of it"
    );
}

#[test]
pub fn rate_zero_releases_in_one_round_trip() {
    let mut net = Net::line("aauah");
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(100);
    net.release(0);
    net.run_ms(8);
    for n in [0, 1, 3] {
        assert!(net.halves(n).is_empty(), "machine {n}");
    }
    assert_eq!(net.said_of(0).last(), Some(&BoomerangUpcall::Released));
    assert!(net.node(0).boomerang().sessions().next().is_none());
}

#[test]
pub fn a_change_of_rate_is_one_message() {
    let mut net = Net::line("aah");
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    for (forward, reverse) in [(5, 1), (2, 4), (0, 4), (2, 0)] {
        net.reserve(0, ask(2, forward, reverse));
        net.run_ms(8);
        let (there, back) = (u64::from(forward * MBIT), u64::from(reverse * MBIT));
        assert_eq!((net.held(1, 2), net.held(1, 1)), (there, back));
    }
}

/// The middle of three routers is nearly full: NACK, what it has, and what its transaction made before it goes at once.
#[test]
pub fn a_refusal_says_what_there_is_and_leaves_nothing_behind() {
    let mut net = Net::line("aaaah");
    net.load(2, 2, 6);
    let before = net.sent;
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(8);
    let Some(BoomerangUpcall::Refused { available, kept }) = net.said_of(0).last().copied() else { panic!("refused") };
    // 9 Mbit/s less 6, both with 14 bytes on packets of 128.
    let left = (9_000_000 - 6_000_000u64 * 142 / 128) * 128 / 142;
    assert!(u64::from(available.forward).abs_diff(left) < 3, "{available:?} and {left}");
    assert_eq!((available.reverse, kept), (MBIT, Rates::default()));
    net.run_ms(8);
    for n in [0, 1, 3] {
        assert_eq!((net.held(n, 2), net.held(n, 1)), (0, 0), "machine {n}");
    }
    assert_eq!(net.held(2, 2), 0);
    assert!(net.sent - before <= 16);
    // What is said to be free is free.
    net.reserve(0, asked_of(&flow(0, 4, 5_004), vec![rates(available.forward, MBIT)]));
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { .. })), "{:?}", net.said_of(0));
}

#[test]
pub fn a_raise_that_is_refused_leaves_what_was_there_everywhere() {
    let mut net = Net::line("aaaah");
    net.load(2, 2, 4);
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(100);
    net.reserve(0, ask(4, 6, 1));
    net.run_ms(8);
    let kept = rates(3 * MBIT, MBIT);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Refused { kept: k, .. }) if *k == kept));
    net.run_ms(100);
    for n in [0, 1, 2, 3] {
        assert_eq!(net.held(n, 2), 3_000_000, "machine {n}");
    }
    net.run_ms(30_000);
    assert_eq!((net.held(1, 2), net.held(3, 1)), (3_000_000, 1_000_000), "and it is refreshed");
}

#[test]
pub fn who_would_take_less_gets_what_there_is() {
    let mut net = Net::line("aaaah");
    net.load(2, 2, 6);
    let asked = boomerang::SessionRequest { at_least: rates(MBIT, MBIT), ..ask(4, 3, 1) };
    net.reserve(0, asked);
    net.run_ms(100);
    let Some(BoomerangUpcall::Reserved { rates: got, .. }) = net.said_of(0).last().copied() else {
        panic!("{:?}", net.upcalls)
    };
    assert!(got.forward > 2 * MBIT && got.forward < 3 * MBIT && got.reverse == MBIT);
    for n in [0, 1, 3] {
        assert_eq!(net.held(n, 2), u64::from(got.forward), "machine {n}");
    }
}

/// DOWNGRADE: the first pair that fits is taken, in the same round trip; the next message evens out what nodes before had.
#[test]
pub fn a_vector_comes_back_with_the_first_pair_that_fits_everywhere() {
    let mut net = Net::line("aaaah");
    net.load(2, 2, 6);
    let vector = vec![rates(5 * MBIT, MBIT), rates(3 * MBIT, MBIT), rates(2 * MBIT, MBIT), rates(MBIT, 0)];
    net.reserve(0, asked_of(&flow(0, 4, 5_004), vector));
    net.run_ms(8);
    assert!(net.said_of(0).contains(&BoomerangUpcall::Reserved {
        rates: rates(2 * MBIT, MBIT),
        refresh: 3,
        hops: Some((3, 3))
    }));
    net.run_ms(8);
    for n in [0, 1, 3] {
        assert_eq!((net.held(n, 2), net.held(n.max(1), 1)), (2_000_000, 1_000_000), "machine {n}");
    }
}

#[test]
pub fn a_vector_of_which_nothing_fits_is_refused() {
    let mut net = Net::line("aaah");
    net.load(1, 2, 7);
    net.reserve(0, asked_of(&flow(0, 3, 5_004), vec![rates(5 * MBIT, MBIT), rates(3 * MBIT, MBIT)]));
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Refused { .. })));
    assert_eq!((net.held(0, 2), net.held(1, 1)), (0, 0));
}

/// A node may shorten the interval, never lengthen it; the initiating node adopts it, and state lives by it.
#[test]
pub fn a_shorter_refresh_interval_is_adopted() {
    let short = boomerang::Config { most_refresh: 2, ..boomerang::Config::default() };
    let mut net = Net::line_with("aah", &short);
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { refresh: 2, .. })));
    net.meddle((0, 2), |_| vec![]);
    net.run_ms(7_200);
    assert_eq!(net.held(1, 2), 0, "3.5 times 2 s");
}

#[test]
pub fn a_session_under_a_mask_is_one_block_for_all_its_flows() {
    let mut net = Net::line("aah");
    // All packets between the two machines, whatever their ports.
    let exact = Selector::exact(wire::boomerang::Family::V4);
    let mask = Selector { src_port: 0, dst_port: 0, ..exact };
    let asked = boomerang::SessionRequest { mask, ..ask(2, 3, 1) };
    net.reserve(0, asked.clone());
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (3_000_000, 1_000_000));
    let half = net.halves(1)[0];
    assert_eq!((half.flow.src_port, half.flow.dst_port), (0, 0));
    // Another classifier under the same mask is the same session.
    let other = Selector { src_port: 77, dst_port: 78, ..asked.classifier };
    net.reserve(
        0,
        boomerang::SessionRequest { classifier: other, rates: vec![rates(2 * MBIT, MBIT)], ..asked.clone() },
    );
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.halves(1).len()), (2_000_000, 2));
    net.release(0);
    net.run_ms(100);
    // Any sender to a port: forward alone, because no plane tells "from a port to anybody".
    let any = Selector { src: "0.0.0.0".parse().unwrap(), src_port: 0, ..exact };
    net.reserve(0, boomerang::SessionRequest { mask: any, rates: vec![rates(MBIT, 0)], ..asked });
    net.run_ms(100);
    assert_eq!(net.held(1, 2), 1_000_000);
    assert!(net.halves(1)[0].flow.is_of_any_sender());
}

#[test]
pub fn ipv6_is_the_same_in_icmpv6() {
    let mut net = Net::line("aauah");
    let flow = FlowKey { src: address6(0), dst: address6(4), ..flow(0, 4, 5_004) };
    net.reserve(0, asked_of(&flow, vec![rates(3 * MBIT, MBIT)]));
    net.run_ms(8);
    assert_eq!(net.said_of(0), [granted(3, 1)]);
    assert_eq!((net.held(1, 2), net.held(3, 1)), (3_000_000, 1_000_000));
    let (_, packet) = net.heard.last().unwrap();
    assert_eq!(
        (packet.len(), ProbePacket::parse(packet).unwrap().far_end()),
        (168, address6(4)),
        "160, and eight of the count"
    );
    net.release(0);
    net.run_ms(8);
    assert!(net.halves(1).is_empty());
}

#[test]
pub fn an_aware_far_end_reserves_on_its_own_link_and_answers() {
    let mut net = Net::line("aaa");
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(4);
    assert_eq!((net.held(2, 1), net.held(1, 1)), (1_000_000, 1_000_000));
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { hops: Some((1, 1)), .. })));
}

/// The plane cannot install what was admitted: the reply of that very message says so.
#[test]
pub fn what_the_plane_cannot_install_is_refused_with_the_reply() {
    let mut net = Net::line("aah");
    net.machines[1].failing_plans = true;
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Refused { .. })), "{:?}", net.upcalls);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (0, 0));
}

#[test]
pub fn rsvp_and_boomerang_share_one_ledger() {
    let mut net = Net::line("aah");
    let Kind::Aware(node) = &mut net.machines[1].kind else { unreachable!() };
    let now = net.now;
    let slot = node.ledger_mut(terms::IfIndex(2)).unwrap().open(now, Rate::from_mbps(8)).unwrap();
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Refused { .. })));
    let Kind::Aware(node) = &mut net.machines[1].kind else { unreachable!() };
    node.ledger_mut(terms::IfIndex(2)).unwrap().release(now, slot).unwrap();
    net.reserve(0, ask(2, 3, 1));
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { .. })));
}
