//! Multicast: static routes in the kernel, read back as trees; and a flow that leaves by two interfaces, each with a
//! reservation of its own, packet by packet.

use crate::bed::{base, entry, roomy};
use crate::scratch::{self, StateDir};
use crate::traffic::{DEEP, arrived};
use ::traffic::plan::{BucketSpec, ClassId, FlowSpecEntry, PlanOp};
use linux::mroute::MulticastRouter;
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::mfc::MulticastRoute;
use linux::netlink::notice::{NetlinkNotice, Notices};
use linux::plane::KernelPlane;
use linux::route::KernelRoutes;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;
use terms::ports::{MulticastTree, Oifs, Route, RouteDecision};
use terms::{Bytes, FlowKey, IfIndex, Rate};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 7, 7, 7);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 7);

/// A router between one network of a sender and two of receivers, each in a namespace of its own.
struct Fork {
    links: [IfIndex; 3],
    there: [File; 3],
}

fn ours(n: usize) -> IpAddr {
    IpAddr::from([10, 78, n as u8, 1])
}

fn theirs(n: usize) -> IpAddr {
    IpAddr::from([10, 78, n as u8, 2])
}

fn theirs6(n: usize) -> IpAddr {
    IpAddr::from([0xfd78, n as u16, 0, 0, 0, 0, 0, 2])
}

fn fork() -> Fork {
    let here = scratch::current();
    let mut socket = Socket::open().expect("netlink");
    let there = [0; 3].map(|_| scratch::fresh());
    let links = [0, 1, 2].map(|n| {
        let (near, far) = (format!("n{n}"), format!("f{n}"));
        socket.add_veth(&near, &far, Some(there[n].as_fd())).expect("veth");
        scratch::enter(&there[n]);
        let mut other = Socket::open().expect("netlink");
        scratch::enter(&here);
        let up = |socket: &mut Socket, name: &str, address: IpAddr, six: [u16; 8]| {
            let index = socket.link_by_name(name).expect("link").index;
            socket.set_link_up(index, true).expect("up");
            socket.add_address(&Address { index, address, prefix: 24 }).expect("address");
            socket.add_address(&Address { index, address: six.into(), prefix: 64 }).expect("address");
            index
        };
        up(&mut other, &far, theirs(n), [0xfd78, n as u16, 0, 0, 0, 0, 0, 2]);
        up(&mut socket, &near, ours(n), [0xfd78, n as u16, 0, 0, 0, 0, 0, 1])
    });
    Fork { links, there }
}

impl Fork {
    fn inside<T>(&self, n: usize, deed: impl FnOnce() -> T) -> T {
        let here = scratch::current();
        scratch::enter(&self.there[n]);
        let done = deed();
        scratch::enter(&here);
        done
    }

    fn four(&self) -> MulticastRoute {
        let [iif, a, b] = self.links;
        MulticastRoute { group: GROUP.into(), src: theirs(0), iif, oifs: vec![a, b] }
    }

    fn six(&self) -> MulticastRoute {
        MulticastRoute { group: GROUP6.into(), src: theirs6(0), ..self.four() }
    }
}

fn no_multicast_routing(failed: &linux::error::SystemError) -> bool {
    let missing = matches!(failed.code(), libc::ENOPROTOOPT | libc::EOPNOTSUPP);
    if missing {
        bench::skipped("this kernel has no multicast routing");
    }
    missing
}

#[test]
fn multicast_routes_are_trees_and_their_changes_are_noticed() {
    scratch::in_netns(|| {
        let fork = fork();
        let [iif, a, b] = fork.links;
        let mut notices = Notices::open().expect("listen");
        let mut router = MulticastRouter::new();
        match router.add(&fork.four()) {
            Err(failed) if no_multicast_routing(&failed) => return,
            done => done.expect("an IPv4 route"),
        }
        router.add(&fork.six()).expect("an IPv6 route");
        let mut socket = Socket::open().expect("netlink");
        let mut all = socket.multicast_routes().expect("routes");
        all.sort();
        assert_eq!(all, [fork.four(), fork.six()]);
        assert!(notices.take().expect("notices").contains(&NetlinkNotice::Route(None)));
        let mut routes = KernelRoutes::open().expect("routes");
        let branches = |all: &[IfIndex]| all.iter().copied().collect::<Oifs>();
        for (group, src) in [(IpAddr::from(GROUP), theirs(0)), (GROUP6.into(), theirs6(0))] {
            let tree = RouteDecision::Tree(MulticastTree { iif: Some(iif), oifs: branches(&[a, b]) });
            assert_eq!(routes.route(group, Some(src), Some(iif)), tree);
            assert_eq!(routes.route(group, Some(src), Some(a)), tree, "also when it came in at the wrong place");
            let stranger = if src.is_ipv4() { IpAddr::from([10, 78, 0, 77]) } else { theirs6(9) };
            let nowhere = RouteDecision::Tree(MulticastTree { iif: None, oifs: Oifs::NONE });
            assert_eq!(routes.route(group, Some(stranger), Some(iif)), nowhere);
        }
        // A route that is replaced, and any sender to a group.
        router.add(&MulticastRoute { oifs: vec![b], ..fork.four() }).expect("replaced");
        assert!(notices.take().expect("notices").contains(&NetlinkNotice::Route(None)), "a change is noticed too");
        routes.forget().expect("forget");
        let tree = RouteDecision::Tree(MulticastTree { iif: Some(iif), oifs: branches(&[b]) });
        assert_eq!(routes.route(GROUP.into(), Some(theirs(0)), Some(iif)), tree);
        router.remove(&fork.four()).expect("removed");
        assert!(router.remove(&fork.four()).is_err());
        routes.forget().expect("forget");
        let nowhere = RouteDecision::Tree(MulticastTree::default());
        assert_eq!(routes.route(GROUP.into(), Some(theirs(0)), Some(iif)), nowhere);
        // What this node sends itself goes where the unicast table sends multicast.
        let route = linux::netlink::route::RouteEntry { dst: [224, 0, 0, 0].into(), prefix: 4, gateway: None, oif: a };
        socket.add_route(&route).expect("route");
        routes.forget().expect("forget");
        let own = RouteDecision::Tree(MulticastTree { iif: None, oifs: branches(&[a]) });
        assert_eq!(routes.route(GROUP.into(), Some(ours(1)), None), own);
        // Another router in the namespace is refused, and with the last socket everything goes.
        assert_eq!(MulticastRouter::new().add(&fork.four()).expect_err("taken").code(), libc::EADDRINUSE);
        drop(router);
        assert_eq!(socket.multicast_routes(), Ok(vec![]));
        MulticastRouter::new().add(&fork.six()).expect("free again");
    });
}

