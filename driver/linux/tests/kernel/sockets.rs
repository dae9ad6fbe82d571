//! RSVP's sockets between three namespaces: a host, a router that listens, a host; IPv4 and IPv6, unicast and groups.

use crate::scratch::{current, enter, fresh, in_netns};
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::netlink::route::RouteEntry;
use linux::sockets::{BATCH, Outgoing, RsvpSockets};
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use terms::IfIndex;

const A4: &str = "10.78.1.2";
const A6: &str = "2001:db8:1::2";
const B4: &str = "10.78.2.2";
const B6: &str = "2001:db8:2::2";
const R4: &str = "10.78.1.1";
const R6: &str = "2001:db8:1::1";

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn inside<T>(netns: &File, deed: impl FnOnce() -> T) -> T {
    let here = current();
    enter(netns);
    let done = deed();
    enter(&here);
    done
}

/// `a` - this namespace, which forwards - `b`.
struct Line {
    a: File,
    b: File,
    to_a: IfIndex,
    to_b: IfIndex,
    at_b: IfIndex,
}

fn line() -> Line {
    for switch in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{switch}"), "1").expect("forwarding");
    }
    let (a, b) = (fresh(), fresh());
    let mut here = Socket::open().expect("netlink");
    let mut leg = |name: &str, far: &File, ours: [&str; 2], theirs: [&str; 2]| {
        here.add_veth(name, "up", Some(far.as_fd())).expect("veth");
        let near = here.link_by_name(name).expect("link").index;
        here.set_link_up(near, true).expect("up");
        let give = |socket: &mut Socket, index, addresses: [&str; 2]| {
            for (text, prefix) in addresses.into_iter().zip([24, 64]) {
                socket.add_address(&Address { index, address: ip(text), prefix }).expect("address");
            }
        };
        give(&mut here, near, ours);
        let up = inside(far, || {
            let mut there = Socket::open().expect("netlink");
            let up = there.link_by_name("up").expect("link").index;
            there.set_link_up(up, true).expect("up");
            give(&mut there, up, theirs);
            for (dst, gateway) in [("0.0.0.0", ours[0]), ("::", ours[1])] {
                let route = RouteEntry { dst: ip(dst), prefix: 0, gateway: Some(ip(gateway)), oif: up };
                there.add_route(&route).expect("route");
            }
            up
        });
        (near, up)
    };
    let (to_a, _) = leg("to-a", &a, [R4, R6], [A4, A6]);
    let (to_b, at_b) = leg("to-b", &b, ["10.78.2.1", "2001:db8:2::1"], [B4, B6]);
    Line { a, b, to_a, to_b, at_b }
}

type Got = (IfIndex, IpAddr, IpAddr, u8, Vec<u8>);

/// Takes messages until `count` have come.
fn take(sockets: &mut RsvpSockets, count: usize) -> Vec<Got> {
    let mut got = Vec::new();
    let patience = Instant::now() + Duration::from_secs(10);
    while got.len() < count {
        sockets.receive(|m| got.push((m.iif, m.src, m.dst, m.ttl, m.bytes.to_vec()))).expect("receive");
        assert!(Instant::now() < patience, "{} of {count} came", got.len());
        std::thread::sleep(Duration::from_millis(1));
    }
    got
}

fn nothing(sockets: &mut RsvpSockets, why: &str) {
    std::thread::sleep(Duration::from_millis(50));
    sockets.receive(|m| panic!("{why}: {m:?}")).expect("receive");
}

fn message<'a>(src: &str, dst: &str, router_alert: bool, bytes: &'a [u8]) -> Outgoing<'a> {
    Outgoing { oif: None, src: ip(src), dst: ip(dst), ttl: 61, router_alert, bytes }
}

/// The first message of a pair may wait for its neighbour's link address.
fn send(sockets: &mut RsvpSockets, message: &Outgoing<'_>) {
    sockets.send(message).expect("sent");
}

#[test]
fn a_router_takes_what_carries_the_alert_and_what_is_its_own() {
    in_netns(|| {
        let line = line();
        let mut a = inside(&line.a, RsvpSockets::open).expect("sockets");
        let mut r = RsvpSockets::open().expect("sockets");
        let mut b = inside(&line.b, RsvpSockets::open).expect("sockets");
        for (src, dst, own) in [(A4, B4, R4), (A6, B6, R6)] {
            send(&mut a, &message(src, dst, true, b"a Path message"));
            let got = take(&mut r, 1);
            assert_eq!(got, [(line.to_a, ip(src), ip(dst), 61, b"a Path message".to_vec())], "in transit");
            nothing(&mut b, "the router consumed it");
            let onward = Outgoing { oif: Some(line.to_b), ttl: 60, ..message(src, dst, true, b"a Path message") };
            send(&mut r, &onward);
            let got = take(&mut b, 1);
            assert_eq!(got, [(line.at_b, ip(src), ip(dst), 60, b"a Path message".to_vec())], "the source is kept");
            for alert in [false, true] {
                send(&mut a, &message(src, own, alert, b"a Resv message"));
                assert_eq!(take(&mut r, 1), [(line.to_a, ip(src), ip(own), 61, b"a Resv message".to_vec())]);
            }
            send(&mut a, &message(src, dst, false, b"not for routers"));
            assert_eq!(take(&mut b, 1)[0].4, b"not for routers");
            nothing(&mut r, "without the option it passes by");
        }
        drop(r);
        for (src, dst) in [(A4, B4), (A6, B6)] {
            send(&mut a, &message(src, dst, true, b"a Path message"));
            let (_, from, to, ttl, _) = take(&mut b, 1).remove(0);
            assert_eq!((from, to, ttl), (ip(src), ip(dst), 60), "closed sockets leave no hole: the kernel forwards");
        }
    });
}

