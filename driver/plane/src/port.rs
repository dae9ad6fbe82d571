//! The port of a plan on real frames: each frame to its class, and out as the scheduler of the plan says.

use crate::delays::{ClassDelay, DelayWatch, ErrorTerms};
use crate::packet;
use crate::shaping::{PLAIN, plain};
use crate::way::Frames;
use terms::{Bytes, PacketMeta, Time};
use traffic::plan::{ClassId, PlanOp};
use traffic::port::{Port, PortEgress, PortLoss, Verdict};

/// A port at work.
#[derive(Debug)]
pub struct PortShaping {
    port: Port,
    /// The time at which its link is free.
    free: Time,
    watch: DelayWatch,
}

impl PortShaping {
    pub(crate) fn new(port: Port, bound: Option<ErrorTerms>, buffers: usize, now: Time) -> PortShaping {
        let mut watch = DelayWatch::new(bound, buffers);
        port.classes().for_each(|(class, spec)| watch.set(now, class, spec));
        PortShaping { port, free: now, watch }
    }

    /// The port.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// The port, for changes of its plan; [`PortShaping::changed`] follows each batch.
    pub fn port_mut(&mut self) -> &mut Port {
        &mut self.port
    }

    /// The batch was carried out.
    pub fn changed(&mut self, now: Time, ops: &[PlanOp]) {
        for op in ops.iter().filter(|op| op.oif() == self.port.interface()) {
            match op {
                PlanOp::Class { class, spec, .. } => self.watch.set(now, *class, spec),
                PlanOp::DropClass { class, .. } => self.watch.remove(*class),
                PlanOp::DropLink { .. } => self.watch.clear(),
                _ => {}
            }
        }
    }

    /// Every class with its delays.
    pub fn delays(&self) -> impl Iterator<Item = (ClassId, ClassDelay)> {
        self.watch.iter()
    }

    /// Packets that went later than promised, in all classes that ever were.
    pub(crate) fn beyond(&self) -> u64 {
        self.watch.beyond()
    }

    pub(crate) fn enter(&mut self, path: &mut Frames, (now, loop_now): (Time, Time), number: u32) {
        let (frame, counters) = path.counted(number);
        let bytes = frame.bytes();
        let ip = packet::ip_at(bytes).map(|at| &bytes[at..]);
        let found = ip.and_then(|ip| Some((ip, packet::meta(ip, now, u64::from(number))?)));
        let (meta, verdict) = match found {
            Some((ip, meta)) if packet::is_neighbour_discovery(ip) => (meta, self.port.enqueue_link_frame(now, meta)),
            Some((_, meta)) if self.free <= now => match self.port.enqueue_free(now, meta) {
                Ok((class, meta)) => return self.pass(path, (now, loop_now), class, number, meta),
                Err(verdict) => (meta, verdict),
            },
            Some((_, meta)) => (meta, self.port.enqueue(now, meta)),
            None if packet::is_arp(bytes) => {
                counters.arp += 1;
                let meta = plain(bytes.len(), now, number);
                (meta, self.port.enqueue_link_frame(now, meta))
            }
            None => {
                counters.not_ip += 1;
                let meta = plain(bytes.len(), now, number);
                (meta, self.port.enqueue(now, meta))
            }
        };
        match verdict {
            Verdict::Dropped { .. } | Verdict::Policed => path.give(number),
            Verdict::Queued { class, .. } | Verdict::Held { class, .. } => {
                let overhead = self.port.link().map_or(0, |link| link.overhead);
                self.watch.came(now, class, number, meta.len.saturating_add(overhead));
            }
        }
    }

    /// A packet that came at `came` goes at once.
    fn pass(&mut self, path: &mut Frames, (came, now): (Time, Time), class: ClassId, number: u32, packet: PacketMeta) {
        let PortShaping { port, free, watch } = self;
        let Some(link) = port.link() else { return };
        let wire = packet.len.saturating_add(link.overhead);
        *free = came + link.rate.span_for(Bytes::new(u64::from(wire)));
        watch.came(came, class, number, wire);
        watch.left(now, class, number, came);
        path.put_on_wire(came, number);
    }

    pub(crate) fn serve(&mut self, now: Time, until: Time, path: &mut Frames) {
        let PortShaping { port, free, watch } = self;
        *free = port.serve(*free, until, &mut Egress { now, watch, path });
    }

    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.port.serve_at(self.free)
    }
}

/// The link of a port: the wire.
struct Egress<'a> {
    now: Time,
    watch: &'a mut DelayWatch,
    path: &'a mut Frames,
}

