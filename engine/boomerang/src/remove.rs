//! Removing a session block (section 4.2.1, fourth step): its reservation is released first, which is a
//! management step (third step), as the document describes a tear.

use crate::engine::{Boomerang, Env};
use crate::half::Half;
use terms::probe::{ProbeObserver, ProbePoint};

impl<P: ProbeObserver> Boomerang<P> {
    pub(crate) fn remove(&mut self, env: &mut impl Env, id: u32) {
        self.empty(env, id);
        self.probe.enter(ProbePoint::BoomerangRemove);
        self.timers.cancel(id);
        let _gone = self.table.remove(id);
        self.probe.leave(ProbePoint::BoomerangRemove);
    }

    /// Releases the reservation of a block; the block stays.
    pub(crate) fn empty(&mut self, env: &mut impl Env, id: u32) {
        let Some(half) = self.table.get_mut(id) else { return };
        let Some(handle) = half.handle else { return };
        self.probe.enter(ProbePoint::BoomerangManage);
        *half = Half { handle: None, rate: 0, ..*half };
        self.unnote(handle);
        env.remove(self.now, handle);
        self.probe.leave(ProbePoint::BoomerangManage);
    }
}
