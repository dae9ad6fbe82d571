//! RESV CONFIRM MESSAGE ARRIVES: RFC 2209 section 2.7; and our own ResvConf messages, to the receiver that asked.

use crate::arrival::Arrival;
use crate::io::{Datagram, Upcall};
use crate::links::Env;
use crate::outbox::HOP_TTL;
use crate::passed_on::goes_on;
use crate::short_list::Few;
use crate::signalling::Signalling;
use crate::state::State;
use crate::state::psb::{OutgoingInterfaces, Psb};
use crate::state::rsb::{Confirm, NextHop, Rsb};
use crate::state::session::SessionState;
use crate::state::table::BlockId;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::ports::RouteDecision;
use terms::{FilterSpec, FlowSpec, Session, Style};
use wire::iana::error;
use wire::{Builder, ErrorSpec, MessageType, ResvConf};

/// The taking and sending of confirmations.
pub(crate) struct Confirmations<'a> {
    state: &'a mut State,
    signalling: &'a mut Signalling,
}

impl<'a> Confirmations<'a> {
    /// With the parts that it works on.
    pub fn new(state: &'a mut State, signalling: &'a mut Signalling) -> Confirmations<'a> {
        Confirmations { state, signalling }
    }

    pub(crate) fn resv_conf_arrives<E: Env>(&mut self, env: &mut E, from: &Arrival, conf: &ResvConf<'_>) {
        if !self.signalling.links().is_ours(conf.confirm) {
            return self.pass_confirmation_on(env, from, conf);
        }
        let Some(sid) = self.state.session(&conf.session) else {
            return self.signalling.drop_message(self.state, from, "ResvConf for a session that we do not know");
        };
        for flow in conf.flows() {
            let filter = flow.filter.and_then(|f| f.ports());
            let Some(flowspec) = flow.flow.spec else {
                self.signalling.drop_message(
                    self.state,
                    from,
                    "a ResvConf that confirms a service that we do not know",
                );
                continue;
            };
            let unheard = match (conf.style, filter) {
                (style, Some(filter)) => self.confirmed(sid, style, &[filter], flowspec, conf.error.node),
                (style @ Style::Wf, None) => {
                    // It does not say whose side it comes from, but by the node that says it.
                    let near = {
                        let mut all = self.state.senders(sid).map(|id| self.state.key(id).1);
                        all.clone().find(|s| s.src == conf.error.node).or_else(|| all.next())
                    };
                    self.confirmed(sid, style, near.as_slice(), flowspec, conf.error.node)
                }
                _ => Some("a ResvConf whose senders are not told apart by ports"),
            };
            if let Some(why) = unheard {
                self.signalling.drop_message(self.state, from, why);
            }
        }
    }

    /// Sends a RESV_CONFIRM event to the local applications that wait for it and asked for no more than this:
    /// one for each sender that is confirmed. Returns the reason if no application was told.
    pub(crate) fn confirmed(
        &mut self,
        sid: BlockId<SessionState>,
        style: Style,
        senders: &[FilterSpec],
        flowspec: FlowSpec,
        node: IpAddr,
    ) -> Option<&'static str> {
        let session = self.state.key(sid);
        let waits = |rsb: &Rsb| {
            let waits = matches!(rsb.confirm, Some(Confirm::Application | Confirm::Answered));
            waits && rsb.style == style
        };
        let mut waiting: Vec<_> = self.state.rsbs_of(sid).filter(|id| waits(&self.state[*id])).collect();
        waiting.retain(|id| senders.iter().any(|sender| self.state.is_for(*id, sender)));
        let mut why = Some("a ResvConf that no reservation of ours waits for");
        for id in waiting {
            if !flowspec.serves(&self.state[id].flowspec) {
                why = why.and(Some("a ResvConf of less than was asked for: rate, bucket, or largest packet (M)"));
                continue;
            }
            why = None;
            let NextHop::App(app) = self.state.key(id).1 else { continue };
            let told: Vec<_> = senders.iter().copied().filter(|s| self.state.is_for(id, s)).collect();
            let flowspec = self.state[id].flowspec;
            for template in told {
                let rsb = &mut self.state[id];
                rsb.confirm = Some(Confirm::Answered).filter(|_| style != Style::Ff);
                rsb.earlier = Few::NONE;
                self.signalling.tell(app, Upcall::Confirm { session, template, flowspec, node });
            }
        }
        why
    }

    /// Sends a confirmation to a receiver, from this node: from a local sender's address, or ours on an
    /// outgoing interface.
    pub(crate) fn send_resv_conf(
        &mut self,
        id: BlockId<Psb>,
        session: &Session,
        receiver: IpAddr,
        flowspec: &FlowSpec,
        style: Style,
        whose: &[FilterSpec],
    ) {
        let (_, _, template) = self.state.sender_of(id);
        let near = match &self.state[id].out {
            OutgoingInterfaces::Interface { source, .. } => Some(*source),
            OutgoingInterfaces::Tree(oifs) => {
                oifs.as_slice().first().and_then(|oif| self.signalling.links().address_on(*oif, receiver))
            }
            OutgoingInterfaces::Local | OutgoingInterfaces::Nowhere => None,
        };
        let node = near.filter(|_| !self.signalling.links().is_ours(template.src)).unwrap_or(template.src);
        let spec = ErrorSpec { node, flags: 0, code: error::CONFIRMATION, value: 0 };
        let build = Builder::new(MessageType::ResvConf, HOP_TTL)
            .session(session)
            .error_spec(&spec)
            .confirm(receiver)
            .style(style)
            .flowspec(flowspec);
        let filters = whose.iter().filter(|_| style != Style::Wf);
        let build = filters.fold(build, |build, filter| build.filter_spec(&(*filter).into()));
        if let Some(bytes) = self.signalling.out().finished(build) {
            let out = Datagram { oif: None, src: node, dst: receiver, ttl: HOP_TTL, router_alert: true, bytes };
            self.signalling.send_about(self.state, MessageType::ResvConf, out, None);
        }
    }

    fn pass_confirmation_on<E: Env>(&mut self, env: &mut E, from: &Arrival, conf: &ResvConf<'_>) {
        let ttl = from.ttl.saturating_sub(1);
        if ttl == 0 {
            return self.signalling.drop_message(self.state, from, "TTL is used up");
        }
        let RouteDecision::Out { oif, .. } = env.route(conf.confirm, None, Some(from.iif)) else {
            return self.signalling.drop_message(self.state, from, "ResvConf for a receiver that we have no way to");
        };
        if oif == from.iif || !self.signalling.links().speaks_on(oif) {
            return self.signalling.drop_message(self.state, from, "ResvConf would go back where it came from: a loop");
        }
        // From hop to hop, so that each can sign what it sends (RFC 2205 section 3.1.9).
        let Some(src) = self.signalling.links().address_on(oif, conf.confirm) else { return };
        let mut build = Builder::new(MessageType::ResvConf, ttl);
        for object in conf.envelope.objects.filter(goes_on) {
            build = build.object(&object);
        }
        if let Some(bytes) = self.signalling.out().finished(build) {
            let out = Datagram { oif: Some(oif), src, dst: conf.confirm, ttl, router_alert: true, bytes };
            self.signalling.send_about(self.state, MessageType::ResvConf, out, None);
        }
    }
}
