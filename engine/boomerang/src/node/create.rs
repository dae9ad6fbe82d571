//! Building a new session block (section 4.2.1, second step). It holds nothing yet.

use super::NodeSide;
use crate::half::{Half, HalfKey, State, life};
use crate::io::Event;
use crate::limit::NEW;
use crate::lock;
use crate::work::Work;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{FlowKey, IfIndex};
use wire::boomerang::Selector;

impl<P: ProbeObserver> NodeSide<P> {
    /// Makes a block and returns its number; `None` if a limit is reached or the source makes too many.
    pub(super) fn create(&mut self, work: &Work, flow: FlowKey, mask: &Selector, oif: IfIndex) -> Option<u32> {
        self.probe.enter(ProbePoint::BoomerangCreate);
        let made = self.build(work, flow, mask, oif);
        self.probe.leave(ProbePoint::BoomerangCreate);
        made
    }

    fn build(&mut self, work: &Work, flow: FlowKey, mask: &Selector, oif: IfIndex) -> Option<u32> {
        let most = self.config.most_sessions;
        if self.blocks.table().len() >= most {
            self.event(Event::Full { what: "Boomerang sessions", limit: most });
            return None;
        }
        if !self.limits.take(self.now, work.account, NEW) {
            self.event(Event::Full {
                what: "new Boomerang sessions of a source",
                limit: self.config.per_source as usize,
            });
            return None;
        }
        let Some(mask) = self.blocks.mask(mask, self.config.most_masks) else {
            self.event(Event::Full { what: "masks of Boomerang sessions", limit: self.config.most_masks });
            return None;
        };
        let suspicious = self.is_suspicious(work);
        let half = Half {
            handle: None,
            rate: 0,
            undo: (work.transaction, 0),
            life: life(work.refresh.min(self.config.most_refresh)),
            initiator: work.initiator,
            lock: suspicious.then(|| lock::prime(self.secret, work.initiator, work.transaction)),
            state: State::Pending,
        };
        Some(self.blocks.insert(HalfKey { flow, oif, mask }, half))
    }
}
