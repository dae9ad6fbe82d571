//! Building a new session block (section 4.2.1, second step). It holds nothing yet.

use crate::engine::Boomerang;
use crate::half::{Half, HalfKey, State, life};
use crate::io::Event;
use crate::limit::NEW;
use crate::lock;
use crate::transit::Work;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{FlowKey, IfIndex};
use wire::boomerang::Selector;

impl<P: ProbeObserver> Boomerang<P> {
    /// Makes a block and returns its number; `None` if a limit is reached or the source makes too many.
    pub(crate) fn create(&mut self, work: &Work, flow: FlowKey, mask: &Selector, oif: IfIndex) -> Option<u32> {
        self.probe.enter(ProbePoint::BoomerangCreate);
        let made = self.build(work, flow, mask, oif);
        self.probe.leave(ProbePoint::BoomerangCreate);
        made
    }

    fn build(&mut self, work: &Work, flow: FlowKey, mask: &Selector, oif: IfIndex) -> Option<u32> {
        let most = self.config.most_sessions;
        if self.table.len() >= most {
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
        let Some(mask) = self.table.mask(mask, self.config.most_masks) else {
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
        let id = self.table.insert(HalfKey { flow, oif, mask }, half);
        // The wheel makes exactly as much room as it is told to: by powers of two, or each new block would move them all.
        self.timers.reserve(self.table.bound().next_power_of_two());
        Some(id)
    }
}
