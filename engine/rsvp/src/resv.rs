//! RESV MESSAGE ARRIVES: RFC 2209 section 2.4. Each flow descriptor is admitted or refused by itself.

use crate::engine::Timer;
use crate::engine::{Env, Rsvp};
use crate::heard::{State, UNHEARD};
use crate::io::Event;
use crate::lifetime::lifetime;
use crate::path_err::with_text;
use crate::psb::Forwarded;
use crate::receive::{Arrival, carried};
use crate::refusal::{Refusal, option_vector};
use crate::resv_err::Erring;
use crate::rsb::{Confirm, NextHop, Rsb, SharedSenders};
use crate::session::SessionState;
use crate::short_list::Few;
use crate::table::BlockId;
use crate::tcsb::TcsbKey;
use crate::timers::Alarm;
use crate::update_traffic_control::Asked;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::Preemption;
use terms::probe::{ProbeObserver, ProbePoint};
use terms::{FilterSpec, FlowSpec, IfIndex, Span, Style, Time};
use wire::iana::{class, error};
use wire::{Builder, MessageType, Resv, Salvage};

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

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn resv_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, resv: &Resv<'_>) {
        let oif = IfIndex(resv.hop.lih);
        if !self.speaks_on(oif) {
            return self.drop_message(from, "Resv with an interface handle that is not ours");
        }
        let quoted = Erring::of(resv);
        let known = self.step(ProbePoint::FindSession, |rsvp| rsvp.sessions.find(&resv.session));
        let Some(sid) = known.filter(|sid| !self.sessions[*sid].psbs.is_empty() || self.is_adopted(*sid)) else {
            return self.resv_refused(from, resv.hop.addr, &quoted, &Refusal::code(error::NO_PATH, 0));
        };
        let style = self.step(ProbePoint::CheckStyles, |rsvp| rsvp.style_of(sid));
        if let Some(other) = style.filter(|style| *style != resv.style) {
            let refusal = Refusal::code(error::BAD_STYLE, option_vector(other));
            return self.resv_refused(from, resv.hop.addr, &quoted, &refusal);
        }
        self.step(ProbePoint::ManageReservation, |rsvp| {
            let said = match rsvp.said(from, resv, sid, oif) {
                Ok(said) => said,
                Err(refusal) => return rsvp.resv_refused(from, resv.hop.addr, &quoted, &refusal),
            };
            match resv.style {
                Style::Ff => rsvp.distinct_arrive(now, env, from, &said, resv),
                Style::Se | Style::Wf => rsvp.shared_arrives(now, env, from, &said, resv),
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
            refresh: resv.refresh.min(self.config.longest_refresh),
            confirm: resv.confirm,
            direct: from.direct,
            forward,
            priority: priority.map(|p| Preemption { preempting: p.preemption, defending: p.defending }),
        })
    }

    pub(crate) fn is_adopted(&self, sid: BlockId<SessionState>) -> bool {
        self.sessions[sid].adopted_until.is_some()
    }

    /// Handles the flow descriptors of an FF Resv, each by itself.
    fn distinct_arrive<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, said: &Said, resv: &Resv<'_>) {
        for flow in resv.flows() {
            let Some(filter) = flow.filter.and_then(|f| f.ports()) else {
                self.drop_message(from, "senders by flow label are not handled");
                continue;
            };
            if self.is_adopted(said.sid) && self.psb_of(said.sid, &filter).is_none() {
                // Carried in an earlier life of this node: it waits for its Path, and nobody is told that it is unknown.
                self.say(Event::AwaitingPath { session: resv.session, nhop: resv.hop.addr });
                continue;
            }
            let done = match flow.flow.spec {
                Some(flowspec) => self.flow_arrives(now, env, from, said, &filter, flowspec),
                None => Err(Refusal::code(error::TRAFFIC_CONTROL, error::TC_SERVICE_UNSUPPORTED)),
            };
            if let Err(refusal) = done {
                let erring = Erring { filters: alloc::vec![filter], flowspec: flow.flow.spec, ..Erring::of(resv) };
                self.resv_refused(from, resv.hop.addr, &erring, &refusal);
            }
        }
    }

    /// Handles one flow descriptor, FF style.
    fn flow_arrives<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        from: &Arrival,
        said: &Said,
        filter: &FilterSpec,
        flowspec: FlowSpec,
    ) -> Result<(), Refusal> {
        let at = (said.sid, said.oif, Some(*filter));
        let known = self.rsbs.find(&(said.sid, said.nhop, at.2));
        if known.is_some_and(|id| self.only_refreshed(now, id, said, &flowspec)) {
            return Ok(());
        }
        let Some(psb) = self.psb_of(said.sid, filter) else {
            return Err(Refusal::code(error::NO_SENDER, 0));
        };
        if !self.psbs[psb].out.takes(said.oif) {
            // A next hop that the path has left: its own state will time out, an error would only alarm the receiver.
            self.drop_message(from, "Resv from where the path does not go (any more)");
            return Ok(());
        }
        self.admit(now, env, said, &at, flowspec, &[], known)?;
        self.keep_reservation(now, said, &at, flowspec, None, known);
        self.police_other_branches(now, env, &at);
        if self.tcsbs.find(&at).is_some_and(|t| self.tcsbs[t].pending == 0) {
            self.reserved(now, &at);
        }
        Ok(())
    }

    /// Puts a request before traffic control, as if it were kept already.
    #[allow(clippy::too_many_arguments)] // Who, where, what: a struct for one call would only be taken apart again.
    pub(crate) fn admit<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
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
        self.check_service(at, &asked)?;
        let Some(due) = self.due(at, Some(&asked))? else { return Ok(()) };
        let Err(refused) = self.update_traffic_control(now, env, at, &due) else { return Ok(()) };
        let mut refusal = self.refused(&refused);
        // What was there before stays, for whomever it was (RFC 2205 section 2.5: the first killer reservation).
        refusal.in_place = self.tcsbs.find(at).is_some();
        if let Some(id) = known {
            // The larger request keeps the older reservation alive: who asks for more still wants what there is.
            let rsb = &mut self.rsbs[id];
            rsb.refused = true;
            rsb.prolong(now + lifetime(refresh, self.config.keep), filters);
            self.unheard_resv(id);
        }
        Err(refusal)
    }

    fn check_room(&self, said: &Said, at: &TcsbKey) -> Result<(), Refusal> {
        if self.rsbs.len() >= self.config.max_resvs {
            return Err(Refusal::table_full("reservation states", self.config.max_resvs));
        }
        let (what, most) = match self.sessions.key(said.sid).dst.is_multicast() {
            true => ("next hops of a multicast session on an interface", MOST_NEXT_HOPS_OF_A_GROUP),
            false => ("next hops of a unicast sender", MOST_NEXT_HOPS),
        };
        if self.reservations_at(at).count() >= most { Err(Refusal::table_full(what, most)) } else { Ok(()) }
    }

    /// Prolongs a reservation whose request is unchanged: by far the most frequent case, and two look-ups
    /// long. Its path state exists and takes this interface, or the reservation would have gone with it.
    fn only_refreshed(&mut self, now: Time, id: BlockId<Rsb>, said: &Said, flowspec: &FlowSpec) -> bool {
        if self.says_something_new(id, said, flowspec) {
            return false;
        }
        let rsb = &mut self.rsbs[id];
        let before = rsb.expires;
        rsb.refresh = said.refresh;
        rsb.direct = said.direct;
        rsb.expires = now + lifetime(said.refresh, self.config.keep);
        if rsb.expires < before {
            let at = rsb.expires;
            self.timers.set_by(&mut rsb.alarm, at, Timer::Resv(id));
        }
        self.spoke_of(State::Resv(id));
        true
    }

    /// True if a request differs from the one kept, senders and scope apart.
    pub(crate) fn says_something_new(&self, id: BlockId<Rsb>, said: &Said, flowspec: &FlowSpec) -> bool {
        let rsb = &self.rsbs[id];
        said.confirm.is_some()
            || rsb.refused
            || rsb.flowspec != *flowspec
            || rsb.forward[..] != said.forward[..]
            || rsb.priority != said.priority
    }

    /// Keeps a request that traffic control has admitted. `shared` are all senders that it is for, if it lists any.
    pub(crate) fn keep_reservation(
        &mut self,
        now: Time,
        said: &Said,
        at: &TcsbKey,
        flowspec: FlowSpec,
        shared: Option<Box<SharedSenders>>,
        known: Option<BlockId<Rsb>>,
    ) {
        let end = now + lifetime(said.refresh, self.config.keep);
        let expires = shared.as_ref().map_or(end, |s| s.first_end().min(end));
        let confirm = said.confirm.map(Confirm::Receiver);
        let (id, changed) = match known {
            Some(id) => {
                let rsb = &mut self.rsbs[id];
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
                let rsb = Rsb {
                    style: said.style,
                    flowspec,
                    earlier: Few::NONE,
                    shared,
                    confirm,
                    priority: said.priority,
                    refused: false,
                    forward: said.forward.clone().into(),
                    refresh: said.refresh,
                    direct: said.direct,
                    expires,
                    heard: UNHEARD,
                    alarm: Alarm::OFF,
                };
                (self.rsbs.insert(&mut self.sessions[said.sid].rsbs, (said.sid, said.nhop, at.2), rsb), true)
            }
        };
        self.timers.set_by(&mut self.rsbs[id].alarm, expires, Timer::Resv(id));
        self.spoke_of(State::Resv(id));
        if said.confirm.is_some() || said.style == Style::Se {
            // A list of senders is read each time: each has its own life.
            self.not_a_refresh();
        }
        if changed {
            self.say_created(id);
        }
    }

    /// Reports that a reservation state came or changed.
    pub(crate) fn say_created(&mut self, id: BlockId<Rsb>) {
        let (sid, nhop, template) = self.rsbs.key(id);
        let (session, oif) = (self.sessions.key(sid), nhop.oif());
        let Rsb { style, flowspec, .. } = self.rsbs[id];
        self.say(Event::ResvCreated { session, template, style, oif, flowspec });
    }

    /// Answers an unreadable Resv, if the parts that the answer needs can be read (RFC 2205 section 3.10).
    pub(crate) fn answer_resv(&mut self, from: &Arrival, found: &Salvage<'_>, hop: IpAddr, refusal: &Refusal) {
        let Some((src, session)) = self.address_on(from.iif, hop).zip(found.session) else { return };
        let build = Builder::new(MessageType::ResvErr, crate::path_err::HOP_TTL).session(&session);
        let build = build.hop(&wire::RsvpHop { addr: src, lih: from.iif.0 }).error_spec(&refusal.spec(src));
        let mut build = with_text(build, refusal).style(found.style.unwrap_or(Style::Ff));
        for object in found.quotable() {
            build = build.object(&object);
        }
        self.send_to_hop(MessageType::ResvErr, from.back(), src, hop, build);
    }
}

/// True if an object is a POLICY_DATA with just a PREEMPTION_PRI (RFC 2750 section 2, RFC 3181 section 2).
fn is_priority(object: &Forwarded) -> bool {
    let [0, 12, 0, 3, ..] = object.body.get(4..).unwrap_or(&[]) else { return false };
    object.class == class::POLICY_DATA && object.body.len() == 16
}

impl Rsb {
    /// Moves the expiry: of the whole, or, if senders are listed, of those named.
    pub(crate) fn prolong(&mut self, end: Time, named: &[FilterSpec]) {
        match &mut self.shared {
            Some(shared) if self.style == Style::Se => {
                for filter in named {
                    if let Ok(place) = shared.place(filter) {
                        shared.filters[place].expires = end;
                    }
                }
                self.expires = shared.first_end();
            }
            _ => self.expires = end,
        }
    }
}
