//! RESV REFRESH in the shared styles, SE and WF: one request to a previous hop for all of its senders, with a
//! SCOPE if a wildcard request could come round in a circle (RFC 2205 section 3.4).

use crate::engine::Rsvp;
use crate::lifetime::jittered;
use crate::path_err::HOP_TTL;
use crate::psb::{MOST_CREDIT, Phop, Psb, UpstreamRequest};
use crate::resv_refresh::Push;
use crate::session::SessionState;
use crate::table::BlockId;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{FilterSpec, FlowSpec, Style, Time};
use wire::{Builder, MessageType, RsvpHop};

/// Bytes of a message without the list of senders and the objects passed on, with IPv6 addresses.
const FIXED_PART: usize = 300;
/// Bytes of a FILTER_SPEC with an IPv6 address.
const FILTER_BYTES: usize = 24;

impl<P: ProbeObserver> Rsvp<P> {
    /// Asks the previous hop of a sender for the reservation downstream, for all its senders together.
    pub(crate) fn shared_refresh(&mut self, now: Time, id: BlockId<Psb>, style: Style, push: Push) {
        let (sid, _, filter) = self.sender_of(id);
        let Some(phop) = self.psbs[id].phop().copied() else { return };
        if push == Push::IfNew && style == Style::Wf && self.is_asked_already(now, id) {
            return;
        }
        let named = |rsb| self.rsbs[rsb].shares(&filter);
        if push == Push::IfNew && style == Style::Se && self.psbs[id].request.is_none() {
            // Nobody names it: what is asked for others is as it was.
            if !self.rsbs.chain(&self.sessions[sid].rsbs).any(named) {
                return;
            }
        }
        let group = self.senders_by(sid, &phop);
        let (sum, with) = self.wanted_together(now, &group, style, push != Push::PastBlockade);
        let kept: BTreeSet<u32> = with.iter().map(|id| id.number()).collect();
        let left = |id: &BlockId<Psb>| self.psbs[*id].request.is_some() && !kept.contains(&id.number());
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
            self.psbs[*id].request = None;
        }
        let Some(flowspec) = sum else { return };
        let told = |id: &BlockId<Psb>| self.psbs[*id].request.is_some_and(|r| r.flowspec == flowspec);
        let new = !with.iter().all(told) || (style == Style::Wf && !gone.is_empty());
        if new || push == Push::Now {
            self.send_shared(now, sid, &phop, &with, style, flowspec);
        }
    }

    /// The least flowspec that serves all requests for these senders, and the senders that have a request.
    fn wanted_together(
        &self,
        now: Time,
        group: &[BlockId<Psb>],
        style: Style,
        settle: bool,
    ) -> (Option<FlowSpec>, Vec<BlockId<Psb>>) {
        let mut sum: Option<FlowSpec> = None;
        let mut with = Vec::new();
        for id in group {
            let Some(one) = self.wanted(now, *id, settle) else { continue };
            if style == Style::Wf && !self.is_in_scope(*id) {
                continue;
            }
            sum = Some(sum.and_then(|sum| sum.merged(&one)).unwrap_or(one));
            with.push(*id);
        }
        with.sort_unstable_by_key(|id| self.psbs.key(*id).1);
        (sum, with)
    }

    /// True if any wildcard request at the sender's outgoing interfaces is for it (RFC 2205 section 3.4, rule
    /// 1).
    fn is_in_scope(&self, id: BlockId<Psb>) -> bool {
        let (sid, _, filter) = self.sender_of(id);
        let out = &self.psbs[id].out;
        self.rsbs.chain(&self.sessions[sid].rsbs).any(|rsb| {
            let here = self.rsbs.key(rsb).1.oif().is_none_or(|oif| out.takes(oif));
            here && self.rsbs[rsb].reaches(filter.src)
        })
    }

    /// True if a wildcard request must carry a SCOPE: it goes to several previous hops, or came with one.
    fn needs_scope(&self, sid: BlockId<SessionState>) -> bool {
        self.has_several_hops(sid)
            || self.rsbs.chain(&self.sessions[sid].rsbs).any(|rsb| self.rsbs[rsb].scope().is_some())
    }

    fn send_shared(
        &mut self,
        now: Time,
        sid: BlockId<SessionState>,
        phop: &Phop,
        with: &[BlockId<Psb>],
        style: Style,
        flowspec: FlowSpec,
    ) {
        let waiting = with.iter().any(|id| self.application_waits(*id));
        let next = now + jittered(self.config.refresh, &mut self.pcg);
        let mut passed_on: Option<IpAddr> = None;
        for id in with {
            let psb = &mut self.psbs[*id];
            let credit = psb.request.map_or(0, |r| r.credit).saturating_add(1).min(MOST_CREDIT);
            psb.request = Some(UpstreamRequest { flowspec, style, refresh_at: next, credit });
            // One message, one confirmation: another receiver's goes with the next.
            if passed_on.is_none() || psb.confirm == passed_on {
                passed_on = psb.confirm.take().or(passed_on);
            }
            self.arm_path(*id);
        }
        let Some(src) = self.address_on(phop.iif, phop.addr) else { return };
        let mtu = self.interfaces.get(&phop.iif).map_or(0, |i| i.mtu as usize);
        let carried = self.carried_upstream(with);
        let carried_bytes: usize = carried.iter().map(|f| f.body.len() + 4).sum();
        let filters: Vec<FilterSpec> = with.iter().map(|id| self.psbs.key(*id).1).collect();
        let fit = (mtu.saturating_sub(FIXED_PART + carried_bytes) / FILTER_BYTES).max(1);
        let parts: Vec<&[FilterSpec]> =
            if style == Style::Se { filters.chunks(fit).collect() } else { alloc::vec![&[]] };
        let mut messages = Vec::new();
        for part in parts {
            let mut build = Builder::new(MessageType::Resv, HOP_TTL)
                .session(&self.sessions.key(sid))
                .hop(&RsvpHop { addr: src, lih: phop.lih })
                .time_values(self.config.refresh);
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
            self.send_to_hop(MessageType::Resv, phop.by(), src, phop.addr, build);
        }
    }

    /// Sends a ResvTear to the previous hop of these senders, for the request made for them.
    pub(crate) fn shared_tear(&mut self, gone: &[BlockId<Psb>], style: Style) {
        let Some(first) = gone.first() else { return };
        let (_, session, _) = self.sender_of(*first);
        let psb = &self.psbs[*first];
        let (Some(phop), Some(request)) = (psb.phop().copied(), psb.request) else { return };
        let other = psb.other.as_ref().map(|o| o.phop);
        let filters: Vec<FilterSpec> = gone.iter().map(|id| self.psbs.key(*id).1).collect();
        for id in gone {
            self.psbs[*id].request = None;
            self.psbs[*id].confirm = None;
        }
        for phop in [Some(phop), other].into_iter().flatten() {
            let Some(src) = self.address_on(phop.iif, phop.addr) else { continue };
            let mtu = self.interfaces.get(&phop.iif).map_or(0, |i| i.mtu as usize);
            let carried: usize = self.tear_carries.iter().map(|f| f.body.len() + 4).sum();
            let fit = (mtu.saturating_sub(FIXED_PART + carried) / FILTER_BYTES).max(1);
            let parts: Vec<&[FilterSpec]> =
                if style == Style::Wf { alloc::vec![&[]] } else { filters.chunks(fit).collect() };
            for part in parts {
                let build = Builder::new(MessageType::ResvTear, HOP_TTL)
                    .session(&session)
                    .hop(&RsvpHop { addr: src, lih: phop.lih });
                let build = self.with_what_the_tear_carries(build).style(style).flowspec(&request.flowspec);
                let build = part.iter().fold(build, |build, filter| build.filter_spec(&(*filter).into()));
                self.send_to_hop(MessageType::ResvTear, phop.by(), src, phop.addr, build);
            }
        }
    }
}
