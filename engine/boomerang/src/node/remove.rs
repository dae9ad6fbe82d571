//! Removing a session block (section 4.2.1, fourth step): its reservation is released first, which is a
//! management step (third step), as the document describes a tear.

use super::{Env, NodeSide};
use terms::probe::{ProbeObserver, ProbePoint};

impl<P: ProbeObserver> NodeSide<P> {
    pub(super) fn remove(&mut self, env: &mut impl Env, id: u32) {
        self.empty(env, id);
        self.probe.enter(ProbePoint::BoomerangRemove);
        self.blocks.remove(id);
        self.probe.leave(ProbePoint::BoomerangRemove);
    }

    /// Releases the reservation of a block; the block stays.
    pub(super) fn empty(&mut self, env: &mut impl Env, id: u32) {
        if self.blocks.get(id).is_none_or(|(_, half)| half.handle.is_none()) {
            return;
        }
        self.probe.enter(ProbePoint::BoomerangManage);
        if let Some(handle) = self.blocks.empty(id) {
            env.remove(self.now, handle);
        }
        self.probe.leave(ProbePoint::BoomerangManage);
    }
}
