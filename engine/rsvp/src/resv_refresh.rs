//! RESV REFRESH: RFC 2209 section 2.10. The previous hop is asked for the reservations that are installed
//! downstream; a local sender is told instead.
//!
//! One Resv message for each sender in FF style. In the shared styles the senders of one previous hop share a message
//! (`resv_refresh_shared`).

use crate::bsb::merged_past;
use crate::engine::Rsvp;
use crate::io::{AppId, Upcall};
use crate::lifetime::jittered;
use crate::neighbour::About;
use crate::path_err::HOP_TTL;
use crate::psb::{Forwarded, MOST_CREDIT, Origin, Phop, Psb, UpstreamRequest};
use crate::rsb::{Confirm, NextHop};
use crate::table::BlockId;
use crate::update_traffic_control::higher;
use alloc::vec::Vec;
use terms::ports::Preemption;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{FlowSpec, Style, Time};
use wire::objects::MergeStrategy;
use wire::{Builder, MessageType, PreemptionPriority, RsvpHop};

/// The condition for sending a Resv.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Push {
    /// Send if the request has changed.
    IfNew,
    /// Send in any case: the refresh is due, the previous hop is new, or a receiver waits for a confirmation.
    Now,
    /// After an error: send if the request has changed and is not blockaded (RFC 2209 section 2.6).
    PastBlockade,
}

impl<P: ProbeObserver> Rsvp<P> {
    /// Asks the previous hops of these senders, each once, for the reservations downstream.
    pub(crate) fn refresh_upstream(&mut self, now: Time, senders: Vec<BlockId<Psb>>, push: Push) {
        let mut asked: Vec<Phop> = Vec::new();
        for id in senders {
            let (sid, _, _) = self.sender_of(id);
            if let (Some(phop), Some(Style::Se | Style::Wf)) = (self.psbs[id].phop().copied(), self.style_of(sid)) {
                if asked.iter().any(|a| a.is_same(&phop)) {
                    continue;
                }
                asked.push(phop);
            }
            self.resv_refresh(now, id, push);
            self.arm_path(id);
        }
    }

    /// Asks the previous hop of a sender for the reservation downstream, and schedules the next refresh.
    pub(crate) fn resv_refresh(&mut self, now: Time, id: BlockId<Psb>, push: Push) {
        self.step(ProbePoint::ResvRefresh, |rsvp| rsvp.refresh_resv(now, id, push));
    }

    fn refresh_resv(&mut self, now: Time, id: BlockId<Psb>, push: Push) {
        let style = self.style_of(self.sender_of(id).0);
        if self.psbs[id].request.is_some_and(|r| Some(r.style) != style) {
            // Nothing is reserved any more, or all anew in another style.
            self.unreserve(id);
        }
        match style {
            Some(style @ (Style::Se | Style::Wf)) if self.psbs[id].phop().is_some() => {
                self.shared_refresh(now, id, style, push);
            }
            Some(style) => self.distinct_refresh(now, id, style, push),
            None => {}
        }
    }

    fn distinct_refresh(&mut self, now: Time, id: BlockId<Psb>, style: Style, push: Push) {
        let before = self.psbs[id].request;
        match (self.wanted(now, id, push != Push::PastBlockade), before) {
            (None, None) => {}
            (None, Some(_)) if push == Push::PastBlockade => {}
            (None, Some(_)) => self.unreserve(id),
            (Some(flowspec), before) => {
                let new = before.is_none_or(|r| r.flowspec != flowspec);
                if new || push == Push::Now {
                    match self.psbs[id].origin {
                        Origin::Local(app) => self.tell_sender(id, app, flowspec, style, new),
                        Origin::Hop(phop) => self.send_resv(now, id, &phop, flowspec),
                    }
                }
            }
        }
    }

    /// The reservation to ask for a sender: the merge of the requests downstream that are installed, or come
    /// from local applications. Past a blockade only smaller requests count; with `settle`, the least of all
    /// if none is smaller.
    pub(crate) fn wanted(&self, now: Time, id: BlockId<Psb>, settle: bool) -> Option<FlowSpec> {
        let (sid, _, filter) = self.sender_of(id);
        let psb = &self.psbs[id];
        if self.is_passed_over(id) {
            return None;
        }
        if let Some(bsb) = psb.blockade.as_deref().filter(|b| b.until > now) {
            return merged_past(bsb, now, self.requests_for(id).into_iter(), settle);
        }
        let mut sum: Option<FlowSpec> = None;
        // Two services were not let in side by side.
        let mut add = |one: FlowSpec| sum = Some(sum.and_then(|sum| sum.merged(&one)).unwrap_or(one));
        for oif in psb.out.oifs() {
            if let Some(installed) = self.held_for(sid, *oif, &filter).and_then(|t| self.tcsbs[t].installed()) {
                add(installed);
            }
        }
        for rsb in self.rsbs.chain(&self.sessions[sid].rsbs) {
            if matches!(self.rsbs.key(rsb).1, NextHop::App(_)) && self.is_for(rsb, &filter) {
                add(self.rsbs[rsb].flowspec);
            }
        }
        sum
    }

    /// True if a path state is only remembered, as packets of its sender come in by another interface.
    fn is_passed_over(&self, id: BlockId<Psb>) -> bool {
        self.psbs.key(id).2.is_some()
    }

