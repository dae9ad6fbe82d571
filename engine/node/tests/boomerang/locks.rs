//! KEY: a suspicious node locks what it reserves until the initiating node has shown that it hears the replies.

use super::net::*;
use boomerang::{BoomerangUpcall, Config, Event};
use std::net::IpAddr;
use wire::boomerang::{BoomerangRequest, Family, Rates, Selector, TravelDirection};
use wire::ip::Header;

fn suspicious() -> Config {
    Config { lock: true, ..Config::default() }
}

/// One loop for a reservation, two if it is locked.
#[test]
pub fn a_locked_reservation_takes_two_loops() {
    let mut net = Net::line_with("aauah", &suspicious());
    net.reserve(0, ask(4, 3, 1));
    net.run_ms(8);
    assert!(net.halves(1).iter().all(|half| half.locked) && net.halves(1).len() == 2);
    assert_eq!(net.held(1, 2), 3_000_000, "reserved, but locked");
    assert_eq!(net.said_of(0), []);
    net.run_ms(8);
    assert!([1, 3].iter().all(|n| net.halves(*n).iter().all(|half| !half.locked)));
    assert!(matches!(net.said_of(0)[..], [BoomerangUpcall::Reserved { .. }]));
    net.run_ms(30_000);
    assert_eq!((net.held(1, 2), net.held(3, 1)), (3_000_000, 1_000_000));
}

/// Whoever speaks in another's name hears no key: what he made is gone after three seconds, however often he says it.
#[test]
pub fn a_spoofed_request_holds_capacity_for_a_moment_only() {
    let mut net = Net::line_with("hah", &suspicious());
    let message = BoomerangRequest {
        leg: TravelDirection::Request,
        id: 1,
        sequence: 1,
        transaction: 9,
        flags: 0,
        refresh: 60,
        key: 1,
        classifier: Selector::of(&flow(0, 2, 5_004)),
        mask: Selector::exact(Family::V4),
        rates: &[Rates { forward: 3 * MBIT, reverse: 0 }],
        policy: 0,
        options: &[],
    };
    let nobody: IpAddr = [10, 9, 9, 9].into();
    let mut packet = Vec::new();
    let header = Header { src: nobody, dst: address(2), protocol: 0, ttl: 64, tos: 0, router_alert: false };
    message.write(&header, &mut packet).unwrap();
    for _ in 0..3 {
        net.put(0, 2, &packet);
        net.run_ms(900);
        assert_eq!(net.held(1, 2), 3_000_000);
    }
    net.run_ms(400);
    assert_eq!(net.held(1, 2), 0);
    assert!(net.events.iter().any(|(_, event)| matches!(event, Event::Locked { .. })));
    // Guessing keys does not help: not even all ones.
    BoomerangRequest { key: u64::MAX - 4, ..message }.write(&header, &mut packet).unwrap();
    packet.drain(..92);
    net.put(0, 2, &packet);
    net.run_ms(10);
    assert!(net.halves(1).iter().all(|half| half.locked) || net.halves(1).is_empty());
}
