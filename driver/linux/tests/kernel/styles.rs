//! Real packets of reservations that are no plain IPv4 five-tuple, judged by counts: senders that share a bucket, any
//! sender, IPv6, ESP; and all of them while no agent runs.

use crate::bed::{Bed, FAR, NEAR, bed, entry, key, roomy};
use crate::scratch;
use crate::traffic::{DEEP, arrived, class, drain, offer};
use ::traffic::plan::{BucketId, BucketSpec, ClassId, FlowSpecEntry, PlanOp};
use linux::netlink::Socket;
use linux::netlink::addr::Address;
use linux::plane::KernelPlane;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use terms::{Bytes, FlowKey, Rate};

pub const NEAR6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
pub const FAR6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
/// A second address of ours.
pub const OTHER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);

/// Gives both ends IPv6 addresses, and ours another IPv4 address.
pub fn dual(bed: &mut Bed) {
    let give = |socket: &mut Socket, name: &str, address: IpAddr, prefix: u8| {
        let index = socket.link_by_name(name).expect("link").index;
        socket.add_address(&Address { index, address, prefix }).expect("address");
    };
    give(&mut bed.socket, "near", NEAR6.into(), 64);
    give(&mut bed.socket, "near", OTHER.into(), 24);
    let here = scratch::current();
    scratch::enter(&bed.there);
    give(&mut Socket::open().expect("netlink"), "far", FAR6.into(), 64);
    scratch::enter(&here);
    let (probe, answer) = (sender6(9, 9), receiver6(bed, 9));
    let arrives = |_| {
        let _ = probe.send(&[0]);
        std::thread::sleep(Duration::from_millis(10));
        answer.recv(&mut [0]).is_ok()
    };
    assert!((0..1000).any(arrives), "nothing crosses the pair by IPv6");
}

fn sender6(from: u16, to: u16) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::from((NEAR6, from))).expect("bind here");
    socket.connect(SocketAddr::from((FAR6, to))).expect("connect");
    roomy(socket)
}

pub fn receiver6(bed: &Bed, port: u16) -> UdpSocket {
    let here = scratch::current();
    scratch::enter(&bed.there);
    let socket = UdpSocket::bind(SocketAddr::from((FAR6, port))).expect("bind there");
    scratch::enter(&here);
    roomy(socket)
}

pub fn sender_of(address: Ipv4Addr, from: u16, to: u16) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::from((address, from))).expect("bind here");
    socket.connect(SocketAddr::from((FAR, to))).expect("connect");
    roomy(socket)
}

fn any_sender() -> FlowKey {
    FlowKey { src: Ipv4Addr::UNSPECIFIED.into(), src_port: 0, ..key(0) }
}

fn six(from: u16) -> FlowKey {
    FlowKey { src: NEAR6.into(), dst: FAR6.into(), src_port: from, ..key(0) }
}

pub fn deep() -> FlowSpecEntry {
    FlowSpecEntry { bucket: DEEP, ..entry(ClassId::CONTROLLED_LOAD, 3_000) }
}

pub fn packets(plane: &KernelPlane, bed: &Bed, flow: &FlowKey) -> (u64, u64) {
    let counters = plane.flow_counters(bed.oif, flow).expect("map").expect("installed");
    (counters.packets, counters.over_packets)
}

