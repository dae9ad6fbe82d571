//! The packet path of an interface: leaves that condition and queue packets, and schedulers between them and the link.
//!
//! Every plane runs it: [`crate::port`] makes it from a plan, [`crate::tree`] from a described tree. A packet is given to a
//! leaf, waits in its shaper, is coloured by its meter, gets its code point by the marker, passes the dropper into the
//! queue, and leaves when the schedulers between leaf and link choose it.
//!
//! **Bytes.** Shapers, meters and droppers count bytes of the IP packet; a queue counts those and
//! [`LeafParts::overhead`] per packet; schedulers and the link count those and the link's overhead per packet.
//!
//! **Time.** The path paces nothing: [`PacketPath::dequeue`] returns a packet whenever it is called and one may go, so the
//! driver calls it when its link is free. Shapers release packets between two calls at the packets' own instants, in
//! order, so results do not depend on how often the driver calls. Time that runs backwards is a programming error in
//! debug builds; in release builds the latest time known is used, and the event counted.
//!
//! **Packets** are the caller's: a packet that is refused is the caller's again at once, one that goes is returned by
//! [`PacketPath::dequeue`], and one that was taken and is then dropped or purged is returned by
//! [`PacketPath::poll_loss`]. None is forgotten: while so many losses wait that their memory is full, no packet is taken.
//!
//! **Memory** is reserved when a leaf is made or changed, for queues in one pool, for shapers in another, and for losses:
//! no packet allocates.

mod counters;
mod inner;
mod joined;
mod leaf;
mod serve;
mod share;

pub use counters::{ColorTally, LeafCounters, Tally};
pub use joined::JoinedLeaves;
pub use leaf::LeafParts;
pub use share::{MAX_QUANTUM, TreeShare};

use crate::conditioner::ConditionerFault;
use crate::meter::Color;
use crate::plan::LinkSpec;
use crate::queue::{Full, Pool};
use crate::scheduler::{Misplaced, Scheduler, SchedulerClass, SchedulerKind};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use inner::{Child, Inner, ROOT, Server};
use leaf::{Buffers, Leaf};
use terms::{Bytes, Dscp, PacketMeta, Rate, Time};
use wheel::Wheel;

/// The shortest IP packet: bytes of an IPv4 header without options.
pub const MIN_PACKET: u32 = 20;

/// A leaf of a packet path. Numbers of removed leaves are given out again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeafId(pub u32);

/// An inner node of a packet path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InnerId(u32);

impl InnerId {
    /// The link's own scheduler.
    pub const LINK: InnerId = InnerId(ROOT);
}

/// The result for a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathVerdict {
    /// The packet is in a shaper.
    Held,
    /// The packet is in a queue, with this colour.
    Queued(Color),
    /// The packet is dropped.
    Dropped(Drop),
}

/// The reason for which a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drop {
    /// It is shorter than [`MIN_PACKET`].
    Runt,
    /// The shaper's buffer is full.
    ShaperFull,
    /// It is larger than the shaper's token bucket, so it would never leave.
    OverDepth,
    /// Dropped by chance, with the average queue between its thresholds.
    Early(Color),
    /// The average queue is above the upper threshold.
    Forced(Color),
    /// The queue, or the pool of all queues, is full.
    QueueFull(Color, Full),
    /// A packet that goes before it came when the buffer of both was full.
    PushedOut,
    /// Its class, or the link's, was removed while it waited.
    Purged,
    /// The driver has not asked for the packets that were lost before.
    Unclaimed,
}

/// A packet that was taken and then lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The packet.
    pub packet: PacketMeta,
    /// The leaf.
    pub leaf: LeafId,
    /// The reason.
    pub why: Drop,
}

/// A packet that goes to the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// The packet as it came.
    pub packet: PacketMeta,
    /// The code point of the outgoing packet.
    pub dscp: Dscp,
    /// Its colour.
    pub color: Color,
    /// The leaf.
    pub leaf: LeafId,
}

