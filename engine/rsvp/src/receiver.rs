//! SESSION, RESERVE and RELEASE, RFC 2205 section 3.11.1: a local application registers, asks, changes its
//! request, stops.
//!
//! A request may come before the Path, and outlives the sender's going and coming. A refusal takes it back:
//! if the refusing node kept the older reservation, so do we all along the path; otherwise the request is
//! torn, so that a refused request leaves nothing reserved anywhere. "No path" and "no sender" do not refuse
//! the request itself: a node that lost its state learns it anew, and the request waits.

use crate::io::{AppId, ErrorReport, Gone, Upcall};
use crate::links::Env;
use crate::path_life::PathLife;
use crate::procedure::procedure;
use crate::refusal::{Refusal, api, api_refusal, option_vector};
use crate::resv_refresh::{Push, ResvRefresh};
use crate::resv_tear::ResvTearing;
use crate::sender::{as_on_the_wire, bad, check_tspec, rate_on_the_wire};
use crate::short_list::Few;
use crate::state::bsb::exceeds;
use crate::state::rsb::{Confirm, ListedSender, MOST_EARLIER, MOST_FILTERS, NextHop, Request, Rsb, SharedSenders};
use crate::state::session::{MOST_RECEIVERS, SessionState};
use crate::state::table::BlockId;
use crate::update_traffic_control::merge;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use terms::probe::ProbeObserver;
use terms::{FilterSpec, FlowSpec, Rspec, Session, Style, Time};
use wire::iana::error;

/// A RESERVE call.
pub(crate) struct Ask<'a> {
    pub app: AppId,
    pub session: Session,
    pub style: Style,
    pub filters: &'a [FilterSpec],
    pub flowspecs: &'a [FlowSpec],
    pub confirm: bool,
}

procedure! {
    /// The calls of local receivers.
    Receivers
}

