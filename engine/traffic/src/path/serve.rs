//! Packets through the path: in, out, and the time of the next call.

use super::inner::{Child, ROOT, Server};
use super::{Departure, Drop, LeafId, Loss, PacketPath, PathVerdict};
use crate::scheduler::{Scheduler, SchedulerClass};
use terms::{PacketMeta, Time};

impl PacketPath {
    /// Gives a packet to a leaf.
    ///
    /// # Panics
    /// In debug builds, if `now` is before that of an earlier call.
    pub fn enqueue(&mut self, now: Time, id: LeafId, packet: PacketMeta) -> PathVerdict {
        let now = self.advance(now);
        if !self.lost.is_empty() && self.lost.len() + (self.queued() + self.held()) as usize >= self.room() {
            return PathVerdict::Dropped(Drop::Unclaimed);
        }
        let chance = self.draw();
        let seat = &mut self.leaves[id.0 as usize];
        let before = seat.leaf.backlog();
        let verdict = seat.leaf.arrive(now, packet, &mut self.buffers, chance);
        self.activate(now, id, before);
        if self.leaves[id.0 as usize].leaf.shapes() {
            self.schedule(now, id);
            // A shaper that holds nothing back does so at this very instant.
            self.release_due(now);
        }
        verdict
    }

    /// True if nothing waits, in queues and in shapers, and the schedulers guarantee by curves: what passes an idle link by them
    /// needs no account.
    pub(crate) fn is_idle(&self) -> bool {
        // A place of two leaves has the curve; which of them is first matters to packets that wait.
        let flat = self.joined || self.inners.len() == 1;
        let curves = flat && matches!(self.inners[ROOT as usize].server, Server::Hfsc(_));
        curves && self.buffers.queued.is_empty() && self.buffers.held.is_empty() && self.lost.is_empty()
    }

    /// Counts a packet that passes an idle path; false: its leaf has a conditioner, so it must be given to it.
    pub(crate) fn carry(&mut self, now: Time, id: LeafId, len: u32) -> bool {
        self.advance(now);
        self.leaves[id.0 as usize].leaf.carry(len)
    }

    /// The packet that goes now, if one may. The driver calls this when its link is free.
    ///
    /// # Panics
    /// In debug builds, if `now` is before that of an earlier call.
    pub fn dequeue(&mut self, now: Time) -> Option<Departure> {
        let now = self.advance(now);
        self.commit(now, ROOT)?;
        let mut at = ROOT;
        let id = loop {
            let inner = &self.inners[at as usize];
            let (class, _) = inner.head?;
            match inner.child(class)? {
                Child::Inner(below) => {
                    if self.joined {
                        // What came since may go first.
                        self.inners[below as usize].head = None;
                        self.commit(now, below)?;
                    }
                    at = below;
                }
                Child::Leaf(leaf) => break LeafId(leaf),
            }
        };
        let seat = &mut self.leaves[id.0 as usize];
        let sent = seat.leaf.send(now, &mut self.buffers)?;
        let (parent, class) = (seat.parent, seat.class);
        let next = seat.leaf.head(&self.buffers).map(|len| self.wire_bytes(len));
        self.served(now, (parent, class), self.wire_bytes(sent.packet.len), next);
        Some(Departure { packet: sent.packet, dscp: sent.dscp, color: sent.color, leaf: id })
    }

    /// The time of the next useful call of [`PacketPath::dequeue`], not before `now`: at once if a packet waits, else when
    /// a limited class may send again or a shaper releases a packet; perhaps a little before that, as
    /// [`Wheel::wake_at`](wheel::Wheel::wake_at) says, and then no packet goes yet. `None`: not before a packet
    /// comes.
    pub fn wake_at(&self, now: Time) -> Option<Time> {
        let root = &self.inners[ROOT as usize];
        let send = match root.backlog {
            0 => None,
            _ if root.head.is_some() || root.server.conserves_work() => Some(now),
            _ => root.server.wake_at(),
        };
        let release = self.due.wake_at();
        send.into_iter().chain(release).min().map(|when| when.max(now))
    }