#[test]
fn long_messages_and_many_come_whole_and_in_order() {
    in_netns(|| {
        let line = line();
        let mut a = inside(&line.a, RsvpSockets::open).expect("sockets");
        let mut r = RsvpSockets::open().expect("sockets");
        for (src, own) in [(A4, R4), (A6, R6)] {
            send(&mut a, &message(src, own, false, b"first of all"));
            take(&mut r, 1);
        }
        // Both families at once, more than two batches of each, some longer than a short place.
        let bodies: Vec<Vec<u8>> =
            (0..300u32).map(|n| n.to_be_bytes().repeat(if n % 50 == 7 { 360 } else { 20 })).collect();
        for body in &bodies {
            for (src, own) in [(A4, R4), (A6, R6)] {
                a.sender.push(&message(src, own, false, body), |failed| panic!("{failed}"));
            }
        }
        assert_eq!(a.sender.waiting(), 600);
        a.sender.flush(|failed| panic!("{failed}"));
        assert_eq!(a.sender.waiting(), 0);
        let got = take(&mut r, 600);
        for src in [A4, A6] {
            let of = got.iter().filter(|m| m.1 == ip(src)).map(|m| &m.4);
            assert!(of.eq(&bodies), "{src}: whole and in order");
        }
        let firsts: Vec<bool> = got.iter().map(|m| m.1.is_ipv4()).step_by(BATCH).collect();
        assert!(firsts[..4].windows(2).all(|w| w[0] != w[1]), "the sockets take turns: {firsts:?}");
        assert_eq!((r.receiver.unread(), r.receiver.dropped()), (0, 0));
    });
}

#[test]
fn a_message_longer_than_a_link_is_refused_and_the_others_go() {
    in_netns(|| {
        let line = line();
        let mut a = inside(&line.a, RsvpSockets::open).expect("sockets");
        let mut r = RsvpSockets::open().expect("sockets");
        let long = vec![7; 1600];
        let mut failed = Vec::new();
        for (src, own) in [(A4, R4), (A6, R6)] {
            for bytes in [&b"before"[..], &long, b"after"] {
                a.sender.push(&message(src, own, false, bytes), |f| panic!("{f}"));
            }
        }
        a.sender.push(&message(A4, A6, false, b"two families"), |f| failed.push(f.code()));
        a.sender.flush(|f| failed.push(f.code()));
        assert_eq!(failed, [libc::EMSGSIZE; 3], "never cut");
        let mut got: Vec<_> = take(&mut r, 4).into_iter().map(|m| (m.1.is_ipv6(), m.4)).collect();
        got.sort_by_key(|(v6, _)| *v6);
        let got: Vec<_> = got.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        assert_eq!(got, [&b"before"[..], b"after", b"before", b"after"]);
        drop(line);
    });
}

#[test]
fn a_group_is_heard_where_it_was_joined() {
    in_netns(|| {
        let line = line();
        let mut r = RsvpSockets::open().expect("sockets");
        let mut b = inside(&line.b, RsvpSockets::open).expect("sockets");
        for (src, group) in [(A4, "239.7.7.7"), (A6, "ff15::7")] {
            let path = Outgoing { oif: Some(line.to_b), ..message(src, group, true, b"a Path message") };
            send(&mut r, &path);
            nothing(&mut b, "nobody joined");
            b.receiver.join(ip(group), line.at_b).expect("joined");
            b.receiver.join(ip(group), line.at_b).expect("twice is as good");
            send(&mut r, &path);
            assert_eq!(take(&mut b, 1), [(line.at_b, ip(src), ip(group), 61, b"a Path message".to_vec())]);
            nothing(&mut r, "what we send to a group does not come back");
            b.receiver.leave(ip(group), line.at_b).expect("left");
            b.receiver.leave(ip(group), line.at_b).expect("twice is as good");
            send(&mut r, &path);
            nothing(&mut b, "it was left");
        }
    });
}
