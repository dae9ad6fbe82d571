//! A leaf at work: conditioner, dropper, queue.

use super::counters::{LeafCounters, Tally};
use super::{Drop, PathVerdict};
use crate::conditioner::{Conditioner, ConditionerFault, ConditionerSpec, Dropper, DropperSpec, NotHeld, QueueUnit};
use crate::dropper;
use crate::meter::Color;
use crate::queue::{Fifo, Pool};
use crate::spec::QueueSpec;
use terms::{Bytes, Dscp, PacketMeta, Rate, Time};

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

/// The description of a leaf: a conditioner, and the queue behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafParts {
    /// The conditioner.
    pub conditioner: ConditionerSpec,
    /// The limits of the queue.
    pub queue: QueueSpec,
    /// The bytes that the limit of the queue counts for each packet beside its IP bytes.
    pub overhead: u32,
}

/// The limits of a queue that takes nothing.
const NO_ROOM: QueueSpec = QueueSpec { packets: 0, bytes: Bytes::ZERO };

impl LeafParts {
    /// The description of a place without a leaf.
    pub(super) const VACANT: LeafParts = LeafParts {
        conditioner: ConditionerSpec { shaper: None, meter: None, marker: None, dropper: None },
        queue: NO_ROOM,
        overhead: 0,
    };

    /// The most packets in its queue and in its shaper, if they are the shortest.
    pub(super) fn packets(&self) -> [u64; 2] {
        let shaper = self.conditioner.shaper.map_or(0, |shaper| shaper.buffer().get() / u64::from(super::MIN_PACKET));
        [u64::from(self.queue.packets), shaper]
    }
}

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// See [`LeafParts::overhead`].
    overhead: u32,
    conditioner: Conditioner,
    dropper: Option<Dropper>,
    queue: Fifo,
    counters: LeafCounters,
}

impl Leaf {
    /// The state of a place without a leaf: no packet comes to it.
    pub(super) const VACANT: Leaf = Leaf {
        overhead: 0,
        conditioner: Conditioner::NONE,
        dropper: None,
        queue: Fifo::new(NO_ROOM),
        counters: LeafCounters::ZERO,
    };

    pub(super) fn new(parts: &LeafParts, line: Rate, now: Time) -> Result<Leaf, ConditionerFault> {
        let LeafParts { conditioner, queue, .. } = parts;
        Ok(Leaf {
            overhead: parts.overhead,
            conditioner: Conditioner::new(conditioner, line, now)?,
            dropper: conditioner.dropper.as_ref().map(Dropper::new).transpose().map_err(ConditionerFault::Dropper)?,
            queue: Fifo::new(*queue),
            counters: LeafCounters::default(),
        })
    }

    /// Changes the description in place: waiting packets stay, credit and averages carry over if old and new
    /// are of one kind. The caller handles the packets of a removed shaper.
    pub(super) fn change(
        &mut self,
        parts: &LeafParts,
        line: Rate,
        now: Time,
        buffers: &Buffers,
    ) -> Result<(), ConditionerFault> {
        self.conditioner.change(&parts.conditioner, line, now, &buffers.held)?;
        self.change_dropper(parts.conditioner.dropper.as_ref())?;
        self.queue.set_spec(parts.queue);
        self.overhead = parts.overhead;
        Ok(())
    }

    fn change_dropper(&mut self, spec: Option<&DropperSpec>) -> Result<(), ConditionerFault> {
        let Some(spec) = spec else {
            self.dropper = None;
            return Ok(());
        };
        let changed = self.dropper.as_mut().map(|dropper| dropper.change(spec)).transpose();
        if changed.map_err(ConditionerFault::Dropper)? == Some(true) {
            return Ok(());
        }
        let queued = self.counters.colors.map(|color| match spec.unit {
            QueueUnit::Packets => color.queued.packets,
            QueueUnit::Bytes => color.queued.bytes,
        });
        let queued = queued.map(|amount| u32::try_from(amount).unwrap_or(u32::MAX));
        self.dropper = Some(Dropper::holding(spec, queued).map_err(ConditionerFault::Dropper)?);
        Ok(())
    }

    /// Removes the shaper and returns its packets.
    pub(super) fn without_shaper(&mut self) -> Option<Fifo> {
        self.counters.held = Tally::default();
        self.conditioner.without_shaper()
    }

    /// True if packets may wait in a shaper.
    pub(super) fn shapes(&self) -> bool {
        self.conditioner.shapes()
    }

    /// Counts a packet that passes an empty leaf; false: a conditioner or a limit of the queue has a say.
    pub(super) fn carry(&mut self, len: u32) -> bool {
        let plain = self.dropper.is_none() && self.conditioner.is_none();
        let plain = plain && self.queue.has_room(len.saturating_add(self.overhead));
        if plain {
            self.counters.arrived.add(len);
            let tally = &mut self.counters.colors[Color::Green as usize];
            tally.metered.add(len);
            tally.sent.add(len);
        }
        plain
    }

