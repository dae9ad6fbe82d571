//! Two leaves that have one place below the link: the first is served before the second, and may push its packets out.
//!
//! The link's scheduler goes by the length of the packet that was next when the place was served last. Which one goes is decided
//! when the link takes it, so the priority holds exactly; a deadline may be that of another length, for one packet.

use super::inner::{Child, Inner, ROOT, Server};
use super::{Drop, InnerId, LeafId, Loss, PacketPath, TreeShare, largest};
use crate::scheduler::{Misplaced, Scheduler, SchedulerClass, SchedulerKind};
use terms::Time;

/// Two leaves with one place below the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinedLeaves {
    /// The leaf that is served first.
    pub first: LeafId,
    /// The leaf that has what the first leaves.
    pub second: LeafId,
    /// The share of both together.
    pub share: TreeShare,
}

impl PacketPath {
    /// Gives two leaves one place below the link, and every other leaf its own with the share that `share` gives; `None`: each
    /// has its own. Packets stay in their queues, and schedulers begin anew. Only for a path without inner nodes of another
    /// kind.
    ///
    /// # Errors
    /// [`Misplaced`]: a share is not of the scheduler's kind.
    pub fn join(
        &mut self,
        now: Time,
        joined: Option<JoinedLeaves>,
        share: impl Fn(LeafId) -> Option<TreeShare>,
    ) -> Result<(), Misplaced> {
        let now = self.advance(now);
        let server = Server::new(self.link.scheduler, self.link.rate, largest(&self.link), now);
        self.inners.clear();
        self.inners.push(Inner::new(server, ROOT, SchedulerClass::ROOT));
        self.joined = joined.is_some();
        let mut place = None;
        if let Some(JoinedLeaves { first, second, share }) = joined {
            let rate = self.link.rate;
            let inner = self.add_inner(InnerId::LINK, share, SchedulerKind::Priority, rate);
            place = Some((inner.ok_or(Misplaced::Unknown(SchedulerClass::ROOT))?, [first, second]));
        }
        for number in 0..self.leaves.len() as u32 {
            let Some(own) = share(LeafId(number)) else { continue };
            let joined =
                place.and_then(|(inner, leaves)| Some((inner, leaves.iter().position(|leaf| leaf.0 == number)?)));
            let (parent, share) = match joined {
                Some((inner, priority)) => (inner.0, TreeShare::Priority(priority as u8)),
                None => (ROOT, own),
            };
            let class = self.inners[parent as usize].adopt(now, share, Child::Leaf(number));
            let seat = &mut self.leaves[number as usize];
            seat.class = class.ok_or(Misplaced::Unknown(seat.class))?;
            seat.parent = parent;
            if seat.leaf.backlog() > 0 {
                self.activate(now, LeafId(number), 0);
            }
        }
        Ok(())
    }

    /// Changes the share of the two leaves that have one place.
    ///
    /// # Errors
    /// [`Misplaced`]: the share is of another kind, or no leaves are joined; nothing is changed.
    pub fn change_joined_share(&mut self, now: Time, share: TreeShare) -> Result<(), Misplaced> {
        match self.inners.len() {
            2 => self.change_inner_share(now, InnerId(1), share),
            _ => Err(Misplaced::Unknown(SchedulerClass::ROOT)),
        }
    }

    /// Drops the packet that came last to one of two joined leaves ([`Drop::PushedOut`]). False: none waits there, or it is the
    /// only one of both.
    pub fn push_out(&mut self, now: Time, id: LeafId) -> bool {
        let now = self.advance(now);
        let seat = &mut self.leaves[id.0 as usize];
        let inner = &mut self.inners[seat.parent as usize];
        if seat.leaf.backlog() == 1 {
            if seat.parent == ROOT || inner.backlog == 1 {
                return false;
            }
            inner.server.purged(now, seat.class);
            inner.backlog -= 1;
        }
        let Some(packet) = seat.leaf.push_out(now, &mut self.buffers) else { return false };
        self.lost.push_back(Loss { packet, leaf: id, why: Drop::PushedOut });
        true
    }

    /// The wire bytes in a leaf's queue.
    pub fn queued_bytes_in(&self, leaf: LeafId) -> u64 {
        self.leaves.get(leaf.0 as usize).map_or(0, |seat| seat.leaf.backlog_bytes())
    }
}