/// A socket in a namespace that is a member of the group on its only network.
fn member(fork: &Fork, n: usize) -> UdpSocket {
    fork.inside(n, || {
        let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 5004))).expect("bind");
        let IpAddr::V4(own) = theirs(n) else { panic!("IPv4") };
        socket.join_multicast_v4(&GROUP, &own).expect("join");
        roomy(socket)
    })
}

#[test]
fn a_flow_that_leaves_by_two_interfaces_has_a_reservation_on_each() {
    scratch::in_netns(|| two_branches(|route| route));
}

#[test]
fn a_route_for_any_sender_forwards_like_one_for_one() {
    scratch::in_netns(|| two_branches(|route| MulticastRoute { src: Ipv4Addr::UNSPECIFIED.into(), ..route }));
}

fn two_branches(way: fn(MulticastRoute) -> MulticastRoute) {
    let fork = fork();
    let [iif, a, b] = fork.links;
    let mut router = MulticastRouter::new();
    match router.add(&way(fork.four())) {
        Err(failed) if no_multicast_routing(&failed) => return,
        done => done.expect("a route"),
    }
    let tree = MulticastTree { iif: Some(iif), oifs: [a, b].into_iter().collect() };
    let mut routes = KernelRoutes::open().expect("routes");
    assert_eq!(routes.route(GROUP.into(), Some(theirs(0)), Some(iif)), RouteDecision::Tree(tree));
    let state = StateDir::new();
    let mut plane = KernelPlane::open(state.path()).expect("opens");
    let flow = FlowKey {
        src: theirs(0),
        dst: GROUP.into(),
        protocol: 17,
        src_port: 4000,
        dst_port: 5004,
        wild: terms::Wild::NONE,
    };
    // The branches differ: all of it on one, on the other a tenth of the rate.
    let all = FlowSpecEntry { bucket: DEEP, ..entry(ClassId::CONTROLLED_LOAD, 3_000) };
    let bucket = BucketSpec { rate: Rate::from_kbps(100), depth: Bytes::new(4_000), min_unit: 64 };
    let some = FlowSpecEntry { bucket, ..entry(ClassId::CONTROLLED_LOAD, 100) };
    let mut ops = [base(a, 3_300), base(b, 1_000)].concat();
    ops.extend([PlanOp::Flow { oif: a, flow, entry: all }, PlanOp::Flow { oif: b, flow, entry: some }]);
    plane.apply(&ops).expect("fits");
    let (here, there) = (member(&fork, 1), member(&fork, 2));
    let sender = fork.inside(0, || {
        let IpAddr::V4(own) = theirs(0) else { panic!("IPv4") };
        let socket = UdpSocket::bind(SocketAddr::from((own, 4000))).expect("bind");
        socket.set_multicast_ttl_v4(8).expect("ttl");
        socket
    });
    let multicast = linux::netlink::route::RouteEntry {
        dst: [224, 0, 0, 0].into(),
        prefix: 4,
        gateway: None,
        oif: fork.inside(0, || Socket::open().and_then(|mut s| s.link_by_name("f0")).expect("f0").index),
    };
    fork.inside(0, || Socket::open().and_then(|mut socket| socket.add_route(&multicast)).expect("route"));
    sender.connect(SocketAddr::from((GROUP, 5004))).expect("connect");
    // The first packets may come before carrier does.
    let crosses = |_| {
        let _ = sender.send(&[0; 10]);
        std::thread::sleep(Duration::from_millis(10));
        arrived(&here) > 0 && arrived(&there) > 0
    };
    assert!((0..1000).any(crosses), "nothing is forwarded");
    std::thread::sleep(Duration::from_millis(50));
    arrived(&here);
    arrived(&there);
    let before = [a, b].map(|oif| plane.flow_counters(oif, &flow).expect("map").expect("installed"));
    for _ in 0..300 {
        sender.send(&[0; 472]).expect("send");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(300));
    let after = [a, b].map(|oif| plane.flow_counters(oif, &flow).expect("map").expect("installed"));
    let more = |n: usize| (after[n].packets - before[n].packets, after[n].over_packets - before[n].over_packets);
    assert_eq!(more(0), (300, 0), "all of it is reserved on one branch");
    let (conform, over) = more(1);
    assert_eq!(conform + over, 300, "each branch polices what leaves by it");
    assert!(conform < 60 && over > 240, "{conform} {over}");
    assert_eq!((arrived(&here), arrived(&there)), (300, 300), "the rest is best effort, not lost");
    plane.apply(&[PlanOp::DropLink { oif: a }, PlanOp::DropLink { oif: b }]).expect("goes");
}
