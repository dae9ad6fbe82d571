//! UPDATE TRAFFIC CONTROL: RFC 2209 section 2.9. The requests of the next hops on one interface for one
//! sender, or for those that share, are merged and put before traffic control, which admits the sum at once
//! or changes nothing.

use crate::lifetime::lifetime;
use crate::links::Env;
use crate::refusal::Refusal;
use crate::state::State;
use crate::state::keys::TcsbKey;
use crate::state::psb::Psb;
use crate::state::rsb::{MOST_FILTERS, NextHop};
use crate::state::sum::Sum;
use crate::state::table::BlockId;
use crate::state::tcsb::{ReservationTerms, Tcsb};
use alloc::vec::Vec;
use terms::ports::{Police, Preemption, TcRequest};
use terms::{FilterSpec, FlowSpec, Refused, Span, Style, Time, Wild};
use wire::iana::error;

/// The least flowspec that serves both (RFC 2211 section 8, RFC 2212). Two services do not merge (error 21, value 1).
pub(crate) fn merge(a: &FlowSpec, b: &FlowSpec) -> Result<FlowSpec, Refusal> {
    a.merged(b).ok_or_else(|| Refusal::code(error::TRAFFIC_CONTROL, error::TC_SERVICE_CONFLICT))
}

/// The higher of two priorities; a stated priority counts more than none.
pub(crate) fn higher(a: Option<Preemption>, b: Option<Preemption>) -> Option<Preemption> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.merged(b)),
        (one, other) => one.or(other),
    }
}

/// A next hop's request, before it is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub nhop: NextHop,
    pub style: Style,
    pub flowspec: FlowSpec,
    /// SE: the senders that it names, besides those that it asked for before.
    pub filters: &'a [FilterSpec],
    pub priority: Option<Preemption>,
    pub refresh: Span,
}

/// The merged request for one interface.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    style: Style,
    pub flowspec: FlowSpec,
    filters: Vec<FilterSpec>,
    priority: Option<Preemption>,
    lifetime: Span,
}

/// The reservations that traffic control holds, and their change.
pub(crate) struct UpdateTrafficControl<'a, E> {
    now: Time,
    env: &'a mut E,
    state: &'a mut State,
}

