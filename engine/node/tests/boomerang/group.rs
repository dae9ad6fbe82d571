//! One to many: NO_ECHO to a multicast group reserves on every branch of the tree; nothing comes back.

use super::net::*;
use boomerang::{BoomerangUpcall, FailureReason};
use std::net::IpAddr;
use terms::ports::MulticastTree;
use terms::{FlowKey, IfIndex};
use wire::boomerang::{BoomerangRequest, Selector, TravelDirection};
use wire::ip::Header;

const GROUP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(239, 7, 7, 7));

/// `0` sends; `1` branches to `2` and `3`.
fn tree() -> Net {
    let mut net = Net::line("aah");
    net.add('h', boomerang::Config::default());
    net.wire((1, 3), (3, 1));
    net.find_ways();
    net.set_tree(0, GROUP, MulticastTree { iif: None, oifs: [IfIndex(2)].into_iter().collect() });
    net.set_tree(
        1,
        GROUP,
        MulticastTree { iif: Some(IfIndex(1)), oifs: [IfIndex(2), IfIndex(3)].into_iter().collect() },
    );
    net
}

fn to_group() -> boomerang::SessionRequest {
    let flow = FlowKey { dst: GROUP, ..flow(0, 2, 5_004) };
    boomerang::SessionRequest { no_echo: true, ..asked_of(&flow, vec![rates(2 * MBIT, 0)]) }
}

#[test]
pub fn every_branch_is_reserved_and_nobody_answers() {
    let mut net = tree();
    net.reserve(0, to_group());
    net.run_ms(100);
    assert_eq!((net.held(0, 2), net.held(1, 2), net.held(1, 3)), (2_000_000, 2_000_000, 2_000_000));
    assert_eq!(net.heard.len(), 2, "both hosts heard it");
    assert_eq!(net.sent, 3, "and nothing came back");
    net.run_ms(30_000);
    assert_eq!((net.held(1, 2), net.held(1, 3)), (2_000_000, 2_000_000), "refreshed");
    net.release(0);
    net.run_ms(100);
    assert!(net.halves(1).is_empty());
}

/// The links have 10 Mbit/s: the sender's own node says no, and holds nothing.
#[test]
pub fn what_the_senders_own_node_refuses_is_said() {
    let mut net = tree();
    let flow = FlowKey { dst: GROUP, ..flow(0, 2, 5_004) };
    net.reserve(0, boomerang::SessionRequest { no_echo: true, ..asked_of(&flow, vec![rates(200 * MBIT, 0)]) });
    net.run_ms(100);
    let said = net.said_of(0);
    assert!(
        matches!(said[..], [BoomerangUpcall::Refused { available, kept }]
            if (1..200 * MBIT).contains(&available.forward) && kept.is_zero()),
        "{said:?}"
    );
    net.run_ms(30_000);
    assert!((0..2).all(|n| net.halves(n).is_empty()), "and it is not asked again");
    net.reserve(0, to_group());
    net.run_ms(100);
    assert_eq!(net.held(1, 3), 2_000_000, "less is had at once");
}

#[test]
pub fn a_branch_that_leaves_times_out() {
    let mut net = tree();
    net.reserve(0, to_group());
    net.run_ms(100);
    net.set_tree(1, GROUP, MulticastTree { iif: Some(IfIndex(1)), oifs: [IfIndex(3)].into_iter().collect() });
    net.run_ms(15_000);
    assert_eq!((net.held(1, 2), net.held(1, 3)), (0, 2_000_000));
}

#[test]
pub fn what_breaks_the_rules_for_groups_ends() {
    let flow = FlowKey { dst: GROUP, ..flow(0, 2, 5_004) };
    let asked = to_group();
    let message = BoomerangRequest {
        leg: TravelDirection::Request,
        id: 1,
        sequence: 1,
        transaction: 1,
        flags: 0,
        refresh: 3,
        key: 1,
        classifier: Selector::of(&flow),
        mask: asked.mask,
        rates: &asked.rates,
        policy: 0,
        options: &[],
    };
    let no_echo = wire::boomerang::flag::NO_ECHO;
    let both = [rates(MBIT, MBIT)];
    let cases = [
        (message.clone(), address(0), GROUP, 1, FailureReason::NoEcho),
        (
            BoomerangRequest { flags: no_echo, rates: &both, ..message.clone() },
            address(0),
            GROUP,
            1,
            FailureReason::GroupReverse,
        ),
        (BoomerangRequest { flags: no_echo, ..message.clone() }, address(0), GROUP, 2, FailureReason::WrongWay),
        (
            BoomerangRequest { flags: no_echo, leg: TravelDirection::Reply, ..message.clone() },
            address(2),
            address(0),
            2,
            FailureReason::NoEcho,
        ),
    ];
    for (message, src, dst, iif, why) in cases {
        let mut net = tree();
        let mut packet = Vec::new();
        message.write(&Header { src, dst, protocol: 0, ttl: 64, tos: 0, router_alert: false }, &mut packet).unwrap();
        let (from, oif) = if iif == 1 { (0, 2) } else { (2, 1) };
        net.put(from, oif, &packet);
        net.run_ms(10);
        assert_eq!(net.dropped, [(1, why)]);
        assert!(net.halves(1).is_empty() && net.heard.is_empty());
    }
}
