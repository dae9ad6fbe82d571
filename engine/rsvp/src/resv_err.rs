//! RESV ERROR MESSAGE ARRIVES: RFC 2209 section 2.6; and our own ResvErr messages, to the requesters.
//!
//! An error answers a request: no more ResvErr messages pass downstream than Resv messages went upstream, so
//! that two nodes which take each other for the next hop cannot pass one back and forth for ever.

use crate::bsb::{Bsb, exceeds};
use crate::engine::{Env, Rsvp};
use crate::io::{Datagram, ErrorReport, Event};
use crate::neighbour::About;
use crate::path_err::{HOP_TTL, with_text};
use crate::psb::{Phop, Psb};
use crate::receive::Arrival;
use crate::refusal::Refusal;
use crate::resv_refresh::Push;
use crate::rsb::{NextHop, Rsb};
use crate::session::SessionState;
use crate::table::BlockId;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{FilterSpec, FlowSpec, IfIndex, Session, Style, Time};
use wire::iana::{class, error};
use wire::{Builder, MessageType, Object, Resv, ResvErr, RsvpHop};

/// A request that was refused: an error flow descriptor (RFC 2205 section 3.1.8).
pub(crate) struct Erring {
    pub session: Session,
    pub style: Style,
    /// One in FF style, the senders listed in SE style, none in WF style.
    pub filters: Vec<FilterSpec>,
    pub flowspec: Option<FlowSpec>,
    /// WF: the SCOPE of the request (RFC 2205 section 3.4).
    pub scope: Option<Vec<IpAddr>>,
}

impl Erring {
    /// The first flow descriptor of a Resv; in the shared styles there is no other.
    pub fn of(resv: &Resv<'_>) -> Erring {
        let most = if resv.style == Style::Ff { 1 } else { usize::MAX };
        Erring {
            session: resv.session,
            style: resv.style,
            filters: resv.flows().take(most).filter_map(|f| f.filter?.ports()).collect(),
            flowspec: resv.flows().next().and_then(|f| f.flow.spec),
            scope: resv.scope.map(|s| s.iter().collect()),
        }
    }
}

