//! RESV MESSAGE ARRIVES: RFC 2209 section 2.4. Each flow descriptor is admitted or refused by itself.

mod shared;

use crate::arrival::Arrival;
use crate::installed::Installation;
use crate::io::Event;
use crate::links::Env;
use crate::passed_on::carried;
use crate::procedure::procedure;
use crate::refusal::{Refusal, option_vector};
use crate::refuse::{Erring, Refusing};
use crate::state::heard::BlockRef;
use crate::state::keys::TcsbKey;
use crate::state::psb::Forwarded;
use crate::state::rsb::{Confirm, NextHop, Request, Rsb, SharedSenders};
use crate::state::session::SessionState;
use crate::state::table::BlockId;
use crate::update_traffic_control::{Asked, UpdateTrafficControl};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::Preemption;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{FilterSpec, FlowSpec, IfIndex, Span, Style};
use wire::Resv;
use wire::iana::{class, error};

/// Most next hops that may ask for one sender of a unicast session on one interface. A path has one; there
/// are two while it changes. An attacker who invents neighbours gets no further, and an error fans out to no
/// more than these.
const MOST_NEXT_HOPS: usize = 4;

/// The same for a multicast session, whose interface may be a link with many routers and receivers.
const MOST_NEXT_HOPS_OF_A_GROUP: usize = 1024;

/// The contents of a Resv that hold for all its flow descriptors.
pub(crate) struct Said {
    pub sid: BlockId<SessionState>,
    pub nhop: NextHop,
    pub oif: IfIndex,
    pub style: Style,
    pub refresh: Span,
    pub confirm: Option<IpAddr>,
    pub direct: bool,
    pub forward: Vec<Forwarded>,
    pub priority: Option<Preemption>,
}

procedure! {
    /// The arrival of a Resv.
    ResvArrival, measured
}

