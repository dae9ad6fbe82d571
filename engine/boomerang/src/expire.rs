//! State management (section 4.2.2): blocks without a refresh expire. A node never refreshes a block itself.

use crate::engine::{Boomerang, Env};
use crate::io::Event;
use terms::probe::{ProbeObserver, ProbePoint};

impl<P: ProbeObserver> Boomerang<P> {
    pub(crate) fn expire(&mut self, env: &mut impl Env) {
        self.probe.enter(ProbePoint::BoomerangExpire);
        while let Some(id) = self.timers.expire(self.now) {
            let Some((key, half)) = self.table.get(id) else { continue };
            let (flow, oif, held) = (key.flow, key.oif, half.rate > 0);
            self.remove(env, id);
            if held {
                self.event(Event::Expired { flow, oif });
            }
        }
        self.probe.leave(ProbePoint::BoomerangExpire);
    }
}
