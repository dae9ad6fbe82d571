//! RESV MESSAGE ARRIVES: RFC 2209 section 2.4. Each flow descriptor is admitted or refused for itself.

use crate::engine::Timer;
use crate::engine::{Env, Rsvp};
use crate::heard::{State, UNHEARD};
use crate::io::Event;
use crate::lifetime::lifetime;
use crate::path_err::with_text;
use crate::psb::Forwarded;
use crate::receive::{Arrival, carried};
use crate::refusal::Refusal;
use crate::resv_err::Erring;
use crate::rsb::{Confirm, NextHop, Rsb};
use crate::session::SessionState;
use crate::table::Id;
use crate::timers::Alarm;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{FilterSpec, FlowSpec, IfIndex, Span, Style, Time};
use wire::iana::error;
use wire::{Builder, MessageType, Resv, Salvage};

/// Most next hops that may ask for one sender of a unicast session on one interface. A path has one; there are two while
/// it changes. Whoever invents neighbours gets no further, and an error fans out to no more than these.
const MOST_NEXT_HOPS: usize = 4;

/// What a Resv says for all its flow descriptors.
struct Said {
    sid: Id<SessionState>,
    nhop: NextHop,
    oif: IfIndex,
    refresh: Span,
    confirm: Option<IpAddr>,
    direct: bool,
    forward: Vec<Forwarded>,
}