    /// The requests for a sender, one by one, each as far as it is installed.
    fn requests_for(&self, id: BlockId<Psb>) -> Vec<FlowSpec> {
        let (sid, _, filter) = self.sender_of(id);
        let out = &self.psbs[id].out;
        let mut all = Vec::new();
        for rsb in self.rsbs.chain(&self.sessions[sid].rsbs).filter(|rsb| self.is_for(*rsb, &filter)) {
            let asked = self.rsbs[rsb].flowspec;
            match self.rsbs.key(rsb).1.oif() {
                None => all.push(asked),
                Some(oif) if out.takes(oif) => {
                    let installed = self.held_for(sid, oif, &filter).and_then(|t| self.tcsbs[t].installed());
                    let here = installed.map(|i| if i.serves(&asked) { asked } else { i });
                    all.extend(here);
                }
                Some(_) => {}
            }
        }
        all
    }

    pub(crate) fn tell_sender(&mut self, id: BlockId<Psb>, app: AppId, flowspec: FlowSpec, style: Style, new: bool) {
        let (sid, session, template) = self.sender_of(id);
        let psb = &mut self.psbs[id];
        psb.request = Some(UpstreamRequest { flowspec, style, refresh_at: Time::FOREVER, credit: 0 });
        let receiver = psb.confirm.take();
        if new {
            self.tell(app, Upcall::Resv { session, template, flowspec });
        }
        if let Some(receiver) = receiver {
            self.send_resv_conf(id, &session, receiver, &flowspec, style, &[template]);
        }
        self.confirmed(sid, style, &[template], flowspec, template.src);
    }

    fn send_resv(&mut self, now: Time, id: BlockId<Psb>, phop: &Phop, flowspec: FlowSpec) {
        let (_, session, template) = self.sender_of(id);
        let waiting = self.application_waits(id);
        let next = now + jittered(self.config.refresh, &mut self.pcg);
        let psb = &mut self.psbs[id];
        let credit = psb.request.map_or(0, |r| r.credit).saturating_add(1).min(MOST_CREDIT);
        psb.request = Some(UpstreamRequest { flowspec, style: Style::Ff, refresh_at: next, credit });
        let passed_on = psb.confirm.take();
        let Some(src) = self.address_on(phop.iif, phop.addr) else { return };
        let mut build = Builder::new(MessageType::Resv, HOP_TTL)
            .session(&session)
            .hop(&RsvpHop { addr: src, lih: phop.lih })
            .time_values(self.config.refresh);
        for object in self.carried_upstream(&[id]) {
            build = build.raw(object.class, object.ctype, &object.body);
        }
        if let Some(receiver) = passed_on.or(Some(src).filter(|_| waiting)) {
            build = build.confirm(receiver);
        }
        if let Some(priority) = self.priority_of(&[id]) {
            build = build.preemption(&priority);
        }
        let build = build.style(Style::Ff).flowspec(&flowspec).filter_spec(&template.into());
        let out = (phop.by(), src, phop.addr);
        self.send_to_hop_about(MessageType::Resv, out, build, Some(About::Resv(id)));
    }

    /// The objects that next hops sent to be passed on for these senders, each once.
    pub(crate) fn carried_upstream(&self, senders: &[BlockId<Psb>]) -> Vec<&Forwarded> {
        let Some(sid) = senders.first().map(|id| self.sender_of(*id).0) else { return Vec::new() };
        let mut all: Vec<&Forwarded> = Vec::new();
        for rsb in self.rsbs.chain(&self.sessions[sid].rsbs).filter(|rsb| !self.rsbs[*rsb].forward.is_empty()) {
            if senders.iter().any(|id| self.is_for(rsb, &self.psbs.key(*id).1)) {
                let new = self.rsbs[rsb].forward.iter().filter(|f| !all.contains(f));
                let new: Vec<_> = new.collect();
                all.extend(new);
            }
        }
        all
    }

    /// The pre-emption priority of the request for these senders: the highest of the requests merged in it.
    pub(crate) fn priority_of(&self, senders: &[BlockId<Psb>]) -> Option<PreemptionPriority> {
        let sid = self.sender_of(*senders.first()?).0;
        let mut highest = None;
        for rsb in self.rsbs.chain(&self.sessions[sid].rsbs).filter(|rsb| self.rsbs[*rsb].priority.is_some()) {
            if senders.iter().any(|id| self.is_for(rsb, &self.psbs.key(*id).1)) {
                highest = higher(highest, self.rsbs[rsb].priority);
            }
        }
        let Preemption { preempting: preemption, defending } = highest?;
        Some(PreemptionPriority { flags: 0, strategy: MergeStrategy::HighestPriority, error: 0, preemption, defending })
    }

    /// True if a local application still waits for its confirmation; every Resv asks for one until it comes.
    pub(crate) fn application_waits(&self, id: BlockId<Psb>) -> bool {
        let (sid, _, filter) = self.sender_of(id);
        self.rsbs
            .chain(&self.sessions[sid].rsbs)
            .any(|rsb| self.rsbs[rsb].confirm == Some(Confirm::Application) && self.is_for(rsb, &filter))
    }
}
