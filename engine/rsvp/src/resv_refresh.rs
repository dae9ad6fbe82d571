//! RESV REFRESH: RFC 2209 section 2.10. What is reserved downstream, and installed, is asked of the previous hop; a
//! local sender is told instead.
//!
//! One Resv message per sender. With the shared styles, the senders of one previous hop share a message.

use crate::engine::Rsvp;
use crate::io::{AppId, Upcall};
use crate::lifetime::jittered;
use crate::path_err::HOP_TTL;
use crate::psb::{Forwarded, MOST_CREDIT, Origin, Phop, Psb, Request};
use crate::rsb::{Confirm, NextHop};
use crate::table::Id;
use crate::update_traffic_control::merge;
use alloc::vec::Vec;
use terms::{FlowSpec, Style, Time};
use wire::{Builder, MessageType, RsvpHop};

/// When to speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Push {
    /// If there is something new to say.
    IfNew,
    /// In any case: the refresh is due, the previous hop is new, or somebody waits for a confirmation.
    Now,
}

impl Rsvp {
    /// Asks the previous hop of a sender for what is reserved downstream, and sets the time of the next refresh.
    pub(crate) fn resv_refresh(&mut self, now: Time, id: Id<Psb>, push: Push) {
        let before = self.psbs[id].request;
        match (self.wanted(id), before) {
            (None, None) => {}
            (None, Some(_)) => self.unreserve(id),
            (Some(flowspec), before) => {
                let new = before.is_none_or(|r| r.flowspec != flowspec);
                if new || push == Push::Now {
                    match self.psbs[id].origin {
                        Origin::Local(app) => self.tell_sender(id, app, flowspec, new),
                        Origin::Hop(phop) => self.send_resv(now, id, &phop, flowspec),
                    }
                }
            }
        }
    }

    /// What is reserved for a sender downstream of here and, where it leaves by an interface, installed.
    fn wanted(&self, id: Id<Psb>) -> Option<FlowSpec> {
        let (sid, _, filter) = self.sender_of(id);
        let oif = self.psbs[id].out.oif();
        let tcsb = oif.and_then(|oif| self.tcsbs.find(&(sid, oif, filter)));
        let mut sum = tcsb.and_then(|t| self.tcsbs[t].installed);
        for rsb in self.rsbs.chain(&self.sessions[sid].rsbs) {
            let (_, nhop, of) = self.rsbs.key(rsb);
            if of == filter && matches!(nhop, NextHop::App(_)) {
                let one = self.rsbs[rsb].flowspec;
                // Two services were not let in side by side.
                sum = Some(sum.and_then(|sum| merge(&sum, &one).ok()).unwrap_or(one));
            }
        }
        sum
    }

    fn tell_sender(&mut self, id: Id<Psb>, app: AppId, flowspec: FlowSpec, new: bool) {
        let (sid, session, template) = self.sender_of(id);
        let psb = &mut self.psbs[id];
        psb.request = Some(Request { flowspec, refresh_at: Time::FOREVER, credit: 0 });
        let receiver = psb.confirm.take();
        if new {
            self.tell(app, Upcall::Resv { session, template, flowspec });
        }
        if let Some(receiver) = receiver {
            self.send_resv_conf(id, &session, receiver, &flowspec);
        }
        self.confirmed(sid, &template, flowspec, template.src);
    }

    fn send_resv(&mut self, now: Time, id: Id<Psb>, phop: &Phop, flowspec: FlowSpec) {
        let (_, session, template) = self.sender_of(id);
        let waiting = self.application_waits(id);
        let next = now + jittered(self.config.refresh, &mut self.pcg);
        let psb = &mut self.psbs[id];
        let credit = psb.request.map_or(0, |r| r.credit).saturating_add(1).min(MOST_CREDIT);
        psb.request = Some(Request { flowspec, refresh_at: next, credit });
        let passed_on = psb.confirm.take();
        let Some(src) = self.address_on(phop.iif, phop.addr) else { return };
        let mut build = Builder::new(MessageType::Resv, HOP_TTL)
            .session(&session)
            .hop(&RsvpHop { addr: src, lih: phop.lih })
            .time_values(self.config.refresh);
        for object in self.carried_upstream(id) {
            build = build.raw(object.class, object.ctype, &object.body);
        }
        if let Some(receiver) = passed_on.or(Some(src).filter(|_| waiting)) {
            build = build.confirm(receiver);
        }
        let build = build.style(Style::Ff).flowspec(&flowspec).filter_spec(&template.into());
        self.send_to_hop(MessageType::Resv, phop.by(), src, phop.addr, build);
    }

    /// What the next hops sent to be passed on, each object once.
    fn carried_upstream(&self, id: Id<Psb>) -> Vec<&Forwarded> {
        let (sid, _, filter) = self.sender_of(id);
        let mut all: Vec<&Forwarded> = Vec::new();
        for rsb in self.rsbs.chain(&self.sessions[sid].rsbs) {
            if self.rsbs.key(rsb).2 == filter {
                let new = self.rsbs[rsb].forward.iter().filter(|f| !all.contains(f));
                let new: Vec<_> = new.collect();
                all.extend(new);
            }
        }
        all
    }

    /// Whether a local application still waits for its confirmation; it is asked for with every Resv until it comes.
    fn application_waits(&self, id: Id<Psb>) -> bool {
        let (sid, _, filter) = self.sender_of(id);
        self.rsbs
            .chain(&self.sessions[sid].rsbs)
            .any(|rsb| self.rsbs.key(rsb).2 == filter && self.rsbs[rsb].confirm == Some(Confirm::Application))
    }
}