impl Rsvp {
    pub(crate) fn resv_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, resv: &Resv<'_>) {
        let oif = IfIndex(resv.hop.lih);
        if !self.speaks_on(oif) {
            return self.drop_message(from, "Resv with an interface handle that is not ours");
        }
        let erring = |filter, flowspec| Erring { session: resv.session, style: resv.style, filter, flowspec };
        let first = resv.flows().next();
        let quoted = erring(first.and_then(|f| f.filter?.ports()), first.and_then(|f| f.flow.spec));
        if resv.style != Style::Ff {
            let refusal = Refusal::code(error::UNKNOWN_STYLE, 0);
            return self.resv_refused(from, resv.hop.addr, &quoted, &refusal);
        }
        let known = self.sessions.find(&resv.session);
        let Some(sid) = known.filter(|sid| !self.sessions[*sid].psbs.is_empty() || self.is_adopted(*sid)) else {
            return self.resv_refused(from, resv.hop.addr, &quoted, &Refusal::code(error::NO_PATH, 0));
        };
        let said = match self.said(from, resv, sid, oif) {
            Ok(said) => said,
            Err(refusal) => return self.resv_refused(from, resv.hop.addr, &quoted, &refusal),
        };
        for flow in resv.flows() {
            let Some(filter) = flow.filter.and_then(|f| f.ports()) else {
                self.drop_message(from, "senders by flow label are not handled");
                continue;
            };
            if self.is_adopted(sid) && self.psb_of(sid, &filter).is_none() {
                // Carried in an earlier life of this node: it waits for its Path, and nobody is told that it is unknown.
                self.say(Event::AwaitingPath { session: resv.session, nhop: resv.hop.addr });
                continue;
            }
            let done = match flow.flow.spec {
                Some(flowspec) => self.flow_arrives(now, env, from, &said, &filter, flowspec),
                None => Err(Refusal::code(error::TRAFFIC_CONTROL, error::TC_SERVICE_UNSUPPORTED)),
            };
            if let Err(refusal) = done {
                self.resv_refused(from, resv.hop.addr, &erring(Some(filter), flow.flow.spec), &refusal);
            }
        }
    }

    fn said(&self, from: &Arrival, resv: &Resv<'_>, sid: Id<SessionState>, oif: IfIndex) -> Result<Said, Refusal> {
        let nhop = NextHop::Hop { oif, addr: resv.hop.addr };
        let (refresh, confirm, direct) = (resv.refresh, resv.confirm, from.direct);
        Ok(Said { sid, nhop, oif, refresh, confirm, direct, forward: carried(&resv.envelope)? })
    }

    fn is_adopted(&self, sid: Id<SessionState>) -> bool {
        self.sessions[sid].adopted_until.is_some()
    }

    /// One flow descriptor, FF style.
    fn flow_arrives<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        from: &Arrival,
        said: &Said,
        filter: &FilterSpec,
        flowspec: FlowSpec,
    ) -> Result<(), Refusal> {
        let known = self.rsbs.find(&(said.sid, said.nhop, *filter));
        if known.is_some_and(|id| self.only_refreshed(now, id, said, &flowspec)) {
            return Ok(());
        }
        let Some(psb) = self.psb_of(said.sid, filter) else {
            return Err(Refusal::code(error::NO_SENDER, 0));
        };
        if self.psbs[psb].out.oif() != Some(said.oif) {
            // A next hop that the path has left: its own state will time out, an error would only alarm the receiver.
            self.drop_message(from, "Resv from where the path does not go (any more)");
            return Ok(());
        }
        if flowspec.rate().as_bps() == 0 {
            return Err(Refusal::code(error::TRAFFIC_CONTROL, error::TC_BAD_FLOWSPEC));
        }
        if known.is_none() && self.rsbs.len() >= self.config.max_resvs {
            return Err(Refusal::table_full("reservation states", self.config.max_resvs));
        }
        if known.is_none() && self.next_hops_of(said, filter) >= MOST_NEXT_HOPS {
            return Err(Refusal::table_full("next hops of a unicast sender", MOST_NEXT_HOPS));
        }
        let at = (said.sid, said.oif, *filter);
        let merged = self.merged(&at, Some((said.nhop, flowspec)))?.unwrap_or(flowspec);
        let life = lifetime(said.refresh, self.config.keep);
        if let Err(refused) = self.update_traffic_control(now, env, &at, merged, self.psbs[psb].tspec, life) {
            let mut refusal = self.refused(&refused);
            if let Some(id) = known {
                // The larger request keeps the older reservation alive: who asks for more still wants what there is.
                refusal.in_place = true;
                self.rsbs[id].refused = true;
                self.unheard_resv(id);
                self.rsbs[id].expires = now + life;
            }
            return Err(refusal);
        }
        self.keep_reservation(now, said, filter, flowspec, known);
        if self.tcsbs.find(&at).is_some_and(|t| self.tcsbs[t].pending == 0) {
            self.reserved(now, &at);
        }
        Ok(())
    }

    /// Prolongs a reservation whose request says nothing new: by far the most frequent case, and two look-ups long. Its
    /// path state is there and takes this interface, or the reservation would have gone with it.
    fn only_refreshed(&mut self, now: Time, id: Id<Rsb>, said: &Said, flowspec: &FlowSpec) -> bool {
        let rsb = &mut self.rsbs[id];
        let news = said.confirm.is_some() || rsb.refused || rsb.flowspec != *flowspec || rsb.forward != said.forward;
        if news {
            return false;
        }
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

    fn next_hops_of(&self, said: &Said, filter: &FilterSpec) -> usize {
        let all = self.reservations_of(said.sid, filter).into_iter();
        all.filter(|id| self.rsbs.key(*id).1.oif() == Some(said.oif)).count()
    }

    fn keep_reservation(
        &mut self,
        now: Time,
        said: &Said,
        filter: &FilterSpec,
        flowspec: FlowSpec,
        known: Option<Id<Rsb>>,
    ) {
        let expires = now + lifetime(said.refresh, self.config.keep);
        let confirm = said.confirm.map(Confirm::Receiver);
        let (id, changed) = match known {
            Some(id) => {
                let rsb = &mut self.rsbs[id];
                let changed = rsb.flowspec != flowspec;
                rsb.flowspec = flowspec;
                rsb.refused = false;
                if rsb.forward != said.forward {
                    rsb.forward = said.forward.clone();
                }
                rsb.confirm = confirm.or(rsb.confirm);
                rsb.refresh = said.refresh;
                rsb.direct = said.direct;
                rsb.expires = expires;
                (id, changed)
            }
            None => {
                let rsb = Rsb {
                    style: Style::Ff,
                    flowspec,
                    earlier: Vec::new(),
                    confirm,
                    refused: false,
                    forward: said.forward.clone(),
                    refresh: said.refresh,
                    direct: said.direct,
                    expires,
                    heard: UNHEARD,
                    alarm: Alarm::OFF,
                };
                (self.rsbs.insert(&mut self.sessions[said.sid].rsbs, (said.sid, said.nhop, *filter), rsb), true)
            }
        };
        self.timers.set_by(&mut self.rsbs[id].alarm, expires, Timer::Resv(id));
        self.spoke_of(State::Resv(id));
        if said.confirm.is_some() {
            self.not_a_refresh();
        }
        if changed {
            let session = self.sessions.key(said.sid);
            self.say(Event::ResvCreated { session, template: *filter, oif: Some(said.oif), flowspec });
        }
    }

    /// A Resv that cannot be read, but says enough to be answered (RFC 2205 section 3.10).
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