    /// Brings the path to `now`: shapers release the packets due until then, in order, each at its instant.
    pub(crate) fn advance(&mut self, now: Time) -> Time {
        debug_assert!(now >= self.now, "time runs backwards: {now:?} after {:?}", self.now);
        if now < self.now {
            self.backwards += 1;
        }
        let now = now.max(self.now);
        self.release_due(now);
        self.now = now;
        now
    }

    fn release_due(&mut self, now: Time) {
        while let Some(name) = self.due.expire(now) {
            let id = LeafId(name);
            let chance = self.draw();
            let seat = &mut self.leaves[name as usize];
            let when = seat.due;
            let before = seat.leaf.backlog();
            match seat.leaf.release(when, &mut self.buffers, chance) {
                Some((packet, verdict)) => self.settle(when, id, before, packet, verdict),
                // Cannot be: the shaper said so itself. It is asked again when its next packet comes.
                None => {
                    debug_assert!(false, "a shaper that was due let nothing go");
                    continue;
                }
            }
            self.schedule(when, id);
        }
    }

    /// Accounts for a packet that has left its leaf's shaper.
    pub(super) fn settle(&mut self, now: Time, id: LeafId, before: u32, packet: PacketMeta, verdict: PathVerdict) {
        if let PathVerdict::Dropped(why) = verdict {
            self.lost.push_back(Loss { packet, leaf: id, why });
        }
        self.activate(now, id, before);
    }

    /// Sets the timer for the release of the leaf's shaper's head.
    pub(super) fn schedule(&mut self, now: Time, id: LeafId) {
        let seat = &mut self.leaves[id.0 as usize];
        match seat.leaf.due(now, &self.buffers) {
            Some(when) if when == seat.due && self.due.is_set(id.0) => {}
            Some(when) => {
                seat.due = when;
                self.due.set(id.0, when);
            }
            None => {
                self.due.cancel(id.0);
            }
        }
    }

    /// Tells the schedulers up to the link that a leaf has a packet to send, if it had none `before`.
    pub(super) fn activate(&mut self, now: Time, id: LeafId, before: u32) {
        let seat = &self.leaves[id.0 as usize];
        let Some(head) = seat.leaf.head(&self.buffers).filter(|_| before == 0) else { return };
        let len = self.wire_bytes(head);
        let (mut at, mut class) = (seat.parent, seat.class);
        loop {
            let inner = &mut self.inners[at as usize];
            inner.server.backlogged(now, class, len);
            inner.backlog += 1;
            if inner.backlog > 1 || at == ROOT {
                return;
            }
            (at, class) = (inner.parent, inner.class);
            // Its only packet is its next one; settled if the parent goes by its length.
            if self.inners[at as usize].server.looks_at_lengths() {
                let below = self.inners[at as usize].child(class);
                if let Some(Child::Inner(below)) = below {
                    self.commit(now, below);
                }
            }
        }
    }

    /// Settles the next packet at an inner node and below it; returns its length on the wire.
    fn commit(&mut self, now: Time, at: u32) -> Option<u32> {
        if let Some((_, len)) = self.inners[at as usize].head {
            return Some(len);
        }
        let inner = &mut self.inners[at as usize];
        if inner.backlog == 0 {
            return None;
        }
        let class = inner.server.choose(now)?;
        let len = match inner.child(class)? {
            Child::Inner(below) => self.commit(now, below)?,
            Child::Leaf(leaf) => self.wire_bytes(self.leaves[leaf as usize].leaf.head(&self.buffers)?),
        };
        self.inners[at as usize].head = Some((class, len));
        Some(len)
    }

    /// Tells the schedulers up to the link the length of the sent packet, and the next one.
    fn served(&mut self, now: Time, from: (u32, SchedulerClass), len: u32, next: Option<u32>) {
        let ((mut at, mut class), mut next) = (from, next);
        loop {
            let inner = &mut self.inners[at as usize];
            inner.server.served(now, class, len, next);
            inner.head = None;
            if next.is_none() {
                inner.backlog -= 1;
            }
            if at == ROOT {
                return;
            }
            let (parent, own, more) = (inner.parent, inner.class, inner.backlog > 0);
            next = match more {
                false => None,
                true if self.inners[parent as usize].server.looks_at_lengths() => self.commit(now, at),
                // Strict priority does not ask how long.
                true => Some(len),
            };
            (at, class) = (parent, own);
        }
    }
}