impl PortEgress for Egress<'_> {
    fn send(&mut self, at: Time, class: ClassId, packet: &PacketMeta) {
        let number = packet.id as u32;
        if packet.id & PLAIN == 0 {
            packet::mark_frame(self.path.at(number).bytes_mut(), packet.dscp);
        }
        self.watch.left(self.now, class, number, packet.arrival);
        self.path.put_on_wire(at, number);
    }

    fn lost(&mut self, loss: &PortLoss) {
        self.path.give(loss.packet.id as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::WireSpec;
    use crate::way::FrameWay;
    use linux::error::SystemError;
    use linux::frames::{BurstSent, FrameBuffer, FrameIo, Offload};
    use terms::{FlowKey, IfIndex, Rate, ServiceCurve, Wild};
    use traffic::plan::{BucketSpec, ClassSpec, FlowSpecEntry, LinkSpec, OwnerRecord, QueueSpec};
    use traffic::port::{Limits, SchedulerKind};

    const OIF: IfIndex = IfIndex(7);
    /// Bytes of each frame, of which 14 are its Ethernet header: 1 ms of the link.
    const LEN: usize = 1_000;

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// Frames that came at some times, in milliseconds, and those that went.
    #[derive(Default)]
    struct Memory {
        now: Time,
        coming: Vec<u64>,
        gone: usize,
    }

    impl FrameIo for Memory {
        fn receive(&mut self, into: &mut [FrameBuffer]) -> Result<usize, SystemError> {
            let count = self.coming.len().min(into.len());
            for (frame, came) in into.iter_mut().zip(self.coming.drain(..count)) {
                let key = flow();
                let mut udp = vec![0; LEN - 14 - 20];
                udp[..2].copy_from_slice(&key.src_port.to_be_bytes());
                udp[2..4].copy_from_slice(&key.dst_port.to_be_bytes());
                let ip = wire::ip::packet(key.src, key.dst, 17, 64, false, &udp).unwrap();
                assert!(frame.put(&[&[2; 12], &[8, 0], &ip], Offload::default()));
                frame.age = self.now.since(ms(came));
            }
            Ok(count)
        }

        fn rest(&self, _: usize) -> &[u8] {
            &[]
        }

        fn send(&mut self, frames: &[FrameBuffer]) -> Result<BurstSent, SystemError> {
            self.gone += frames.len();
            Ok(BurstSent::Went(frames.len()))
        }

        fn missed(&mut self) -> u64 {
            0
        }
    }

    fn flow() -> FlowKey {
        let [src, dst] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Into::into);
        FlowKey { src, dst, protocol: 17, src_port: 9, dst_port: 10, wild: Wild::NONE }
    }

    /// A link of 8 Mb/s, all of it one class's, whose bucket holds two frames.
    fn way() -> FrameWay {
        let plain = QueueSpec { packets: 64, bytes: Bytes::MAX };
        let limits = Limits { flows: 10, classes: 10, packets: 100, plain };
        let mut port = Port::new(OIF, limits, terms::signalling::SIGNALLING, [1, 2]);
        let rate = Rate::from_mbps(8);
        let spec = ClassSpec {
            real_time: Some(ServiceCurve::linear(rate)),
            link_share: rate,
            upper_limit: None,
            priority: 1,
            queue: QueueSpec { packets: 50, bytes: Bytes::MAX },
        };
        let class = ClassId::FIRST_OWN;
        let bucket = BucketSpec { rate, depth: Bytes::new(2_000), min_unit: 64 };
        let entry = FlowSpecEntry { class, bucket, shared: None, record: OwnerRecord::EMPTY };
        let link = LinkSpec { rate, overhead: 14, mtu: 1_500, scheduler: SchedulerKind::Hfsc };
        for op in [
            PlanOp::Link { oif: OIF, spec: link },
            PlanOp::Class { oif: OIF, class, spec },
            PlanOp::Flow { oif: OIF, flow: flow(), entry },
        ] {
            port.apply(ms(0), &op).unwrap();
        }
        let terms = ErrorTerms { c: 1_000, d: 5_000 };
        FrameWay::of_port(port, Some(terms), 164, WireSpec::default(), 1_522, ms(0))
    }

    /// A thread that was held up for 10 ms: it sends what the link would have sent, takes no packet for one that exceeds its
    /// bucket, and sees how late each is.
    #[test]
    fn a_late_thread_knows_when_each_packet_came() {
        let mut way = way();
        let (mut from, mut to) = (Memory { now: ms(10), coming: (1..10).collect(), gone: 0 }, Memory::default());
        way.turn(ms(10), &mut from, &mut to).unwrap();
        // The ninth began at 9 ms, when the eighth was out.
        assert_eq!((to.gone, way.inside()), (9, 0));
        let shaping = way.port().unwrap();
        let over = shaping.port().flow_counters(&flow()).unwrap();
        assert_eq!((over.packets, over.over_packets), (9, 0), "all within their bucket");
        let (_, seen) = shaping.delays().next().unwrap();
        assert_eq!(seen.delay.most_ns, 9_000_000, "the first came at 1 ms");
        // F of the first is 2 ms, and C/R + D is 6 ms: the first two went later than promised.
        assert_eq!((seen.bound_ns, seen.late_ns, seen.beyond), (6_000_000, 8_000_000, 2));
        assert_eq!(shaping.beyond(), 2);
    }

    /// A frame that came before a change of the plan, and is taken after it, counts as coming with the change.
    #[test]
    fn a_change_comes_after_what_was_due_and_before_what_is_taken_later() {
        let mut way = way();
        let (mut from, mut to) = (Memory { now: ms(10), coming: vec![8, 9, 9, 9], gone: 0 }, Memory::default());
        way.turn(ms(10), &mut from, &mut to).unwrap();
        assert_eq!((to.gone, way.inside()), (3, 1), "one is due at 11 ms");
        way.catch_up(ms(15));
        let port = way.port_mut().unwrap().port_mut();
        port.apply(ms(15), &PlanOp::DropFlow { oif: OIF, flow: flow() }).unwrap();
        from = Memory { now: ms(20), coming: vec![12, 14, 19], gone: 0 };
        way.turn(ms(20), &mut from, &mut to).unwrap();
        assert_eq!((to.gone, way.inside()), (7, 0));
    }

    /// Clocks may step: a frame that seems to come before those that are gone comes after them.
    #[test]
    fn no_age_turns_time_back() {
        let mut way = way();
        let (mut from, mut to) = (Memory { now: ms(10), coming: vec![9], gone: 0 }, Memory::default());
        way.turn(ms(10), &mut from, &mut to).unwrap();
        from = Memory { now: ms(20), coming: vec![2, 19, 3], gone: 0 };
        way.turn(ms(20), &mut from, &mut to).unwrap();
        way.turn(ms(30), &mut Memory::default(), &mut to).unwrap();
        assert_eq!((to.gone, way.inside()), (4, 0));
    }
}
