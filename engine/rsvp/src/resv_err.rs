//! RESV ERROR MESSAGE ARRIVES: RFC 2209 section 2.6; and our own ResvErr messages. They go downstream to whoever asked.
//!
//! An error answers a request: no more ResvErr messages pass downstream than Resv messages went upstream, so that two
//! nodes which take each other for the next hop cannot keep one going. Blockade state against the killer reservation
//! (RFC 2205 section 3.5) has its place here, once reservations of several receivers merge.

use crate::engine::{Env, Rsvp};
use crate::io::{Datagram, ErrorReport, Event};
use crate::path_err::{HOP_TTL, with_text};
use crate::receive::Arrival;
use crate::refusal::Refusal;
use crate::rsb::{NextHop, Rsb};
use crate::table::Id;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{FilterSpec, FlowSpec, IfIndex, Session, Style, Time};
use wire::iana::{class, error};
use wire::{Builder, MessageType, Object, ResvErr, RsvpHop};

/// A flow descriptor that was refused.
pub(crate) struct Erring {
    pub session: Session,
    pub style: Style,
    pub filter: Option<FilterSpec>,
    pub flowspec: Option<FlowSpec>,
}

impl Rsvp {
    pub(crate) fn resv_err_arrives<E: Env>(&mut self, now: Time, env: &mut E, from: &Arrival, message: &ResvErr<'_>) {
        if message.error.code == error::CONFIRMATION {
            return self.drop_message(from, "ResvErr without an error");
        }
        let Some(sid) = self.sessions.find(&message.session) else {
            return self.drop_message(from, "ResvErr for a session that we do not know");
        };
        // An error flow descriptor names one sender in FF style.
        let flow = message.flows().next();
        let Some(filter) = flow.and_then(|f| f.filter?.ports()) else {
            return self.drop_message(from, "ResvErr that names no sender");
        };
        let Some(id) = self.psb_of(sid, &filter) else {
            return self.drop_message(from, "ResvErr for a sender that we do not know");
        };
        if self.psbs[id].phop().is_none_or(|p| p.addr != message.hop.addr) {
            return self.drop_message(from, "ResvErr from a node that is not the previous hop");
        }
        match &mut self.psbs[id].request {
            Some(request) if request.credit > 0 => request.credit -= 1,
            _ => return self.drop_message(from, "ResvErr for more than we asked"),
        }
        let report = ErrorReport {
            node: message.error.node,
            code: message.error.code,
            value: message.error.value,
            in_place: message.error.in_place(),
            not_guilty: message.error.not_guilty(),
            text: message.user_error.map(|u| u.text.to_string()),
            flowspec: flow.and_then(|f| f.flow?.spec),
        };
        for rsb in self.reservations_of(sid, &filter) {
            match self.rsbs.key(rsb).1 {
                NextHop::App(app) => self.request_refused(now, env, app, rsb, &report),
                NextHop::Hop { oif, addr } if addr != message.hop.addr => {
                    self.pass_error_on(rsb, oif, addr, message);
                }
                NextHop::Hop { .. } => self.drop_message(from, "ResvErr would go back where it came from: a loop"),
            }
        }
    }

    /// The reservation states for one sender, the oldest last.
    pub(crate) fn reservations_of(&self, sid: Id<crate::session::SessionState>, filter: &FilterSpec) -> Vec<Id<Rsb>> {
        let chain = self.rsbs.chain(&self.sessions[sid].rsbs);
        chain.filter(|id| self.rsbs.key(*id).2 == *filter).collect()
    }

    fn pass_error_on(&mut self, rsb: Id<Rsb>, oif: IfIndex, addr: IpAddr, message: &ResvErr<'_>) {
        let Some(src) = self.address_on(oif, addr) else { return };
        let mut build = Builder::new(MessageType::ResvErr, HOP_TTL);
        for object in message.envelope.objects.filter(goes_on) {
            build = match object.class {
                class::RSVP_HOP => build.hop(&RsvpHop { addr: src, lih: oif.0 }),
                _ => build.object(&object),
            };
        }
        let by = if self.rsbs[rsb].direct { Some(oif) } else { None };
        self.send_to_hop(MessageType::ResvErr, by, src, addr, build);
    }

    /// A Resv, or one of its flow descriptors, is refused: the next hop that asked is told.
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
        let (session, template) = (erring.session, erring.filter);
        self.say(Event::Refused { session, template, error: refusal.report(src, erring.flowspec) });
        let build = Builder::new(MessageType::ResvErr, HOP_TTL).session(&session);
        let build = build.hop(&RsvpHop { addr: src, lih: iif.0 }).error_spec(&refusal.spec(src));
        let mut build = with_text(build, refusal).style(erring.style);
        if let Some(flowspec) = &erring.flowspec {
            build = build.flowspec(flowspec);
        }
        if let Some(filter) = erring.filter {
            build = build.filter_spec(&filter.into());
        }
        self.send_to_hop(MessageType::ResvErr, by, src, hop, build);
    }

    /// Sends a message to a neighbour; `by` an interface, or (`None`) as the routing table says.
    pub(crate) fn send_to_hop(
        &mut self,
        kind: MessageType,
        by: Option<IfIndex>,
        src: IpAddr,
        dst: IpAddr,
        build: Builder,
    ) {
        if let Some(bytes) = self.finished(build) {
            self.send(kind, Datagram { oif: by, src, dst, ttl: HOP_TTL, router_alert: false, bytes });
        }
    }
}

/// Whether an object goes on with a message that is passed on: all but INTEGRITY and the names and acknowledgements of
/// messages (RFC 2961), which are per hop, and the unknown classes 0x80 to 0xbf (RFC 2205 section 3.10).
pub(crate) fn goes_on(object: &Object<'_>) -> bool {
    let per_hop = matches!(object.class, class::INTEGRITY | class::MESSAGE_ID | class::MESSAGE_ID_ACK);
    !per_hop && object.class != class::NULL && !(0x80..=0xbf).contains(&object.class)
}