/// Leaves and schedulers at work.
#[derive(Clone, Debug)]
pub struct PacketPath {
    link: LinkSpec,
    leaves: Vec<Seat>,
    /// By leaf: its description. No packet needs it.
    parts: Vec<LeafParts>,
    vacant: Vec<u32>,
    inners: Vec<Inner>,
    /// True if two leaves have one place.
    joined: bool,
    buffers: Buffers,
    /// Leaves with packets in their shapers, by the time at which the head may leave, to the nanosecond.
    due: Wheel,
    lost: VecDeque<Loss>,
    /// The most packets of all queues together, and of all shapers.
    wanted: [u64; 2],
    backwards: u64,
    now: Time,
    random: u64,
}

/// A leaf and its position.
#[derive(Clone, Debug)]
struct Seat {
    leaf: Leaf,
    parent: u32,
    class: SchedulerClass,
    /// The time at which the head of its shaper may leave, if a packet waits there.
    due: Time,
}

impl Seat {
    const VACANT: Seat = Seat { leaf: Leaf::VACANT, parent: ROOT, class: SchedulerClass::ROOT, due: Time::ZERO };
}

impl PacketPath {
    /// A path without leaves, for at most `packets` in all its queues and as many in all its shapers. `seed` is for droppers
    /// and TSWTCM, which decide by chance.
    pub fn new(link: LinkSpec, packets: u32, now: Time, seed: u64) -> PacketPath {
        let server = Server::new(link.scheduler, link.rate, largest(&link), now);
        PacketPath {
            link,
            leaves: Vec::new(),
            parts: Vec::new(),
            vacant: Vec::new(),
            inners: alloc::vec![Inner::new(server, ROOT, SchedulerClass::ROOT)],
            joined: false,
            buffers: Buffers { queued: Pool::new(packets), held: Pool::new(packets) },
            due: Wheel::new(0, now, 0),
            lost: VecDeque::new(),
            wanted: [0; 2],
            backwards: 0,
            now,
            random: seed,
        }
    }

    /// Adds an inner node that shares `rate` among its children; `None`: the share is not of its parent's kind.
    pub fn add_inner(&mut self, parent: InnerId, share: TreeShare, kind: SchedulerKind, rate: Rate) -> Option<InnerId> {
        let number = self.inners.len() as u32;
        let class = self.inners[parent.0 as usize].adopt(self.now, share, Child::Inner(number))?;
        let server = Server::new(kind, rate, largest(&self.link), self.now);
        self.inners.push(Inner::new(server, parent.0, class));
        Some(InnerId(number))
    }

    /// Adds a leaf; `None`: the share is not of its parent's kind. The memory for its packets is reserved by
    /// [`PacketPath::reserve`].
    ///
    /// # Errors
    /// [`ConditionerFault`]: a part of the leaf cannot work.
    pub fn add_leaf(
        &mut self,
        now: Time,
        parent: InnerId,
        share: TreeShare,
        parts: &LeafParts,
    ) -> Result<Option<LeafId>, ConditionerFault> {
        if self.vacant.is_empty() {
            self.vacant.push(self.leaves.len() as u32);
            self.leaves.push(Seat::VACANT);
            self.parts.push(LeafParts::VACANT);
        }
        let Some(&number) = self.vacant.last() else { return Ok(None) };
        let added = self.put_leaf(now, LeafId(number), parent, share, parts)?;
        if added {
            self.vacant.pop();
        }
        Ok(added.then_some(LeafId(number)))
    }

    /// Makes room for leaves 0 to `count`, which [`PacketPath::put_leaf`] fills in any order.
    pub(crate) fn number_leaves(&mut self, count: usize) {
        self.leaves.resize(count, Seat::VACANT);
        self.parts.resize(count, LeafParts::VACANT);
    }

    /// Puts a leaf at a number that is vacant; false: the share is not of its parent's kind.
    pub(crate) fn put_leaf(
        &mut self,
        now: Time,
        id: LeafId,
        parent: InnerId,
        share: TreeShare,
        parts: &LeafParts,
    ) -> Result<bool, ConditionerFault> {
        let now = self.advance(now);
        let leaf = Leaf::new(parts, self.link.rate, now)?;
        let Some(class) = self.inners[parent.0 as usize].adopt(now, share, Child::Leaf(id.0)) else {
            return Ok(false);
        };
        self.want(parts.packets(), [0; 2]);
        self.parts[id.0 as usize] = *parts;
        self.leaves[id.0 as usize] = Seat { leaf, parent: parent.0, class, due: now };
        self.due.reserve(self.leaves.len());
        Ok(true)
    }

