//! Sessions with many senders: results that would take a walk over all of them for each message are kept as
//! senders come and go, so that a message costs the same if a session has ten senders or a thousand.
//!
//! Three results are kept: the source addresses that have senders with ports (RFC 2205 section 3.2), a flag
//! for senders of more than one previous hop, and the sum of the traffic under a wildcard reservation
//! (`Path_Te`, section 2.2).

use crate::engine::Rsvp;
use crate::psb::{Psb, UpstreamRequest};
use crate::refusal::Refusal;
use crate::session::SessionState;
use crate::table::BlockId;
use crate::tcsb::TcsbKey;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use terms::probe::ProbeObserver;
use terms::{Bytes, Rate, SenderTemplate, Style, Time, Tspec};

/// The sum of senders' traffic, from which one can be taken out again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    count: u32,
    /// The number of them that are policed as they enter.
    entering: u32,
    r: u128,
    b: u128,
    p: u128,
    /// The number of senders with each `m`, and with each `M`.
    least: BTreeMap<u32, u32>,
    most: BTreeMap<u32, u32>,
}

/// The senders' terms for traffic control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Together {
    /// True if there is more than one.
    pub several: bool,
    /// True if at least one of them is policed as it enters.
    pub enters: bool,
    /// The sum of their traffic; `None`: there are none.
    pub tspec: Option<Tspec>,
}

impl Sum {
    /// Adds a sender.
    pub fn add(&mut self, tspec: &Tspec, entering: bool) {
        self.count += 1;
        self.entering += u32::from(entering);
        self.r += u128::from(tspec.r.as_bps());
        self.b += u128::from(tspec.b.get());
        self.p += u128::from(tspec.p.as_bps());
        *self.least.entry(tspec.m).or_default() += 1;
        *self.most.entry(tspec.M).or_default() += 1;
    }

    /// Takes out a sender that was added.
    pub fn take(&mut self, tspec: &Tspec, entering: bool) {
        self.count -= 1;
        self.entering -= u32::from(entering);
        self.r -= u128::from(tspec.r.as_bps());
        self.b -= u128::from(tspec.b.get());
        self.p -= u128::from(tspec.p.as_bps());
        for (sizes, size) in [(&mut self.least, tspec.m), (&mut self.most, tspec.M)] {
            let left = sizes.get(&size).map_or(0, |count| count - 1);
            if left == 0 {
                sizes.remove(&size);
            } else {
                sizes.insert(size, left);
            }
        }
    }

    /// Their terms for traffic control.
    pub fn together(&self) -> Together {
        Together { several: self.count > 1, enters: self.entering > 0, tspec: self.total() }
    }

    fn total(&self) -> Option<Tspec> {
        let (m, _) = self.least.first_key_value()?;
        let (most, _) = self.most.last_key_value()?;
        let word = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        let (r, p) = (Rate::from_bps(word(self.r)), Rate::from_bps(word(self.p)));
        Some(Tspec { r, b: Bytes::new(word(self.b)), p, m: *m, M: *most })
    }
}

impl<P: ProbeObserver> Rsvp<P> {
    /// Refuses one more sender of a session that has as many as allowed.
    pub(crate) fn room_for_sender(&self, sid: BlockId<SessionState>) -> Result<(), Refusal> {
        match self.sessions[sid].psbs.len() >= self.config.max_senders {
            true => Err(Refusal::table_full("senders of this session (max_senders)", self.config.max_senders)),
            false => Ok(()),
        }
    }

    /// True if a sender's address would have port zero and others as source ports (RFC 2205 section 3.2).
    pub(crate) fn mixed_sender_ports(&self, sid: BlockId<SessionState>, template: &SenderTemplate) -> bool {
        match template.src_port {
            0 => self.senders_with_ports.find(&(sid, template.src)).is_some(),
            _ => self.psb_of(sid, &SenderTemplate { src_port: 0, ..*template }).is_some(),
        }
    }

    /// Called when a path state has come into the table.
    pub(crate) fn sender_came(&mut self, id: BlockId<Psb>) {
        let (sid, _, template) = self.sender_of(id);
        if template.src_port != 0 {
            match self.senders_with_ports.find(&(sid, template.src)) {
                Some(count) => self.senders_with_ports[count] += 1,
                None => drop(self.senders_with_ports.insert_alone((sid, template.src), 1)),
            }
        }
        self.hop_changed(id);
    }

