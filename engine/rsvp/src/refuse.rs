//! Our own PathErr and ResvErr messages: what cannot be kept is refused (RFC 2205 sections 3.1.8 and 3.10).

use crate::arrival::Arrival;
use crate::io::Event;
use crate::outbox::HOP_TTL;
use crate::refusal::{ENTERPRISE, Refusal};
use crate::signalling::Signalling;
use crate::state::State;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::{FilterSpec, FlowSpec, IfIndex, SenderTemplate, Session, Style, Tspec};
use wire::{Builder, MessageType, Resv, RsvpHop, Salvage, UserError};

/// A Path message that we refuse.
pub(crate) struct Faulty {
    pub session: Session,
    pub hop: RsvpHop,
    pub template: SenderTemplate,
    pub tspec: Tspec,
}

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

/// The sending of errors.
pub(crate) struct Refusing<'a> {
    state: &'a mut State,
    signalling: &'a mut Signalling,
}

impl<'a> Refusing<'a> {
    /// With the parts that it works on.
    pub fn new(state: &'a mut State, signalling: &'a mut Signalling) -> Refusing<'a> {
        Refusing { state, signalling }
    }

    /// Tells the previous hop that its Path cannot be kept.
    pub(crate) fn path_refused(&mut self, from: &Arrival, faulty: &Faulty, refusal: &Refusal) {
        self.state.not_a_refresh();
        let Some(src) = self.signalling.links().address_on(from.iif, faulty.hop.addr) else { return };
        let (session, template) = (faulty.session, Some(faulty.template));
        self.signalling.say(Event::Refused { session, template, error: refusal.report(src, None) });
        let build = Builder::new(MessageType::PathErr, HOP_TTL).session(&faulty.session).error_spec(&refusal.spec(src));
        let build = with_text(build, refusal);
        let build = build.sender_template(&faulty.template.into()).sender_tspec(&faulty.tspec);
        self.signalling.send_to_hop(self.state, MessageType::PathErr, (from.back(), src, faulty.hop.addr), build);
    }

    /// Answers an unreadable Path, if the parts that the answer needs can be read (RFC 2205 section 3.10).
    pub(crate) fn answer_path(&mut self, from: &Arrival, found: &Salvage<'_>, hop: IpAddr, refusal: &Refusal) {
        let Some((src, session)) = self.signalling.links().address_on(from.iif, hop).zip(found.named()) else { return };
        let build = Builder::new(MessageType::PathErr, HOP_TTL).object(&session).error_spec(&refusal.spec(src));
        let mut build = with_text(build, refusal);
        for object in found.quotable() {
            build = build.object(&object);
        }
        self.signalling.send_to_hop(self.state, MessageType::PathErr, (from.back(), src, hop), build);
    }

    /// Tells the next hop that its Resv, or one of its flow descriptors, is refused.
    pub(crate) fn resv_refused(&mut self, from: &Arrival, hop: IpAddr, erring: &Erring, refusal: &Refusal) {
        self.state.not_a_refresh();
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
        let Some(src) = self.signalling.links().address_on(iif, hop) else { return };
        self.signalling.out().count(|c| c.refused += 1);
        let (session, template) = (erring.session, erring.filters.first().copied());
        self.signalling.say(Event::Refused { session, template, error: refusal.report(src, erring.flowspec) });
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
        self.signalling.send_to_hop(self.state, MessageType::ResvErr, (by, src, hop), build);
    }

    /// Answers an unreadable Resv, if the parts that the answer needs can be read (RFC 2205 section 3.10).
    pub(crate) fn answer_resv(&mut self, from: &Arrival, found: &Salvage<'_>, hop: IpAddr, refusal: &Refusal) {
        let Some((src, session)) = self.signalling.links().address_on(from.iif, hop).zip(found.named()) else { return };
        let build = Builder::new(MessageType::ResvErr, HOP_TTL).object(&session);
        let build = build.hop(&RsvpHop { addr: src, lih: from.iif.0 }).error_spec(&refusal.spec(src));
        let mut build = with_text(build, refusal).style(found.style.unwrap_or(Style::Ff));
        for object in found.quotable() {
            build = build.object(&object);
        }
        self.signalling.send_to_hop(self.state, MessageType::ResvErr, (from.back(), src, hop), build);
    }
}

/// Adds the refusal's text, if it has one.
fn with_text(build: Builder, refusal: &Refusal) -> Builder {
    match &refusal.text {
        Some(text) => build.user_error(&UserError {
            enterprise: ENTERPRISE,
            sub_org: 0,
            value: refusal.value,
            text: UserError::fitting(text),
        }),
        None => build,
    }
}