impl<P: ProbeObserver, E: Env> Receivers<'_, P, E> {
    pub(crate) fn receiver(&mut self, app: AppId, session: &Session) {
        if let Err(refusal) = self.register(app, session) {
            self.tell_refused(app, session, None, &refusal, None);
        }
    }

    fn tell_refused(
        &mut self,
        app: AppId,
        session: &Session,
        template: Option<FilterSpec>,
        refusal: &Refusal,
        flowspec: Option<FlowSpec>,
    ) {
        let error = refusal.report(session.dst, flowspec);
        self.signalling.tell(app, Upcall::Error { session: *session, template, resv: true, error });
    }

    /// Registers an application for path events and tells it of the senders already there.
    fn register(&mut self, app: AppId, session: &Session) -> Result<BlockId<SessionState>, Refusal> {
        if !session.dst.is_multicast()
            && !self.signalling.links().is_ours(session.dst)
            && !self.signalling.applications().is_proxy(app)
        {
            return Err(api_refusal(api::ADDRESS, format!("{} is not an address of this node", session.dst)));
        }
        let sid = self.life().session_for(session)?;
        if self.state[sid].receivers.contains(&app) {
            return Ok(sid);
        }
        if self.state[sid].receivers.len() >= MOST_RECEIVERS {
            return Err(Refusal::table_full("receivers of a session", MOST_RECEIVERS));
        }
        self.state[sid].receivers.change(|all| all.push(app));
        let senders: Vec<_> = self.state.senders(sid).collect();
        for id in senders.into_iter().rev() {
            if self.life().is_heard_by(app, id) {
                let upcall = self.life().path_upcall(id);
                self.signalling.tell(app, upcall);
            }
        }
        Ok(sid)
    }

    pub(crate) fn reserve(&mut self, ask: &Ask<'_>) {
        if let Err(refusal) = self.check_ask(ask) {
            let (template, flowspec) = (ask.filters.first().copied(), ask.flowspecs.first().copied());
            return self.tell_refused(ask.app, &ask.session, template, &refusal, flowspec);
        }
        let sid = match self.register(ask.app, &ask.session) {
            Ok(sid) => sid,
            Err(refusal) => return self.tell_refused(ask.app, &ask.session, None, &refusal, None),
        };
        for id in self.requests_of(sid, ask.app) {
            let stays = match self.state.key(id).2 {
                Some(filter) => ask.style == Style::Ff && ask.filters.contains(&filter),
                None => self.state[id].style == ask.style,
            };
            if !stays {
                self.ending().end_reservation(id, Gone::Torn);
            }
        }
        match ask.style {
            Style::Ff => {
                for (filter, flowspec) in ask.filters.iter().zip(ask.flowspecs) {
                    self.request(ask, sid, Some(*filter), canonical(flowspec));
                }
            }
            Style::Se | Style::Wf => {
                ask.flowspecs.iter().for_each(|flowspec| self.request(ask, sid, None, canonical(flowspec)));
            }
        }
    }

    /// Checks a call before any state changes.
    fn check_ask(&self, ask: &Ask<'_>) -> Result<(), Refusal> {
        let flowspecs = if ask.style == Style::Ff { ask.filters.len() } else { 1 };
        if flowspecs != ask.flowspecs.len() || (ask.style == Style::Se && ask.filters.is_empty()) {
            let text = format!("{} filters for {} flowspecs", ask.filters.len(), ask.flowspecs.len());
            return Err(api_refusal(api::LISTS, text));
        }
        if ask.style == Style::Se && ask.filters.len() > MOST_FILTERS {
            return Err(Refusal::table_full("senders of a shared reservation", MOST_FILTERS));
        }
        ask.flowspecs.iter().try_for_each(check_flowspec)?;
        if let Some(other) = ask.filters.iter().find(|f| f.src.is_ipv4() != ask.session.dst.is_ipv4()) {
            let text = format!("{} and {} are of different address families", ask.session.dst, other.src);
            return Err(api_refusal(api::ADDRESS, text));
        }
        let nhop = NextHop::App(ask.app);
        let known = self.state.session(&ask.session);
        let is_new = |f: Option<FilterSpec>| known.is_none_or(|sid| self.state.rsb(&(sid, nhop, f)).is_none());
        let more = match ask.style {
            Style::Ff => ask.filters.iter().filter(|f| is_new(Some(**f))).count(),
            Style::Se | Style::Wf => usize::from(is_new(None)),
        };
        self.state.room_for_resvs(more)?;
        let Some(sid) = known else { return Ok(()) };
        for id in self.state.rsbs_of(sid).filter(|id| self.state.key(*id).1 != nhop) {
            let other = &self.state[id];
            if other.style != ask.style {
                return Err(Refusal::code(error::BAD_STYLE, option_vector(other.style)));
            }
            for (n, flowspec) in ask.flowspecs.iter().enumerate() {
                let meets = match ask.style {
                    Style::Ff => self.state.is_for(id, &ask.filters[n]),
                    Style::Se => ask.filters.iter().any(|f| self.state.is_for(id, f)),
                    Style::Wf => true,
                };
                if meets {
                    merge(&other.flowspec, flowspec)?;
                }
            }
        }
        Ok(())
    }

    /// Makes or changes one request of an application: for one sender (FF), or for all that share (`None`).
    fn request(&mut self, ask: &Ask<'_>, sid: BlockId<SessionState>, filter: Option<FilterSpec>, flowspec: FlowSpec) {
        let key = (sid, NextHop::App(ask.app), filter);
        let confirm = Some(Confirm::Application).filter(|_| ask.confirm);
        let shared = shared(ask);
        let priority = self.signalling.applications().priority(ask.app);
        let (id, before, changed) = match self.state.rsb(&key) {
            Some(id) => {
                let before = self.state.senders_of(id);
                let rsb = &mut self.state[id];
                let changed = rsb.flowspec != flowspec;
                if changed {
                    if rsb.earlier.len() == MOST_EARLIER {
                        rsb.earlier.change(|all| all.remove(0));
                    }
                    let before = rsb.flowspec;
                    rsb.earlier.change(|all| all.push(before));
                }
                let others = !SharedSenders::same_senders(&rsb.shared, &shared);
                rsb.flowspec = flowspec;
                rsb.shared = shared;
                rsb.confirm = confirm;
                rsb.priority = priority;
                (id, before, changed || others)
            }
            None => {
                let refresh = self.state.config().refresh;
                let (style, forward) = (ask.style, Few::NONE);
                let request = Request { style, flowspec, shared, confirm, priority, forward, refresh, direct: true };
                (self.state.add_resv(key, Rsb::new(request, Time::FOREVER)), Vec::new(), true)
            }
        };
        if changed {
            self.signalling.say_created(self.state, id);
        }
        let mut senders = self.state.senders_of(id);
        senders.extend(before.into_iter().filter(|b| !senders.contains(b)).collect::<Vec<_>>());
        self.upstream().refresh_upstream(senders, if ask.confirm { Push::Now } else { Push::IfNew });
    }

    /// Handles an error for an application's request; `named` is a sender that it is about.
    pub(crate) fn request_refused(
        &mut self,
        app: AppId,
        id: BlockId<Rsb>,
        named: Option<FilterSpec>,
        report: &ErrorReport,
    ) {
        let (sid, _, filter) = self.state.key(id);
        let session = self.state.key(sid);
        let template = filter.or(named);
        self.signalling.tell(app, Upcall::Error { session, template, resv: true, error: report.clone() });
        let waits = matches!(report.code, error::NO_PATH | error::NO_SENDER);
        if waits || report.not_guilty {
            return;
        }
        let rsb = &mut self.state[id];
        if report.flowspec.is_some_and(|refused| !refused.serves(&rsb.flowspec) || exceeds(&refused, &rsb.flowspec)) {
            // An older request of ours: not one to fall back to.
            rsb.earlier.change(|all| all.retain(|e| Some(*e) != report.flowspec));
            return;
        }
        match rsb.earlier.change(Vec::pop) {
            Some(back) if report.in_place => {
                rsb.flowspec = back;
                rsb.confirm = None;
                self.signalling.say_created(self.state, id);
                let senders = self.state.senders_of(id);
                self.upstream().refresh_upstream(senders, Push::IfNew);
            }
            _ => self.ending().end_reservation(id, Gone::Refused),
        }
    }

    fn requests_of(&self, sid: BlockId<SessionState>, app: AppId) -> Vec<BlockId<Rsb>> {
        let chain = self.state.rsbs_of(sid);
        chain.filter(|id| self.state.key(*id).1 == NextHop::App(app)).collect()
    }

    pub(crate) fn release(&mut self, app: AppId, session: &Session) {
        let Some(sid) = self.state.session(session) else { return };
        let requests = self.requests_of(sid, app);
        if requests.is_empty() {
            self.state[sid].receivers.change(|all| all.retain(|a| *a != app));
            self.state.drop_if_idle(sid);
            return;
        }
        for id in requests {
            self.ending().end_reservation(id, Gone::Torn);
        }
    }

    /// Ends an application's senders, requests and registrations when it is gone.
    pub(crate) fn application_ended(&mut self, app: AppId) {
        let senders: Vec<_> = self.state.psbs().map(|(id, _, _)| id).collect();
        for id in senders {
            if self.state.local_sender(id) == Some(app) {
                self.life().end_path(id, Gone::Torn);
            }
        }
        self.signalling.applications_mut().forget(app);
        let requests: Vec<_> =
            self.state.rsbs().filter(|(_, key, _)| key.1 == NextHop::App(app)).map(|(id, _, _)| id).collect();
        for id in requests {
            self.ending().end_reservation(id, Gone::Torn);
        }
        let registered: Vec<_> =
            self.state.sessions().filter(|(_, _, s)| s.receivers.contains(&app)).map(|(id, _, _)| id).collect();
        for id in registered {
            self.state[id].receivers.change(|all| all.retain(|a| *a != app));
            self.state.drop_if_idle(id);
        }
    }

    fn life(&mut self) -> PathLife<'_, P, E> {
        PathLife::new(self.env, self.state, self.signalling, self.probe)
    }

    fn ending(&mut self) -> ResvTearing<'_, P, E> {
        ResvTearing::new(self.env, self.state, self.signalling, self.probe)
    }

    fn upstream(&mut self) -> ResvRefresh<'_, P> {
        ResvRefresh::new(self.state, self.signalling, self.probe)
    }
}

