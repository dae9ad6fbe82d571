//! Links, addresses, routes and notices against the real kernel, in scratch namespaces.

use crate::scratch;

use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::notice::{NetlinkNotice, Notices};
use linux::netlink::route::{RouteAnswer, RouteEntry, RouteQuery};
use linux::route::KernelRoutes;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use terms::IfIndex;
use terms::ports::{Route, RouteDecision};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn ask(dst: &str) -> RouteQuery {
    RouteQuery { dst: ip(dst), src: None, iif: None }
}

#[test]
fn links_are_made_changed_found_and_removed() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        assert_eq!(socket.link_by_name("a0").expect_err("not yet").errno, libc::ENODEV);
        socket.add_veth("a0", "b0", None).expect("veth");
        let taken = socket.add_veth("a0", "c0", None).expect_err("taken");
        assert_eq!(taken.errno, libc::EEXIST);
        let a = socket.link_by_name("a0").expect("a0");
        let b = socket.link_by_name("b0").expect("b0");
        assert_eq!((a.kind.as_str(), a.up, a.peer, a.header_len()), ("veth", false, Some(b.index.0), 14));
        socket.set_link_mtu(a.index, 1400).expect("mtu");
        socket.rename_link(a.index, "a9").expect("rename");
        socket.set_link_up(a.index, true).expect("up");
        socket.set_link_up(b.index, true).expect("up");
        let a = socket.link_by_index(a.index).expect("by index");
        assert_eq!((a.name.as_str(), a.mtu, a.up, a.carrier), ("a9", 1400, true, true));
        assert_eq!(socket.links().expect("list").len(), 3, "lo and the pair");
        socket.delete_link(a.index).expect("delete");
        assert!(socket.link_by_index(b.index).expect_err("gone with its peer").is_absent());
    });
}

#[test]
fn the_other_end_lands_in_another_namespace() {
    scratch::in_netns(|| {
        let there = scratch::fresh();
        let here = scratch::current();
        let mut socket = Socket::open().expect("netlink");
        socket.add_veth("a0", "b0", Some(there.as_fd())).expect("veth");
        assert!(socket.link_by_name("b0").is_err());
        scratch::enter(&there);
        let mut far = Socket::open().expect("netlink there");
        scratch::enter(&here);
        let b = far.link_by_name("b0").expect("b0 there, asked from here");
        far.move_link(b.index, here.as_fd()).expect("move it here");
        assert!(socket.link_by_name("b0").is_ok());
    });
}

/// A station on a link is somebody else there: in its own namespace, with an address of its own.
#[test]
fn a_station_on_a_link_is_another_neighbour() {
    scratch::in_netns(|| {
        let there = scratch::fresh();
        let here = scratch::current();
        let mut socket = Socket::open().expect("netlink");
        socket.add_veth("a0", "b0", None).expect("veth");
        let a = socket.link_by_name("a0").expect("a0");
        socket.add_station("s0", a.index, there.as_fd()).expect("a station on a0");
        assert!(socket.link_by_name("s0").is_err(), "not here");
        scratch::enter(&there);
        let mut far = Socket::open().expect("netlink there");
        scratch::enter(&here);
        let station = far.link_by_name("s0").expect("s0 there, asked from here");
        assert_eq!(station.kind, "macvlan");
        assert_ne!(station.address, a.address);
        socket.delete_link(a.index).expect("delete");
        assert!(far.link_by_name("s0").expect_err("gone with its link").is_absent());
    });
}

