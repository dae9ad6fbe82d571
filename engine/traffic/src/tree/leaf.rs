//! A leaf at work: shaper, meter, marker, dropper, queue.

use super::counters::{LeafCounters, Tally};
use super::pipeline::{self, Ask, Meter, NotHeld, Shaper};
use super::spec::{DropperSpec, LeafSpec, QueueUnit};
use super::{Drop, TreeFault, TreeVerdict};
use crate::dropper::{self, Rio, RioProfile};
use crate::meter::{Color, Marker};
use crate::queue::{Fifo, Pool};
use terms::{Dscp, PacketMeta, Rate, Time};

/// A packet in a leaf's queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) packet: PacketMeta,
    pub(super) color: Color,
    pub(super) dscp: Dscp,
}

/// The memory for the packets of all leaves.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    /// The packets in queues.
    pub(super) queued: Pool<Queued>,
    /// The packets in shapers.
    pub(super) held: Pool<PacketMeta>,
}

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    shaper: Option<Shaper>,
    meter: Option<Meter>,
    marker: Option<Marker>,
    dropper: Option<Dropper>,
    queue: Fifo,
    counters: LeafCounters,
}

#[derive(Clone, Debug)]
struct Dropper {
    spec: DropperSpec,
    profile: RioProfile,
    rio: Rio,
}

impl Dropper {
    fn amount(&self, len: u32) -> u32 {
        match self.spec.unit {
            QueueUnit::Packets => 1,
            QueueUnit::Bytes => len,
        }
    }
}

impl Leaf {
    pub(super) fn new(spec: &LeafSpec, line: Rate, now: Time, buffers: &Buffers) -> Result<Leaf, TreeFault> {
        let mut leaf = Leaf {
            shaper: None,
            meter: None,
            marker: None,
            dropper: None,
            queue: Fifo::new(spec.queue),
            counters: LeafCounters::default(),
        };
        leaf.change(spec, line, now, buffers)?;
        Ok(leaf)
    }

    /// Changes the description in place: waiting packets stay, credit and averages carry over if old and new
    /// are of one kind. The caller handles the packets of a removed shaper.
    pub(super) fn change(
        &mut self,
        spec: &LeafSpec,
        line: Rate,
        now: Time,
        buffers: &Buffers,
    ) -> Result<(), TreeFault> {
        match (&mut self.shaper, &spec.shaper) {
            (Some(old), Some(new)) => old.change(new, line, now, &buffers.held).map_err(TreeFault::Shaper)?,
            (_, None) => {}
            (old, Some(new)) => *old = Some(Shaper::new(new, line, now).map_err(TreeFault::Shaper)?),
        }
        match (&mut self.meter, &spec.meter) {
            (Some(old), Some(new)) => old.change(new, now).map_err(TreeFault::Meter)?,
            (old, None) => *old = None,
            (old, Some(new)) => *old = Some(Meter::new(new, now).map_err(TreeFault::Meter)?),
        }
        self.marker = spec.marker;
        self.change_dropper(spec.dropper.as_ref())?;
        self.queue.set_spec(spec.queue);
        Ok(())
    }

    fn change_dropper(&mut self, spec: Option<&DropperSpec>) -> Result<(), TreeFault> {
        let Some(spec) = spec else {
            self.dropper = None;
            return Ok(());
        };
        let profile = pipeline::rio(spec).map_err(TreeFault::Dropper)?;
        match &mut self.dropper {
            Some(old) if old.spec.unit == spec.unit && old.spec.coupling == spec.coupling => {
                (old.spec, old.profile) = (*spec, profile);
            }
            _ => {
                let queued = self.counters.colors.map(|color| match spec.unit {
                    QueueUnit::Packets => color.queued.packets,
                    QueueUnit::Bytes => color.queued.bytes,
                });
                let queued = queued.map(|amount| u32::try_from(amount).unwrap_or(u32::MAX));
                self.dropper = Some(Dropper { spec: *spec, profile, rio: Rio::holding(queued) });
            }
        }
        Ok(())
    }

    /// Removes the shaper and returns its packets.
    pub(super) fn without_shaper(&mut self) -> Option<Fifo> {
        self.counters.held = Tally::default();
        self.shaper.take().map(|shaper| *shaper.queue())
    }

