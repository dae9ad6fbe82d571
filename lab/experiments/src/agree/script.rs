//! The plan and the packets that three planes get.

use std::net::{IpAddr, Ipv4Addr};
use terms::{Bytes, Dscp, FlowKey, IfIndex, PacketMeta, Rate, ServiceCurve, Span, Time, Wild};
use traffic::plan::{
    BucketId, BucketSpec, ClassId, ClassSpec, FlowSpecEntry, LinkSpec, OwnerRecord, PlanOp, QueueSpec,
};
use traffic::scheduler::SchedulerKind;

/// The destination port of the packets whose order counts.
pub(super) const PORT: u16 = 5_004;
const SRC: Ipv4Addr = Ipv4Addr::new(10, 90, 0, 1);
const DST: Ipv4Addr = Ipv4Addr::new(10, 90, 0, 2);
const UDP: u8 = 17;
const LINK: Rate = Rate::from_kbps(20_000);
/// The guarantee of each class, kbit/s. Together they are the link, so that nothing is left to lend, which HFSC and HTB do
/// by different rules.
const CLASSES: [(ClassId, u64, u8); 8] = [
    (ClassId::BEST_EFFORT, 3_400, 7),
    (ClassId::CONTROL, 100, 0),
    (ClassId::CONTROLLED_LOAD, 6_000, 2),
    (ClassId::PREMIUM, 3_000, 1),
    (ClassId::BACKGROUND, 1_000, 3),
    (ClassId(16), 4_000, 1),
    (ClassId(17), 2_000, 1),
    (ClassId(18), 500, 1),
];
/// How much more than its guarantee each class is offered, in tenths.
const OFFERED: u64 = 16;

/// A packet of the script.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptPacket {
    /// Its time, from the beginning of its act.
    at: Span,
    /// Its five-tuple.
    flow: FlowKey,
    /// Its code point.
    dscp: Dscp,
    /// Bytes of IP.
    len: u32,
    /// The stream whose order counts, and its number there.
    number: (u8, u32),
}

impl ScriptPacket {
    /// Its time, from the beginning of its act.
    pub(super) fn at(&self) -> Span {
        self.at
    }

    /// The stream whose order counts, and its number there.
    pub(super) fn number(&self) -> (u8, u32) {
        self.number
    }

    /// The packet as the engine sees it.
    pub(super) fn meta(&self, arrival: Time, id: u64) -> PacketMeta {
        let ScriptPacket { flow, dscp, len, .. } = *self;
        PacketMeta { flow, len, dscp, arrival, group: None, id }
    }

    /// The Ethernet frame; its payload begins with the stream and the number.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut udp = vec![0; self.len.saturating_sub(20).max(8 + 5) as usize];
        let len = udp.len() as u16;
        udp[..2].copy_from_slice(&self.flow.src_port.to_be_bytes());
        udp[2..4].copy_from_slice(&self.flow.dst_port.to_be_bytes());
        udp[4..6].copy_from_slice(&len.to_be_bytes());
        udp[8] = self.number.0;
        udp[9..13].copy_from_slice(&self.number.1.to_be_bytes());
        let mut ip = wire::ip::packet(self.flow.src, self.flow.dst, UDP, 64, false, &udp).unwrap_or_default();
        if ip.len() >= 20 {
            ip[1] = self.dscp.0 << 2;
            ip[10..12].fill(0);
            let sum = wire::checksum::internet(&ip[..20]);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        [&[2; 12][..], &[8, 0], &ip].concat()
    }
}

fn key(src_port: u16, dst_port: u16) -> FlowKey {
    let [src, dst] = [SRC, DST].map(IpAddr::V4);
    FlowKey { src, dst, protocol: UDP, src_port, dst_port, wild: Wild::NONE }
}

fn entry(class: u16, bucket: BucketSpec, shared: Option<u64>) -> FlowSpecEntry {
    FlowSpecEntry { class: ClassId(class), bucket, shared: shared.map(BucketId), record: OwnerRecord::EMPTY }
}

