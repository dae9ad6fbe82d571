//! SESSION, RESERVE and RELEASE, RFC 2205 section 3.11.1: a local application registers, asks, changes its
//! request, stops.
//!
//! A request may come before the Path, and outlives the sender's going and coming. A refusal takes it back:
//! if the refusing node kept the older reservation, so do we all along the path; otherwise the request is
//! torn, so that a refused request leaves nothing reserved anywhere. "No path" and "no sender" do not refuse
//! the request itself: a node that lost its state learns it anew, and the request waits.

use crate::bsb::exceeds;
use crate::engine::{Env, Rsvp, api_refusal};
use crate::heard::UNHEARD;
use crate::io::{AppId, ErrorReport, Gone, Upcall};
use crate::psb::Psb;
use crate::refusal::{Refusal, api, option_vector};
use crate::resv_refresh::Push;
use crate::rsb::{Confirm, ListedSender, MOST_EARLIER, MOST_FILTERS, NextHop, Rsb, SharedSenders};
use crate::sender::{as_on_the_wire, bad, check_tspec, rate_on_the_wire};
use crate::session::{MOST_RECEIVERS, SessionState};
use crate::short_list::Few;
use crate::table::BlockId;
use crate::timers::Alarm;
use crate::update_traffic_control::merge;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use terms::ports::Preemption;
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

