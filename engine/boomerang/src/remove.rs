//! Removing a session block (section 4.2.1, fourth step): what it had is given back.

use crate::engine::{Boomerang, Env};
use crate::half::Half;
use terms::probe::{Probe, Step};

impl<P: Probe> Boomerang<P> {
    pub(crate) fn remove(&mut self, env: &mut impl Env, id: u32) {
        self.probe.enter(Step::BoomerangRemove);
        self.timers.cancel(id);
        if let Some((_, half)) = self.table.remove(id)
            && let Some(handle) = half.handle
        {
            self.unnote(handle);
            env.remove(self.now, handle);
        }
        self.probe.leave(Step::BoomerangRemove);
    }

    /// Gives back what a block has; the block stays.
    pub(crate) fn empty(&mut self, env: &mut impl Env, id: u32) {
        let Some(half) = self.table.get_mut(id) else { return };
        let Some(handle) = half.handle else { return };
        *half = Half { handle: None, rate: 0, ..*half };
        self.unnote(handle);
        env.remove(self.now, handle);
    }
}
