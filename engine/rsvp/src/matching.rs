//! The senders of each reservation: the reservation scope of RFC 2205 section 3.1.4.

use crate::engine::Rsvp;
use crate::psb::{Phop, Psb};
use crate::rsb::Rsb;
use crate::session::SessionState;
use crate::table::BlockId;
use crate::tcsb::{Tcsb, TcsbKey};
use alloc::vec::Vec;
use terms::probe::ProbeObserver;
use terms::{FilterSpec, IfIndex, Style};

impl<P: ProbeObserver> Rsvp<P> {
    /// The style of a session's reservations, if it has any.
    pub(crate) fn style_of(&self, sid: BlockId<SessionState>) -> Option<Style> {
        self.rsbs.chain(&self.sessions[sid].rsbs).next().map(|id| self.rsbs[id].style)
    }

    /// True if a reservation state is for this sender.
    pub(crate) fn is_for(&self, id: BlockId<Rsb>, filter: &FilterSpec) -> bool {
        match self.rsbs.key(id).2 {
            Some(of) => of == *filter,
            None => self.rsbs[id].shares(filter),
        }
    }

    /// The reservation states for one sender, the oldest last.
    pub(crate) fn reservations_of(&self, sid: BlockId<SessionState>, filter: &FilterSpec) -> Vec<BlockId<Rsb>> {
        self.rsbs.chain(&self.sessions[sid].rsbs).filter(|id| self.is_for(*id, filter)).collect()
    }

    /// The reservation states that share one traffic control state, the oldest last.
    pub(crate) fn reservations_at(&self, at: &TcsbKey) -> impl Iterator<Item = BlockId<Rsb>> + '_ {
        let (sid, oif, of) = *at;
        self.rsbs.chain(&self.sessions[sid].rsbs).filter(move |id| {
            let (_, nhop, filter) = self.rsbs.key(*id);
            filter == of && nhop.oif() == Some(oif)
        })
    }

    /// The traffic control state of one sender on an interface, its own or a shared one.
    pub(crate) fn held_for(
        &self,
        sid: BlockId<SessionState>,
        oif: IfIndex,
        filter: &FilterSpec,
    ) -> Option<BlockId<Tcsb>> {
        let alone = self.tcsbs.find(&(sid, oif, Some(*filter)));
        alone.or_else(|| self.tcsbs.find(&(sid, oif, None)).filter(|id| self.tcsbs[*id].shares(filter)))
    }

    /// The path states along which reservations are made, of one session.
    pub(crate) fn senders(&self, sid: BlockId<SessionState>) -> impl Iterator<Item = BlockId<Psb>> + Clone + '_ {
        self.psbs.chain(&self.sessions[sid].psbs).filter(|id| self.psbs.key(*id).2.is_none())
    }

    /// The senders that a reservation state is for.
    pub(crate) fn senders_of(&self, id: BlockId<Rsb>) -> Vec<BlockId<Psb>> {
        let (sid, _, of) = self.rsbs.key(id);
        match of {
            Some(filter) => self.psb_of(sid, &filter).into_iter().collect(),
            None => self.senders(sid).filter(|psb| self.rsbs[id].shares(&self.psbs.key(*psb).1)).collect(),
        }
    }

    /// The senders whose packets use a traffic control state.
    pub(crate) fn senders_at(&self, at: &TcsbKey) -> Vec<BlockId<Psb>> {
        let (sid, oif, of) = *at;
        let through = |id: &BlockId<Psb>| self.psbs[*id].out.takes(oif);
        let tcsb = self.tcsbs.find(at);
        match of {
            Some(filter) => self.psb_of(sid, &filter).filter(through).into_iter().collect(),
            None => {
                let shares = |id: &BlockId<Psb>| tcsb.is_some_and(|t| self.tcsbs[t].shares(&self.psbs.key(*id).1));
                self.senders(sid).filter(through).filter(shares).collect()
            }
        }
    }

    /// The senders of a session that come from this previous hop.
    pub(crate) fn senders_by(&self, sid: BlockId<SessionState>, phop: &Phop) -> Vec<BlockId<Psb>> {
        self.senders(sid).filter(|id| self.psbs[*id].phop().is_some_and(|p| p.is_same(phop))).collect()
    }

    /// True if the senders of a session come from more than one previous hop.
    pub(crate) fn has_several_hops(&self, sid: BlockId<SessionState>) -> bool {
        let mut hops = self.senders(sid).filter_map(|id| self.psbs[id].phop());
        hops.next().is_some_and(|first| hops.any(|other| !other.is_same(first)))
    }
}