impl<P: ProbeObserver> Rsvp<P> {
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
        self.tell(app, Upcall::Error { session: *session, template, resv: true, error });
    }

    /// Registers an application for path events and tells it of the senders already there.
    fn register(&mut self, app: AppId, session: &Session) -> Result<BlockId<SessionState>, Refusal> {
        if !session.dst.is_multicast() && !self.is_ours(session.dst) && !self.is_proxy(app) {
            return Err(api_refusal(api::ADDRESS, format!("{} is not an address of this node", session.dst)));
        }
        let sid = self.session_for(session)?;
        if self.sessions[sid].receivers.contains(&app) {
            return Ok(sid);
        }
        if self.sessions[sid].receivers.len() >= MOST_RECEIVERS {
            return Err(Refusal::table_full("receivers of a session", MOST_RECEIVERS));
        }
        self.sessions[sid].receivers.change(|all| all.push(app));
        let senders: Vec<_> = self.senders(sid).collect();
        for id in senders.into_iter().rev() {
            if self.is_heard_by(app, id) {
                let upcall = self.path_upcall(id, *session, self.psbs.key(id).1);
                self.tell(app, upcall);
            }
        }
        Ok(sid)
    }

    pub(crate) fn reserve<E: Env>(&mut self, now: Time, env: &mut E, ask: &Ask<'_>) {
        if let Err(refusal) = self.check_ask(ask) {
            let (template, flowspec) = (ask.filters.first().copied(), ask.flowspecs.first().copied());
            return self.tell_refused(ask.app, &ask.session, template, &refusal, flowspec);
        }
        let sid = match self.register(ask.app, &ask.session) {
            Ok(sid) => sid,
            Err(refusal) => return self.tell_refused(ask.app, &ask.session, None, &refusal, None),
        };
        for id in self.requests_of(sid, ask.app) {
            let stays = match self.rsbs.key(id).2 {
                Some(filter) => ask.style == Style::Ff && ask.filters.contains(&filter),
                None => self.rsbs[id].style == ask.style,
            };
            if !stays {
                self.end_reservation(now, env, id, Gone::Torn);
            }
        }
        match ask.style {
            Style::Ff => {
                for (filter, flowspec) in ask.filters.iter().zip(ask.flowspecs) {
                    self.request(now, ask, sid, Some(*filter), canonical(flowspec));
                }
            }
            Style::Se | Style::Wf => {
                ask.flowspecs.iter().for_each(|flowspec| self.request(now, ask, sid, None, canonical(flowspec)));
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
        let known = self.sessions.find(&ask.session);
        let is_new = |f: Option<FilterSpec>| known.is_none_or(|sid| self.rsbs.find(&(sid, nhop, f)).is_none());
        let more = match ask.style {
            Style::Ff => ask.filters.iter().filter(|f| is_new(Some(**f))).count(),
            Style::Se | Style::Wf => usize::from(is_new(None)),
        };
        if self.rsbs.len() + more > self.config.max_resvs {
            return Err(Refusal::table_full("reservation states", self.config.max_resvs));
        }
        let Some(sid) = known else { return Ok(()) };
        for id in self.rsbs.chain(&self.sessions[sid].rsbs).filter(|id| self.rsbs.key(*id).1 != nhop) {
            let other = &self.rsbs[id];
            if other.style != ask.style {
                return Err(Refusal::code(error::BAD_STYLE, option_vector(other.style)));
            }
            for (n, flowspec) in ask.flowspecs.iter().enumerate() {
                let meets = match ask.style {
                    Style::Ff => self.is_for(id, &ask.filters[n]),
                    Style::Se => ask.filters.iter().any(|f| self.is_for(id, f)),
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
    fn request(
        &mut self,
        now: Time,
        ask: &Ask<'_>,
        sid: BlockId<SessionState>,
        filter: Option<FilterSpec>,
        flowspec: FlowSpec,
    ) {
        let key = (sid, NextHop::App(ask.app), filter);
        let confirm = Some(Confirm::Application).filter(|_| ask.confirm);
        let shared = shared(ask);
        let priority = self.standings.get(&ask.app).and_then(|s| s.priority);
        let (id, before, changed) = match self.rsbs.find(&key) {
            Some(id) => {
                let before = self.senders_of(id);
                let rsb = &mut self.rsbs[id];
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
                let rsb = Rsb {
                    style: ask.style,
                    flowspec,
                    earlier: Few::NONE,
                    shared,
                    confirm,
                    priority,
                    refused: false,
                    forward: Few::NONE,
                    refresh: self.config.refresh,
                    direct: true,
                    expires: Time::FOREVER,
                    heard: UNHEARD,
                    alarm: Alarm::OFF,
                };
                (self.rsbs.insert(&mut self.sessions[sid].rsbs, key, rsb), Vec::new(), true)
            }
        };
        if changed {
            self.say_created(id);
        }
        let mut senders = self.senders_of(id);
        senders.extend(before.into_iter().filter(|b| !senders.contains(b)).collect::<Vec<_>>());
        self.refresh_upstream(now, senders, if ask.confirm { Push::Now } else { Push::IfNew });
    }

    /// Handles an error for an application's request; `named` is a sender that it is about.
    pub(crate) fn request_refused<E: Env>(
        &mut self,
        now: Time,
        env: &mut E,
        app: AppId,
        id: BlockId<Rsb>,
        named: Option<FilterSpec>,
        report: &ErrorReport,
    ) {
        let (sid, _, filter) = self.rsbs.key(id);
        let session = self.sessions.key(sid);
        let template = filter.or(named);
        self.tell(app, Upcall::Error { session, template, resv: true, error: report.clone() });
        let waits = matches!(report.code, error::NO_PATH | error::NO_SENDER);
        if waits || report.not_guilty {
            return;
        }
        let rsb = &mut self.rsbs[id];
        if report.flowspec.is_some_and(|refused| !refused.serves(&rsb.flowspec) || exceeds(&refused, &rsb.flowspec)) {
            // An older request of ours: not one to fall back to.
            rsb.earlier.change(|all| all.retain(|e| Some(*e) != report.flowspec));
            return;
        }
        match rsb.earlier.change(Vec::pop) {
            Some(back) if report.in_place => {
                rsb.flowspec = back;
                rsb.confirm = None;
                self.say_created(id);
                let senders = self.senders_of(id);
                self.refresh_upstream(now, senders, Push::IfNew);
            }
            _ => self.end_reservation(now, env, id, Gone::Refused),
        }
    }

    /// Changes the standing of an application.
    pub(crate) fn standing(&mut self, app: AppId, say: impl FnOnce(&mut Standing)) {
        say(self.standings.entry(app).or_default());
    }

    /// True if an application acts on behalf of hosts that do not signal.
    pub(crate) fn is_proxy(&self, app: AppId) -> bool {
        self.standings.get(&app).is_some_and(|s| s.proxy)
    }

    /// True if an application is told of a sender: it, or the host it acts for, may receive the packets.
    pub(crate) fn is_heard_by(&self, app: AppId, id: BlockId<Psb>) -> bool {
        self.psbs[id].out.is_heard_here() || self.is_proxy(app)
    }

    fn requests_of(&self, sid: BlockId<SessionState>, app: AppId) -> Vec<BlockId<Rsb>> {
        let chain = self.rsbs.chain(&self.sessions[sid].rsbs);
        chain.filter(|id| self.rsbs.key(*id).1 == NextHop::App(app)).collect()
    }

    pub(crate) fn release<E: Env>(&mut self, now: Time, env: &mut E, app: AppId, session: &Session) {
        let Some(sid) = self.sessions.find(session) else { return };
        let requests = self.requests_of(sid, app);
        if requests.is_empty() {
            self.sessions[sid].receivers.change(|all| all.retain(|a| *a != app));
            self.drop_if_idle(sid);
            return;
        }
        for id in requests {
            self.end_reservation(now, env, id, Gone::Torn);
        }
    }

    /// Ends an application's senders, requests and registrations when it is gone.
    pub(crate) fn application_ended<E: Env>(&mut self, now: Time, env: &mut E, app: AppId) {
        let senders: Vec<_> = self.psbs.iter().map(|(id, _, _)| id).collect();
        for id in senders {
            if self.local_sender(id) == Some(app) {
                self.end_path(now, env, id, Gone::Torn);
            }
        }
        self.standings.remove(&app);
        let requests: Vec<_> =
            self.rsbs.iter().filter(|(_, key, _)| key.1 == NextHop::App(app)).map(|(id, _, _)| id).collect();
        for id in requests {
            self.end_reservation(now, env, id, Gone::Torn);
        }
        let registered: Vec<_> =
            self.sessions.iter().filter(|(_, _, s)| s.receivers.contains(&app)).map(|(id, _, _)| id).collect();
        for id in registered {
            self.sessions[id].receivers.change(|all| all.retain(|a| *a != app));
            self.drop_if_idle(id);
        }
    }
}

/// The standing of an application: it holds for all its requests.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Standing {
    /// True if it acts on behalf of hosts that do not signal.
    pub proxy: bool,
    /// The pre-emption priority of its requests.
    pub priority: Option<Preemption>,
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
