//! The senders of each reservation: the reservation scope of RFC 2205 section 3.1.4.

use super::blocks::Blocks;
use super::keys::TcsbKey;
use super::psb::{Origin, Phop, Psb};
use super::rsb::{Confirm, Rsb};
use super::session::SessionState;
use super::table::BlockId;
use super::tcsb::Tcsb;
use crate::io::AppId;
use alloc::vec::Vec;
use terms::{FilterSpec, IfIndex, SenderTemplate, Session, Style};

impl Blocks {
    /// True if a session has a reservation here, or one of an earlier life of this node has not expired.
    pub fn is_reserved(&self, session: &Session) -> bool {
        self.session(session).is_some_and(|id| self[id].requests() > 0 || self.is_adopted(id))
    }

    /// True if flows of a session are in the plane from an earlier life of this node.
    pub fn is_adopted(&self, sid: BlockId<SessionState>) -> bool {
        self[sid].adopted_until().is_some()
    }

    /// The path state of a sender.
    pub fn psb_of(&self, session: BlockId<SessionState>, template: &SenderTemplate) -> Option<BlockId<Psb>> {
        self.psb(&(session, *template, None))
    }

    /// A path state's session and sender.
    pub fn sender_of(&self, id: BlockId<Psb>) -> (BlockId<SessionState>, Session, SenderTemplate) {
        let (sid, template, _) = self.key(id);
        (sid, self.key(sid), template)
    }

    /// The local application that is the sender, if it is one.
    pub fn local_sender(&self, id: BlockId<Psb>) -> Option<AppId> {
        match self[id].origin {
            Origin::Local(app) => Some(app),
            Origin::Hop(_) => None,
        }
    }

    /// True if any sender of a session, except this one, routes to an interface.
    pub fn is_taken_by_another(&self, sid: BlockId<SessionState>, oif: IfIndex, but: &FilterSpec) -> bool {
        let mut others = self.senders(sid).filter(|id| self.key(*id).1 != *but);
        others.any(|id| self[id].out.takes(oif))
    }

    /// True if a local application still waits for its confirmation; every Resv asks for one until it comes.
    pub fn application_waits(&self, id: BlockId<Psb>) -> bool {
        let (sid, _, filter) = self.sender_of(id);
        self.rsbs_of(sid).any(|rsb| self[rsb].confirm == Some(Confirm::Application) && self.is_for(rsb, &filter))
    }

    /// The style of a session's reservations, if it has any.
    pub fn style_of(&self, sid: BlockId<SessionState>) -> Option<Style> {
        self.rsbs_of(sid).next().map(|id| self[id].style)
    }

    /// True if a reservation state is for this sender.
    pub fn is_for(&self, id: BlockId<Rsb>, filter: &FilterSpec) -> bool {
        match self.key(id).2 {
            Some(of) => of == *filter,
            None => self[id].shares(filter),
        }
    }

    /// The reservation states for one sender, the oldest last.
    pub fn reservations_of(&self, sid: BlockId<SessionState>, filter: &FilterSpec) -> Vec<BlockId<Rsb>> {
        self.rsbs_of(sid).filter(|id| self.is_for(*id, filter)).collect()
    }

    /// The reservation states that share one traffic control state, the oldest last.
    pub fn reservations_at(&self, at: &TcsbKey) -> impl Iterator<Item = BlockId<Rsb>> + '_ {
        let (sid, oif, of) = *at;
        self.rsbs_of(sid).filter(move |id| {
            let (_, nhop, filter) = self.key(*id);
            filter == of && nhop.oif() == Some(oif)
        })
    }

    /// The traffic control state of one sender on an interface, its own or a shared one.
    pub fn held_for(&self, sid: BlockId<SessionState>, oif: IfIndex, filter: &FilterSpec) -> Option<BlockId<Tcsb>> {
        let alone = self.tcsb(&(sid, oif, Some(*filter)));
        alone.or_else(|| self.tcsb(&(sid, oif, None)).filter(|id| self[*id].shares(filter)))
    }

    /// The path states along which reservations are made, of one session.
    pub fn senders(&self, sid: BlockId<SessionState>) -> impl Iterator<Item = BlockId<Psb>> + Clone + '_ {
        self.psbs_of(sid).filter(|id| self.key(*id).2.is_none())
    }

    /// The senders that a reservation state is for.
    pub fn senders_of(&self, id: BlockId<Rsb>) -> Vec<BlockId<Psb>> {
        let (sid, _, of) = self.key(id);
        match of {
            Some(filter) => self.psb_of(sid, &filter).into_iter().collect(),
            None => self.senders(sid).filter(|psb| self[id].shares(&self.key(*psb).1)).collect(),
        }
    }

    /// The senders whose packets use a traffic control state.
    pub fn senders_at(&self, at: &TcsbKey) -> Vec<BlockId<Psb>> {
        let (sid, oif, of) = *at;
        let through = |id: &BlockId<Psb>| self[*id].out.takes(oif);
        let tcsb = self.tcsb(at);
        match of {
            Some(filter) => self.psb_of(sid, &filter).filter(through).into_iter().collect(),
            None => {
                let shares = |id: &BlockId<Psb>| tcsb.is_some_and(|t| self[t].shares(&self.key(*id).1));
                self.senders(sid).filter(through).filter(shares).collect()
            }
        }
    }

    /// The senders of a session that come from this previous hop.
    pub fn senders_by(&self, sid: BlockId<SessionState>, phop: &Phop) -> Vec<BlockId<Psb>> {
        self.senders(sid).filter(|id| self[*id].phop().is_some_and(|p| p.is_same(phop))).collect()
    }

    /// True if the senders of a session come from more than one previous hop.
    pub fn has_several_hops(&self, sid: BlockId<SessionState>) -> bool {
        let mut hops = self.senders(sid).filter_map(|id| self[id].phop());
        hops.next().is_some_and(|first| hops.any(|other| !other.is_same(first)))
    }
}
