//! The port of a plan on real frames: each frame to its class, and out as the scheduler of the plan says.

use crate::delays::{ClassDelay, DelayWatch, ErrorTerms};
use crate::packet;
use crate::recognition::{RecognisedFlows, Recognition};
use crate::shaping::{PLAIN, plain};
use crate::way::Frames;
use mace::Recogniser;
use terms::{Bytes, FlowKey, PacketMeta, Span, Time};
use traffic::plan::{ClassId, PlanOp};
use traffic::port::{Port, PortEgress, PortLoss, Verdict};

/// A port at work.
#[derive(Debug)]
pub struct PortShaping {
    port: Port,
    /// The time at which its link is free.
    free: Time,
    watch: DelayWatch,
    /// Flows that never signalled, if they are to be recognised here.
    recognition: Option<Recognition>,
}

impl PortShaping {
    pub(crate) fn new(port: Port, bound: Option<ErrorTerms>, buffers: usize, now: Time) -> PortShaping {
        let mut watch = DelayWatch::new(bound, buffers);
        port.classes().for_each(|(class, spec)| watch.set(now, class, spec));
        PortShaping { port, free: now, watch, recognition: None }
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

    /// Watches with these tables from now on. Returns the ones that it had.
    pub(crate) fn watch_ports(&mut self, recogniser: Box<Recogniser>) -> Option<Box<Recogniser>> {
        let wanted = Recognition::new(recogniser, self.recognition.as_ref());
        self.recognition.replace(wanted).map(Recognition::into_tables)
    }

    /// Takes the flows that were recognised.
    pub(crate) fn take_recognised(&mut self) -> RecognisedFlows {
        self.recognition.as_mut().map(Recognition::take).unwrap_or_default()
    }

    /// The flows of a class, each with the time since its last packet.
    pub(crate) fn silences(&self, now: Time, class: ClassId) -> Vec<(FlowKey, Span)> {
        self.port.flows_of(class).map(|(flow, last)| (*flow, now.since(last))).collect()
    }

    pub(crate) fn enter(&mut self, path: &mut Frames, (now, loop_now): (Time, Time), number: u32) {
        let (frame, counters) = path.counted(number);
        let bytes = frame.bytes();
        let ip = packet::ip_at(bytes).map(|at| &bytes[at..]);
        let found = ip.and_then(|ip| Some((ip, packet::meta(ip, now, u64::from(number))?)));
        let (meta, verdict) = match found {
            Some((ip, meta)) if packet::is_neighbour_discovery(ip) => (meta, self.port.enqueue_link_frame(now, meta)),
            Some((_, meta)) if self.free <= now => match self.port.enqueue_free(now, meta) {
                Ok((class, out)) => {
                    self.recognise(now, &meta, class);
                    return self.pass(path, (now, loop_now), class, number, out);
                }
                Err(verdict) => (meta, self.recognised(now, &meta, verdict)),
            },
            Some((_, meta)) => {
                let verdict = self.port.enqueue(now, meta);
                (meta, self.recognised(now, &meta, verdict))
            }
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

    /// Notes a packet for recognition, and returns its verdict.
    fn recognised(&mut self, now: Time, packet: &PacketMeta, verdict: Verdict) -> Verdict {
        if let Verdict::Queued { class, .. } | Verdict::Held { class, .. } | Verdict::Dropped { class, .. } = verdict {
            self.recognise(now, packet, class);
        }
        verdict
    }

    fn recognise(&mut self, now: Time, packet: &PacketMeta, class: ClassId) {
        let PortShaping { port, recognition, .. } = self;
        let Some(recognition) = recognition else { return };
        let overhead = port.link().map_or(0, |link| link.overhead);
        let wire = packet.len.saturating_add(overhead);
        recognition.packet(now, &packet.flow, class, port.was_claimed(), wire);
    }

    /// A packet that came at `came` goes at once.
    fn pass(&mut self, path: &mut Frames, (came, now): (Time, Time), class: ClassId, number: u32, packet: PacketMeta) {
        let PortShaping { port, free, watch, .. } = self;
        let Some(link) = port.link() else { return };
        let wire = packet.len.saturating_add(link.overhead);
        *free = came + link.rate.span_for(Bytes::new(u64::from(wire)));
        watch.came(came, class, number, wire);
        watch.left(now, class, number, came);
        path.put_on_wire(came, number);
    }

    pub(crate) fn serve(&mut self, now: Time, until: Time, path: &mut Frames) {
        let PortShaping { port, free, watch, .. } = self;
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
    use crate::recognition::WatchSpec;
    use crate::way::FrameWay;
    use linux::error::SystemError;
    use linux::frames::{BurstSent, FrameBuffer, FrameIo, Offload};
    use terms::{IfIndex, Rate, ServiceCurve, WatchedPorts, Wild};
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

    /// Packets that no flow claims are counted until their flow is told; those of the class of promoted flows are measured.
    #[test]
    fn flows_of_watched_ports_are_told_unless_a_flow_has_them() {
        let mut way = way();
        let class = ClassId::MEASURED;
        let shaping = way.port_mut().unwrap();
        assert_eq!(shaping.take_recognised(), RecognisedFlows::default(), "nothing is watched");
        let ports = vec![WatchedPorts { protocol: 17, ports: (10, 10), threshold: 2 }];
        let mut watch = WatchSpec { ports, candidates: 16, quiet: Span::from_secs(1), key: [1, 2] };
        assert!(shaping.watch_ports(watch.recogniser().unwrap()).is_none());
        let turn = |way: &mut FrameWay, now: u64, coming: Vec<u64>| {
            way.turn(ms(now), &mut Memory { now: ms(now), coming, gone: 0 }, &mut Memory::default()).unwrap();
            way.catch_up(ms(now));
        };
        turn(&mut way, 10, vec![1, 3, 5]);
        assert_eq!(way.port_mut().unwrap().take_recognised().flows, [], "reserved");
        let port = way.port_mut().unwrap().port_mut();
        let entry = *port.flow(&flow()).unwrap();
        let spec = *port.classes().find(|(class, _)| *class == entry.class).unwrap().1;
        port.apply(ms(10), &PlanOp::DropFlow { oif: OIF, flow: flow() }).unwrap();
        turn(&mut way, 30, vec![11, 13, 25]);
        let found = way.port_mut().unwrap().take_recognised();
        assert_eq!((found.watching, &found.flows[..], found.arrived), (true, &[flow()][..], Bytes::ZERO));
        let port = way.port_mut().unwrap().port_mut();
        port.apply(ms(30), &PlanOp::Class { oif: OIF, class, spec }).unwrap();
        let entry = FlowSpecEntry { class, ..entry };
        port.apply(ms(30), &PlanOp::Flow { oif: OIF, flow: flow(), entry }).unwrap();
        turn(&mut way, 50, vec![41, 43]);
        let shaping = way.port_mut().unwrap();
        let found = shaping.take_recognised();
        assert_eq!((&found.flows[..], found.arrived), (&[][..], Bytes::new(2 * LEN as u64)));
        assert_eq!(shaping.silences(ms(50), class), [(flow(), Span::from_millis(7))]);
        assert!(shaping.watch_ports(watch.recogniser().unwrap()).is_some());
        watch.ports = vec![WatchedPorts { protocol: 17, ports: (0, 65_535), threshold: 2 }; 3];
        assert!(watch.recogniser().is_err(), "more ports than there are");
        watch = WatchSpec { ports: Vec::new(), candidates: u32::MAX, ..watch };
        assert!(watch.recogniser().is_err(), "too large");
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
