//! A testbed on this kernel: built, used, removed; and what a failure in the middle leaves.

use bed::build::build;
use bed::record::{self, TestbedRecord, TestbedStep};
use bed::topology::{TestbedLink, TestbedNode, TestbedNodeKind, Topology};
use linux::ethtool::link_speed;
use linux::netlink::Socket;
use linux::netlink::notice::{NetlinkNotice, Notices};
use linux::netlink::route::RouteEntry;
use linux::netns::Namespace;
use linux::offload;
use linux::route::KernelRoutes;
use linux::sockets::{Outgoing, RsvpSockets};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;
use terms::ports::{Route, RouteDecision};
use terms::{IfIndex, Rate};

/// A line of a host, two routers and a host, removed when dropped.
struct Scratch {
    topology: Topology,
    dir: PathBuf,
}

impl Scratch {
    fn new(what: &str) -> Option<Scratch> {
        let root = fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
        if !root {
            bench::skipped("network namespaces need root");
            return None;
        }
        let name = format!("agent-{what}-{}", std::process::id());
        let node = |name: &str, kind| TestbedNode { name: name.to_owned(), kind };
        let link = |a, b| TestbedLink { ends: [a, b], rate: Rate::from_mbps(100), mtu: 1400 };
        let dir = std::env::temp_dir().join(&name);
        fs::create_dir(&dir).unwrap();
        let nodes = vec![
            node("src", TestbedNodeKind::Host),
            node("r1", TestbedNodeKind::Router),
            node("r2", TestbedNodeKind::Router),
            node("dst", TestbedNodeKind::Host),
        ];
        Some(Scratch { topology: Topology { name, nodes, links: vec![link(0, 1), link(1, 2), link(2, 3)] }, dir })
    }

    fn build(&self) -> Vec<Namespace> {
        build(&self.topology, &mut TestbedRecord::begin(&self.dir).unwrap()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        record::remove(&self.dir, &record::read(&self.dir).unwrap()).unwrap();
    }
}

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

#[test]
fn packets_cross_it_and_nothing_stays() {
    let Some(scratch) = Scratch::new("cross") else { return };
    let nodes = scratch.build();
    let name = scratch.topology.name.clone();
    let far = nodes[3].run(|| UdpSocket::bind((ip("10.0.2.2"), 5004)).unwrap()).unwrap();
    let near = nodes[0].run(|| UdpSocket::bind((ip("10.0.0.1"), 5004)).unwrap()).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    near.send_to(b"hello", (ip("10.0.2.2"), 5004)).unwrap();
    let mut buffer = [0; 16];
    let (n, from) = far.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..n], from.ip()), (&b"hello"[..], IpAddr::V4(ip("10.0.0.1"))));
    let link = nodes[1].run(|| Socket::open().unwrap().link_by_name("to-r2").unwrap()).unwrap();
    assert_eq!((link.mtu, link.up), (1400, true));
    let dir = scratch.dir.clone();
    drop((near, far, nodes, scratch));
    assert!(!dir.exists());
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(&name));
    assert!(
        fs::read_dir("/run/netns")
            .map_or(true, |mut all| { all.all(|entry| !entry.unwrap().file_name().to_string_lossy().contains(&name)) })
    );
}

#[test]
fn offloads_are_off() {
    let Some(scratch) = Scratch::new("offload") else { return };
    let nodes = scratch.build();
    for (node, interface) in [(0, "to-r1"), (1, "to-src"), (2, "to-dst")] {
        let on = nodes[node].run(|| offload::segmentation_features(interface)).unwrap().unwrap();
        assert!(on.is_empty(), "{interface}: {on:?}");
    }
    assert!(offload::segmentation_features("no-such-link").is_err());
    assert!(linux::ethtool::link_speed("no-such-link").is_err());
    let (lo, veth) = nodes[0].run(|| (link_speed("lo").unwrap(), link_speed("to-r1").unwrap())).unwrap();
    assert_eq!((lo, veth), (None, Some(Rate::from_mbps(10_000))), "what the drivers say of themselves");
}

