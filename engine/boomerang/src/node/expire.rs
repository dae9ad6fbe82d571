//! State management (section 4.2.2): blocks without a refresh expire. A node never refreshes a block itself.

use super::{Env, NodeSide};
use crate::io::Event;
use terms::probe::{ProbeObserver, ProbePoint};

impl<P: ProbeObserver> NodeSide<P> {
    pub(crate) fn expire(&mut self, env: &mut impl Env) {
        self.probe.enter(ProbePoint::BoomerangExpire);
        while let Some(id) = self.blocks.expired(self.now) {
            let Some((key, half)) = self.blocks.get(id) else { continue };
            let (flow, oif, held) = (key.flow, key.oif, half.rate > 0);
            self.remove(env, id);
            if held {
                self.event(Event::Expired { flow, oif });
            }
        }
        self.probe.leave(ProbePoint::BoomerangExpire);
    }
}