impl<'a, E: Env> UpdateTrafficControl<'a, E> {
    /// With the parts that it works on.
    pub fn new(now: Time, env: &'a mut E, state: &'a mut State) -> UpdateTrafficControl<'a, E> {
        UpdateTrafficControl { now, env, state }
    }

    /// The merged request of the next hops of one interface; with `new`, as if that request were kept
    /// already. `None`: there is no request.
    pub(crate) fn due(&self, at: &TcsbKey, new: Option<&Asked<'_>>) -> Result<Option<Due>, Refusal> {
        let mut flowspec = new.map(|n| n.flowspec);
        let mut priority = new.and_then(|n| n.priority);
        let mut refresh = new.map_or(Span::ZERO, |n| n.refresh);
        let mut style = new.map(|n| n.style);
        let mut filters: Vec<FilterSpec> = new.map_or(Vec::new(), |n| n.filters.to_vec());
        for id in self.state.reservations_at(at) {
            let rsb = &self.state[id];
            filters.extend(rsb.listed());
            if new.is_some_and(|n| n.nhop == self.state.key(id).1) {
                continue;
            }
            flowspec = Some(match flowspec {
                Some(sum) => merge(&sum, &rsb.flowspec)?,
                None => rsb.flowspec,
            });
            priority = higher(priority, rsb.priority);
            refresh = refresh.max(rsb.refresh);
            style = Some(rsb.style);
        }
        filters.sort_unstable();
        filters.dedup();
        if filters.len() > MOST_FILTERS {
            return Err(Refusal::table_full("senders of a shared reservation", MOST_FILTERS));
        }
        let lifetime = lifetime(refresh, self.state.config().keep);
        let due = |(flowspec, style)| Due { style, flowspec, filters, priority, lifetime };
        Ok(flowspec.zip(style).map(due))
    }

    /// Refuses a request that would meet another service for the same senders on its way upstream, here or on
    /// another interface: error 21, value 1.
    pub(crate) fn check_service(&self, at: &TcsbKey, new: &Asked<'_>) -> Result<(), Refusal> {
        let (sid, _, of) = *at;
        for id in self.state.rsbs_of(sid) {
            let (_, nhop, filter) = self.state.key(id);
            let meets = match (of, new.style) {
                (Some(_), _) => filter == of,
                (None, Style::Se) => new.filters.iter().any(|f| self.state[id].shares(f)),
                (None, _) => true,
            };
            if meets && nhop != new.nhop {
                merge(&self.state[id].flowspec, &new.flowspec)?;
            }
        }
        Ok(())
    }

    /// The other terms for traffic control: the senders' traffic together, and the places of policing.
    fn told(&mut self, at: &TcsbKey, due: &Due) -> ReservationTerms {
        let (sid, oif, of) = *at;
        let together = match (of, due.style) {
            (None, Style::Wf) => self.state.under_wildcard(at),
            (of, _) => {
                let mut sum = Sum::default();
                let listed = of.as_ref().map_or(&due.filters[..], core::slice::from_ref);
                for psb in listed.iter().filter_map(|filter| self.state.psb_of(sid, filter)).map(|id| &self.state[id]) {
                    if of.is_some() || psb.out.takes(oif) {
                        sum.add(&psb.tspec, psb.is_policed());
                    }
                }
                sum.together()
            }
        };
        let branch = self.is_smaller_branch(at, due);
        let police = Police { entry: together.enters, merge: together.several, branch };
        ReservationTerms { path_te: together.tspec.unwrap_or(*due.flowspec.tspec()), police, priority: due.priority }
    }

    /// `B_Police_Flag`: true if the reservation here does not serve a request on another interface for the
    /// same senders.
    fn is_smaller_branch(&self, at: &TcsbKey, due: &Due) -> bool {
        let (sid, oif, of) = *at;
        if !self.state.key(sid).dst.is_multicast() {
            return false;
        }
        self.state.rsbs_of(sid).any(|id| {
            let (_, nhop, filter) = self.state.key(id);
            let rsb = &self.state[id];
            let same = filter == of && (due.style != Style::Se || due.filters.iter().any(|f| rsb.shares(f)));
            same && nhop.oif().is_some_and(|other| other != oif) && !due.flowspec.serves(&rsb.flowspec)
        })
    }

    /// Puts the merged request before traffic control.
    ///
    /// # Errors
    /// [`Refused`]: the earlier reservation is unchanged.
    pub(crate) fn update_traffic_control(&mut self, at: &TcsbKey, due: &Due) -> Result<(), Refused> {
        let told = self.told(at, due);
        self.put(at, due, told)
    }

    fn put(&mut self, at: &TcsbKey, due: &Due, told: ReservationTerms) -> Result<(), Refused> {
        let (sid, oif, of) = *at;
        let alone = of.map(|f| [f]);
        let request = TcRequest {
            oif,
            session: self.state.key(sid),
            style: due.style,
            filters: alone.as_ref().map_or(&due.filters[..], |f| &f[..]),
            wild: Wild::NONE,
            flowspec: due.flowspec,
            path_te: told.path_te,
            police: told.police,
            lifetime: due.lifetime,
            priority: told.priority,
        };
        let flowspec = due.flowspec;
        let Some(id) = self.state.tcsb(at) else {
            let handle = self.env.add(self.now, &request)?;
            let block = Tcsb::new(due.style, handle, flowspec, told, due.filters.clone().into());
            self.state.add_tcsb(*at, block);
            return Ok(());
        };
        let block = &mut self.state[id];
        block.ask(flowspec);
        if (block.admitted(), block.told) == (flowspec, told) && *block.filters == *due.filters {
            return Ok(());
        }
        self.env.modify(self.now, block.handle, &request)?;
        block.admit(flowspec);
        block.told = told;
        if *block.filters != *due.filters {
            block.filters = due.filters.clone().into();
        }
        block.pending += 1;
        Ok(())
    }

    /// Updates the other branches after a change on one interface: they may have become smaller branches.
    pub(crate) fn police_other_branches(&mut self, at: &TcsbKey) {
        let sid = at.0;
        if !self.state[sid].is_installed() || !self.state.key(sid).dst.is_multicast() {
            return;
        }
        let others: Vec<_> = self.state.tcsbs_of(sid).map(|id| self.state.key(id)).collect();
        for other in others.into_iter().filter(|o| o != at && (o.2 == at.2)) {
            self.tell_anew(&other);
        }
    }

    /// Tells traffic control the senders' traffic and the places of policing anew; the reservation stays as
    /// it is. If traffic control refuses, the terms that it was told before stay.
    fn tell_anew(&mut self, at: &TcsbKey) {
        let Some(id) = self.state.tcsb(at) else { return };
        let Ok(Some(due)) = self.due(at, None) else { return };
        let (asked, admitted) = (self.state[id].asked(), self.state[id].admitted());
        let told = self.told(at, &due);
        if told != self.state[id].told {
            let _kept = self.put(at, &Due { flowspec: admitted, ..due }, told);
            self.state[id].ask(asked);
        }
    }

    /// Updates a reservation whose senders have changed, or have other Tspecs.
    pub(crate) fn senders_changed(&mut self, at: &TcsbKey) {
        self.tell_anew(at);
    }

    /// Adds a new sender to the reservations that it shares.
    pub(crate) fn sender_joins(&mut self, psb: BlockId<Psb>) {
        self.state.sum_follows(psb, true);
        self.tell_interfaces_of(psb);
    }

    /// Updates the reservations of a sender that has another Tspec, or is new to its interfaces.
    pub(crate) fn sender_changed(&mut self, psb: BlockId<Psb>) {
        let (sid, ..) = self.state.sender_of(psb);
        self.state.forget_sums(sid);
        self.tell_interfaces_of(psb);
    }

    fn tell_interfaces_of(&mut self, psb: BlockId<Psb>) {
        let (sid, _, filter) = self.state.sender_of(psb);
        // No more than a copy, unless it is a tree.
        let out = self.state[psb].out.clone();
        for oif in out.oifs() {
            if let Some(id) = self.state.held_for(sid, *oif, &filter) {
                let at = self.state.key(id);
                self.senders_changed(&at);
            }
        }
    }

    /// Called after requests have gone: puts the rest on the interface before traffic control, or gives all
    /// back. A plane that cannot shrink keeps the larger reservation.
    pub(crate) fn settle(&mut self, at: &TcsbKey) {
        match self.due(at, None) {
            Ok(Some(due)) if self.state.tcsb(at).is_some() => {
                let _kept = self.update_traffic_control(at, &due);
                self.police_other_branches(at);
            }
            _ => self.release_traffic_control(at),
        }
    }

    /// Gives back the reservation that traffic control holds, if there is one.
    pub(crate) fn release_traffic_control(&mut self, at: &TcsbKey) {
        let Some(id) = self.state.tcsb(at) else { return };
        let gone = self.state.remove_tcsb(id);
        self.env.remove(self.now, gone.handle);
        self.police_other_branches(at);
    }
}
