//! A frame on its way through a plan of 1,000 classes takes no memory.

#[path = "../../../engine/wheel/tests/counting/mod.rs"]
mod counting;

use linux::error::SystemError;
use linux::frames::{BURST, BurstSent, FrameBuffer, FrameIo, Offload};
use terms::{Bytes, FlowKey, IfIndex, Rate, ServiceCurve, Span, Time, Wild};
use traffic::plan::{BucketSpec, ClassId, ClassSpec, FlowSpecEntry, LinkSpec, OwnerRecord, PlanOp, QueueSpec};
use traffic::port::{Limits, Port, SchedulerKind};
use user_plane::delays::ErrorTerms;
use user_plane::link::WireSpec;
use user_plane::pair::FramePair;
use user_plane::way::FrameWay;

const CLASSES: u16 = 1_000;
const OIF: IfIndex = IfIndex(7);

/// Frames from memory: of flow after flow, so many a turn.
struct Memory {
    frames: Vec<Vec<u8>>,
    next: usize,
    each: usize,
    sent: u64,
}

impl FrameIo for Memory {
    fn receive(&mut self, into: &mut [FrameBuffer]) -> Result<usize, SystemError> {
        let count = self.each.min(into.len());
        for frame in &mut into[..count] {
            assert!(frame.put(&[&self.frames[self.next % self.frames.len()]], Offload::default()));
            self.next += 1;
        }
        Ok(count)
    }

    fn rest(&self, _: usize) -> &[u8] {
        &[]
    }

    fn send(&mut self, frames: &[FrameBuffer]) -> Result<BurstSent, SystemError> {
        self.sent += frames.len() as u64;
        Ok(BurstSent::Went(frames.len()))
    }

    fn missed(&mut self) -> u64 {
        0
    }
}

fn flow(n: u16) -> FlowKey {
    let [src, dst] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
    FlowKey { src, dst, protocol: 17, src_port: 9, dst_port: 1 + n, wild: Wild::NONE }
}

fn frame(n: u16, len: usize) -> Vec<u8> {
    let key = flow(n);
    let mut udp = vec![0; len - 14 - 20];
    udp[..2].copy_from_slice(&key.src_port.to_be_bytes());
    udp[2..4].copy_from_slice(&key.dst_port.to_be_bytes());
    let ip = wire::ip::packet(key.src, key.dst, 17, 64, false, &udp).unwrap();
    [&[2; 12][..], &[8, 0], &ip].concat()
}

fn port() -> Port {
    let plain = QueueSpec { packets: 64, bytes: Bytes::MAX };
    let limits = Limits { flows: 2_000, classes: 2_000, packets: 32_000, plain };
    let mut port = Port::new(OIF, limits, terms::signalling::SIGNALLING, [1, 2]);
    let link = LinkSpec { rate: Rate::from_mbps(1_000), overhead: 14, mtu: 1500, scheduler: SchedulerKind::Hfsc };
    let mut apply = |op| port.apply(Time::from_nanos(1), &op).unwrap();
    apply(PlanOp::Link { oif: OIF, spec: link });
    for n in 0..CLASSES {
        let rate = Rate::from_kbps(900);
        let spec = ClassSpec {
            real_time: Some(ServiceCurve::linear(rate)),
            link_share: rate,
            upper_limit: None,
            priority: 1,
            queue: QueueSpec { packets: 20, bytes: Bytes::MAX },
        };
        let class = ClassId(16 + n);
        apply(PlanOp::Class { oif: OIF, class, spec });
        let bucket = BucketSpec { rate: Rate::from_mbps(1_000), depth: Bytes::new(1 << 20), min_unit: 64 };
        let entry = FlowSpecEntry { class, bucket, shared: None, record: OwnerRecord::EMPTY };
        apply(PlanOp::Flow { oif: OIF, flow: flow(n), entry });
    }
    port
}

#[test]
fn a_frame_takes_no_memory_and_goes_in_its_class() {
    let terms = Some(ErrorTerms { c: 1_500, d: 25_000 });
    let now = Time::from_nanos(1);
    let there = FrameWay::of_port(port(), terms, 32_064, WireSpec::default(), 1_522, now);
    let back = FrameWay::new(None, WireSpec::default(), 1_522, now).unwrap();
    let memory = |each, flows| Memory { frames: (0..flows).map(|n| frame(n, 1_514)).collect(), next: 0, each, sent: 0 };
    let mut pair = FramePair::new([memory(BURST, CLASSES), memory(0, 1)], [there, back]);
    // Four times what the link carries, then a turn each 200 us.
    let mut at = now;
    let mut turns = |pair: &mut FramePair<Memory>, count: u32| {
        for _ in 0..count {
            at = at + Span::from_micros(200);
            pair.turn(at).unwrap();
        }
    };
    turns(&mut pair, 4_000);
    assert_eq!(counting::allocations(|| turns(&mut pair, 4_000)), 0, "allocations in 256,000 frames");
    let shaping = pair.ways()[0].port().unwrap();
    let sent: Vec<u64> = shaping.delays().map(|(_, seen)| seen.delay.packets).collect();
    let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
    // The first frame found the link idle, which counts in no share.
    assert!(
        sent.len() == usize::from(CLASSES) && most - least <= 2 + 1,
        "equal classes have equal shares: {least} to {most}"
    );
    // 8,000 turns of 200 us at 1 Gb/s.
    let (sent, wanted) = (pair.ends()[1].sent as f64, 1.6e9 / 8.0 / 1_514.0);
    assert!((sent / wanted - 1.0).abs() < 0.01, "{sent} frames sent of {wanted}");
}
