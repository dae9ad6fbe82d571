//! Path states that are only remembered: Paths of a multicast sender that came in by an interface that its packets do
//! not use (`Local_Only` of RFC 2209 section 1.2).

use super::PathLife;
use crate::links::Env;
use crate::refusal::Refusal;
use crate::resv_refresh::Push;
use crate::state::psb::{News, Origin, OutgoingInterfaces, Psb};
use crate::state::session::SessionState;
use crate::state::table::BlockId;
use alloc::boxed::Box;
use terms::ports::Oifs;
use terms::probe::ProbeObserver;
use terms::{IfIndex, SenderTemplate};

impl<P: ProbeObserver, E: Env> PathLife<'_, P, E> {
    /// Keeps a Path that came in by an interface that its sender's packets do not use.
    pub(crate) fn path_aside(&mut self, id: BlockId<Psb>, news: News) -> Result<(), Refusal> {
        let (sid, _, template) = self.state.sender_of(id);
        let Origin::Hop(phop) = news.origin else { return Ok(()) };
        let key = (sid, template, Some(phop.iif));
        let block = self.block_of(news, OutgoingInterfaces::Nowhere);
        self.state.set_aside(key, block)
    }

    /// Called when packets of the sender come in by another interface now: the old previous hop is
    /// remembered, and the request to it is torn down.
    pub(crate) fn set_aside(&mut self, id: BlockId<Psb>) {
        let (sid, _, template) = self.state.sender_of(id);
        self.upstream().resv_tear_upstream(id);
        self.state[id].blockade = None;
        let (Some(phop), since) = (self.state[id].phop().copied(), self.state[id].phop_since) else { return };
        let key = (sid, template, Some(phop.iif));
        if self.state.psb(&key).is_none() {
            let psb = &self.state[id];
            let block = Psb::new(since, psb.news(), OutgoingInterfaces::Nowhere, psb.expires);
            // If there is no room it is forgotten.
            let _kept = self.state.set_aside(key, block);
        }
    }

    /// Forgets the path state of an incoming interface that the path itself now uses.
    pub(crate) fn forget_aside(&mut self, id: BlockId<Psb>, iif: IfIndex) {
        let (sid, template, _) = self.state.key(id);
        if let Some(aside) = self.state.psb(&(sid, template, Some(iif))) {
            self.state.drop_aside(aside);
        }
    }

    /// Called when the path that packets followed is gone. If Paths came in by other interfaces as well, the
    /// youngest of those takes its place, as the best that local receivers have now.
    pub(crate) fn take_up_aside(&mut self, sid: BlockId<SessionState>, template: &SenderTemplate) {
        let there = self.signalling.links().numbers().filter_map(|iif| self.state.psb(&(sid, *template, Some(iif))));
        let Some(aside) = there.max_by_key(|id| self.state[*id].phop_since) else { return };
        let id = self.state.take_up_aside(aside, |psb| psb.out = OutgoingInterfaces::Tree(Box::new(Oifs::NONE)));
        self.path_event(id);
        self.upstream().resv_refresh(id, Push::IfNew);
        self.state.arm_path(id);
    }
}