    /// Changes a leaf's description at once. Its packets stay in order; credit, averages and counters carry
    /// over if old and new are of one kind. If the shaper goes, its packets pass the meter now.
    ///
    /// # Errors
    /// [`ConditionerFault`]: a part of the leaf cannot work.
    pub fn change_leaf(&mut self, now: Time, id: LeafId, parts: &LeafParts) -> Result<(), ConditionerFault> {
        let now = self.advance(now);
        let Some(seat) = self.leaves.get_mut(id.0 as usize) else { return Ok(()) };
        seat.leaf.change(parts, self.link.rate, now, &self.buffers)?;
        // Only now: a change that is refused leaves the shaper and its packets.
        let mut freed = if parts.conditioner.shaper.is_none() { seat.leaf.without_shaper() } else { None };
        let had = core::mem::replace(&mut self.parts[id.0 as usize], *parts);
        self.want(parts.packets(), had.packets());
        self.reserve();
        while let Some((_, packet)) = freed.as_mut().and_then(|queue| queue.pop(&mut self.buffers.held)) {
            let chance = self.draw();
            let seat = &mut self.leaves[id.0 as usize];
            let before = seat.leaf.backlog();
            let verdict = seat.leaf.condition(now, packet, &mut self.buffers, chance);
            self.settle(now, id, before, packet, verdict);
        }
        self.schedule(now, id);
        Ok(())
    }

    /// Changes a leaf's share of its parent's bandwidth, within its kind.
    ///
    /// # Errors
    /// [`Misplaced`]: the share is of another kind; nothing is changed.
    pub fn change_share(&mut self, now: Time, id: LeafId, share: TreeShare) -> Result<(), Misplaced> {
        let now = self.advance(now);
        let seat = &self.leaves[id.0 as usize];
        self.inners[seat.parent as usize].server.change(now, seat.class, share)
    }

    /// Changes an inner node's share of its parent's bandwidth, within its kind.
    ///
    /// # Errors
    /// [`Misplaced`]: the share is of another kind; nothing is changed.
    pub fn change_inner_share(&mut self, now: Time, id: InnerId, share: TreeShare) -> Result<(), Misplaced> {
        let now = self.advance(now);
        let (parent, class) = (self.inners[id.0 as usize].parent, self.inners[id.0 as usize].class);
        self.inners[parent as usize].server.change(now, class, share)
    }

    /// Changes the rate that an inner node shares.
    pub fn change_rate(&mut self, id: InnerId, rate: Rate) {
        let packet = largest(&self.link);
        self.inners[id.0 as usize].server.change_rate(self.now, rate, packet);
        if id == InnerId::LINK {
            self.link.rate = rate;
        }
    }

    /// Changes the link, its scheduler included. Each leaf below it has the share that `share` gives; packets stay in their
    /// queues. Only for a path without inner nodes.
    ///
    /// # Errors
    /// [`Misplaced`]: a share is not of the scheduler's kind.
    pub fn change_link(
        &mut self,
        now: Time,
        link: LinkSpec,
        share: impl Fn(LeafId) -> Option<TreeShare>,
    ) -> Result<(), Misplaced> {
        let now = self.advance(now);
        let other = link.scheduler != self.link.scheduler;
        self.link = link;
        let root = &mut self.inners[ROOT as usize];
        if other {
            let server = Server::new(link.scheduler, link.rate, largest(&link), now);
            *root = Inner::new(server, ROOT, SchedulerClass::ROOT);
        } else {
            root.server.change_rate(now, link.rate, largest(&link));
        }
        for number in 0..self.leaves.len() as u32 {
            let Some(share) = share(LeafId(number)) else { continue };
            let seat = &mut self.leaves[number as usize];
            let root = &mut self.inners[ROOT as usize];
            if !other {
                root.server.change(now, seat.class, share)?;
                continue;
            }
            seat.class = root.adopt(now, share, Child::Leaf(number)).ok_or(Misplaced::Unknown(seat.class))?;
            if seat.leaf.backlog() > 0 {
                self.activate(now, LeafId(number), 0);
            }
        }
        Ok(())
    }

