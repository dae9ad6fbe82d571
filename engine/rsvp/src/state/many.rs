//! Sessions with many senders: results that would take a walk over all of them for each message are kept as
//! senders come and go, so that a message costs the same if a session has ten senders or a thousand.
//!
//! Three results are kept: the source addresses that have senders with ports (`port_rules`), a flag for senders of more
//! than one previous hop, and the sum of the traffic under a wildcard reservation (`Path_Te`, RFC 2205 section 2.2).

use super::State;
use super::keys::TcsbKey;
use super::psb::Psb;
use super::session::SessionState;
use super::sum::{Sum, Together};
use super::table::BlockId;
use crate::refusal::Refusal;
use alloc::boxed::Box;

impl State {
    /// Refuses one more sender of a session that has as many as allowed.
    pub fn room_for_sender(&self, sid: BlockId<SessionState>) -> Result<(), Refusal> {
        match self[sid].paths() >= self.config.max_senders {
            true => Err(Refusal::table_full("senders of this session (max_senders)", self.config.max_senders)),
            false => Ok(()),
        }
    }

    /// Called when a path state has its first previous hop, or another. Notes if not all senders of the
    /// session come from one hop. A note that is kept for longer than it is true only costs a walk.
    pub fn hop_changed(&mut self, id: BlockId<Psb>) {
        let (sid, ..) = self.sender_of(id);
        let phop = self[id].phop();
        let other = self.senders(sid).find(|other| *other != id);
        let same = match (phop, other.and_then(|other| self[other].phop())) {
            (Some(one), Some(other)) => one.is_same(other),
            (Some(_), None) => other.is_none(),
            (None, _) => false,
        };
        let session = &mut self[sid];
        session.several_hops = !same || (session.several_hops && other.is_some());
    }

    /// Updates the kept sum of a wildcard reservation when a sender under it comes (`true`) or goes.
    pub fn sum_follows(&mut self, id: BlockId<Psb>, comes: bool) {
        let (sid, ..) = self.sender_of(id);
        let psb = &self[id];
        let (tspec, entering) = (psb.tspec, psb.is_policed());
        let mut branches = 0..psb.out.oifs().len();
        while let Some(oif) = branches.next().and_then(|n| self[id].out.oifs().get(n).copied()) {
            let Some(at) = self.tcsb(&(sid, oif, None)) else { continue };
            if let Some(sum) = &mut self[at].senders {
                if comes { sum.add(&tspec, entering) } else { sum.take(&tspec, entering) }
            }
        }
    }

    /// Forgets the sums of a session, which are no longer right; the next use makes them anew.
    pub fn forget_sums(&mut self, sid: BlockId<SessionState>) {
        let all = self.tcsbs_of(sid);
        let kept: alloc::vec::Vec<_> = all.filter(|at| self[*at].senders.is_some()).collect();
        kept.into_iter().for_each(|at| self[at].senders = None);
    }

    /// The terms of the senders under a wildcard reservation: as kept, or by a walk over all of them.
    pub fn under_wildcard(&mut self, at: &TcsbKey) -> Together {
        let (sid, oif, _) = *at;
        let block = self.tcsb(at);
        if let Some(sum) = block.and_then(|block| self[block].senders.as_deref()) {
            return sum.together();
        }
        let mut sum = Sum::default();
        for id in self.senders(sid).filter(|id| self[*id].out.takes(oif)) {
            let psb = &self[id];
            sum.add(&psb.tspec, psb.is_policed());
        }
        let together = sum.together();
        if let Some(block) = block {
            self[block].senders = Some(Box::new(sum));
        }
        together
    }
}
