//! Masks that are prefixes: all that goes between two sites is one session.

use super::net::{MBIT, Net, address, address6, ask, asked_of, flow, rates};
use boomerang::{BoomerangUpcall, SessionRequest};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use terms::{FlowKey, Wild};
use wire::boomerang::{Family, Selector};

/// The first bits of an address, or a mask of them.
fn first(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(a) => (a & Ipv4Addr::from_bits(!(u32::MAX >> length))).into(),
        IpAddr::V6(a) => (a & Ipv6Addr::from_bits(!(u128::MAX >> length))).into(),
    }
}

/// All packets between the networks of both ends, of whatever protocol and ports.
fn sites(like: &SessionRequest, length: u32) -> SessionRequest {
    let all = Selector::exact(Family::of(like.far_end));
    let (src, dst) = (first(all.src, length), first(all.dst, length));
    SessionRequest { mask: Selector { src, dst, src_port: 0, dst_port: 0, protocol: 0, ..all }, ..like.clone() }
}

fn between(src: IpAddr, dst: IpAddr, length: u32, wild: u8) -> FlowKey {
    let (src, dst) = (first(src, length), first(dst, length));
    FlowKey { src, dst, protocol: 0, src_port: 0, dst_port: 0, wild: Wild { src: wild, dst: wild } }
}

fn refused(net: &Net) -> bool {
    matches!(net.said_of(0).last(), Some(BoomerangUpcall::Refused { .. }))
}

#[test]
pub fn two_sites_are_one_session_each_way() {
    let mut net = Net::line("aauah");
    let asked = sites(&ask(4, 3, 1), 24);
    net.reserve(0, asked.clone());
    net.run_ms(100);
    assert!(matches!(net.said_of(0).last(), Some(BoomerangUpcall::Reserved { .. })), "{:?}", net.upcalls);
    assert_eq!((net.held(1, 2), net.held(3, 1), net.held(1, 1)), (3_000_000, 1_000_000, 1_000_000));
    // Ledger and plane have the prefixes, each direction its own.
    let mut flows: Vec<FlowKey> = net.node(1).reservations().map(|view| view.flow).collect();
    flows.sort_unstable();
    let (out, back) = (between(address(0), address(4), 24, 8), between(address(4), address(0), 24, 8));
    assert_eq!(flows, [out, back]);
    // Any pair of hosts of the sites names the same session.
    let host = |like: IpAddr, n: u8| match like {
        IpAddr::V4(a) => IpAddr::from([a.octets()[0], a.octets()[1], a.octets()[2], n]),
        six => six,
    };
    let other = Selector { src: host(address(0), 77), dst: host(address(4), 78), ..asked.classifier };
    net.reserve(0, SessionRequest { classifier: other, rates: vec![rates(2 * MBIT, MBIT)], ..asked });
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.halves(1).len()), (2_000_000, 2));
    net.run_ms(20_000);
    assert_eq!(net.held(3, 2), 2_000_000, "and is refreshed like any other");
    net.release(0);
    net.run_ms(100);
    assert!([1, 3].iter().all(|n| net.halves(*n).is_empty()));
}

#[test]
pub fn sites_of_ipv6_are_the_same() {
    let mut net = Net::line("aah");
    let flow = FlowKey { src: address6(0), dst: address6(2), ..flow(0, 2, 5_004) };
    net.reserve(0, sites(&asked_of(&flow, vec![rates(3 * MBIT, MBIT)]), 64));
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (3_000_000, 1_000_000));
    let out = between(address6(0), address6(2), 64, 64);
    assert!(net.node(1).reservations().any(|view| view.flow == out));
}

/// A flow between two hosts of the sites is another session, with a slot of its own.
#[test]
pub fn a_session_within_two_sites_is_its_own() {
    let mut net = Net::line("aah");
    net.reserve(0, sites(&ask(2, 3, 1), 24));
    net.run_ms(100);
    let inside = asked_of(&flow(0, 2, 6_000), vec![rates(2 * MBIT, 0)]);
    net.tell(
        0,
        node::io::Input::Boomerang(boomerang::ApplicationCall::Reserve { app: boomerang::AppId(77), asked: inside }),
    );
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.halves(1).len()), (5_000_000, 3));
    net.tell(0, node::io::Input::Boomerang(boomerang::ApplicationCall::Release { app: boomerang::AppId(77) }));
    net.run_ms(100);
    assert_eq!((net.held(1, 2), net.held(1, 1)), (3_000_000, 1_000_000));
}

/// Bits that are no prefix, half a port, all addresses: every node says no, and nothing is left.
#[test]
pub fn a_mask_that_no_plane_can_look_up_is_refused() {
    let mut net = Net::line("aah");
    let good = sites(&ask(2, 3, 1), 24);
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    let masks = [
        Selector { src: ip("255.0.255.0"), ..good.mask },
        Selector { dst: ip("255.255.255.1"), ..good.mask },
        Selector { dst: ip("0.0.0.0"), ..good.mask },
        Selector { dst_port: 0xff00, ..good.mask },
        Selector { protocol: 0xf0, ..good.mask },
    ];
    for mask in masks {
        assert!(!boomerang::is_told_apart(&mask), "{mask:?}");
        net.reserve(0, SessionRequest { mask, ..good.clone() });
        net.run_ms(100);
        assert!(refused(&net), "{mask:?}: {:?}", net.upcalls);
        assert!([0, 1].iter().all(|n| net.halves(*n).is_empty()), "{mask:?}");
    }
    // A port that is asked for by a number of zero would be any port to a plane.
    let ports = Selector { dst_port: u16::MAX, ..good.mask };
    let classifier = Selector { dst_port: 0, ..good.classifier };
    net.reserve(0, SessionRequest { mask: ports, classifier, ..good.clone() });
    net.run_ms(100);
    assert!(refused(&net) && net.halves(1).is_empty());
    net.reserve(0, good);
    net.run_ms(100);
    assert_eq!(net.held(1, 2), 3_000_000);
}

/// An interface looks up so many lengths and no more: one more is refused and changes nothing; one less makes room.
#[test]
pub fn an_interface_knows_few_lengths() {
    let mut net = Net::line("aah");
    let app = |n: u32| boomerang::AppId(u64::from(n));
    let asked = |n: u32| SessionRequest { rates: vec![rates(100_000, 0)], ..sites(&ask(2, 1, 0), 20 + n) };
    let call = |net: &mut Net, call| {
        net.tell(0, node::io::Input::Boomerang(call));
        net.run_ms(100);
    };
    let most = traffic::shapes::MOST_SHAPES as u32;
    for n in 0..most {
        call(&mut net, boomerang::ApplicationCall::Reserve { app: app(n), asked: asked(n) });
    }
    assert_eq!(net.held(1, 2), 100_000 * u64::from(most));
    call(&mut net, boomerang::ApplicationCall::Reserve { app: app(most), asked: asked(most) });
    assert!(refused(&net), "{:?}", net.upcalls);
    assert_eq!((net.held(1, 2), net.halves(1).len()), (100_000 * u64::from(most), most as usize));
    call(&mut net, boomerang::ApplicationCall::Release { app: app(3) });
    call(&mut net, boomerang::ApplicationCall::Reserve { app: app(most), asked: asked(most) });
    assert_eq!(net.held(1, 2), 100_000 * u64::from(most));
}