    /// Takes a packet that was classified to the leaf.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        packet: PacketMeta,
        buffers: &mut Buffers,
        chance: [u32; 2],
    ) -> PathVerdict {
        self.counters.arrived.add(packet.len);
        let Some(held) = self.conditioner.hold(now, packet, &mut buffers.held) else {
            return self.condition(now, packet, buffers, chance);
        };
        match held {
            Ok(()) => {
                self.count_held();
                PathVerdict::Held
            }
            Err(why) => {
                self.counters.refused.add(packet.len);
                PathVerdict::Dropped(match why {
                    NotHeld::Full => Drop::ShaperFull,
                    NotHeld::OverDepth => Drop::OverDepth,
                })
            }
        }
    }

    /// The time at which the shaper releases its head.
    pub(super) fn due(&self, now: Time, buffers: &Buffers) -> Option<Time> {
        self.conditioner.due(now, &buffers.held)
    }

    /// Passes the shaper's head on, if it may leave.
    pub(super) fn release(
        &mut self,
        now: Time,
        buffers: &mut Buffers,
        chance: [u32; 2],
    ) -> Option<(PacketMeta, PathVerdict)> {
        let (packet, never) = self.conditioner.release(now, &mut buffers.held)?;
        self.count_held();
        if never {
            self.counters.refused.add(packet.len);
            return Some((packet, PathVerdict::Dropped(Drop::OverDepth)));
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
    ) -> PathVerdict {
        let (color, dscp) = self.conditioner.color(now, packet.len, packet.dscp, || chance[0]);
        let tally = &mut self.counters.colors[color as usize];
        tally.metered.add(packet.len);
        if let Some(dropper) = &mut self.dropper {
            match dropper.arrival(now, color, packet.len, chance[1]) {
                dropper::Verdict::Accept => {}
                dropper::Verdict::Early => {
                    tally.early.add(packet.len);
                    return PathVerdict::Dropped(Drop::Early(color));
                }
                dropper::Verdict::Forced => {
                    tally.forced.add(packet.len);
                    return PathVerdict::Dropped(Drop::Forced(color));
                }
            }
        }
        let counted = packet.len.saturating_add(self.overhead);
        if let Err(full) = self.queue.push(&mut buffers.queued, counted, Queued { packet, color, dscp }) {
            tally.overflowed.add(packet.len);
            self.left(now, color, packet.len);
            return PathVerdict::Dropped(Drop::QueueFull(color, full));
        }
        tally.queued.add(packet.len);
        PathVerdict::Queued(color)
    }

    /// Takes the packet at the head of the queue, to be sent.
    pub(super) fn send(&mut self, now: Time, buffers: &mut Buffers) -> Option<Queued> {
        let (_, queued) = self.queue.pop(&mut buffers.queued)?;
        let len = queued.packet.len;
        let tally = &mut self.counters.colors[queued.color as usize];
        tally.queued.sub(len);
        tally.sent.add(len);
        self.left(now, queued.color, len);
        Some(queued)
    }

    /// The length of the packet at the head of the queue, in IP bytes.
    pub(super) fn head(&self, buffers: &Buffers) -> Option<u32> {
        self.queue.head(&buffers.queued).map(|queued| queued.packet.len)
    }

    /// Takes a packet out of the queue without counting it as sent, because its leaf goes.
    pub(super) fn purge(&mut self, buffers: &mut Buffers) -> Option<PacketMeta> {
        let (_, queued) = self.queue.pop(&mut buffers.queued)?;
        self.counters.colors[queued.color as usize].queued.sub(queued.packet.len);
        Some(queued.packet)
    }

    /// Takes the packet that came last out of the queue, and counts it as dropped there.
    pub(super) fn push_out(&mut self, now: Time, buffers: &mut Buffers) -> Option<PacketMeta> {
        let (_, queued) = self.queue.pop_last(&mut buffers.queued)?;
        let len = queued.packet.len;
        let tally = &mut self.counters.colors[queued.color as usize];
        tally.queued.sub(len);
        tally.overflowed.add(len);
        self.left(now, queued.color, len);
        Some(queued.packet)
    }

    /// The bytes of the packets in the queue.
    pub(super) fn backlog_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// The number of packets in the queue.
    pub(super) fn backlog(&self) -> u32 {
        self.queue.packets()
    }

    pub(super) fn counters(&self) -> LeafCounters {
        self.counters
    }

    fn left(&mut self, now: Time, color: Color, len: u32) {
        if let Some(dropper) = &mut self.dropper {
            dropper.departure(now, color, len);
        }
    }

    fn count_held(&mut self) {
        let Some(waiting) = self.conditioner.held() else { return };
        self.counters.held = Tally { packets: u64::from(waiting.packets()), bytes: waiting.bytes() };
    }
}
