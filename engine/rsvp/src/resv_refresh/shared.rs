//! RESV REFRESH in the shared styles, SE and WF: one request to a previous hop for all of its senders, with a
//! SCOPE if a wildcard request could come round in a circle (RFC 2205 section 3.4).

use super::ResvRefresh;
use crate::outbox::HOP_TTL;
use crate::resv_refresh::Push;
use crate::state::psb::{MOST_CREDIT, Phop, Psb, UpstreamRequest};
use crate::state::rsb::Rsb;
use crate::state::session::SessionState;
use crate::state::table::BlockId;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{FilterSpec, FlowSpec, Style};
use wire::{Builder, MessageType, RsvpHop};

/// Bytes of a message without the list of senders and the objects passed on, with IPv6 addresses.
pub(super) const FIXED_PART: usize = 300;
/// Bytes of a FILTER_SPEC with an IPv6 address.
pub(super) const FILTER_BYTES: usize = 24;

impl<P: ProbeObserver> ResvRefresh<'_, P> {
    /// Asks the previous hop of a sender for the reservation downstream, for all its senders together.
    pub(crate) fn shared_refresh(&mut self, id: BlockId<Psb>, style: Style, push: Push) {
        let (sid, _, filter) = self.state.sender_of(id);
        let Some(phop) = self.state[id].phop().copied() else { return };
        if push == Push::IfNew && style == Style::Wf && self.is_asked_already(id) {
            return;
        }
        let named = |rsb: BlockId<Rsb>| self.state[rsb].shares(&filter);
        if push == Push::IfNew && style == Style::Se && self.state[id].request.is_none() {
            // Nobody names it: what is asked for others is as it was.
            if !self.state.rsbs_of(sid).any(named) {
                return;
            }
        }
        let group = self.state.senders_by(sid, &phop);
        let (sum, with) = self.wanted_together(&group, style, push != Push::PastBlockade);
        let kept: BTreeSet<u32> = with.iter().map(|id| id.number()).collect();
        let left = |id: &BlockId<Psb>| self.state[*id].request.is_some() && !kept.contains(&id.number());
        let gone: Vec<_> = group.into_iter().filter(left).collect();
        if push == Push::PastBlockade && (sum.is_none() || !gone.is_empty()) {
            // For one of them all that is asked is blockaded: nothing new is to be said (RFC 2209 section 2.10, step 3).
            return;
        }
        // A wildcard tear takes all; as long as some are left, their new SCOPE says who is not.
        if style == Style::Se || with.is_empty() {
            self.shared_tear(&gone, style);
        }
        for id in &gone {
            self.state[*id].request = None;
        }
        let Some(flowspec) = sum else { return };
        let told = |id: &BlockId<Psb>| self.state[*id].request.is_some_and(|r| r.flowspec == flowspec);
        let new = !with.iter().all(told) || (style == Style::Wf && !gone.is_empty());
        if new || push == Push::Now {
            self.send_shared(sid, &phop, &with, style, flowspec);
        }
    }

    /// True if a sender that is new under a wildcard reservation comes from a hop that has been asked for the
    /// very same for another: the present request covers it, as it lists no senders. Then the sender's
    /// request is noted, too.
    fn is_asked_already(&mut self, id: BlockId<Psb>) -> bool {
        let (sid, ..) = self.state.sender_of(id);
        let psb = &self.state[id];
        if psb.request.is_some()
            || psb.blockade.is_some()
            || psb.confirm.is_some()
            || self.state[sid].has_several_hops()
        {
            return false;
        }
        let Some(other) = self.state.senders(sid).find(|other| *other != id) else { return false };
        let (other, Some(request)) = (&self.state[other], self.state[other].request) else { return false };
        let same = other.out == psb.out && other.blockade.is_none() && request.style == Style::Wf;
        let scoped = self.state.rsbs_of(sid).any(|rsb| self.state[rsb].scope().is_some());
        if !same || scoped || self.state.application_waits(id) || self.wanted(id, true) != Some(request.flowspec) {
            return false;
        }
        self.state[id].request = Some(UpstreamRequest { credit: 0, ..request });
        self.state.arm_path(id);
        true
    }

    /// The least flowspec that serves all requests for these senders, and the senders that have a request.
    fn wanted_together(
        &self,
        group: &[BlockId<Psb>],
        style: Style,
        settle: bool,
    ) -> (Option<FlowSpec>, Vec<BlockId<Psb>>) {
        let mut sum: Option<FlowSpec> = None;
        let mut with = Vec::new();
        for id in group {
            let Some(one) = self.wanted(*id, settle) else { continue };
            if style == Style::Wf && !self.is_in_scope(*id) {
                continue;
            }
            sum = Some(sum.and_then(|sum| sum.merged(&one)).unwrap_or(one));
            with.push(*id);
        }
        with.sort_unstable_by_key(|id| self.state.key(*id).1);
        (sum, with)
    }

    /// True if any wildcard request at the sender's outgoing interfaces is for it (RFC 2205 section 3.4, rule
    /// 1).
    fn is_in_scope(&self, id: BlockId<Psb>) -> bool {
        let (sid, _, filter) = self.state.sender_of(id);
        let out = &self.state[id].out;
        self.state.rsbs_of(sid).any(|rsb| {
            let here = self.state.key(rsb).1.oif().is_none_or(|oif| out.takes(oif));
            here && self.state[rsb].reaches(filter.src)
        })
    }

    /// True if a wildcard request must carry a SCOPE: it goes to several previous hops, or came with one.
    fn needs_scope(&self, sid: BlockId<SessionState>) -> bool {
        self.state.has_several_hops(sid) || self.state.rsbs_of(sid).any(|rsb| self.state[rsb].scope().is_some())
    }

    fn send_shared(
        &mut self,
        sid: BlockId<SessionState>,
        phop: &Phop,
        with: &[BlockId<Psb>],
        style: Style,
        flowspec: FlowSpec,
    ) {
        let waiting = with.iter().any(|id| self.state.application_waits(*id));
        let next = self.state.next_refresh(self.now);
        let mut passed_on: Option<IpAddr> = None;
        for id in with {
            let psb = &mut self.state[*id];
            let credit = psb.request.map_or(0, |r| r.credit).saturating_add(1).min(MOST_CREDIT);
            psb.request = Some(UpstreamRequest { flowspec, style, refresh_at: next, credit });
            // One message, one confirmation: another receiver's goes with the next.
            if passed_on.is_none() || psb.confirm == passed_on {
                passed_on = psb.confirm.take().or(passed_on);
            }
            self.state.arm_path(*id);
        }
        let Some(src) = self.signalling.links().address_on(phop.iif, phop.addr) else { return };
        let mtu = self.signalling.links().mtu(phop.iif).map_or(0, |mtu| mtu as usize);
        let carried = self.carried_upstream(with);
        let carried_bytes: usize = carried.iter().map(|f| f.body.len() + 4).sum();
        let filters: Vec<FilterSpec> = with.iter().map(|id| self.state.key(*id).1).collect();
        let fit = (mtu.saturating_sub(FIXED_PART + carried_bytes) / FILTER_BYTES).max(1);
        let parts: Vec<&[FilterSpec]> =
            if style == Style::Se { filters.chunks(fit).collect() } else { alloc::vec![&[]] };
        let mut messages = Vec::new();
        for part in parts {
            let mut build = Builder::new(MessageType::Resv, HOP_TTL)
                .session(&self.state.key(sid))
                .hop(&RsvpHop { addr: src, lih: phop.lih })
                .time_values(self.state.config().refresh);
            for object in &carried {
                build = build.raw(object.class, object.ctype, &object.body);
            }
            if let Some(receiver) = passed_on.or(Some(src).filter(|_| waiting)) {
                build = build.confirm(receiver);
            }
            if let Some(priority) = self.priority_of(with) {
                build = build.preemption(&priority);
            }
            if style == Style::Wf && self.needs_scope(sid) {
                let mut scope: Vec<IpAddr> = filters.iter().map(|f| f.src).collect();
                scope.dedup();
                build = build.scope(&scope);
            }
            build = build.style(style).flowspec(&flowspec);
            messages.push(part.iter().fold(build, |build, filter| build.filter_spec(&(*filter).into())));
        }
        for build in messages {
            self.signalling.send_to_hop(self.state, MessageType::Resv, (phop.by(), src, phop.addr), build);
        }
    }
}
