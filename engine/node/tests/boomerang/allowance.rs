//! Allowances: what somebody says in another's name uses up nothing of the other's.

use super::authentic::keyed;
use super::net::*;
use boomerang::{BoomerangUpcall, Config, Event, FailureReason, SessionRequest};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use terms::FlowKey;
use wire::boomerang::{BoomerangRequest, Family, Rates, Selector, TravelDirection};
use wire::ip::Header;

/// A message in somebody's name, about one of his flows.
fn forged(leg: TravelDirection, flow: FlowKey, rates: &[Rates]) -> Vec<u8> {
    let request = BoomerangRequest {
        leg,
        id: 1,
        sequence: 1,
        transaction: 0x0bad_0bad,
        flags: 0,
        refresh: 3,
        key: 1,
        classifier: Selector::of(&flow),
        mask: Selector::exact(Family::V4),
        rates,
        policy: 0,
        options: &[],
    };
    let (src, dst): (IpAddr, IpAddr) = match leg {
        TravelDirection::Request => (flow.src, flow.dst),
        TravelDirection::Reply => (flow.dst, flow.src),
    };
    let mut bytes = Vec::new();
    request.write(&Header { src, dst, protocol: 0, ttl: 64, tos: 0, router_alert: false }, &mut bytes).unwrap();
    bytes
}

fn scarce(config: Config) -> Config {
    Config { per_source: 40, ..config }
}

/// A few set-ups in the name of machine 0 behind machine 1, and replies in that of its far end.
fn flood(net: &mut Net, many: u16) {
    for n in 0..many {
        let other = flow(0, 2, 6_000 + n);
        let rates = [Rates { forward: 1_000, reverse: 1_000 }];
        net.put(0, 2, &forged(TravelDirection::Request, other, &rates));
        net.put(2, 1, &forged(TravelDirection::Reply, other, &rates));
    }
}

fn silenced(net: &Net) -> usize {
    net.dropped.iter().filter(|(n, why)| *n == 1 && *why == FailureReason::TooMany).count()
}

#[test]
pub fn a_flood_in_somebodys_name_leaves_his_sessions_alone() {
    let mut net = Net::line_with("aah", &scarce(Config::default()));
    net.reserve(0, SessionRequest { refresh: 3, ..ask(2, 3, 1) });
    net.run_ms(100);
    for _ in 0..12_000 {
        flood(&mut net, 1);
        net.run_ms(1);
    }
    assert!(silenced(&net) > 20_000, "the flood is bounded: {}", silenced(&net));
    assert_eq!((net.held(1, 2) / 1_000_000, net.held(1, 1) / 1_000_000), (3, 1), "refreshed all the time");
    let silent = net.said_of(0).iter().any(|said| matches!(said, BoomerangUpcall::Silent { .. }));
    assert!(!silent, "every refresh was answered: {:?}", net.said_of(0));
    net.release(0);
    net.run_ms(10);
    assert_eq!(net.said_of(0).last(), Some(&BoomerangUpcall::Released));
}

#[test]
pub fn who_proves_it_has_an_allowance_of_his_own() {
    let mut net = Net::line_with("aah", &scarce(Config { require_auth: true, ..keyed() }));
    flood(&mut net, 200);
    net.run_ms(2);
    assert!(silenced(&net) > 200, "the flood is bounded: {}", silenced(&net));
    net.reserve(0, SessionRequest { auth: Some(7), ..ask(2, 3, 1) });
    net.run_ms(10);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { .. })), "{:?}", net.said_of(0));
    assert_eq!((net.held(1, 2), net.held(1, 1)), (3_000_000, 1_000_000));
}

/// What was proven once and is said again is a stranger's, and goes of the strangers' allowance.
#[test]
pub fn what_is_replayed_uses_up_nothing_of_its_first_sender() {
    let mut net = Net::line_with("aah", &scarce(Config { require_auth: true, ..keyed() }));
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&kept);
    net.meddle((0, 2), move |packet| {
        keep.borrow_mut().push(packet.to_vec());
        vec![packet.to_vec()]
    });
    net.reserve(0, SessionRequest { auth: Some(7), ..ask(2, 3, 1) });
    net.run_ms(10);
    net.leave_alone((0, 2));
    let first = kept.borrow()[0].clone();
    (0..500).for_each(|_| net.put(0, 2, &first));
    net.run_ms(2);
    assert!(net.events.iter().filter(|(_, event)| matches!(event, Event::Unproven { .. })).count() > 10);
    net.release(0);
    net.run_ms(10);
    assert!(net.halves(1).is_empty(), "the release was heard at once");
}
