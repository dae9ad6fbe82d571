//! RESV MESSAGE ARRIVES in the shared styles, SE and WF: one request of a next hop for several senders, RFC 2209
//! section 2.4. Senders that a Resv does not name any more stay until their own time is over: a next hop may spread a
//! long list over several messages.

use crate::engine::{Env, Rsvp, Timer};
use crate::heard::State;
use crate::io::Event;
use crate::lifetime::lifetime;
use crate::receive::Arrival;
use crate::refusal::Refusal;
use crate::resv::Said;
use crate::resv_err::Erring;
use crate::rsb::{ListedSender, MOST_FILTERS, MOST_SCOPE, Rsb, SharedSenders};
use crate::session::SessionState;
use crate::table::BlockId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{FilterSpec, FlowSpec, Style, Time};
use wire::Resv;
use wire::iana::error;

/// The senders that a shared request is for.
pub(crate) struct Whose {
    /// SE: those named, in ascending order.
    pub filters: Vec<FilterSpec>,
    /// WF: its SCOPE.
    pub scope: Option<Box<[IpAddr]>>,
}

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn shared_arrives<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        from: &Arrival,
        said: &Said,
        resv: &Resv<'_>,
    ) {
        let flowspec = resv.flows().next().and_then(|f| f.flow.spec);
        let done = self.whose(from, resv).and_then(|whose| match flowspec {
            Some(flowspec) => self.request_arrives(now, env, from, said, whose, flowspec),
            None => Err(Refusal::code(error::TRAFFIC_CONTROL, error::TC_SERVICE_UNSUPPORTED)),
        });
        if let Err(refusal) = done {
            self.resv_refused(from, resv.hop.addr, &Erring::of(resv), &refusal);
        }
    }

    fn whose(&mut self, from: &Arrival, resv: &Resv<'_>) -> Result<Whose, Refusal> {
        let mut filters = Vec::new();
        for flow in resv.flows() {
            match flow.filter.map(|f| f.ports()) {
                Some(Some(filter)) => filters.push(filter),
                Some(None) => self.drop_message(from, "senders by flow label are not handled"),
                None => {}
            }
        }
        filters.sort_unstable();
        filters.dedup();
        if filters.len() > MOST_FILTERS {
            return Err(Refusal::table_full("senders of a shared reservation", MOST_FILTERS));
        }
        let scope = match resv.scope.filter(|_| resv.style == Style::Wf) {
            Some(scope) if scope.len() > MOST_SCOPE => {
                return Err(Refusal::table_full("addresses in a SCOPE", MOST_SCOPE));
            }
            Some(scope) => {
                let mut all: Vec<IpAddr> = scope.iter().collect();
                all.sort_unstable();
                all.dedup();
                Some(all.into())
            }
            None => None,
        };
        Ok(Whose { filters, scope })
    }

    fn request_arrives<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        from: &Arrival,
        said: &Said,
        mut whose: Whose,
        flowspec: FlowSpec,
    ) -> Result<(), Refusal> {
        let at = (said.sid, said.oif, None);
        let known = self.rsbs.find(&(said.sid, said.nhop, None));
        if known.is_some_and(|id| self.only_named_again(now, id, said, &whose, &flowspec)) {
            return Ok(());
        }
        if !self.keep_senders_there(from, said, &mut whose)? {
            return Ok(());
        }
        self.admit(now, env, said, &at, flowspec, &whose.filters, known)?;
        let end = now + lifetime(said.refresh, self.config.keep);
        let shared = self.list(known, said.style, whose, end);
        self.keep_reservation(now, said, &at, flowspec, shared, known);
        self.police_other_branches(now, env, &at);
        if self.tcsbs.find(&at).is_some_and(|t| self.tcsbs[t].pending == 0) {
            self.reserved(now, &at);
        }
        Ok(())
    }

    /// Prolongs an unchanged request, for the senders that it names.
    fn only_named_again(
        &mut self,
        now: Time,
        id: BlockId<Rsb>,
        said: &Said,
        whose: &Whose,
        flowspec: &FlowSpec,
    ) -> bool {
        let rsb = &self.rsbs[id];
        let listed = whose.filters.iter().all(|f| rsb.shares(f));
        if !listed || rsb.scope() != whose.scope.as_deref() || self.says_something_new(id, said, flowspec) {
            return false;
        }
        let rsb = &mut self.rsbs[id];
        rsb.refresh = said.refresh;
        rsb.direct = said.direct;
        rsb.prolong(now + lifetime(said.refresh, self.config.keep), &whose.filters);
        let at = rsb.expires;
        self.timers.set_by(&mut rsb.alarm, at, Timer::Resv(id));
        self.spoke_of(State::Resv(id));
        if said.style == Style::Se {
            self.not_a_refresh();
        }
        true
    }

    /// Strikes the senders out of a list that have no path state or do not route to the interface. `false`:
    /// none is left, and no error is due.
    fn keep_senders_there(&mut self, from: &Arrival, said: &Said, whose: &mut Whose) -> Result<bool, Refusal> {
        let session = self.sessions.key(said.sid);
        let named = |rsvp: &Self, f: &FilterSpec| rsvp.psb_of(said.sid, f);
        let (here, nowhere) = match said.style {
            Style::Se => {
                let known = whose.filters.iter().filter(|f| named(self, f).is_some()).count();
                whose.filters.retain(|f| named(self, f).is_some_and(|id| self.psbs[id].out.takes(said.oif)));
                (whose.filters.len(), known == 0)
            }
            _ => {
                let all = self.senders(said.sid);
                (all.filter(|id| self.psbs[*id].out.takes(said.oif)).count(), self.senders(said.sid).next().is_none())
            }
        };
        if here > 0 {
            return Ok(true);
        }
        if nowhere && self.is_adopted(said.sid) {
            let crate::rsb::NextHop::Hop { addr: nhop, .. } = said.nhop else { return Ok(false) };
            self.say(Event::AwaitingPath { session, nhop });
            return Ok(false);
        }
        if nowhere {
            return Err(Refusal::code(error::NO_SENDER, 0));
        }
        self.drop_message(from, "Resv from where the path does not go (any more)");
        Ok(false)
    }

    /// The senders that a request is for, with those that it named before.
    fn list(&self, known: Option<BlockId<Rsb>>, style: Style, whose: Whose, end: Time) -> Option<Box<SharedSenders>> {
        let mut shared = SharedSenders { filters: Vec::new(), scope: whose.scope };
        if style == Style::Wf {
            return shared.scope.is_some().then(|| Box::new(shared));
        }
        if let Some(before) = known.and_then(|id| self.rsbs[id].shared.as_ref()) {
            shared.filters = before.filters.clone();
        }
        for filter in whose.filters {
            match shared.place(&filter) {
                Ok(place) => shared.filters[place].expires = end,
                Err(place) => shared.filters.insert(place, ListedSender { filter, expires: end }),
            }
        }
        Some(Box::new(shared))
    }

    /// Strikes senders from a shared-explicit request; the request ends with the last of them.
    pub(crate) fn strike(&mut self, id: BlockId<Rsb>, gone: impl Fn(&ListedSender) -> bool) {
        let rsb = &mut self.rsbs[id];
        if let Some(shared) = &mut rsb.shared {
            shared.filters.retain(|l| !gone(l));
            rsb.expires = shared.first_end();
        }
    }

    /// True if any sender of a session, except this one, routes to an interface.
    pub(crate) fn is_taken_by_another(
        &self,
        sid: BlockId<SessionState>,
        oif: terms::IfIndex,
        but: &FilterSpec,
    ) -> bool {
        let mut others = self.senders(sid).filter(|id| self.psbs.key(*id).1 != *but);
        others.any(|id| self.psbs[id].out.takes(oif))
    }
}
