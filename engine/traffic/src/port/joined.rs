//! Flows that are admitted by measurement, and best effort: one place of the link and one buffer for both, as the queue of
//! *Measurement-based Admission Control for Controlled-load Service* (Jamin, Jin 1998), section 3, has two levels.
//!
//! Under HFSC [`ClassId::MEASURED`] goes before best effort in all that both together are guaranteed, and both wait in
//! the buffer that best effort has without it: when that is full, a packet of the first takes the place of the second's last
//! one. Other schedulers have priorities of their own, and other classes their queues.

use super::Port;
use crate::path::{JoinedLeaves, LeafId, TreeShare};
use crate::plan::{ClassId, ClassSpec};
use crate::queue::{LevelVerdict, QueueLevel};
use crate::scheduler::{Misplaced, SchedulerKind};
use terms::{ServiceCurve, Time};

impl Port {
    /// True if a leaf has a place together with another.
    pub(super) fn is_joined(&self, leaf: LeafId) -> bool {
        self.joined.is_some_and(|joined| joined.contains(&leaf))
    }

    /// Joins the two classes if they are there and were not, separates them if one is not, and gives both their share.
    pub(super) fn arrange(&mut self, now: Time) {
        let wanted = self.joinable();
        let changed = match (wanted, self.joined == wanted) {
            (Some(leaves), true) => match (self.share_of(leaves), &mut self.path) {
                (Some(share), Some(path)) => path.change_joined_share(now, share),
                _ => Ok(()),
            },
            (None, true) => Ok(()),
            (_, false) => self.join(now, wanted),
        };
        debug_assert!(changed.is_ok(), "a share is made for its scheduler: {changed:?}");
    }

    /// Gives each class a place of its own.
    pub(super) fn separate(&mut self, now: Time) {
        if self.joined.is_some() {
            let separated = self.join(now, None);
            debug_assert!(separated.is_ok(), "a share is made for its scheduler");
        }
    }

    /// Makes room for a packet of `len` bytes in the buffer of two joined leaves; false: it is to be dropped.
    pub(super) fn make_room(&mut self, now: Time, leaf: LeafId, len: u32) -> bool {
        let (Some([first, second]), Some(path)) = (self.joined, &mut self.path) else { return true };
        let level = match leaf {
            _ if leaf == first => QueueLevel::First,
            _ if leaf == second => QueueLevel::Second,
            _ => return true,
        };
        let (room, wire) = (self.members[second.0 as usize].spec.queue, u64::from(path.wire_bytes(len)));
        loop {
            let packets = path.queued_in(first) + path.queued_in(second);
            let bytes = path.queued_bytes_in(first) + path.queued_bytes_in(second);
            let full = packets >= room.packets || bytes.saturating_add(wire) > room.bytes.get();
            match level.verdict(full, path.queued_in(second) > 0) {
                LevelVerdict::Enters => return true,
                LevelVerdict::PushesOut if path.push_out(now, second) => {}
                LevelVerdict::PushesOut | LevelVerdict::Dropped => return false,
            }
        }
    }

    /// The leaves that belong together.
    fn joinable(&self) -> Option<[LeafId; 2]> {
        let hfsc = self.link().is_some_and(|link| link.scheduler == SchedulerKind::Hfsc);
        let leaf = |class| {
            let leaf = *self.classes.get(&class)?;
            let member = &self.members[leaf.0 as usize];
            (member.spec.upper_limit.is_none() && member.conditioner.is_none()).then_some(leaf)
        };
        Some([leaf(ClassId::MEASURED)?, leaf(ClassId::BEST_EFFORT)?]).filter(|_| hfsc)
    }

    /// The share of both together.
    fn share_of(&self, leaves: [LeafId; 2]) -> Option<TreeShare> {
        let link = self.link()?;
        let [first, second] = leaves.map(|leaf| &self.members[leaf.0 as usize].spec);
        let share = ClassSpec {
            real_time: sum(first.real_time, second.real_time),
            link_share: first.link_share.saturating_add(second.link_share),
            ..*second
        };
        Some(TreeShare::of(link.scheduler, &share, link))
    }

    fn join(&mut self, now: Time, leaves: Option<[LeafId; 2]>) -> Result<(), Misplaced> {
        let both = leaves
            .and_then(|[first, second]| Some(JoinedLeaves { first, second, share: self.share_of([first, second])? }));
        let Port { path, members, classes, .. } = self;
        let Some(path) = path else { return Ok(()) };
        let link = *path.link();
        let share = |leaf: LeafId| {
            let member = members.get(leaf.0 as usize).filter(|member| classes.get(&member.class) == Some(&leaf))?;
            Some(TreeShare::of(link.scheduler, &member.spec, &link))
        };
        self.joined = leaves.filter(|_| both.is_some());
        path.join(now, both, share)
    }
}

/// The sum of two guarantees. Of two lines it is exact; of others it is at least either.
fn sum(a: Option<ServiceCurve>, b: Option<ServiceCurve>) -> Option<ServiceCurve> {
    let (Some(first), Some(second)) = (a, b) else { return a.or(b) };
    let (m1, m2) = (first.m1.saturating_add(second.m1), first.m2.saturating_add(second.m2));
    Some(ServiceCurve { m1, d: first.d.max(second.d), m2 })
}
