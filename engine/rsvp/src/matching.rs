//! Which reservations are for which senders: the reservation scope of RFC 2205 section 3.1.4.

use crate::engine::Rsvp;
use crate::psb::{Phop, Psb};
use crate::rsb::Rsb;
use crate::session::SessionState;
use crate::table::Id;
use crate::tcsb::{Tcsb, TcsbKey};
use alloc::vec::Vec;
use terms::probe::Probe;
use terms::{FilterSpec, IfIndex, Style};

impl<P: Probe> Rsvp<P> {
    /// The style of a session's reservations, if it has any.
    pub(crate) fn style_of(&self, sid: Id<SessionState>) -> Option<Style> {
        self.rsbs.chain(&self.sessions[sid].rsbs).next().map(|id| self.rsbs[id].style)
    }

    /// Whether a reservation state is for this sender.
    pub(crate) fn is_for(&self, id: Id<Rsb>, filter: &FilterSpec) -> bool {
        match self.rsbs.key(id).2 {
            Some(of) => of == *filter,
            None => self.rsbs[id].shares(filter),
        }
    }

    /// The reservation states for one sender, the oldest last.
    pub(crate) fn reservations_of(&self, sid: Id<SessionState>, filter: &FilterSpec) -> Vec<Id<Rsb>> {
        self.rsbs.chain(&self.sessions[sid].rsbs).filter(|id| self.is_for(*id, filter)).collect()
    }

    /// The reservation states that share one traffic control state, the oldest last.
    pub(crate) fn reservations_at(&self, at: &TcsbKey) -> impl Iterator<Item = Id<Rsb>> + '_ {
        let (sid, oif, of) = *at;
        self.rsbs.chain(&self.sessions[sid].rsbs).filter(move |id| {
            let (_, nhop, filter) = self.rsbs.key(*id);
            filter == of && nhop.oif() == Some(oif)
        })
    }

    /// What an interface holds for one sender, alone or shared.
    pub(crate) fn held_for(&self, sid: Id<SessionState>, oif: IfIndex, filter: &FilterSpec) -> Option<Id<Tcsb>> {
        let alone = self.tcsbs.find(&(sid, oif, Some(*filter)));
        alone.or_else(|| self.tcsbs.find(&(sid, oif, None)).filter(|id| self.tcsbs[*id].shares(filter)))
    }

    /// The path states along which reservations are made, of one session.
    pub(crate) fn senders(&self, sid: Id<SessionState>) -> impl Iterator<Item = Id<Psb>> + Clone + '_ {
        self.psbs.chain(&self.sessions[sid].psbs).filter(|id| self.psbs.key(*id).2.is_none())
    }

    /// The senders that a reservation state is for.
    pub(crate) fn senders_of(&self, id: Id<Rsb>) -> Vec<Id<Psb>> {
        let (sid, _, of) = self.rsbs.key(id);
        match of {
            Some(filter) => self.psb_of(sid, &filter).into_iter().collect(),
            None => self.senders(sid).filter(|psb| self.rsbs[id].shares(&self.psbs.key(*psb).1)).collect(),
        }
    }

    /// The senders whose packets a traffic control state is for.
    pub(crate) fn senders_at(&self, at: &TcsbKey) -> Vec<Id<Psb>> {
        let (sid, oif, of) = *at;
        let through = |id: &Id<Psb>| self.psbs[*id].out.takes(oif);
        let tcsb = self.tcsbs.find(at);
        match of {
            Some(filter) => self.psb_of(sid, &filter).filter(through).into_iter().collect(),
            None => {
                let shares = |id: &Id<Psb>| tcsb.is_some_and(|t| self.tcsbs[t].shares(&self.psbs.key(*id).1));
                self.senders(sid).filter(through).filter(shares).collect()
            }
        }
    }

    /// The senders of a session that come from the same previous hop as this one, itself among them.
    pub(crate) fn senders_by(&self, sid: Id<SessionState>, phop: &Phop) -> Vec<Id<Psb>> {
        self.senders(sid).filter(|id| self.psbs[*id].phop().is_some_and(|p| p.is_same(phop))).collect()
    }

    /// Whether the senders of a session come from more than one previous hop.
    pub(crate) fn has_several_hops(&self, sid: Id<SessionState>) -> bool {
        let mut hops = self.senders(sid).filter_map(|id| self.psbs[id].phop());
        hops.next().is_some_and(|first| hops.any(|other| !other.is_same(first)))
    }
}
