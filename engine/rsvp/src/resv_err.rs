//! RESV ERROR MESSAGE ARRIVES: RFC 2209 section 2.6; and our own ResvErr messages, to the requesters.
//!
//! An error answers a request: no more ResvErr messages pass downstream than Resv messages went upstream, so
//! that two nodes which take each other for the next hop cannot pass one back and forth for ever.

use crate::arrival::Arrival;
use crate::io::ErrorReport;
use crate::links::Env;
use crate::outbox::HOP_TTL;
use crate::passed_on::goes_on;
use crate::procedure::procedure;
use crate::receiver::Receivers;
use crate::resv_refresh::{Push, ResvRefresh};
use crate::state::bsb::{Bsb, exceeds};
use crate::state::psb::{Phop, Psb};
use crate::state::rsb::{NextHop, Rsb};
use crate::state::session::SessionState;
use crate::state::table::BlockId;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;
use terms::probe::ProbeObserver;
use terms::{FilterSpec, FlowSpec, IfIndex, Style};
use wire::iana::{class, error};
use wire::{Builder, MessageType, ResvErr, RsvpHop};

procedure! {
    /// The arrival of a ResvErr.
    ResvErrors
}

impl<P: ProbeObserver, E: Env> ResvErrors<'_, P, E> {
    pub(crate) fn resv_err_arrives(&mut self, from: &Arrival, message: &ResvErr<'_>) {
        if message.error.code == error::CONFIRMATION {
            return self.signalling.drop_message(self.state, from, "ResvErr without an error");
        }
        let Some(sid) = self.state.session(&message.session) else {
            return self.signalling.drop_message(self.state, from, "ResvErr for a session that we do not know");
        };
        let filters: Vec<_> = message.flows().filter_map(|f| f.filter?.ports()).collect();
        let about = match self.about(sid, from.iif, message, &filters) {
            Ok(about) => about,
            Err(why) => return self.signalling.drop_message(self.state, from, why),
        };
        if !self.take_credit(&about, message.style) {
            return self.signalling.drop_message(self.state, from, "ResvErr for more than we asked");
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
            self.blockade(&about, failed);
        }
        for id in self.reservations_about(sid, &about) {
            self.error_for(from, id, message, &about, &report);
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
            Style::Wf => self.state.senders(sid).collect(),
            _ if filters.is_empty() => return Err("ResvErr that names no sender"),
            _ => filters.iter().filter_map(|f| self.state.psb_of(sid, f)).collect(),
        };
        if named.is_empty() {
            return Err("ResvErr for a sender that we do not know");
        }
        // Past a hop that does not speak RSVP it may come by another way, but never where the packets leave.
        let from_it =
            |psb: &Psb, p: &Phop| p.addr == message.hop.addr && (p.iif == iif || (p.non_rsvp && !psb.out.takes(iif)));
        let by = |id: &BlockId<Psb>| self.state[*id].phop().is_some_and(|p| from_it(&self.state[*id], p));
        let about: Vec<_> = named.into_iter().filter(by).collect();
        if about.is_empty() { Err("ResvErr from a node that is not the previous hop") } else { Ok(about) }
    }

    /// True if an error may pass: each Resv lets one pass for each sender that it asked for.
    fn take_credit(&mut self, about: &[BlockId<Psb>], style: Style) -> bool {
        let mut taken = false;
        for id in about {
            if let Some(request) = self.state[*id].request.as_mut().filter(|r| r.style == style && r.credit > 0) {
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
            let oif = self.state.key(*id).1.oif();
            about.iter().any(|psb| {
                let takes = oif.is_none_or(|oif| self.state[*psb].out.takes(oif));
                takes && self.state.is_for(*id, &self.state.key(*psb).1)
            })
        };
        self.state.rsbs_of(sid).filter(concerned).collect()
    }

    /// Passes an error to one requester, unless the failed request is larger than its own and it keeps its
    /// reservation (RFC 2205 section 3.5, rule 5).
    #[allow(clippy::too_many_arguments)] // One message in all its parts.
    fn error_for(
        &mut self,
        from: &Arrival,
        id: BlockId<Rsb>,
        message: &ResvErr<'_>,
        about: &[BlockId<Psb>],
        report: &ErrorReport,
    ) {
        let asked = self.state[id].flowspec;
        let exceeds = report.flowspec.is_some_and(|failed| exceeds(&failed, &asked));
        let admission = report.code == error::ADMISSION;
        if admission && report.in_place && exceeds {
            return;
        }
        match self.state.key(id).1 {
            NextHop::App(app) => {
                let not_guilty = report.not_guilty || (admission && exceeds);
                let report = ErrorReport { not_guilty, ..report.clone() };
                let named = about.first().map(|psb| self.state.key(*psb).1).filter(|_| message.style != Style::Wf);
                Receivers::new(self.env, self.state, self.signalling, self.probe)
                    .request_refused(app, id, named, &report);
            }
            NextHop::Hop { oif, addr } if addr != message.hop.addr && oif != from.iif => {
                self.pass_error_on(id, oif, addr, message, about);
            }
            NextHop::Hop { .. } => {
                self.signalling.drop_message(self.state, from, "ResvErr would go back where it came from: a loop")
            }
        }
    }

    /// Remembers the failed flowspec, so that it is not merged into the next request to the previous hop (RFC
    /// 2205 section 3.5). Smaller requests are sent at once.
    fn blockade(&mut self, about: &[BlockId<Psb>], failed: FlowSpec) {
        let until = self.signalling.now()
            + self.state.config().refresh.mul_div_ceil(u64::from(self.state.config().blockade), 1);
        for id in about {
            self.state[*id].blockade = Some(Box::new(Bsb { flowspec: failed, until }));
        }
        self.upstream().refresh_upstream(about.to_vec(), Push::PastBlockade);
    }

    fn pass_error_on(
        &mut self,
        id: BlockId<Rsb>,
        oif: IfIndex,
        addr: IpAddr,
        message: &ResvErr<'_>,
        about: &[BlockId<Psb>],
    ) {
        let Some(src) = self.signalling.links().address_on(oif, addr) else { return };
        let routed =
            |psb: &&BlockId<Psb>| self.state[**psb].out.takes(oif) && self.state.is_for(id, &self.state.key(**psb).1);
        let senders: Vec<FilterSpec> = about.iter().filter(routed).map(|psb| self.state.key(*psb).1).collect();
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
        let by = if self.state[id].direct { Some(oif) } else { None };
        self.signalling.send_to_hop(self.state, MessageType::ResvErr, (by, src, addr), build);
    }

    fn upstream(&mut self) -> ResvRefresh<'_, P> {
        ResvRefresh::new(self.state, self.signalling, self.probe)
    }
}