#[test]
fn senders_that_share_a_bucket_are_held_to_it_together() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        let bucket = BucketSpec { rate: Rate::from_mbps(2), depth: Bytes::new(8_192), min_unit: 64 };
        let shared = FlowSpecEntry { shared: Some(BucketId(5)), bucket, ..entry(ClassId::CONTROLLED_LOAD, 2_000) };
        let mut ops = bed.base(4_500);
        ops.extend([1, 2].map(|n| PlanOp::Flow { oif: bed.oif, flow: key(n), entry: shared }));
        ops.push(bed.flow(3, ClassId::CONTROLLED_LOAD, 2_000));
        plane.apply(&ops).expect("fits");
        let (a, b, honest) = (bed.sender(20_001, 5004), bed.sender(20_002, 5004), bed.sender(20_003, 5004));
        let _sink = bed.receiver(5004);
        let start = Instant::now();
        let sent = offer(Duration::from_secs(1), &[(&a, 1000, 1_500), (&b, 1000, 1_500), (&honest, 1000, 1_800)]);
        let most = start.elapsed().as_micros() as u64 * 2 / 8 + 8_192;
        drain(&mut bed);
        let counted = plane.flow_counters(bed.oif, &key(1)).expect("map").expect("installed");
        assert_eq!(plane.flow_counters(bed.oif, &key(2)), Ok(Some(counted)), "one bucket, one count");
        assert_eq!(counted.packets + counted.over_packets, sent[0] + sent[1]);
        assert!(counted.bytes <= most, "{counted:?}: together no more than {most}");
        assert!(counted.over_packets > (sent[0] + sent[1]) / 5, "a third of what they sent is too much: {counted:?}");
        assert_eq!(packets(&plane, &bed, &key(3)), (sent[2], 0), "nobody else pays for it");
        let controlled = class(&mut plane, &bed, ClassId::CONTROLLED_LOAD);
        assert_eq!((controlled.packets, controlled.over_packets), (counted.packets + sent[2], 0));
        // One of them leaves: the bucket and its level stay the other's.
        plane.apply(&[bed.drop_flow(1)]).expect("goes");
        assert_eq!(plane.flow_counters(bed.oif, &key(2)), Ok(Some(counted)));
        // And the last one's bucket is free for others.
        plane.apply(&[bed.drop_flow(2), bed.flow(4, ClassId::CONTROLLED_LOAD, 1_000)]).expect("goes");
        assert_eq!(packets(&plane, &bed, &key(4)), (0, 0));
    });
}

#[test]
fn any_sender_has_a_wildcard_reservation() {
    scratch::in_netns(|| {
        let mut bed = bed();
        dual(&mut bed);
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(PlanOp::Flow { oif: bed.oif, flow: any_sender(), entry: deep() });
        plane.apply(&ops).expect("fits");
        let (a, b) = (bed.sender(20_001, 5004), sender_of(OTHER, 20_007, 5004));
        let elsewhere = bed.sender(20_001 + 5, 5005);
        let (receiver, _sink) = (bed.receiver(5004), bed.receiver(5005));
        let sent = offer(Duration::from_millis(400), &[(&a, 500, 900), (&b, 500, 900), (&elsewhere, 500, 900)]);
        drain(&mut bed);
        assert_eq!(packets(&plane, &bed, &any_sender()), (sent[0] + sent[1], 0));
        assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, sent[0] + sent[1]);
        assert_eq!(arrived(&receiver), sent[0] + sent[1]);
        plane.apply(&[PlanOp::DropFlow { oif: bed.oif, flow: any_sender() }]).expect("goes");
        let before = class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets;
        a.send(&[0; 100]).expect("send");
        drain(&mut bed);
        assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, before, "and none when it has gone");
    });
}