/// A bucket that nothing here exceeds.
const PLENTY: BucketSpec = BucketSpec { rate: Rate::from_mbps(1_000), depth: Bytes::new(1 << 24), min_unit: 20 };

/// A bucket that does not fill while the script plays: one byte a second.
fn fixed(depth: u64, min_unit: u32) -> BucketSpec {
    BucketSpec { rate: Rate::from_bps(8), depth: Bytes::new(depth), min_unit }
}

/// The flows of the plan.
pub(super) fn flows() -> Vec<(FlowKey, FlowSpecEntry)> {
    let any_source_port = key(0, 5_005);
    let any_sender = FlowKey { src: IpAddr::V4(Ipv4Addr::UNSPECIFIED), ..key(0, 5_006) };
    let [src, dst] = [[10, 90, 0, 0], [10, 90, 0, 0]].map(IpAddr::from);
    let prefix = FlowKey { src, dst, wild: Wild { src: 8, dst: 8 }, ..key(6_009, 5_007) };
    let shared = Some(7);
    vec![
        (key(6_001, PORT), entry(16, PLENTY, None)),
        (key(6_002, PORT), entry(17, PLENTY, None)),
        (key(6_003, PORT), entry(4, PLENTY, None)),
        (key(6_004, PORT), entry(4, PLENTY, None)),
        (key(6_005, PORT), entry(18, PLENTY, None)),
        (any_source_port, entry(4, PLENTY, None)),
        (any_sender, entry(17, PLENTY, None)),
        (prefix, entry(16, PLENTY, None)),
        (key(6_101, 5_008), entry(16, fixed(3_010, 64), None)),
        (key(6_102, 5_008), entry(4, fixed(1_010, 300), None)),
        (key(6_103, 5_008), entry(4, fixed(2_510, 64), shared)),
        (key(6_104, 5_008), entry(4, fixed(2_510, 64), shared)),
        (key(6_105, 5_008), entry(17, fixed(8_007, 64), None)),
    ]
}

/// The plan, by operations, for a plane whose scheduler is this.
pub(super) fn plan(oif: IfIndex, scheduler: SchedulerKind) -> Vec<PlanOp> {
    let link = LinkSpec { rate: LINK, overhead: 14, mtu: 1_500, scheduler };
    let mut ops = vec![PlanOp::Link { oif, spec: link }];
    ops.extend(CLASSES.map(|(class, kbit, priority)| {
        let rate = Rate::from_kbps(kbit);
        let spec = ClassSpec {
            real_time: Some(ServiceCurve::linear(rate)),
            link_share: rate,
            upper_limit: None,
            priority,
            queue: QueueSpec { packets: 60, bytes: Bytes::new(60 * 1_514) },
        };
        PlanOp::Class { oif, class, spec }
    }));
    ops.extend(flows().into_iter().map(|(flow, entry)| PlanOp::Flow { oif, flow, entry }));
    ops
}

/// The kinds of packets that are told apart, each in words.
pub(super) fn kinds() -> Vec<(&'static str, Vec<ScriptPacket>)> {
    let kinds = [
        ("a flow with a class of its own", key(6_001, PORT), Dscp::DEFAULT),
        ("another", key(6_002, PORT), Dscp::DEFAULT),
        ("a controlled-load flow", key(6_003, PORT), Dscp::DEFAULT),
        ("no flow", key(6_200, PORT), Dscp::DEFAULT),
        ("no flow, marked EF", key(6_201, PORT), Dscp::EF),
        ("no flow, marked AF11", key(6_202, PORT), Dscp::AF11),
        ("a flow, marked EF", key(6_004, PORT), Dscp::EF),
        ("a flow from any port", key(6_203, 5_005), Dscp::DEFAULT),
        ("a flow of any sender", key(6_204, 5_006), Dscp::DEFAULT),
        ("a flow of prefixes", key(6_009, 5_007), Dscp::DEFAULT),
        ("beside the flow of prefixes", key(6_010, 5_007), Dscp::DEFAULT),
    ];
    let packets = |nth: usize, flow: FlowKey, dscp: Dscp| {
        let packet = |at: u64| ScriptPacket { at: Span::from_millis(at), flow, dscp, len: 200, number: (0, 0) };
        // Another count for each, so that no two are mistaken for each other.
        (0..5 + nth as u64).map(packet).collect()
    };
    kinds.into_iter().enumerate().map(|(nth, (words, flow, dscp))| (words, packets(nth, flow, dscp))).collect()
}

