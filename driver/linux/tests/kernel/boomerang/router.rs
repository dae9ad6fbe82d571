//! The links and routes of a router in a scratch namespace; measurements (`benches/boomerang.rs`) use it too.

use linux::netlink::Socket;
use linux::netlink::message::NetlinkMessage;
use linux::netlink::route::RouteEntry;
use std::net::IpAddr;
use terms::IfIndex;

/// IPv4 as IPv6 maps it.
const fn v4(a: u16, b: u16) -> [u16; 8] {
    [0, 0, 0, 0, 0, 0xffff, a, b]
}

/// The networks behind the neighbour in the west, and in the east: the tests' own, and those of the corpus
/// (`engine/wire/probes`) and of the stories (`engine/node/tests/boomerang`), which machine 1 stands in the middle of.
pub const BEHIND: [&[([u16; 8], u8)]; 2] = [
    &[
        (v4(0x0a0a, 0), 16),
        (v4(0x0a00, 0x0100), 24),
        ([0xfd02, 1, 0, 0, 0, 0, 0, 0], 32),
        ([0x2001, 0xdb8, 1, 0, 0, 0, 0, 0], 48),
        (v4(0x0a00, 0), 24),
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 48),
    ],
    &[
        (v4(0x0a14, 0), 16),
        (v4(0x0a00, 0x0200), 24),
        ([0xfd02, 2, 0, 0, 0, 0, 0, 0], 32),
        ([0x2001, 0xdb8, 2, 0, 0, 0, 0, 0], 48),
        (v4(0x0a00, 0x0300), 24),
        ([0x2001, 0xdb8, 3, 0, 0, 0, 0, 0], 48),
        (v4(0x0a00, 0x0400), 24),
        ([0x2001, 0xdb8, 4, 0, 0, 0, 0, 0], 48),
    ],
];

/// In a scratch namespace: `west` and `east`, routes behind them, forwarding on.
pub fn router() -> (IfIndex, IfIndex) {
    for switch in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{switch}"), "1").expect("forwarding in this namespace");
    }
    let mut socket = Socket::open().expect("netlink");
    let mut side = |name: &str, peer: &str, n: u8| {
        socket.add_veth(name, peer, None).expect("veth");
        for name in [name, peer] {
            let index = socket.link_by_name(name).expect("link").index;
            socket.set_link_up(index, true).expect("up");
        }
        let index = socket.link_by_name(name).expect("link").index;
        let gateways: [IpAddr; 2] = [[10, n, 0, 2].into(), [0xfd01, n.into(), 0, 0, 0, 0, 0, 2].into()];
        for gateway in gateways {
            let host = if gateway.is_ipv4() { 32 } else { 128 };
            let link = RouteEntry { dst: gateway, prefix: host, gateway: None, oif: index };
            socket.add_route(&link).expect("the neighbour is on the link");
            neighbour(&mut socket, index, gateway);
            for (dst, prefix) in BEHIND[usize::from(n) - 1].iter().map(|&(dst, prefix)| (IpAddr::from(dst), prefix)) {
                let dst = dst.to_canonical();
                if dst.is_ipv4() == gateway.is_ipv4() {
                    let route = RouteEntry { dst, prefix, gateway: Some(gateway), oif: index };
                    socket.add_route(&route).expect("a route");
                }
            }
        }
        index
    };
    (side("west", "wpeer", 1), side("east", "epeer", 2))
}

/// A neighbour that needs not be asked: `ip neigh add ADDRESS lladdr 02:... dev INDEX`.
fn neighbour(socket: &mut Socket, index: IfIndex, address: IpAddr) {
    let (family, octets) = match address {
        IpAddr::V4(a) => (libc::AF_INET, a.octets().to_vec()),
        IpAddr::V6(a) => (libc::AF_INET6, a.octets().to_vec()),
    };
    let mut header = vec![family as u8, 0, 0, 0];
    header.extend(index.0.to_ne_bytes());
    header.extend([0x80, 0, 0, 0]); // NUD_PERMANENT
    let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
    let message = NetlinkMessage::new(libc::RTM_NEWNEIGH, flags, &header)
        .attr(libc::NDA_DST, &octets)
        .attr(libc::NDA_LLADDR, &[2, 0, 0, 0, 0, index.0 as u8]);
    socket.request("add a neighbour", message).expect("a neighbour");
}