/// As every sender of a certain large maker of routers asks: port 23, and none for the source (RFC 2205 section A.9).
#[test]
fn a_sender_without_a_source_port_has_its_packets_from_any() {
    scratch::in_netns(|| {
        let mut bed = bed();
        dual(&mut bed);
        let mut plane = bed.open();
        let flow = FlowKey { src_port: 0, dst_port: 23, ..key(0) };
        let mut ops = bed.base(3_300);
        ops.push(PlanOp::Flow { oif: bed.oif, flow, entry: deep() });
        plane.apply(&ops).expect("fits");
        let (a, b) = (bed.sender(1_234, 23), bed.sender(20_000, 23));
        let (elsewhere, other) = (bed.sender(1_235, 24), sender_of(OTHER, 1_234, 23));
        let (receiver, _sink) = (bed.receiver(23), bed.receiver(24));
        (0..5).for_each(|_| assert!(a.send(&[0; 100]).expect("send") > 0));
        (0..3).for_each(|_| assert!(b.send(&[0; 100]).expect("send") > 0));
        (0..2).for_each(|_| assert!(a.send(&[7; 4000]).expect("three fragments") > 0));
        (0..7).for_each(|_| assert!(elsewhere.send(&[0; 100]).expect("send") > 0));
        (0..7).for_each(|_| assert!(other.send(&[0; 100]).expect("send") > 0));
        drain(&mut bed);
        assert_eq!(packets(&plane, &bed, &flow), (5 + 3 + 2 * 3, 0));
        assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, 14);
        // One that names its port is closer, and an agent that comes back finds both.
        let named = FlowKey { src_port: 20_000, ..flow };
        plane.apply(&[PlanOp::Flow { oif: bed.oif, flow: named, entry: deep() }]).expect("fits");
        drop(plane);
        let mut plane = bed.open();
        (0..4).for_each(|_| assert!(a.send(&[0; 100]).expect("send") > 0));
        (0..6).for_each(|_| assert!(b.send(&[0; 100]).expect("send") > 0));
        drain(&mut bed);
        assert_eq!((packets(&plane, &bed, &flow), packets(&plane, &bed, &named)), ((18, 0), (6, 0)));
        assert!(arrived(&receiver) >= 8, "and they come there");
        plane.apply(&[PlanOp::DropFlow { oif: bed.oif, flow }]).expect("goes");
        a.send(&[0; 100]).expect("send");
        drain(&mut bed);
        assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, 24, "and none when it has gone");
    });
}

#[test]
fn ipv6_flows_are_counted_where_they_belong() {
    scratch::in_netns(|| {
        let mut bed = bed();
        dual(&mut bed);
        let mut plane = bed.open();
        let mut ops = bed.base(3_300);
        ops.push(PlanOp::Flow { oif: bed.oif, flow: six(20_001), entry: deep() });
        plane.apply(&ops).expect("fits");
        let (mine, other) = (sender6(20_001, 5004), sender6(20_002, 5004));
        let receiver = receiver6(&bed, 5004);
        // 48 bytes of headers; `offer` takes off IPv4's 28.
        let sent = offer(Duration::from_millis(400), &[(&mine, 500, 900), (&other, 500, 900)]);
        for _ in 0..10 {
            mine.send(&[7; 4000]).expect("three fragments");
            std::thread::sleep(Duration::from_millis(2));
        }
        drain(&mut bed);
        let counted = plane.flow_counters(bed.oif, &six(20_001)).expect("map").expect("installed");
        assert_eq!((counted.packets, counted.over_packets), (sent[0] + 30, 0), "fragments go with their flow");
        let fragments = 10 * (4_000 + 8 + 3 * 48);
        assert_eq!(counted.bytes, sent[0] * (472 + 48) + fragments);
        assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, sent[0] + 30);
        let mut buffer = [0; 8192];
        let came = std::iter::from_fn(|| receiver.recv(&mut buffer).ok()).count() as u64;
        assert_eq!(came, sent[0] + sent[1] + 10);
    });
}

/// Sends an ESP packet with this security parameter index (a raw socket; nothing of it is encrypted).
fn esp(spi: u32) {
    let mut payload = [0u8; 72];
    payload[..4].copy_from_slice(&spi.to_be_bytes());
    let far = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from(FAR).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: the descriptor is checked before it is owned; payload and address outlive the call.
    let sent = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 50);
        assert!(fd >= 0);
        let socket = OwnedFd::from_raw_fd(fd);
        let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        libc::sendto(socket.as_raw_fd(), payload.as_ptr().cast(), payload.len(), 0, (&raw const far).cast(), len)
    };
    assert_eq!(sent, 72, "{}", std::io::Error::last_os_error());
}