/// Packets above their buckets.
pub(super) fn policed() -> Vec<ScriptPacket> {
    let mut packets = Vec::new();
    let mut add = |port: u16, len: u32| {
        let at = Span::from_micros(200 * packets.len() as u64);
        packets.push(ScriptPacket { at, flow: key(port, 5_008), dscp: Dscp::DEFAULT, len, number: (0, 0) });
    };
    (0..12).for_each(|_| add(6_101, 500));
    (0..8).for_each(|_| add(6_102, 100));
    (0..14).for_each(|n| add(6_103 + n % 2, 300 + 20 * u32::from(n)));
    let mut draw = bench::Draw::new(5);
    (0..60).for_each(|_| add(6_105, 60 + draw.next_u32() % 1_300));
    packets
}

/// More than every class is guaranteed, for so long.
pub(super) fn crowd(lasting: Span) -> Vec<ScriptPacket> {
    const LEN: u32 = 1_000;
    let streams: [(u8, &[u16], Dscp, ClassId); 7] = [
        (1, &[6_001], Dscp::DEFAULT, ClassId(16)),
        (2, &[6_002], Dscp::DEFAULT, ClassId(17)),
        (3, &[6_003, 6_004], Dscp::DEFAULT, ClassId::CONTROLLED_LOAD),
        (4, &[6_005], Dscp::DEFAULT, ClassId(18)),
        (5, &[6_201], Dscp::EF, ClassId::PREMIUM),
        (6, &[6_202], Dscp::AF11, ClassId::BACKGROUND),
        (7, &[6_200], Dscp::DEFAULT, ClassId::BEST_EFFORT),
    ];
    let mut packets = Vec::new();
    for (stream, ports, dscp, class) in streams {
        let kbit = CLASSES.iter().find(|known| known.0 == class).map_or(0, |known| known.1);
        let gap = Rate::from_kbps(kbit * OFFERED / 10).span_for(Bytes::new(u64::from(LEN)));
        let mut at = Span::ZERO;
        for number in 0u32.. {
            if at >= lasting {
                break;
            }
            let flow = key(ports[number as usize % ports.len()], PORT);
            packets.push(ScriptPacket { at, flow, dscp, len: LEN, number: (stream, number) });
            at = at.saturating_add(gap);
        }
    }
    packets.sort_by_key(|packet| packet.at);
    packets
}

/// The classes of the crowd.
pub(super) fn crowded() -> impl Iterator<Item = ClassId> {
    CLASSES.into_iter().map(|(class, ..)| class).filter(|class| *class != ClassId::CONTROL)
}

/// The stream and the number in the payload of a packet; `None`: it is not of the crowd.
pub(super) fn number(payload: &[u8]) -> Option<(u8, u32)> {
    let (&stream, number) = payload.split_first()?;
    let number = number.get(..4)?.try_into().ok().map(u32::from_be_bytes)?;
    (stream > 0).then_some((stream, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_are_the_link_and_frames_say_their_numbers() {
        let sum: u64 = CLASSES.iter().map(|(_, kbit, _)| kbit).sum();
        assert_eq!(Rate::from_kbps(sum), LINK);
        let packet = crowd(Span::from_millis(50)).pop().unwrap();
        let frame = packet.frame();
        assert_eq!(frame.len() as u32, 14 + packet.len);
        assert_eq!(number(&frame[14 + 28..]), Some(packet.number));
        assert_eq!(wire::checksum::internet(&frame[14..34]), 0);
    }
}
