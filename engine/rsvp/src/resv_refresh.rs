//! RESV REFRESH: RFC 2209 section 2.10. The previous hop is asked for the reservations that are installed
//! downstream; a local sender is told instead.
//!
//! One Resv message for each sender in FF style. In the shared styles the senders of one previous hop share a message
//! (`shared`).

mod shared;
mod tear;

use crate::io::{AppId, Upcall};
use crate::neighbour::About;
use crate::outbox::HOP_TTL;
use crate::resv_conf::Confirmations;
use crate::signalling::Signalling;
use crate::state::State;
use crate::state::bsb::merged_past;
use crate::state::psb::{Forwarded, MOST_CREDIT, Origin, Phop, Psb, UpstreamRequest};
use crate::state::rsb::NextHop;
use crate::state::table::BlockId;
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

/// The requests to previous hops.
pub(crate) struct ResvRefresh<'a, P> {
    now: Time,
    state: &'a mut State,
    signalling: &'a mut Signalling,
    probe: &'a mut P,
}

impl<'a, P: ProbeObserver> ResvRefresh<'a, P> {
    /// With the parts that it works on.
    pub fn new(state: &'a mut State, signalling: &'a mut Signalling, probe: &'a mut P) -> ResvRefresh<'a, P> {
        ResvRefresh { now: signalling.now(), state, signalling, probe }
    }

    /// Asks the previous hops of these senders, each once, for the reservations downstream.
    pub(crate) fn refresh_upstream(&mut self, senders: Vec<BlockId<Psb>>, push: Push) {
        let mut asked: Vec<Phop> = Vec::new();
        for id in senders {
            let (sid, _, _) = self.state.sender_of(id);
            if let (Some(phop), Some(Style::Se | Style::Wf)) =
                (self.state[id].phop().copied(), self.state.style_of(sid))
            {
                if asked.iter().any(|a| a.is_same(&phop)) {
                    continue;
                }
                asked.push(phop);
            }
            self.resv_refresh(id, push);
            self.state.arm_path(id);
        }
    }

    /// Asks the previous hop of a sender for the reservation downstream, and schedules the next refresh.
    pub(crate) fn resv_refresh(&mut self, id: BlockId<Psb>, push: Push) {
        self.probe.enter(ProbePoint::ResvRefresh);
        self.refresh_resv(id, push);
        self.probe.leave(ProbePoint::ResvRefresh);
    }

    fn refresh_resv(&mut self, id: BlockId<Psb>, push: Push) {
        let style = self.state.style_of(self.state.sender_of(id).0);
        if self.state[id].request.is_some_and(|r| Some(r.style) != style) {
            // Nothing is reserved any more, or all anew in another style.
            self.unreserve(id);
        }
        match style {
            Some(style @ (Style::Se | Style::Wf)) if self.state[id].phop().is_some() => {
                self.shared_refresh(id, style, push);
            }
            Some(style) => self.distinct_refresh(id, style, push),
            None => {}
        }
    }

    fn distinct_refresh(&mut self, id: BlockId<Psb>, style: Style, push: Push) {
        let before = self.state[id].request;
        match (self.wanted(id, push != Push::PastBlockade), before) {
            (None, None) => {}
            (None, Some(_)) if push == Push::PastBlockade => {}
            (None, Some(_)) => self.unreserve(id),
            (Some(flowspec), before) => {
                let new = before.is_none_or(|r| r.flowspec != flowspec);
                if new || push == Push::Now {
                    match self.state[id].origin {
                        Origin::Local(app) => self.tell_sender(id, app, flowspec, style, new),
                        Origin::Hop(phop) => self.send_resv(id, &phop, flowspec),
                    }
                }
            }
        }
    }

    /// The reservation to ask for a sender: the merge of the requests downstream that are installed, or come
    /// from local applications. Past a blockade only smaller requests count; with `settle`, the least of all
    /// if none is smaller.
    pub(crate) fn wanted(&self, id: BlockId<Psb>, settle: bool) -> Option<FlowSpec> {
        let (sid, _, filter) = self.state.sender_of(id);
        let psb = &self.state[id];
        if self.is_passed_over(id) {
            return None;
        }
        if let Some(bsb) = psb.blockade.as_deref().filter(|b| b.until > self.now) {
            return merged_past(bsb, self.now, self.requests_for(id).into_iter(), settle);
        }
        let mut sum: Option<FlowSpec> = None;
        // Two services were not let in side by side.
        let mut add = |one: FlowSpec| sum = Some(sum.and_then(|sum| sum.merged(&one)).unwrap_or(one));
        for oif in psb.out.oifs() {
            if let Some(installed) = self.state.held_for(sid, *oif, &filter).and_then(|t| self.state[t].installed()) {
                add(installed);
            }
        }
        for rsb in self.state.rsbs_of(sid) {
            if matches!(self.state.key(rsb).1, NextHop::App(_)) && self.state.is_for(rsb, &filter) {
                add(self.state[rsb].flowspec);
            }
        }
        sum
    }

    /// True if a path state is only remembered, as packets of its sender come in by another interface.
    fn is_passed_over(&self, id: BlockId<Psb>) -> bool {
        self.state.key(id).2.is_some()
    }

    /// The requests for a sender, one by one, each as far as it is installed.
    fn requests_for(&self, id: BlockId<Psb>) -> Vec<FlowSpec> {
        let (sid, _, filter) = self.state.sender_of(id);
        let out = &self.state[id].out;
        let mut all = Vec::new();
        for rsb in self.state.rsbs_of(sid).filter(|rsb| self.state.is_for(*rsb, &filter)) {
            let asked = self.state[rsb].flowspec;
            match self.state.key(rsb).1.oif() {
                None => all.push(asked),
                Some(oif) if out.takes(oif) => {
                    let installed = self.state.held_for(sid, oif, &filter).and_then(|t| self.state[t].installed());
                    let here = installed.map(|i| if i.serves(&asked) { asked } else { i });
                    all.extend(here);
                }
                Some(_) => {}
            }
        }
        all
    }

    pub(crate) fn tell_sender(&mut self, id: BlockId<Psb>, app: AppId, flowspec: FlowSpec, style: Style, new: bool) {
        let (sid, session, template) = self.state.sender_of(id);
        let psb = &mut self.state[id];
        psb.request = Some(UpstreamRequest { flowspec, style, refresh_at: Time::FOREVER, credit: 0 });
        let receiver = psb.confirm.take();
        if new {
            self.signalling.tell(app, Upcall::Resv { session, template, style, flowspec });
        }
        if let Some(receiver) = receiver {
            self.confirmations().send_resv_conf(id, &session, receiver, &flowspec, style, &[template]);
        }
        self.confirmations().confirmed(sid, style, &[template], flowspec, template.src);
    }

    fn send_resv(&mut self, id: BlockId<Psb>, phop: &Phop, flowspec: FlowSpec) {
        let (_, session, template) = self.state.sender_of(id);
        let waiting = self.state.application_waits(id);
        let next = self.state.next_refresh(self.now);
        let psb = &mut self.state[id];
        let credit = psb.request.map_or(0, |r| r.credit).saturating_add(1).min(MOST_CREDIT);
        psb.request = Some(UpstreamRequest { flowspec, style: Style::Ff, refresh_at: next, credit });
        let passed_on = psb.confirm.take();
        let Some(src) = self.signalling.links().address_on(phop.iif, phop.addr) else { return };
        let mut build = Builder::new(MessageType::Resv, HOP_TTL)
            .session(&session)
            .hop(&RsvpHop { addr: src, lih: phop.lih })
            .time_values(self.state.config().refresh);
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
        self.signalling.send_to_hop_about(self.state, MessageType::Resv, out, build, Some(About::Resv(id)));
    }

    /// The objects that next hops sent to be passed on for these senders, each once.
    pub(crate) fn carried_upstream(&self, senders: &[BlockId<Psb>]) -> Vec<&Forwarded> {
        let Some(sid) = senders.first().map(|id| self.state.sender_of(*id).0) else { return Vec::new() };
        let mut all: Vec<&Forwarded> = Vec::new();
        for rsb in self.state.rsbs_of(sid).filter(|rsb| !self.state[*rsb].forward.is_empty()) {
            if senders.iter().any(|id| self.state.is_for(rsb, &self.state.key(*id).1)) {
                let new = self.state[rsb].forward.iter().filter(|f| !all.contains(f));
                let new: Vec<_> = new.collect();
                all.extend(new);
            }
        }
        all
    }

    /// The pre-emption priority of the request for these senders: the highest of the requests merged in it.
    pub(crate) fn priority_of(&self, senders: &[BlockId<Psb>]) -> Option<PreemptionPriority> {
        let sid = self.state.sender_of(*senders.first()?).0;
        let mut highest = None;
        for rsb in self.state.rsbs_of(sid).filter(|rsb| self.state[*rsb].priority.is_some()) {
            if senders.iter().any(|id| self.state.is_for(rsb, &self.state.key(*id).1)) {
                highest = higher(highest, self.state[rsb].priority);
            }
        }
        let Preemption { preempting: preemption, defending } = highest?;
        Some(PreemptionPriority { flags: 0, strategy: MergeStrategy::HighestPriority, error: 0, preemption, defending })
    }

    fn confirmations(&mut self) -> Confirmations<'_> {
        Confirmations::new(self.state, self.signalling)
    }
}