    /// Called when a path state is about to leave the table. It may have no route by now; the sums that it
    /// was in have been updated.
    pub(crate) fn sender_goes(&mut self, id: BlockId<Psb>) {
        let (sid, _, template) = self.sender_of(id);
        let count = self.senders_with_ports.find(&(sid, template.src)).filter(|_| template.src_port != 0);
        if let Some(count) = count {
            self.senders_with_ports[count] -= 1;
            if self.senders_with_ports[count] == 0 {
                self.senders_with_ports.remove_alone(count);
            }
        }
    }

    /// Called when a path state has its first previous hop, or another. Notes if not all senders of the
    /// session come from one hop. A note that is kept for longer than it is true only costs a walk.
    pub(crate) fn hop_changed(&mut self, id: BlockId<Psb>) {
        let (sid, ..) = self.sender_of(id);
        let phop = self.psbs[id].phop();
        let other = self.senders(sid).find(|other| *other != id);
        let same = match (phop, other.and_then(|other| self.psbs[other].phop())) {
            (Some(one), Some(other)) => one.is_same(other),
            (Some(_), None) => other.is_none(),
            (None, _) => false,
        };
        let session = &mut self.sessions[sid];
        session.several_hops = !same || (session.several_hops && other.is_some());
    }

    /// Updates the kept sum of a wildcard reservation when a sender under it comes (`true`) or goes.
    pub(crate) fn sum_follows(&mut self, id: BlockId<Psb>, comes: bool) {
        let (sid, ..) = self.sender_of(id);
        let psb = &self.psbs[id];
        let (tspec, entering) = (psb.tspec, psb.is_policed());
        for oif in psb.out.oifs() {
            let Some(at) = self.tcsbs.find(&(sid, *oif, None)) else { continue };
            if let Some(sum) = &mut self.tcsbs[at].senders {
                if comes { sum.add(&tspec, entering) } else { sum.take(&tspec, entering) }
            }
        }
    }

    /// Forgets the sums of a session, which are no longer right; the next use makes them anew.
    pub(crate) fn forget_sums(&mut self, sid: BlockId<SessionState>) {
        let all = self.tcsbs.chain(&self.sessions[sid].tcsbs);
        let kept: alloc::vec::Vec<_> = all.filter(|at| self.tcsbs[*at].senders.is_some()).collect();
        kept.into_iter().for_each(|at| self.tcsbs[at].senders = None);
    }

    /// The terms of the senders under a wildcard reservation: as kept, or by a walk over all of them.
    pub(crate) fn under_wildcard(&mut self, at: &TcsbKey) -> Together {
        let (sid, oif, _) = *at;
        let block = self.tcsbs.find(at);
        if let Some(sum) = block.and_then(|block| self.tcsbs[block].senders.as_deref()) {
            return sum.together();
        }
        let mut sum = Sum::default();
        for id in self.senders(sid).filter(|id| self.psbs[*id].out.takes(oif)) {
            let psb = &self.psbs[id];
            sum.add(&psb.tspec, psb.is_policed());
        }
        let together = sum.together();
        if let Some(block) = block {
            self.tcsbs[block].senders = Some(Box::new(sum));
        }
        together
    }

    /// True if a sender that is new under a wildcard reservation comes from a hop that has been asked for the
    /// very same for another: the present request covers it, as it lists no senders. Then the sender's
    /// request is noted, too.
    pub(crate) fn is_asked_already(&mut self, now: Time, id: BlockId<Psb>) -> bool {
        let (sid, ..) = self.sender_of(id);
        let psb = &self.psbs[id];
        if psb.request.is_some() || psb.blockade.is_some() || psb.confirm.is_some() || self.sessions[sid].several_hops {
            return false;
        }
        let Some(other) = self.senders(sid).find(|other| *other != id) else { return false };
        let (other, Some(request)) = (&self.psbs[other], self.psbs[other].request) else { return false };
        let same = other.out == psb.out && other.blockade.is_none() && request.style == Style::Wf;
        let scoped = self.rsbs.chain(&self.sessions[sid].rsbs).any(|rsb| self.rsbs[rsb].scope().is_some());
        if !same || scoped || self.application_waits(id) || self.wanted(now, id, true) != Some(request.flowspec) {
            return false;
        }
        self.psbs[id].request = Some(UpstreamRequest { credit: 0, ..request });
        self.arm_path(id);
        true
    }

    /// The number of blocks that walks over chains of sessions have looked at, for tests of growth.
    pub fn walked(&self) -> u64 {
        self.psbs.walked() + self.rsbs.walked() + self.tcsbs.walked()
    }
}