/// The senders of a shared-explicit request; they stay until the application changes them.
fn shared(ask: &Ask<'_>) -> Option<Box<SharedSenders>> {
    if ask.style != Style::Se {
        return None;
    }
    let mut filters: Vec<_> = ask.filters.iter().map(|f| ListedSender { filter: *f, expires: Time::FOREVER }).collect();
    filters.sort_unstable_by_key(|l| l.filter);
    filters.dedup_by_key(|l| l.filter);
    Some(Box::new(SharedSenders { filters, scope: None }))
}

/// Checks that a request is meaningful (RFC 2212 section 4 for R); the codec refuses the same on the wire.
fn check_flowspec(flowspec: &FlowSpec) -> Result<(), Refusal> {
    check_tspec(flowspec.tspec(), error::TC_BAD_FLOWSPEC)?;
    match flowspec {
        FlowSpec::Guaranteed(t, s) if s.R < t.r => {
            Err(bad("service rate R is below the token rate r", error::TC_BAD_FLOWSPEC))
        }
        _ if flowspec.rate().as_bps() == 0 => Err(bad("a rate of zero reserves nothing", error::TC_BAD_FLOWSPEC)),
        _ => Ok(()),
    }
}

/// A flowspec as it will come back in an error or a confirmation.
fn canonical(flowspec: &FlowSpec) -> FlowSpec {
    match flowspec {
        FlowSpec::ControlledLoad(t) => FlowSpec::ControlledLoad(as_on_the_wire(t)),
        FlowSpec::Guaranteed(t, r) => {
            // The slack is whole microseconds on the wire, in 32 bits; less slack is the safe side.
            let us = r.S.as_micros().min(u64::from(u32::MAX));
            let rspec = Rspec { R: rate_on_the_wire(r.R), S: terms::Span::from_micros(us) };
            FlowSpec::Guaranteed(as_on_the_wire(t), rspec)
        }
    }
}