    /// Takes a packet that was classified to the leaf.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        packet: PacketMeta,
        buffers: &mut Buffers,
        chance: [u32; 2],
    ) -> TreeVerdict {
        self.counters.arrived.add(packet.len);
        let Some(shaper) = &mut self.shaper else {
            return self.condition(now, packet, buffers, chance);
        };
        match shaper.hold(now, packet, &mut buffers.held) {
            Ok(()) => {
                self.count_held();
                TreeVerdict::Held
            }
            Err(why) => {
                self.counters.refused.add(packet.len);
                TreeVerdict::Dropped(match why {
                    NotHeld::Full => Drop::ShaperFull,
                    NotHeld::OverDepth => Drop::OverDepth,
                })
            }
        }
    }

    /// The time at which the shaper releases its head.
    pub(super) fn due(&self, now: Time, buffers: &Buffers) -> Option<Time> {
        let shaper = self.shaper.as_ref()?;
        let color = self.incoming(shaper.queue().head(&buffers.held)?);
        shaper.due(now, &Ask(self.meter.as_ref(), color), &buffers.held)
    }

    /// Passes the shaper's head on, if it may leave.
    pub(super) fn release(
        &mut self,
        now: Time,
        buffers: &mut Buffers,
        chance: [u32; 2],
    ) -> Option<(PacketMeta, TreeVerdict)> {
        let color = self.incoming(self.shaper.as_ref()?.queue().head(&buffers.held)?);
        let ask = Ask(self.meter.as_ref(), color);
        let (packet, never) = self.shaper.as_mut()?.release(now, &ask, &mut buffers.held)?;
        self.count_held();
        if never {
            self.counters.refused.add(packet.len);
            return Some((packet, TreeVerdict::Dropped(Drop::OverDepth)));
        }
        Some((packet, self.condition(now, packet, buffers, chance)))
    }

    /// Passes a packet through meter, marker, dropper and queue.
    pub(super) fn condition(
        &mut self,
        now: Time,
        packet: PacketMeta,
        buffers: &mut Buffers,
        chance: [u32; 2],
    ) -> TreeVerdict {
        let before = self.incoming(&packet);
        let color = self.meter.as_mut().map_or(before, |meter| meter.color(now, packet.len, before, chance[0]));
        let dscp = self.marker.map_or(packet.dscp, |marker| marker.mark(color));
        let tally = &mut self.counters.colors[color as usize];
        tally.metered.add(packet.len);
        if let Some(dropper) = &mut self.dropper {
            let amount = dropper.amount(packet.len);
            match dropper.rio.arrival(&dropper.profile, now, color, amount, chance[1]) {
                dropper::Verdict::Accept => {}
                dropper::Verdict::Early => {
                    tally.early.add(packet.len);
                    return TreeVerdict::Dropped(Drop::Early(color));
                }
                dropper::Verdict::Forced => {
                    tally.forced.add(packet.len);
                    return TreeVerdict::Dropped(Drop::Forced(color));
                }
            }
        }
        if self.queue.push(&mut buffers.queued, packet.len, Queued { packet, color, dscp }).is_err() {
            tally.overflowed.add(packet.len);
            self.left(now, color, packet.len);
            return TreeVerdict::Dropped(Drop::QueueFull(color));
        }
        tally.queued.add(packet.len);
        TreeVerdict::Queued(color)
    }

    /// Takes the packet at the head of the queue, to be sent.
    pub(super) fn send(&mut self, now: Time, buffers: &mut Buffers) -> Option<Queued> {
        let (len, queued) = self.queue.pop(&mut buffers.queued)?;
        let tally = &mut self.counters.colors[queued.color as usize];
        tally.queued.sub(len);
        tally.sent.add(len);
        self.left(now, queued.color, len);
        Some(queued)
    }

    /// The length of the packet at the head of the queue.
    pub(super) fn head(&self, buffers: &Buffers) -> Option<u32> {
        self.queue.head_bytes(&buffers.queued)
    }

    /// The number of packets in the queue.
    pub(super) fn backlog(&self) -> u32 {
        self.queue.packets()
    }

    pub(super) fn counters(&self) -> LeafCounters {
        self.counters
    }

    /// The colour that a packet comes with; green unless the meter is colour-aware.
    fn incoming(&self, packet: &PacketMeta) -> Color {
        match (&self.meter, &self.marker) {
            (Some(meter), Some(marker)) if meter.aware() => marker.color_of(packet.dscp),
            _ => Color::Green,
        }
    }

    fn left(&mut self, now: Time, color: Color, len: u32) {
        if let Some(dropper) = &mut self.dropper {
            let amount = dropper.amount(len);
            dropper.rio.departure(&dropper.profile, now, color, amount);
        }
    }

    fn count_held(&mut self) {
        let Some(waiting) = self.shaper.as_ref().map(Shaper::queue) else { return };
        self.counters.held = Tally { packets: u64::from(waiting.packets()), bytes: waiting.bytes() };
    }
}