#[test]
fn routes_are_added_and_looked_up() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        socket.add_veth("a0", "b0", None).expect("veth");
        let a = socket.link_by_name("a0").expect("a0").index;
        let b = socket.link_by_name("b0").expect("b0").index;
        let lo = socket.link_by_name("lo").expect("lo").index;
        for index in [a, b, lo] {
            socket.set_link_up(index, true).expect("up");
        }
        let v4 = Address { index: a, address: ip("10.1.0.1"), prefix: 24 };
        let v6 = Address { index: a, address: ip("fd00:1::1"), prefix: 64 };
        socket.add_address(&v4).expect("v4");
        socket.add_address(&v6).expect("v6");
        assert_eq!(socket.add_address(&v4).expect_err("twice").errno, libc::EEXIST);
        let all = socket.addresses().expect("addresses");
        assert!(all.contains(&v4) && all.contains(&v6), "{all:?}");

        let out = |gateway: Option<&str>, source: &str| RouteAnswer::Out {
            oif: a,
            gateway: gateway.map(ip),
            source: Some(ip(source)),
        };
        assert_eq!(socket.route(&ask("10.1.0.1")), Ok(RouteAnswer::Local));
        assert_eq!(socket.route(&ask("10.1.0.7")), Ok(out(None, "10.1.0.1")));
        assert_eq!(socket.route(&ask("10.2.0.1")), Ok(RouteAnswer::None));
        let far = RouteEntry { dst: ip("10.2.0.0"), prefix: 16, gateway: Some(ip("10.1.0.2")), oif: IfIndex(0) };
        socket.add_route(&far).expect("route");
        assert_eq!(socket.route(&ask("10.2.0.1")), Ok(out(Some("10.1.0.2"), "10.1.0.1")));
        let default = RouteEntry { dst: ip("::"), prefix: 0, gateway: Some(ip("fd00:1::2")), oif: a };
        socket.add_route(&default).expect("default");
        assert_eq!(socket.route(&ask("fd00:9::1")), Ok(out(Some("fd00:1::2"), "fd00:1::1")));
        let moved = RouteEntry { gateway: Some(ip("10.1.0.3")), ..far };
        socket.replace_route(&moved).expect("replace");
        assert_eq!(socket.route(&ask("10.2.0.1")), Ok(out(Some("10.1.0.3"), "10.1.0.1")));
        socket.delete_route(&moved).expect("delete");
        assert_eq!(socket.route(&ask("10.2.0.1")), Ok(RouteAnswer::None));
    });
}

#[test]
fn a_transit_packet_is_looked_up_by_its_way_in() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding in this namespace");
        for (near, far, net) in [("a0", "a1", "10.1.0.1"), ("b0", "b1", "10.2.0.1")] {
            socket.add_veth(near, far, None).expect("veth");
            let index = socket.link_by_name(near).expect("near").index;
            let other = socket.link_by_name(far).expect("far").index;
            socket.set_link_up(index, true).expect("up");
            socket.set_link_up(other, true).expect("up");
            socket.add_address(&Address { index, address: ip(net), prefix: 24 }).expect("address");
        }
        let iif = socket.link_by_name("a0").expect("a0").index;
        let oif = socket.link_by_name("b0").expect("b0").index;
        let query = RouteQuery { dst: ip("10.2.0.9"), src: Some(ip("10.1.0.9")), iif: Some(iif) };
        match socket.route(&query).expect("transit") {
            RouteAnswer::Out { oif: got, gateway: None, .. } => assert_eq!(got, oif),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn changes_are_noticed() {
    scratch::in_netns(|| {
        let mut notices = Notices::open().expect("listen");
        assert_eq!(notices.take(), Ok(vec![]));
        let mut socket = Socket::open().expect("netlink");
        socket.add_veth("a0", "b0", None).expect("veth");
        let a = socket.link_by_name("a0").expect("a0").index;
        let b = socket.link_by_name("b0").expect("b0").index;
        let mut pair = vec![NetlinkNotice::Link(a), NetlinkNotice::Link(b)];
        pair.sort_unstable();
        assert_eq!(notices.take(), Ok(pair));
        socket.set_link_up(a, true).expect("up");
        socket.set_link_up(b, true).expect("up");
        socket.add_address(&Address { index: a, address: ip("10.1.0.1"), prefix: 24 }).expect("address");
        let seen = notices.take().expect("notices");
        assert!(
            seen.contains(&NetlinkNotice::Address(a))
                && seen.contains(&NetlinkNotice::Route(Some((ip("10.1.0.0"), 24)))),
            "{seen:?}"
        );
        socket.delete_link(a).expect("delete");
        assert!(notices.take().expect("notices").contains(&NetlinkNotice::LinkGone(a)));
    });
}

#[test]
fn the_kernels_own_sentence_reaches_the_caller() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        let nowhere = RouteEntry { dst: ip("10.2.0.0"), prefix: 16, gateway: Some(ip("10.1.0.2")), oif: IfIndex(0) };
        let error = socket.add_route(&nowhere).expect_err("no way to the gateway");
        assert_eq!(error.errno, libc::ENETUNREACH);
        assert!(error.text.as_deref().is_some_and(|text| text.contains("gateway")), "{error}");
    });
}

