//! The port of a plan on real frames: each frame to its class, and out as the scheduler of the plan says.

use crate::delays::{ClassDelay, DelayWatch, ErrorTerms};
use crate::packet;
use crate::shaping::{PLAIN, plain};
use crate::way::Frames;
use terms::{PacketMeta, Time};
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

    pub(crate) fn enter(&mut self, path: &mut Frames, now: Time, number: u32) {
        let bytes = path.pool.at(number).bytes();
        let ip = packet::ip_at(bytes).map(|at| &bytes[at..]);
        let found = ip.and_then(|ip| Some((ip, packet::meta(ip, now, u64::from(number))?)));
        let (meta, verdict) = match found {
            Some((ip, meta)) if packet::is_neighbour_discovery(ip) => (meta, self.port.enqueue_link_frame(now, meta)),
            Some((_, meta)) => (meta, self.port.enqueue(now, meta)),
            None if packet::is_arp(bytes) => {
                path.counters.arp += 1;
                let meta = plain(bytes.len(), now, number);
                (meta, self.port.enqueue_link_frame(now, meta))
            }
            None => {
                path.counters.not_ip += 1;
                let meta = plain(bytes.len(), now, number);
                (meta, self.port.enqueue(now, meta))
            }
        };
        match verdict {
            Verdict::Dropped { .. } | Verdict::Policed => path.pool.give(number),
            Verdict::Queued { class, .. } | Verdict::Held { class, .. } => {
                let overhead = self.port.link().map_or(0, |link| link.overhead);
                self.watch.came(now, class, number, meta.len.saturating_add(overhead));
            }
        }
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
            packet::mark_frame(self.path.pool.at(number).bytes_mut(), packet.dscp);
        }
        self.watch.left(self.now, class, number, packet.arrival);
        self.path.put_on_wire(at, number);
    }

    fn lost(&mut self, loss: &PortLoss) {
        self.path.pool.give(loss.packet.id as u32);
    }
}
