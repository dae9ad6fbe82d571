//! What leaves is charged to its session: the program at the egress on single packets, and on a real link.

use super::bed::{CLASS, RULES, Say, bed};
use crate::policer::frame;
use crate::scratch::in_netns;
use linux::bpf::entry::MAJOR;
use linux::bpf::sys::SkBuff;
use terms::{FlowKey, IfIndex, Rate};
use traffic::plan::{Counters, PlanOp};

const MBIT: u32 = 1_000_000;
const NEXT: i32 = -1;

fn leaves(bed: &super::bed::Bed, oif: IfIndex, packet: &[u8], priority: u32) -> u32 {
    let mut context = SkBuff::leaving(oif.0, priority, 0, 0);
    assert_eq!(bed.path.run_egress(packet, &mut context).expect("test run"), NEXT);
    context.priority()
}

#[test]
fn a_session_takes_its_class_up_to_its_bucket_and_nobody_else_does() {
    in_netns(|| {
        let bed = bed(64, Rate::from_mbps(10));
        for say in [Say::flow(1, MBIT, 0), Say::flow(1, MBIT, 0).v6()] {
            let before = frame(&say.flow, 1000);
            assert_eq!(leaves(&bed, bed.east, &before, 7), 7, "nothing is reserved: as it came");
            bed.heard(&say);
            let session = bed.sessions().into_iter().find(|s| s.flow == say.flow).expect("reserved");
            assert_eq!(bed.path.measured(&session).expect("a meter"), Counters::default());
            // 100 ms of 1 Mbit/s are 12,500 bytes: twelve packets.
            let given: Vec<u32> = (0..20).map(|_| leaves(&bed, bed.east, &before, 7)).collect();
            let conform = given.iter().filter(|priority| **priority == CLASS).count();
            assert!((12..=14).contains(&conform), "{given:?}");
            assert!(given.iter().all(|priority| [CLASS, 0].contains(priority)), "what is in excess is best effort");
            let counted = bed.path.measured(&session).expect("a meter");
            assert_eq!((counted.packets, counted.over_packets), (conform as u64, 20 - conform as u64));
            assert_eq!(counted.bytes + counted.over_bytes, 20_000);
            let other = FlowKey { src_port: 9, ..say.flow };
            assert_eq!(leaves(&bed, bed.east, &frame(&other, 1000), 7), 7, "another flow");
            assert_eq!(leaves(&bed, bed.west, &before, 7), 7, "another interface");
            let control = (MAJOR as u32) << 16 | 3;
            assert_eq!(leaves(&bed, bed.east, &before, control), control, "the flow program has spoken");
            let marked = (MAJOR as u32) << 16 | 5;
            let by_mark = leaves(&bed, bed.east, &before, marked);
            assert!([CLASS, 0].contains(&by_mark), "a session goes before a code point");
            // Released and reserved again: a full bucket and no counts.
            let away = Say { rates: vec![Default::default()], ..say.clone().transaction(2) };
            bed.heard(&away);
            assert_eq!(leaves(&bed, bed.east, &before, 7), 7);
            bed.heard(&say.clone().transaction(3));
            assert_eq!(leaves(&bed, bed.east, &before, 7), CLASS);
            let session = bed.sessions().into_iter().find(|s| s.flow == say.flow).expect("reserved");
            assert_eq!(bed.path.measured(&session).expect("a meter").packets, 1);
            // A slow session has at least the configured bytes.
            bed.heard(&Say { rates: vec![wire::boomerang::Rates { forward: 8, reverse: 0 }], ..say.transaction(4) });
            assert_eq!(RULES.burst_least.get(), 8192);
        }
    });
}

#[test]
fn fragments_follow_their_first() {
    in_netns(|| {
        let bed = bed(64, Rate::from_mbps(10));
        let say = Say::flow(1, 8 * MBIT, 0);
        bed.heard(&say);
        let mut first = frame(&say.flow, 1000);
        first[14 + 6] = 0x20; // more follow
        let mut second = first.clone();
        (second[14 + 6], second[14 + 7]) = (0, 125);
        assert_eq!(leaves(&bed, bed.east, &second, 7), 7, "its first is not known");
        assert_eq!(leaves(&bed, bed.east, &first, 7), CLASS);
        assert_eq!(leaves(&bed, bed.east, &second, 7), CLASS);
    });
}

/// A session of the table inside a site's reservation, on a real link: each packet is charged once, to the closer of both,
/// in whatever order the programs came there.
#[test]
fn a_session_within_a_site_has_its_own_bucket() {
    in_netns(|| {
        for police_first in [true, false] {
            crate::scratch::enter(&crate::scratch::fresh());
            let bed = bed(64, Rate::from_mbps(10));
            let say = Say::flow(1, 4 * MBIT, 0);
            bed.heard(&say);
            let mut socket = linux::netlink::Socket::open().expect("netlink");
            let near = linux::netlink::addr::Address { index: bed.west, address: say.flow.src, prefix: 32 };
            socket.add_address(&near).expect("address");
            let mut plane = linux::plane::KernelPlane::open(bed.dir()).expect("the plane opens");
            plane.apply(&crate::bed::base(bed.east, 5_000)).expect("fits");
            if police_first {
                bed.path.police(bed.east).expect("TCX");
            }
            let (src, dst) = ([10, 10, 0, 0].into(), [10, 20, 0, 0].into());
            let wild = terms::Wild { src: 16, dst: 16 };
            let sites = FlowKey { src, dst, protocol: 0, src_port: 0, dst_port: 0, wild };
            let deep = crate::styles::deep();
            plane.apply(&[PlanOp::Flow { oif: bed.east, flow: sites, entry: deep }]).expect("fits");
            if !police_first {
                bed.path.police(bed.east).expect("TCX");
            }
            let send = |port: u16, packets: usize| {
                let from = std::net::UdpSocket::bind((say.flow.src, port)).expect("bind");
                (0..packets).for_each(|_| _ = from.send_to(&[0; 172], (say.flow.dst, 5004)).expect("send"));
            };
            send(say.flow.src_port, 7);
            send(9, 5);
            let session = bed.sessions().into_iter().find(|s| s.flow == say.flow).expect("reserved");
            assert_eq!(bed.path.measured(&session).expect("a meter").packets, 7, "police first: {police_first}");
            let counted = plane.flow_counters(bed.east, &sites).expect("map").expect("installed");
            assert_eq!((counted.packets, counted.over_packets), (5, 0), "police first: {police_first}");
        }
    });
}
