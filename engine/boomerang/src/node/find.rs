//! Finding the session block (section 4.2.1, first step): by the flow under its mask, and the interface.

use super::NodeSide;
use crate::half::HalfKey;
use terms::probe::{ProbeObserver, ProbePoint};

impl<P: ProbeObserver> NodeSide<P> {
    pub(super) fn find(&mut self, key: &HalfKey) -> Option<u32> {
        self.probe.enter(ProbePoint::BoomerangFind);
        let found = self.blocks.table().find(key);
        self.probe.leave(ProbePoint::BoomerangFind);
        found
    }
}