impl<P: ProbeObserver> Rsvp<P> {
    pub(crate) fn resv_err_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, message: &ResvErr<'_>) {
        if message.error.code == error::CONFIRMATION {
            return self.drop_message(from, "ResvErr without an error");
        }
        let Some(sid) = self.sessions.find(&message.session) else {
            return self.drop_message(from, "ResvErr for a session that we do not know");
        };
        let filters: Vec<_> = message.flows().filter_map(|f| f.filter?.ports()).collect();
        let about = match self.about(sid, from.iif, message, &filters) {
            Ok(about) => about,
            Err(why) => return self.drop_message(from, why),
        };
        if !self.take_credit(&about, message.style) {
            return self.drop_message(from, "ResvErr for more than we asked");
        }
        let flowspec = message.flows().next().and_then(|f| f.flow?.spec);
        let report = ErrorReport {
            node: message.error.node,
            code: message.error.code,
            value: message.error.value,
            in_place: message.error.in_place(),
            not_guilty: message.error.not_guilty(),
            text: message.user_error.map(|u| u.text.to_string()),
            flowspec,
        };
        if let Some(failed) = flowspec.filter(|_| report.code == error::ADMISSION) {
            self.blockade(now, &about, failed);
        }
        for id in self.reservations_about(sid, &about) {
            self.error_for(now, env, from, id, message, &about, &report);
        }
    }

    /// The senders that an error is about: those named, or all of the previous hop's.
    fn about(
        &self,
        sid: BlockId<SessionState>,
        iif: IfIndex,
        message: &ResvErr<'_>,
        filters: &[FilterSpec],
    ) -> Result<Vec<BlockId<Psb>>, &'static str> {
        let named: Vec<_> = match message.style {
            Style::Wf => self.senders(sid).collect(),
            _ if filters.is_empty() => return Err("ResvErr that names no sender"),
            _ => filters.iter().filter_map(|f| self.psb_of(sid, f)).collect(),
        };
        if named.is_empty() {
            return Err("ResvErr for a sender that we do not know");
        }
        // Past a hop that does not speak RSVP it may come by another way, but never where the packets leave.
        let from_it =
            |psb: &Psb, p: &Phop| p.addr == message.hop.addr && (p.iif == iif || (p.non_rsvp && !psb.out.takes(iif)));
        let by = |id: &BlockId<Psb>| self.psbs[*id].phop().is_some_and(|p| from_it(&self.psbs[*id], p));
        let about: Vec<_> = named.into_iter().filter(by).collect();
        if about.is_empty() { Err("ResvErr from a node that is not the previous hop") } else { Ok(about) }
    }

    /// True if an error may pass: each Resv lets one pass for each sender that it asked for.
    fn take_credit(&mut self, about: &[BlockId<Psb>], style: Style) -> bool {
        let mut taken = false;
        for id in about {
            if let Some(request) = self.psbs[*id].request.as_mut().filter(|r| r.style == style && r.credit > 0) {
                request.credit -= 1;
                taken = true;
                if style == Style::Wf {
                    break;
                }
            }
        }
        taken
    }

    /// The reservation states that an error about these senders concerns.
    fn reservations_about(&self, sid: BlockId<SessionState>, about: &[BlockId<Psb>]) -> Vec<BlockId<Rsb>> {
        let concerned = |id: &BlockId<Rsb>| {
            let oif = self.rsbs.key(*id).1.oif();
            about.iter().any(|psb| {
                let takes = oif.is_none_or(|oif| self.psbs[*psb].out.takes(oif));
                takes && self.is_for(*id, &self.psbs.key(*psb).1)
            })
        };
        self.rsbs.chain(&self.sessions[sid].rsbs).filter(concerned).collect()
    }

    /// Passes an error to one requester, unless the failed request is larger than its own and it keeps its
    /// reservation (RFC 2205 section 3.5, rule 5).
    #[allow(clippy::too_many_arguments)] // One message in all its parts.
    fn error_for<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        from: &Arrival,
        id: BlockId<Rsb>,
        message: &ResvErr<'_>,
        about: &[BlockId<Psb>],
        report: &ErrorReport,
    ) {
        let asked = self.rsbs[id].flowspec;
        let exceeds = report.flowspec.is_some_and(|failed| exceeds(&failed, &asked));
        let admission = report.code == error::ADMISSION;
        if admission && report.in_place && exceeds {
            return;
        }
        match self.rsbs.key(id).1 {
            NextHop::App(app) => {
                let not_guilty = report.not_guilty || (admission && exceeds);
                let report = ErrorReport { not_guilty, ..report.clone() };
                let named = about.first().map(|psb| self.psbs.key(*psb).1).filter(|_| message.style != Style::Wf);
                self.request_refused(now, env, app, id, named, &report);
            }
            NextHop::Hop { oif, addr } if addr != message.hop.addr && oif != from.iif => {
                self.pass_error_on(id, oif, addr, message, about);
            }
            NextHop::Hop { .. } => self.drop_message(from, "ResvErr would go back where it came from: a loop"),
        }
    }

    /// Remembers the failed flowspec, so that it is not merged into the next request to the previous hop (RFC
    /// 2205 section 3.5). Smaller requests are sent at once.
    fn blockade(&mut self, now: Time, about: &[BlockId<Psb>], failed: FlowSpec) {
        let until = now + self.config.refresh.mul_div_ceil(u64::from(self.config.blockade), 1);
        for id in about {
            self.psbs[*id].blockade = Some(Box::new(Bsb { flowspec: failed, until }));
        }
        self.refresh_upstream(now, about.to_vec(), Push::PastBlockade);
    }

    fn pass_error_on(
        &mut self,
        id: BlockId<Rsb>,
        oif: IfIndex,
        addr: IpAddr,
        message: &ResvErr<'_>,
        about: &[BlockId<Psb>],
    ) {
        let Some(src) = self.address_on(oif, addr) else { return };
        let routed = |psb: &&BlockId<Psb>| self.psbs[**psb].out.takes(oif) && self.is_for(id, &self.psbs.key(**psb).1);
        let senders: Vec<FilterSpec> = about.iter().filter(routed).map(|psb| self.psbs.key(*psb).1).collect();
        let scope: Option<Vec<IpAddr>> = match (message.style, message.scope) {
            (Style::Wf, Some(scope)) => {
                let is_through = |a: &IpAddr| senders.iter().any(|s| s.src == *a);
                Some(scope.iter().filter(is_through).collect())
            }
            _ => None,
        };
        if scope.as_ref().is_some_and(Vec::is_empty) {
            // It is about senders whose packets do not go there (RFC 2205 section 3.4).
            return;
        }
        let mut build = Builder::new(MessageType::ResvErr, HOP_TTL);
        let mut named = false;
        for object in message.envelope.objects.filter(goes_on) {
            build = match object.class {
                class::RSVP_HOP => build.hop(&RsvpHop { addr: src, lih: oif.0 }),
                class::SCOPE => match &scope {
                    Some(scope) => build.scope(scope),
                    None => build,
                },
                class::FILTER_SPEC if message.style == Style::Se && core::mem::replace(&mut named, true) => build,
                class::FILTER_SPEC if message.style == Style::Se => {
                    senders.iter().fold(build, |build, s| build.filter_spec(&(*s).into()))
                }
                _ => build.object(&object),
            };
        }
        let by = if self.rsbs[id].direct { Some(oif) } else { None };
        self.send_to_hop(MessageType::ResvErr, by, src, addr, build);
    }

    /// Tells the next hop that its Resv, or one of its flow descriptors, is refused.
    pub(crate) fn resv_refused(&mut self, from: &Arrival, hop: IpAddr, erring: &Erring, refusal: &Refusal) {
        self.not_a_refresh();
        self.send_resv_err(from.iif, from.back(), hop, erring, refusal);
    }

    pub(crate) fn send_resv_err(
        &mut self,
        iif: IfIndex,
        by: Option<IfIndex>,
        hop: IpAddr,
        erring: &Erring,
        refusal: &Refusal,
    ) {
        let Some(src) = self.address_on(iif, hop) else { return };
        self.counters.refused += 1;
        let (session, template) = (erring.session, erring.filters.first().copied());
        self.say(Event::Refused { session, template, error: refusal.report(src, erring.flowspec) });
        let build = Builder::new(MessageType::ResvErr, HOP_TTL).session(&session);
        let build = build.hop(&RsvpHop { addr: src, lih: iif.0 }).error_spec(&refusal.spec(src));
        let mut build = with_text(build, refusal);
        if let Some(scope) = &erring.scope {
            build = build.scope(scope);
        }
        build = build.style(erring.style);
        if let Some(flowspec) = &erring.flowspec {
            build = build.flowspec(flowspec);
        }
        for filter in &erring.filters {
            build = build.filter_spec(&(*filter).into());
        }
        self.send_to_hop(MessageType::ResvErr, by, src, hop, build);
    }

    /// Sends a message to a neighbour; `by` an interface, or (`None`) as the routing table decides.
    pub(crate) fn send_to_hop(
        &mut self,
        kind: MessageType,
        by: Option<IfIndex>,
        src: IpAddr,
        dst: IpAddr,
        build: Builder,
    ) {
        self.send_to_hop_about(kind, (by, src, dst), build, None);
    }

    /// The same for a message that refreshes a state, or tears it down.
    pub(crate) fn send_to_hop_about(
        &mut self,
        kind: MessageType,
        (oif, src, dst): (Option<IfIndex>, IpAddr, IpAddr),
        build: Builder,
        about: Option<About>,
    ) {
        if let Some(bytes) = self.finished(build) {
            let out = Datagram { oif, src, dst, ttl: HOP_TTL, router_alert: false, bytes };
            self.send_about(kind, out, about);
        }
    }
}

/// True if an object goes on with a message that is passed on: all but INTEGRITY and the names and
/// acknowledgements of messages (RFC 2961), which are per hop, and the unknown classes 0x80 to 0xbf (RFC 2205
/// section 3.10).
pub(crate) fn goes_on(object: &Object<'_>) -> bool {
    let per_hop = matches!(object.class, class::INTEGRITY | class::MESSAGE_ID | class::MESSAGE_ID_ACK);
    !per_hop && object.class != class::NULL && !(0x80..=0xbf).contains(&object.class)
}
