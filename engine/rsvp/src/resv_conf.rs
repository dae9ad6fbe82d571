//! RESV CONFIRM MESSAGE ARRIVES: RFC 2209 section 2.7; and our own ResvConf messages, to the receiver that asked.

use crate::engine::{Env, Rsvp};
use crate::io::{Datagram, Upcall};
use crate::path_err::HOP_TTL;
use crate::psb::Psb;
use crate::receive::Arrival;
use crate::resv_err::goes_on;
use crate::rsb::{Confirm, NextHop};
use crate::table::Id;
use core::net::IpAddr;
use terms::ports::Way;
use terms::{FilterSpec, FlowSpec, Session, Style};
use wire::iana::error;
use wire::{Builder, ErrorSpec, MessageType, ResvConf};

impl Rsvp {
    pub(crate) fn resv_conf_arrives<E: Env>(&mut self, env: &mut E, from: &Arrival, conf: &ResvConf<'_>) {
        if !self.is_ours(conf.confirm) {
            return self.pass_confirmation_on(env, from, conf);
        }
        let Some(sid) = self.sessions.find(&conf.session) else {
            return self.drop_message(from, "ResvConf for a session that we do not know");
        };
        for flow in conf.flows() {
            if let (Some(filter), Some(flowspec)) = (flow.filter.and_then(|f| f.ports()), flow.flow.spec) {
                self.confirmed(sid, &filter, flowspec, conf.error.node);
            }
        }
    }

    /// RESV_CONFIRM event for the local applications that wait for it and asked for no more than this.
    pub(crate) fn confirmed(
        &mut self,
        sid: Id<crate::session::SessionState>,
        template: &FilterSpec,
        flowspec: FlowSpec,
        node: IpAddr,
    ) {
        let session = self.sessions.key(sid);
        for id in self.reservations_of(sid, template) {
            let NextHop::App(app) = self.rsbs.key(id).1 else { continue };
            let rsb = &mut self.rsbs[id];
            let covered = crate::update_traffic_control::merge(&rsb.flowspec, &flowspec) == Ok(flowspec);
            if rsb.confirm == Some(Confirm::Application) && covered {
                rsb.confirm = None;
                rsb.earlier.clear();
                let flowspec = rsb.flowspec;
                self.tell(app, Upcall::Confirm { session, template: *template, flowspec, node });
            }
        }
    }

    /// Sends a confirmation to a receiver, in the name of the node nearest to the sender: this one.
    pub(crate) fn send_resv_conf(&mut self, id: Id<Psb>, session: &Session, receiver: IpAddr, flowspec: &FlowSpec) {
        let (_, _, template) = self.sender_of(id);
        let psb = &self.psbs[id];
        let near = match psb.out {
            crate::psb::Out::Interface { source, .. } => source,
            _ => template.src,
        };
        let node = if self.is_ours(template.src) { template.src } else { near };
        let spec = ErrorSpec { node, flags: 0, code: error::CONFIRMATION, value: 0 };
        let build = Builder::new(MessageType::ResvConf, HOP_TTL)
            .session(session)
            .error_spec(&spec)
            .confirm(receiver)
            .style(Style::Ff)
            .flowspec(flowspec)
            .filter_spec(&template.into());
        if let Some(bytes) = self.finished(build) {
            let out = Datagram { oif: None, src: node, dst: receiver, ttl: HOP_TTL, router_alert: true, bytes };
            self.send(MessageType::ResvConf, out);
        }
    }

    fn pass_confirmation_on<E: Env>(&mut self, env: &mut E, from: &Arrival, conf: &ResvConf<'_>) {
        let ttl = from.ttl.saturating_sub(1);
        if ttl == 0 {
            return self.drop_message(from, "TTL is used up");
        }
        let Way::Out { oif, .. } = env.route(conf.confirm, None, Some(from.iif)) else {
            return self.drop_message(from, "ResvConf for a receiver that we have no way to");
        };
        if oif == from.iif || !self.speaks_on(oif) {
            return self.drop_message(from, "ResvConf would go back where it came from: a loop");
        }
        // From hop to hop, so that each can sign what it sends (RFC 2205 section 3.1.9).
        let Some(src) = self.address_on(oif, conf.confirm) else { return };
        let mut build = Builder::new(MessageType::ResvConf, ttl);
        for object in conf.envelope.objects.filter(goes_on) {
            build = build.object(&object);
        }
        if let Some(bytes) = self.finished(build) {
            let out = Datagram { oif: Some(oif), src, dst: conf.confirm, ttl, router_alert: true, bytes };
            self.send(MessageType::ResvConf, out);
        }
    }
}