impl<P: ProbeObserver, E: Env> ResvArrival<'_, P, E> {
    pub(crate) fn resv_arrives(&mut self, from: &Arrival, resv: &Resv<'_>) {
        let oif = IfIndex(resv.hop.lih);
        if !self.signalling.links().speaks_on(oif) {
            return self.signalling.drop_message(self.state, from, "Resv with an interface handle that is not ours");
        }
        let quoted = Erring::of(resv);
        let known = self.step(ProbePoint::FindSession, |rsvp| rsvp.state.session(&resv.session));
        let Some(sid) = known.filter(|sid| self.state[*sid].paths() > 0 || self.state.is_adopted(*sid)) else {
            return self.errors().resv_refused(from, resv.hop.addr, &quoted, &Refusal::code(error::NO_PATH, 0));
        };
        let style = self.step(ProbePoint::CheckStyles, |rsvp| rsvp.state.style_of(sid));
        if let Some(other) = style.filter(|style| *style != resv.style) {
            let refusal = Refusal::code(error::BAD_STYLE, option_vector(other));
            return self.errors().resv_refused(from, resv.hop.addr, &quoted, &refusal);
        }
        self.step(ProbePoint::ManageReservation, |rsvp| {
            let said = match rsvp.said(from, resv, sid, oif) {
                Ok(said) => said,
                Err(refusal) => {
                    return rsvp.errors().resv_refused(from, resv.hop.addr, &quoted, &refusal);
                }
            };
            match resv.style {
                Style::Ff => rsvp.distinct_arrive(from, &said, resv),
                Style::Se | Style::Wf => rsvp.shared_arrives(from, &said, resv),
            }
        });
    }

    fn said(&self, from: &Arrival, resv: &Resv<'_>, sid: BlockId<SessionState>, oif: IfIndex) -> Result<Said, Refusal> {
        // Where we know how to merge it, it does not go on as it came.
        let mut forward = carried(&resv.envelope)?;
        forward.retain(|f| !is_priority(f));
        let priority = resv.envelope.preemption();
        Ok(Said {
            sid,
            nhop: NextHop::Hop { oif, addr: resv.hop.addr },
            oif,
            style: resv.style,
            refresh: resv.refresh.min(self.state.config().longest_refresh),
            confirm: resv.confirm,
            direct: from.direct,
            forward,
            priority: priority.map(|p| Preemption { preempting: p.preemption, defending: p.defending }),
        })
    }

    /// Handles the flow descriptors of an FF Resv, each by itself.
    fn distinct_arrive(&mut self, from: &Arrival, said: &Said, resv: &Resv<'_>) {
        for flow in resv.flows() {
            let Some(filter) = flow.filter.and_then(|f| f.ports()) else {
                self.signalling.drop_message(self.state, from, "senders by flow label are not handled");
                continue;
            };
            if self.state.is_adopted(said.sid) && self.state.psb_of(said.sid, &filter).is_none() {
                // Carried in an earlier life of this node: it waits for its Path, and nobody is told that it is unknown.
                self.signalling.say(Event::AwaitingPath { session: resv.session, nhop: resv.hop.addr });
                continue;
            }
            let done = match flow.flow.spec {
                Some(flowspec) => self.flow_arrives(from, said, &filter, flowspec),
                None => Err(Refusal::unsupported_service(flow.flow.service)),
            };
            if let Err(refusal) = done {
                let erring = Erring { filters: alloc::vec![filter], flowspec: flow.flow.spec, ..Erring::of(resv) };
                self.errors().resv_refused(from, resv.hop.addr, &erring, &refusal);
            }
        }
    }

    /// Handles one flow descriptor, FF style.
    fn flow_arrives(
        &mut self,
        from: &Arrival,
        said: &Said,
        filter: &FilterSpec,
        flowspec: FlowSpec,
    ) -> Result<(), Refusal> {
        let at = (said.sid, said.oif, Some(*filter));
        let known = self.state.rsb(&(said.sid, said.nhop, at.2));
        if known.is_some_and(|id| self.only_refreshed(id, said, &flowspec)) {
            return Ok(());
        }
        let Some(psb) = self.state.psb_of(said.sid, filter) else {
            return Err(Refusal::code(error::NO_SENDER, 0));
        };
        if !self.state[psb].out.takes(said.oif) {
            // A next hop that the path has left: its own state will time out, an error would only alarm the receiver.
            self.signalling.drop_message(self.state, from, "Resv from where the path does not go (any more)");
            return Ok(());
        }
        self.admit(said, &at, flowspec, &[], known)?;
        self.keep_reservation(said, &at, flowspec, None, known);
        self.control().police_other_branches(&at);
        if self.state.tcsb(&at).is_some_and(|t| self.state[t].pending == 0) {
            self.installation().reserved(&at);
        }
        Ok(())
    }

    /// Puts a request before traffic control, as if it were kept already.
    #[allow(clippy::too_many_arguments)] // Who, where, what: a struct for one call would only be taken apart again.
    pub(crate) fn admit(
        &mut self,
        said: &Said,
        at: &TcsbKey,
        flowspec: FlowSpec,
        filters: &[FilterSpec],
        known: Option<BlockId<Rsb>>,
    ) -> Result<(), Refusal> {
        if flowspec.rate().as_bps() == 0 {
            return Err(Refusal::code(error::TRAFFIC_CONTROL, error::TC_BAD_FLOWSPEC));
        }
        if known.is_none() {
            self.check_room(said, at)?;
        }
        let Said { nhop, style, priority, refresh, .. } = *said;
        let asked = Asked { nhop, style, flowspec, filters, priority, refresh };
        self.control().check_service(at, &asked)?;
        let Some(due) = self.control().due(at, Some(&asked))? else {
            return Ok(());
        };
        let Err(refused) = self.control().update_traffic_control(at, &due) else {
            return Ok(());
        };
        let mut refusal = self.signalling.links().refused(&self.state.config().node_name, &refused);
        // What was there before stays, for whomever it was (RFC 2205 section 2.5: the first killer reservation).
        refusal.in_place = self.state.tcsb(at).is_some();
        if let Some(id) = known {
            // The larger request keeps the older reservation alive: who asks for more still wants what there is.
            let end = self.signalling.now() + self.state.lifetime(refresh);
            let rsb = &mut self.state[id];
            rsb.refused = true;
            rsb.prolong(end, filters);
            self.state.unheard_resv(id);
        }
        Err(refusal)
    }

    fn check_room(&self, said: &Said, at: &TcsbKey) -> Result<(), Refusal> {
        self.state.room_for_resvs(1)?;
        let (what, most) = match self.state.key(said.sid).dst.is_multicast() {
            true => ("next hops of a multicast session on an interface", MOST_NEXT_HOPS_OF_A_GROUP),
            false => ("next hops of a unicast sender", MOST_NEXT_HOPS),
        };
        if self.state.reservations_at(at).count() >= most { Err(Refusal::table_full(what, most)) } else { Ok(()) }
    }

    /// Prolongs a reservation whose request is unchanged: by far the most frequent case, and two look-ups
    /// long. Its path state exists and takes this interface, or the reservation would have gone with it.
    fn only_refreshed(&mut self, id: BlockId<Rsb>, said: &Said, flowspec: &FlowSpec) -> bool {
        if self.says_something_new(id, said, flowspec) {
            return false;
        }
        let end = self.signalling.now() + self.state.lifetime(said.refresh);
        let rsb = &mut self.state[id];
        rsb.refresh = said.refresh;
        rsb.direct = said.direct;
        if core::mem::replace(&mut rsb.expires, end) > end {
            self.state.arm_resv(id);
        }
        self.state.spoke_of(BlockRef::Resv(id));
        true
    }

    /// True if a request differs from the one kept, senders and scope apart.
    pub(crate) fn says_something_new(&self, id: BlockId<Rsb>, said: &Said, flowspec: &FlowSpec) -> bool {
        let rsb = &self.state[id];
        said.confirm.is_some()
            || rsb.refused
            || rsb.flowspec != *flowspec
            || rsb.forward[..] != said.forward[..]
            || rsb.priority != said.priority
    }

    /// Keeps a request that traffic control has admitted. `shared` are all senders that it is for, if it lists any.
    pub(crate) fn keep_reservation(
        &mut self,
        said: &Said,
        at: &TcsbKey,
        flowspec: FlowSpec,
        shared: Option<Box<SharedSenders>>,
        known: Option<BlockId<Rsb>>,
    ) {
        let end = self.signalling.now() + self.state.lifetime(said.refresh);
        let expires = shared.as_ref().map_or(end, |s| s.first_end().min(end));
        let confirm = said.confirm.map(Confirm::Receiver);
        let (id, changed) = match known {
            Some(id) => {
                let rsb = &mut self.state[id];
                let changed = rsb.flowspec != flowspec || !SharedSenders::same_senders(&rsb.shared, &shared);
                rsb.flowspec = flowspec;
                rsb.shared = shared;
                rsb.refused = false;
                if rsb.forward[..] != said.forward[..] {
                    rsb.forward = said.forward.clone().into();
                }
                rsb.priority = said.priority;
                rsb.confirm = confirm.or(rsb.confirm);
                rsb.refresh = said.refresh;
                rsb.direct = said.direct;
                rsb.expires = expires;
                (id, changed)
            }
            None => {
                let request = Request {
                    style: said.style,
                    flowspec,
                    shared,
                    confirm,
                    priority: said.priority,
                    forward: said.forward.clone().into(),
                    refresh: said.refresh,
                    direct: said.direct,
                };
                (self.state.add_resv((said.sid, said.nhop, at.2), Rsb::new(request, expires)), true)
            }
        };
        self.state.arm_resv(id);
        self.state.spoke_of(BlockRef::Resv(id));
        if said.confirm.is_some() || said.style == Style::Se {
            // A list of senders is read each time: each has its own life.
            self.state.not_a_refresh();
        }
        if changed {
            self.signalling.say_created(self.state, id);
        }
    }

    fn installation(&mut self) -> Installation<'_, P, E> {
        Installation::new(self.env, self.state, self.signalling, self.probe)
    }

    fn control(&mut self) -> UpdateTrafficControl<'_, E> {
        UpdateTrafficControl::new(self.signalling.now(), self.env, self.state)
    }

    fn errors(&mut self) -> Refusing<'_> {
        Refusing::new(self.state, self.signalling)
    }
}

/// True if an object is a POLICY_DATA with just a PREEMPTION_PRI (RFC 2750 section 2, RFC 3181 section 2).
fn is_priority(object: &Forwarded) -> bool {
    let [0, 12, 0, 3, ..] = object.body.get(4..).unwrap_or(&[]) else { return false };
    object.class == class::POLICY_DATA && object.body.len() == 16
}
