//! UPDATE TRAFFIC CONTROL: RFC 2209 section 2.9. The requests of the next hops on one interface for one
//! sender, or for those that share, are merged and put before traffic control, which admits the sum at once
//! or changes nothing.

use crate::engine::{Env, Rsvp};
use crate::lifetime::lifetime;
use crate::many::Sum;
use crate::psb::Psb;
use crate::refusal::Refusal;
use crate::rsb::{MOST_FILTERS, NextHop};
use crate::table::BlockId;
use crate::tcsb::{ReservationTerms, Tcsb, TcsbKey};
use alloc::vec::Vec;
use terms::ports::{Police, Preemption, TcRequest};
use terms::probe::ProbeObserver;
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

impl<P: ProbeObserver> Rsvp<P> {
    /// The merged request of the next hops of one interface; with `new`, as if that request were kept
    /// already. `None`: there is no request.
    pub(crate) fn due(&self, at: &TcsbKey, new: Option<&Asked<'_>>) -> Result<Option<Due>, Refusal> {
        let mut flowspec = new.map(|n| n.flowspec);
        let mut priority = new.and_then(|n| n.priority);
        let mut refresh = new.map_or(Span::ZERO, |n| n.refresh);
        let mut style = new.map(|n| n.style);
        let mut filters: Vec<FilterSpec> = new.map_or(Vec::new(), |n| n.filters.to_vec());
        for id in self.reservations_at(at) {
            let rsb = &self.rsbs[id];
            filters.extend(rsb.listed());
            if new.is_some_and(|n| n.nhop == self.rsbs.key(id).1) {
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
        let lifetime = lifetime(refresh, self.config.keep);
        let due = |(flowspec, style)| Due { style, flowspec, filters, priority, lifetime };
        Ok(flowspec.zip(style).map(due))
    }

    /// Refuses a request that would meet another service for the same senders on its way upstream, here or on
    /// another interface: error 21, value 1.
    pub(crate) fn check_service(&self, at: &TcsbKey, new: &Asked<'_>) -> Result<(), Refusal> {
        let (sid, _, of) = *at;
        for id in self.rsbs.chain(&self.sessions[sid].rsbs) {
            let (_, nhop, filter) = self.rsbs.key(id);
            let meets = match (of, new.style) {
                (Some(_), _) => filter == of,
                (None, Style::Se) => new.filters.iter().any(|f| self.rsbs[id].shares(f)),
                (None, _) => true,
            };
            if meets && nhop != new.nhop {
                merge(&self.rsbs[id].flowspec, &new.flowspec)?;
            }
        }
        Ok(())
    }

    /// The other terms for traffic control: the senders' traffic together, and the places of policing.
    fn told(&mut self, at: &TcsbKey, due: &Due) -> ReservationTerms {
        let (sid, oif, of) = *at;
        let together = match (of, due.style) {
            (None, Style::Wf) => self.under_wildcard(at),
            (of, _) => {
                let mut sum = Sum::default();
                let listed = of.as_ref().map_or(&due.filters[..], core::slice::from_ref);
                for psb in listed.iter().filter_map(|filter| self.psb_of(sid, filter)).map(|id| &self.psbs[id]) {
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
        if !self.sessions.key(sid).dst.is_multicast() {
            return false;
        }
        self.rsbs.chain(&self.sessions[sid].rsbs).any(|id| {
            let (_, nhop, filter) = self.rsbs.key(id);
            let rsb = &self.rsbs[id];
            let same = filter == of && (due.style != Style::Se || due.filters.iter().any(|f| rsb.shares(f)));
            same && nhop.oif().is_some_and(|other| other != oif) && !due.flowspec.serves(&rsb.flowspec)
        })
    }

    /// Puts the merged request before traffic control.
    ///
    /// # Errors
    /// [`Refused`]: the earlier reservation is unchanged.
    pub(crate) fn update_traffic_control<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        at: &TcsbKey,
        due: &Due,
    ) -> Result<(), Refused> {
        let told = self.told(at, due);
        self.put(now, env, at, due, told)
    }

    fn put<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        at: &TcsbKey,
        due: &Due,
        told: ReservationTerms,
    ) -> Result<(), Refused> {
        let (sid, oif, of) = *at;
        let alone = of.map(|f| [f]);
        let request = TcRequest {
            oif,
            session: self.sessions.key(sid),
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
        let Some(id) = self.tcsbs.find(at) else {
            let handle = env.add(now, &request)?;
            let block = Tcsb::new(due.style, handle, flowspec, told, due.filters.clone().into());
            let id = self.tcsbs.insert(&mut self.sessions[sid].tcsbs, *at, block);
            self.handles.insert_alone(handle, id);
            return Ok(());
        };
        let block = &mut self.tcsbs[id];
        block.ask(flowspec);
        if (block.admitted(), block.told) == (flowspec, told) && *block.filters == *due.filters {
            return Ok(());
        }
        env.modify(now, block.handle, &request)?;
        block.admit(flowspec);
        block.told = told;
        if *block.filters != *due.filters {
            block.filters = due.filters.clone().into();
        }
        block.pending += 1;
        Ok(())
    }

    /// Updates the other branches after a change on one interface: they may have become smaller branches.
    pub(crate) fn police_other_branches<E: Env>(&mut self, now: Time, env: &mut E, at: &TcsbKey) {
        let sid = at.0;
        if self.sessions[sid].tcsbs.is_empty() || !self.sessions.key(sid).dst.is_multicast() {
            return;
        }
        let others: Vec<_> = self.tcsbs.chain(&self.sessions[sid].tcsbs).map(|id| self.tcsbs.key(id)).collect();
        for other in others.into_iter().filter(|o| o != at && (o.2 == at.2)) {
            self.tell_anew(now, env, &other);
        }
    }

    /// Tells traffic control the senders' traffic and the places of policing anew; the reservation stays as
    /// it is. If traffic control refuses, the terms that it was told before stay.
    fn tell_anew<E: Env>(&mut self, now: Time, env: &mut E, at: &TcsbKey) {
        let Some(id) = self.tcsbs.find(at) else { return };
        let Ok(Some(due)) = self.due(at, None) else { return };
        let (asked, admitted) = (self.tcsbs[id].asked(), self.tcsbs[id].admitted());
        let told = self.told(at, &due);
        if told != self.tcsbs[id].told {
            let _kept = self.put(now, env, at, &Due { flowspec: admitted, ..due }, told);
            self.tcsbs[id].ask(asked);
        }
    }

    /// Updates a reservation whose senders have changed, or have other Tspecs.
    pub(crate) fn senders_changed<E: Env>(&mut self, now: Time, env: &mut E, at: &TcsbKey) {
        self.tell_anew(now, env, at);
    }

    /// Adds a new sender to the reservations that it shares.
    pub(crate) fn sender_joins<E: Env>(&mut self, now: Time, env: &mut E, psb: BlockId<Psb>) {
        self.sum_follows(psb, true);
        self.tell_interfaces_of(now, env, psb);
    }

    /// Updates the reservations of a sender that has another Tspec, or is new to its interfaces.
    pub(crate) fn sender_changed<E: Env>(&mut self, now: Time, env: &mut E, psb: BlockId<Psb>) {
        let (sid, ..) = self.sender_of(psb);
        self.forget_sums(sid);
        self.tell_interfaces_of(now, env, psb);
    }

    fn tell_interfaces_of<E: Env>(&mut self, now: Time, env: &mut E, psb: BlockId<Psb>) {
        let (sid, _, filter) = self.sender_of(psb);
        // No more than a copy, unless it is a tree.
        let out = self.psbs[psb].out.clone();
        for oif in out.oifs() {
            if let Some(id) = self.held_for(sid, *oif, &filter) {
                let at = self.tcsbs.key(id);
                self.senders_changed(now, env, &at);
            }
        }
    }

    /// Called after requests have gone: puts the rest on the interface before traffic control, or gives all
    /// back. A plane that cannot shrink keeps the larger reservation.
    pub(crate) fn settle<E: Env>(&mut self, now: Time, env: &mut E, at: &TcsbKey) {
        match self.due(at, None) {
            Ok(Some(due)) if self.tcsbs.find(at).is_some() => {
                let _kept = self.update_traffic_control(now, env, at, &due);
                self.police_other_branches(now, env, at);
            }
            _ => self.release_traffic_control(now, env, at),
        }
    }

    /// Gives back the reservation that traffic control holds, if there is one.
    pub(crate) fn release_traffic_control<E: Env>(&mut self, now: Time, env: &mut E, at: &TcsbKey) {
        let Some(id) = self.tcsbs.find(at) else { return };
        let gone = self.tcsbs.remove(&mut self.sessions[at.0].tcsbs, id);
        if let Some(handle) = self.handles.find(&gone.handle) {
            self.handles.remove_alone(handle);
        }
        env.remove(now, gone.handle);
        self.police_other_branches(now, env, at);
    }
}
