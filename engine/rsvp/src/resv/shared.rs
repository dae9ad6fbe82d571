//! RESV MESSAGE ARRIVES in the shared styles, SE and WF: one request of a next hop for several senders, RFC 2209
//! section 2.4. Senders that a Resv does not name any more stay until their own time is over: a next hop may spread a
//! long list over several messages.

use super::ResvArrival;
use crate::arrival::Arrival;
use crate::io::Event;
use crate::links::Env;
use crate::refusal::Refusal;
use crate::refuse::Erring;
use crate::resv::Said;
use crate::state::heard::BlockRef;
use crate::state::rsb::{ListedSender, MOST_FILTERS, MOST_SCOPE, Rsb, SharedSenders};
use crate::state::table::BlockId;
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

impl<P: ProbeObserver, E: Env> ResvArrival<'_, P, E> {
    pub(crate) fn shared_arrives(&mut self, from: &Arrival, said: &Said, resv: &Resv<'_>) {
        let flow = resv.flows().next().map(|f| f.flow);
        let done = self.whose(from, resv).and_then(|whose| match flow.and_then(|flow| flow.spec) {
            Some(flowspec) => self.request_arrives(from, said, whose, flowspec),
            None => Err(Refusal::unsupported_service(flow.map_or(0, |flow| flow.service))),
        });
        if let Err(refusal) = done {
            self.errors().resv_refused(from, resv.hop.addr, &Erring::of(resv), &refusal);
        }
    }

    fn whose(&mut self, from: &Arrival, resv: &Resv<'_>) -> Result<Whose, Refusal> {
        let mut filters = Vec::new();
        for flow in resv.flows() {
            match flow.filter.map(|f| f.ports()) {
                Some(Some(filter)) => filters.push(filter),
                Some(None) => self.signalling.drop_message(self.state, from, "senders by flow label are not handled"),
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

    fn request_arrives(
        &mut self,
        from: &Arrival,
        said: &Said,
        mut whose: Whose,
        flowspec: FlowSpec,
    ) -> Result<(), Refusal> {
        let at = (said.sid, said.oif, None);
        let known = self.state.rsb(&(said.sid, said.nhop, None));
        if known.is_some_and(|id| self.only_named_again(id, said, &whose, &flowspec)) {
            return Ok(());
        }
        if !self.keep_senders_there(from, said, &mut whose)? {
            return Ok(());
        }
        self.admit(said, &at, flowspec, &whose.filters, known)?;
        let end = self.signalling.now() + self.state.lifetime(said.refresh);
        let shared = self.list(known, said.style, whose, end);
        self.keep_reservation(said, &at, flowspec, shared, known);
        self.control().police_other_branches(&at);
        if self.state.tcsb(&at).is_some_and(|t| self.state[t].pending == 0) {
            self.installation().reserved(&at);
        }
        Ok(())
    }

    /// Prolongs an unchanged request, for the senders that it names.
    fn only_named_again(&mut self, id: BlockId<Rsb>, said: &Said, whose: &Whose, flowspec: &FlowSpec) -> bool {
        let rsb = &self.state[id];
        let listed = whose.filters.iter().all(|f| rsb.shares(f));
        if !listed || rsb.scope() != whose.scope.as_deref() || self.says_something_new(id, said, flowspec) {
            return false;
        }
        let end = self.signalling.now() + self.state.lifetime(said.refresh);
        let rsb = &mut self.state[id];
        rsb.refresh = said.refresh;
        rsb.direct = said.direct;
        rsb.prolong(end, &whose.filters);
        self.state.arm_resv(id);
        self.state.spoke_of(BlockRef::Resv(id));
        if said.style == Style::Se {
            self.state.not_a_refresh();
        }
        true
    }

    /// Strikes the senders out of a list that have no path state or do not route to the interface. `false`:
    /// none is left, and no error is due.
    fn keep_senders_there(&mut self, from: &Arrival, said: &Said, whose: &mut Whose) -> Result<bool, Refusal> {
        let session = self.state.key(said.sid);
        let named = |rsvp: &Self, f: &FilterSpec| rsvp.state.psb_of(said.sid, f);
        let (here, nowhere) = match said.style {
            Style::Se => {
                let known = whose.filters.iter().filter(|f| named(self, f).is_some()).count();
                whose.filters.retain(|f| named(self, f).is_some_and(|id| self.state[id].out.takes(said.oif)));
                (whose.filters.len(), known == 0)
            }
            _ => {
                let all = self.state.senders(said.sid);
                (
                    all.filter(|id| self.state[*id].out.takes(said.oif)).count(),
                    self.state.senders(said.sid).next().is_none(),
                )
            }
        };
        if here > 0 {
            return Ok(true);
        }
        if nowhere && self.state.is_adopted(said.sid) {
            let crate::state::rsb::NextHop::Hop { addr: nhop, .. } = said.nhop else { return Ok(false) };
            self.signalling.say(Event::AwaitingPath { session, nhop });
            return Ok(false);
        }
        if nowhere {
            return Err(Refusal::code(error::NO_SENDER, 0));
        }
        self.signalling.drop_message(self.state, from, "Resv from where the path does not go (any more)");
        Ok(false)
    }

    /// The senders that a request is for, with those that it named before.
    fn list(&self, known: Option<BlockId<Rsb>>, style: Style, whose: Whose, end: Time) -> Option<Box<SharedSenders>> {
        let mut shared = SharedSenders { filters: Vec::new(), scope: whose.scope };
        if style == Style::Wf {
            return shared.scope.is_some().then(|| Box::new(shared));
        }
        if let Some(before) = known.and_then(|id| self.state[id].shared.as_ref()) {
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
}
