//! A transaction that failed further on undoes the blocks that it made or raised here, but not those that it lowered
//! or found.

use super::{Env, NodeSide};
use crate::demand::whose;
use crate::io::Event;
use crate::work::Work;
use terms::probe::ProbeObserver;
use terms::{IfIndex, Rate};
use wire::boomerang::TravelDirection;

impl<P: ProbeObserver> NodeSide<P> {
    /// A refused reply came in where its request left.
    pub(super) fn revert(&mut self, env: &mut impl Env, work: &Work, iif: Option<IfIndex>) {
        let Some(id) = iif.and_then(|iif| self.half_of(work, TravelDirection::Request, iif)) else { return };
        let Some((&key, &half)) = self.blocks.get(id) else { return };
        let (transaction, before) = half.undo;
        if transaction != work.transaction || half.rate <= before {
            return;
        }
        if before == 0 {
            self.remove(env, id);
        } else {
            let mask = self.blocks.table().mask_of(key.mask).copied();
            let (Some(handle), Some(whose)) = (half.handle, whose(&key.flow, mask.as_ref())) else { return };
            let request = whose.request(&self.config, &key, before, half.life, work.entry);
            // Less than there is always fits; if not, the block keeps what it has until it is said again or expires.
            if env.modify(self.now, handle, &request).is_err() {
                return;
            }
            self.blocks.lower(id, before);
        }
        self.event(Event::Reverted { flow: key.flow, oif: key.oif, rate: Rate::from_bps(u64::from(before)) });
    }
}