#[test]
fn a_path_is_taken_by_each_router_and_keeps_its_source() {
    let Some(scratch) = Scratch::new("alert") else { return };
    let nodes = scratch.build();
    let mut r1 = nodes[1].run(RsvpSockets::open).unwrap().unwrap();
    let mut r2 = nodes[2].run(RsvpSockets::open).unwrap().unwrap();
    let (src, dst) = (IpAddr::V4(ip("10.0.0.1")), IpAddr::V4(ip("10.0.2.2")));
    let path = Outgoing { oif: None, src, dst, ttl: 63, router_alert: true, bytes: b"a Path message" };
    let mut sender = nodes[0].run(RsvpSockets::open).unwrap().unwrap();
    sender.send(&path).unwrap();
    let (iif, ttl) = take(&mut r1, &path);
    let index =
        |node: usize, name| nodes[node].run(move || Socket::open().unwrap().link_by_name(name).unwrap()).unwrap().index;
    assert_eq!((iif, ttl), (index(1, "to-src"), 63), "taken on the way, TTL as sent");
    std::thread::sleep(Duration::from_millis(50));
    r2.receive(|_| panic!("the first router consumed it")).unwrap();
    // The router sends it on with the sender's address, out of the interface that it names.
    r1.send(&Outgoing { oif: Some(index(1, "to-r2")), ttl: 62, ..path }).unwrap();
    assert_eq!(take(&mut r2, &path), (index(2, "to-r1"), 62));
    // A Resv goes hop by hop, without the option, to the previous hop's own address.
    let resv = Outgoing {
        oif: None,
        src: IpAddr::V4(ip("10.0.1.2")),
        dst: IpAddr::V4(ip("10.0.1.1")),
        ttl: 64,
        router_alert: false,
        bytes: b"a Resv message",
    };
    r2.send(&resv).unwrap();
    assert_eq!(take(&mut r1, &resv).0, index(1, "to-r2"));
    let long = vec![0; 1400];
    let too_long = r1.send(&Outgoing { oif: Some(index(1, "to-r2")), bytes: &long, ..path }).unwrap_err();
    assert_eq!(too_long.code(), libc_emsgsize(), "never cut: {too_long}");
}

#[test]
fn a_router_knows_the_way_and_learns_a_new_one() {
    let Some(scratch) = Scratch::new("route") else { return };
    let nodes = scratch.build();
    let (mut routes, mut notices) = nodes[1].run(|| (KernelRoutes::open().unwrap(), Notices::open().unwrap())).unwrap();
    let index = |name| nodes[1].run(move || Socket::open().unwrap().link_by_name(name).unwrap().index).unwrap();
    let (to_src, to_r2) = (index("to-src"), index("to-r2"));
    let (src, dst) = (IpAddr::V4(ip("10.0.0.1")), IpAddr::V4(ip("10.0.2.2")));
    let onward = RouteDecision::Out { oif: to_r2, gateway: Some(ip("10.0.1.2").into()), source: ip("10.0.1.1").into() };
    assert_eq!(routes.route(dst, Some(src), Some(to_src)), onward, "a transit Path");
    assert_eq!(routes.route(dst, Some(src), None), onward, "a source that is not ours");
    assert_eq!(routes.route(dst, None, None), onward);
    assert_eq!(routes.route(ip("10.0.1.1").into(), None, None), RouteDecision::Local);
    let back = RouteDecision::Out { oif: to_src, gateway: None, source: ip("10.0.0.2").into() };
    assert_eq!(routes.route(src, None, None), back, "on the link");
    assert_eq!(routes.route(ip("192.0.2.1").into(), None, None), RouteDecision::None);
    notices.take().unwrap();
    let detour = RouteEntry { dst: ip("10.0.2.0").into(), prefix: 30, gateway: Some(src), oif: IfIndex(0) };
    nodes[1].run(|| Socket::open().unwrap().replace_route(&detour).unwrap()).unwrap();
    assert!(notices.take().unwrap().contains(&NetlinkNotice::Route(Some((ip("10.0.2.0").into(), 30)))));
    routes.forget().unwrap();
    let detoured = RouteDecision::Out { oif: to_src, gateway: Some(src), source: ip("10.0.0.2").into() };
    assert_eq!(routes.route(dst, None, None), detoured);
}

fn libc_emsgsize() -> i32 {
    90
}

/// Waits for a message and compares it with what was sent.
fn take(sockets: &mut RsvpSockets, sent: &Outgoing<'_>) -> (IfIndex, u8) {
    for _ in 0..500 {
        let mut got = None;
        let one = |m: linux::sockets::ReceivedMessage<'_>| got = Some((m.iif, m.ttl, m.src, m.dst, m.bytes.to_vec()));
        sockets.receive(one).unwrap();
        if let Some((iif, ttl, src, dst, bytes)) = got {
            assert_eq!((src, dst, bytes.as_slice()), (sent.src, sent.dst, sent.bytes));
            return (iif, ttl);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing came within 5 s");
}

#[test]
fn a_namespace_of_others_is_neither_used_nor_removed() {
    let Some(scratch) = Scratch::new("foreign") else { return };
    let foreign = linux::netns::Guarded::create(&scratch.topology.namespace(2)).unwrap();
    let failed = build(&scratch.topology, &mut TestbedRecord::begin(&scratch.dir).unwrap()).unwrap_err();
    assert!(failed.to_string().contains(foreign.name()), "{failed}");
    let made = record::read(&scratch.dir).unwrap();
    assert_eq!(made.len(), 2, "what was made before it is written down: {made:?}");
    assert!(!made.contains(&TestbedStep::Namespace(foreign.name().to_owned())));
    record::remove(&scratch.dir, &made).unwrap();
    assert!(Namespace::exists(foreign.name()));
    assert!(!Namespace::exists(&scratch.topology.namespace(0)));
}