#[test]
fn esp_is_told_apart_by_its_index() {
    scratch::in_netns(|| {
        let mut bed = bed();
        let mut plane = bed.open();
        let spi = 0x0102_f3f4;
        let flow = FlowKey {
            src: NEAR.into(),
            dst: FAR.into(),
            protocol: 50,
            src_port: 0x0102,
            dst_port: 0xf3f4,
            wild: terms::Wild::NONE,
        };
        let mut ops = bed.base(3_300);
        ops.push(PlanOp::Flow { oif: bed.oif, flow, entry: deep() });
        plane.apply(&ops).expect("fits");
        (0..7).for_each(|_| esp(spi));
        (0..5).for_each(|_| esp(spi + 1));
        drain(&mut bed);
        assert_eq!(packets(&plane, &bed, &flow), (7, 0));
        assert_eq!(class(&mut plane, &bed, ClassId::CONTROLLED_LOAD).packets, 7);
    });
}

/// Everything that is not a plain five-tuple stays in its class while no agent runs, and is adopted as it was.
#[test]
fn a_killed_agent_is_not_missed_by_any_kind_of_flow() {
    scratch::in_netns(|| {
        let mut bed = bed();
        dual(&mut bed);
        let mut plane = bed.open();
        let mut ops = bed.base(6_000);
        let shared = FlowSpecEntry { shared: Some(BucketId(u64::MAX)), ..deep() };
        let wild = FlowKey { dst_port: 5005, ..any_sender() };
        ops.extend([key(1), key(2), six(20_003)].map(|flow| PlanOp::Flow { oif: bed.oif, flow, entry: shared }));
        ops.push(PlanOp::Flow { oif: bed.oif, flow: wild, entry: deep() });
        ops.push(PlanOp::Flow { oif: bed.oif, flow: six(20_004), entry: deep() });
        plane.apply(&ops).expect("fits");
        let told = plane.read().expect("read");
        let senders = [
            bed.sender(20_001, 5004),
            bed.sender(20_002, 5004),
            sender6(20_003, 5004),
            sender6(20_004, 5004),
            sender_of(OTHER, 20_005, 5005),
        ];
        let _sinks = (bed.receiver(5004), bed.receiver(5005), receiver6(&bed, 5004));
        let mut sent = [0; 5];
        let offered = |sent: &mut [u64; 5]| {
            let all: Vec<_> = senders.iter().map(|socket| (socket, 500, 800)).collect();
            let more = offer(Duration::from_millis(250), &all);
            sent.iter_mut().zip(more).for_each(|(sent, more)| *sent += more);
        };
        offered(&mut sent);
        drop(plane);
        offered(&mut sent);
        let mut plane = bed.open();
        assert_eq!(plane.read(), Ok(told), "adopted as it was");
        offered(&mut sent);
        // A change in place of the adopted, and of the list of senders.
        let bucket = BucketSpec { depth: Bytes::new(50 << 20), ..DEEP };
        let other = FlowSpecEntry { bucket, ..shared };
        let ops = [key(1), key(2), six(20_003), key(8)].map(|flow| PlanOp::Flow { oif: bed.oif, flow, entry: other });
        plane.apply(&ops).expect("fits");
        offered(&mut sent);
        drain(&mut bed);
        assert_eq!(packets(&plane, &bed, &key(8)), (sent[0] + sent[1] + sent[2], 0), "one bucket, whoever joins it");
        assert_eq!(packets(&plane, &bed, &six(20_003)), (sent[0] + sent[1] + sent[2], 0));
        assert_eq!(packets(&plane, &bed, &six(20_004)), (sent[3], 0));
        assert_eq!(packets(&plane, &bed, &wild), (sent[4], 0));
        let controlled = class(&mut plane, &bed, ClassId::CONTROLLED_LOAD);
        assert_eq!((controlled.packets, controlled.over_packets), (sent.iter().sum(), 0), "not one packet outside");
    });
}