#[test]
fn a_dump_that_changes_under_way_is_begun_again() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        for n in 0..60 {
            socket.add_veth(&format!("a{n}"), &format!("b{n}"), None).expect("veth");
        }
        let here = scratch::current();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                scratch::enter(&here);
                let mut socket = Socket::open().expect("netlink");
                while !stop.load(Ordering::Relaxed) {
                    socket.add_veth("x0", "x1", None).expect("veth");
                    let index = socket.link_by_name("x0").expect("x0").index;
                    socket.delete_link(index).expect("delete");
                }
            });
            for _ in 0..200 {
                match socket.links() {
                    // Whatever comes and goes, the 120 that stay are in every dump, once.
                    Ok(links) => {
                        let stay = links.iter().filter(|link| !link.name.starts_with('x') && link.name != "lo");
                        assert_eq!(stay.map(|link| &link.name).collect::<BTreeSet<_>>().len(), 120);
                        assert!((121..=123).contains(&links.len()), "{}", links.len());
                    }
                    Err(error) => assert_eq!(error.errno, libc::EBUSY, "{error}"),
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn lost_notices_are_told() {
    scratch::in_netns(|| {
        let mut notices = Notices::open().expect("listen");
        let mut socket = Socket::open().expect("netlink");
        socket.add_veth("a0", "b0", None).expect("veth");
        let a = socket.link_by_name("a0").expect("a0").index;
        // More than any receive buffer holds, while nobody reads.
        for n in 0..4000 {
            socket.set_link_mtu(a, 1000 + n % 2).expect("mtu");
        }
        let seen = notices.take().expect("notices");
        assert!(seen.contains(&NetlinkNotice::Lost), "{seen:?}");
        assert_eq!(notices.take(), Ok(vec![]), "and then it goes on");
        socket.set_link_mtu(a, 1300).expect("mtu");
        assert!(notices.take().expect("notices").contains(&NetlinkNotice::Link(a)));
    });
}

/// The kernel announces IPv6 addresses a little later than it takes them.
fn await_notices(notices: &mut Notices, wanted: &[NetlinkNotice]) {
    let mut seen = BTreeSet::new();
    for _ in 0..500 {
        seen.extend(notices.take().expect("notices"));
        if wanted.iter().all(|notice| seen.contains(notice)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{wanted:?} did not come, but {seen:?}");
}

#[test]
fn ipv6_ways_name_addresses_that_are_good_beyond_the_link() {
    scratch::in_netns(|| {
        let mut socket = Socket::open().expect("netlink");
        socket.add_veth("a0", "b0", None).expect("veth");
        let [a, b] = ["a0", "b0"].map(|name| socket.link_by_name(name).expect("link").index);
        [a, b].into_iter().for_each(|index| socket.set_link_up(index, true).expect("up"));
        let own = |index, text: &str| Address { index, address: ip(text), prefix: 64 };
        let mut notices = Notices::open().expect("listen");
        socket.add_address(&own(a, "fe80::a")).expect("link-local");
        let mut routes = KernelRoutes::open().expect("routes");
        // Routers name each other by addresses of the link.
        let far = RouteEntry { dst: ip("fd00:9::"), prefix: 64, gateway: Some(ip("fe80::b")), oif: a };
        socket.add_route(&far).expect("route");
        let out = |source: &str| RouteDecision::Out { oif: a, gateway: Some(ip("fe80::b")), source: ip(source) };
        routes.forget().expect("forget");
        assert_eq!(routes.route(ip("fd00:9::1"), None, None), out("fe80::a"), "there is no other");
        socket.add_address(&own(a, "fd00:1::1")).expect("address");
        await_notices(&mut notices, &[NetlinkNotice::Address(a), NetlinkNotice::Route(Some((ip("fd00:1::"), 64)))]);
        routes.forget().expect("forget");
        assert_eq!(routes.route(ip("fd00:9::1"), None, None), out("fd00:1::1"));
        assert_eq!(routes.route(ip("fd00:9::1"), Some(ip("fd00:7::7")), Some(b)), out("fd00:1::1"), "a transit packet");
        // The kernel knows its own address as local a little later than it announces it.
        let local = (0..500).any(|_| {
            routes.forget().expect("forget");
            let decision = routes.route(ip("fd00:1::1"), None, None);
            if decision != RouteDecision::Local {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            decision == RouteDecision::Local
        });
        assert!(local, "{:?}", routes.route(ip("fd00:1::1"), None, None));
        assert_eq!(routes.route(ip("2001:db8::1"), None, None), RouteDecision::None);
        let link = RouteDecision::Out { oif: a, gateway: None, source: ip("fd00:1::1") };
        assert_eq!(routes.route(ip("fd00:1::2"), None, None), link, "on the link");
        socket.set_link_mtu(a, 1280).expect("mtu");
        await_notices(&mut notices, &[NetlinkNotice::Link(a)]);
        assert_eq!(socket.link_by_index(a).expect("link").mtu, 1280);
        socket.delete_address(&own(a, "fd00:1::1")).expect("gone");
        await_notices(&mut notices, &[NetlinkNotice::Address(a)]);
    });
}