    /// Removes a leaf directly below the link. Its packets are lost ([`Drop::Purged`]).
    ///
    /// # Errors
    /// [`Misplaced`]: it is not directly below the link.
    pub fn remove_leaf(&mut self, now: Time, id: LeafId) -> Result<(), Misplaced> {
        let now = self.advance(now);
        let Some(seat) = self.leaves.get_mut(id.0 as usize) else { return Ok(()) };
        let (parent, class) = (seat.parent, seat.class);
        if parent != ROOT || self.inners[ROOT as usize].child(class) != Some(Child::Leaf(id.0)) {
            return Err(Misplaced::Unknown(class));
        }
        self.due.cancel(id.0);
        let mut held = seat.leaf.without_shaper();
        while let Some((_, packet)) = held.as_mut().and_then(|queue| queue.pop(&mut self.buffers.held)) {
            self.lost.push_back(Loss { packet, leaf: id, why: Drop::Purged });
        }
        let backlogged = seat.leaf.backlog() > 0;
        while let Some(packet) = seat.leaf.purge(&mut self.buffers) {
            self.lost.push_back(Loss { packet, leaf: id, why: Drop::Purged });
        }
        let root = &mut self.inners[ROOT as usize];
        root.server.purged(now, class);
        root.backlog -= u32::from(backlogged);
        root.remove(class)?;
        let had = core::mem::replace(&mut self.parts[id.0 as usize], LeafParts::VACANT);
        self.want([0; 2], had.packets());
        self.leaves[id.0 as usize] = Seat::VACANT;
        self.vacant.push(id.0);
        Ok(())
    }

    /// A leaf's counters.
    pub fn counters(&self, leaf: LeafId) -> Option<LeafCounters> {
        self.leaves.get(leaf.0 as usize).map(|seat| seat.leaf.counters())
    }

    /// The number of packets in all queues, without shapers.
    pub fn queued(&self) -> u32 {
        self.buffers.queued.len()
    }

    /// The number of packets in all shapers.
    pub fn held(&self) -> u32 {
        self.buffers.held.len()
    }

    /// The number of lost packets that are not claimed yet.
    pub fn unclaimed(&self) -> u32 {
        self.lost.len() as u32
    }

    /// The number of packets in a leaf's queue.
    pub fn queued_in(&self, leaf: LeafId) -> u32 {
        self.leaves.get(leaf.0 as usize).map_or(0, |seat| seat.leaf.backlog())
    }

    /// Calls with a time before the last one; the last time was used instead.
    pub fn backwards(&self) -> u64 {
        self.backwards
    }

    /// The link.
    pub fn link(&self) -> &LinkSpec {
        &self.link
    }

    /// The wire bytes of a packet of `len` IP bytes.
    pub fn wire_bytes(&self, len: u32) -> u32 {
        len.saturating_add(self.link.overhead)
    }

    /// The next packet that was taken and then lost; drivers free its buffer.
    pub fn poll_loss(&mut self) -> Option<Loss> {
        self.lost.pop_front()
    }

    /// Reserves room for every queue's and every shaper's packets, as if they were the shortest, and for the loss of all.
    pub fn reserve(&mut self) {
        self.buffers.queued.reserve(self.wanted[0]);
        self.buffers.held.reserve(self.wanted[1]);
        let most = self.room();
        if most > self.lost.capacity() {
            self.lost.reserve_exact(most - self.lost.len());
        }
    }

    /// Counts the packets for which a leaf wants memory, instead of those that it had wanted.
    fn want(&mut self, now: [u64; 2], had: [u64; 2]) {
        for ((sum, now), had) in self.wanted.iter_mut().zip(now).zip(had) {
            *sum = sum.saturating_add(now).saturating_sub(had);
        }
    }

    /// The most packets inside and lost together.
    fn room(&self) -> usize {
        self.buffers.queued.capacity() + self.buffers.held.capacity()
    }

    /// Two uniform draws.
    fn draw(&mut self) -> [u32; 2] {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = mix(self.random);
        [(z >> 32) as u32, z as u32]
    }
}

/// The largest packet on the wire.
fn largest(link: &LinkSpec) -> Bytes {
    Bytes::new(u64::from(link.mtu) + u64::from(link.overhead))
}

/// SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) const fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
