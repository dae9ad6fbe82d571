//! Sessions with many senders: what would take a walk over all of them for each message is kept as they come and go,
//! so that a message costs the same whether a session has ten senders or a thousand.
//!
//! Three things: which source addresses have senders with ports (RFC 2205 section 3.2), whether all senders come from one
//! previous hop, and what the senders under a wildcard reservation send together (`Path_Te`, section 2.2).

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

/// What senders send together, so that one can be added or taken out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    count: u32,
    /// Of them, those that are policed as they enter.
    entering: u32,
    r: u128,
    b: u128,
    p: u128,
    /// How many have each `m`, and each `M`.
    least: BTreeMap<u32, u32>,
    most: BTreeMap<u32, u32>,
}

/// What traffic control is told of senders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Together {
    /// There is more than one.
    pub several: bool,
    /// At least one of them is policed as it enters.
    pub enters: bool,
    /// What they send together; `None`: there are none.
    pub tspec: Option<Tspec>,
}

impl Sum {
    /// One more.
    pub fn add(&mut self, tspec: &Tspec, entering: bool) {
        self.count += 1;
        self.entering += u32::from(entering);
        self.r += u128::from(tspec.r.as_bps());
        self.b += u128::from(tspec.b.get());
        self.p += u128::from(tspec.p.as_bps());
        *self.least.entry(tspec.m).or_default() += 1;
        *self.most.entry(tspec.M).or_default() += 1;
    }

    /// One that was added is there no more.
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

    /// What is told of them.
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
    /// Whether a session may have one more sender.
    pub(crate) fn room_for_sender(&self, sid: BlockId<SessionState>) -> Result<(), Refusal> {
        match self.sessions[sid].psbs.len() >= self.config.max_senders {
            true => Err(Refusal::table_full("senders of this session (max_senders)", self.config.max_senders)),
            false => Ok(()),
        }
    }

    /// Whether a sender's address appears with a source port of zero and with others (RFC 2205 section 3.2).
    pub(crate) fn mixed_sender_ports(&self, sid: BlockId<SessionState>, template: &SenderTemplate) -> bool {
        match template.src_port {
            0 => self.senders_with_ports.find(&(sid, template.src)).is_some(),
            _ => self.psb_of(sid, &SenderTemplate { src_port: 0, ..*template }).is_some(),
        }
    }

    /// A path state has come into the table.
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

    /// A path state is about to leave the table. It may be nowhere routed by now; what it was summed under has been told.
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

    /// A path state has its first previous hop, or another. The session remembers if not all come from one; that it says
    /// so for longer than it is true costs a walk, and nothing else.
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

    /// A sender under a wildcard reservation comes (`true`) or goes: the sum that is kept there follows.
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

    /// Sums that a sender may be in are no longer right; the next who asks makes them anew.
    pub(crate) fn forget_sums(&mut self, sid: BlockId<SessionState>) {
        let all = self.tcsbs.chain(&self.sessions[sid].tcsbs);
        let kept: alloc::vec::Vec<_> = all.filter(|at| self.tcsbs[*at].senders.is_some()).collect();
        kept.into_iter().for_each(|at| self.tcsbs[at].senders = None);
    }

    /// What the senders under a wildcard reservation send together: as it is kept, or by a walk over all of them.
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

    /// A sender that is new under a wildcard reservation, from a hop that has been asked for the very same for another:
    /// the request that is there covers it, for it lists nobody. Whether it was so.
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

    /// How many blocks the walks over the chains of sessions have looked at since the start: what tests of growth count.
    pub fn walked(&self) -> u64 {
        self.psbs.walked() + self.rsbs.walked() + self.tcsbs.walked()
    }
}
