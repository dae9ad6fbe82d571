//! Calls on the local socket, and the agent's answers.

use crate::agent::Agent;
use crate::calls::{self, AppRequest, problem};
use crate::log::Level;
use crate::status;
use documents::agent::{Answer, HelloDoc, ReplyLine, Request, Skip};
use documents::show::PAGE;
use node::io::{AppCall, Input};
use rsvp::io::AppId;
use terms::{Fault, Span};

/// Most calls of one client that are carried out before others have their turn.
const CALLS_PER_TURN: usize = 64;

/// True if the call lists state: it takes long where there is much of it.
fn is_look(request: &Request) -> bool {
    matches!(
        request,
        Request::Status
            | Request::Sessions(_)
            | Request::Senders(_)
            | Request::Reservations(_)
            | Request::Show { .. }
            | Request::BookShow { .. }
            | Request::BookHistory { .. }
            | Request::BookFollow { .. }
            | Request::BookAudit(_)
            | Request::Resources { .. }
    )
}

/// The rows of a page.
fn page<T>(rows: impl Iterator<Item = T>, at: &Skip) -> Vec<T> {
    rows.skip(usize::try_from(at.skip).unwrap_or(usize::MAX)).take(PAGE).collect()
}

impl Agent {
    /// Runs a client's turn: writes as much as it has room for, reads its input, and carries out its calls
    /// while there is time for calls.
    pub(crate) fn serve(&mut self, client: u64, readable: bool) {
        let alive = self.local.open_turn(client, readable);
        for _ in 0..CALLS_PER_TURN {
            if !alive || !self.turns.calls_go_on(self.clock.now()) {
                break;
            }
            let Some(line) = self.local.next_line(client) else { break };
            if !self.one_call(client, &line) {
                break;
            }
        }
        self.catch_up(client);
        if self.local.end_turn(client, alive, &mut self.poll) {
            self.tracers.remove(client);
            self.speakers.went(client);
            self.forget_follower(client);
            self.echo_client_gone(client);
            self.log.line(self.clock.now(), Level::Info, "disconnected", &[("client", &client)]);
            self.tell(Input::App(AppCall::Release { app: AppId(client), session: None }));
        }
    }

    /// Carries out one call. `false`: the call has to wait, and the client's later calls too.
    fn one_call(&mut self, client: u64, line: &[u8]) -> bool {
        let cpu = linux::clock::thread_cpu();
        let call = calls::read(line);
        let looks = call.as_ref().is_ok_and(|call| is_look(&call.request));
        if looks && !self.turns.may_look(self.clock.now()) {
            self.local.hold(client, line);
            return false;
        }
        let answer = match call {
            Ok(call) => match self.asked(client, call.id, &call.request) {
                Ok(None) => return true,
                Ok(Some(ok)) => ReplyLine::Ok { id: call.id, ok: Box::new(ok) },
                Err(error) => ReplyLine::Error { id: call.id, error },
            },
            Err((id, error)) => ReplyLine::Error { id, error },
        };
        self.local.say(client, &answer, &mut self.poll);
        if looks {
            let took = Span::from_nanos(linux::clock::thread_cpu().saturating_sub(cpu));
            self.turns.looked(took, self.clock.now());
        }
        true
    }

    /// The answer to a call of this connection; `None`: it comes later.
    fn asked(&mut self, client: u64, id: u64, request: &Request) -> Result<Option<Answer>, documents::agent::Problem> {
        self.may(client, request)?;
        match self.call_static(client, id, request)? || self.call_bookings(client, id, request)? {
            true => Ok(None),
            false => self.answer(client, request).map(Some),
        }
    }

    fn answer(&mut self, client: u64, request: &Request) -> Result<Answer, documents::agent::Problem> {
        if let Some(request) = calls::app_request(request)? {
            self.may_signal(client, &request)?;
            self.application(AppId(client), &request);
            return Ok(Answer::Done);
        }
        let fault = |fault: Fault| problem("fault", fault.to_string());
        match request {
            Request::Hello => Ok(Answer::Hello(self.hello())),
            Request::Status => status::status(self).map(Answer::Status).map_err(fault),
            Request::Sessions(at) => Ok(Answer::Sessions(page(status::sessions(self), at))),
            Request::Senders(at) => Ok(Answer::Senders(page(status::senders(self), at))),
            Request::Reservations(at) => {
                status::reservations(self).map(|rows| Answer::Reservations(page(rows.into_iter(), at))).map_err(fault)
            }
            Request::Counters => Ok(Answer::Counters(status::counters(self))),
            Request::Show { view, filter } => crate::show::show(self, *view, filter).map(Answer::Shown).map_err(fault),
            Request::Statics(at) => Ok(Answer::Statics(page(self.statics.rows(), at))),
            Request::ReloadKeys => self.reload_keys().map(|()| Answer::Done),
            Request::Watch => {
                self.local.watch(client);
                Ok(Answer::Done)
            }
            Request::Trace { filter } => {
                self.tracers.add(client, filter.clone());
                Ok(Answer::Done)
            }
            Request::SpeakFor { who } => self.speak_for(client, who.as_ref()).map(|()| Answer::Done),
            Request::BoomerangReserve { ask, number } => self.boomerang_reserve(client, ask, *number),
            Request::BoomerangRelease { number } => self.boomerang_release(client, *number),
            Request::BoomerangSessions { skip } => self.boomerang_sessions(*skip),
            Request::BoomerangTrace => self.boomerang_trace(client),
            Request::May { who, ask, signal } => {
                self.would_allow(client, who.as_ref(), ask, signal.as_ref()).map(Answer::May)
            }
            Request::Links => self.links().map(Answer::Links),
            Request::Stop => {
                self.stopping = true;
                Ok(Answer::Done)
            }
            _ => Err(problem("misuse", "this call belongs to an application")),
        }
    }

    pub(crate) fn application(&mut self, app: AppId, request: &AppRequest) {
        let call = match *request {
            AppRequest::Sender(session, template, tspec, ttl) => AppCall::Sender { app, session, template, tspec, ttl },
            AppRequest::SenderGone(session, template) => AppCall::SenderGone { app, session, template },
            AppRequest::Receiver(session) => AppCall::Receiver { app, session },
            AppRequest::Reserve { session, style, ref filters, ref flowspecs, confirm } => {
                AppCall::Reserve { app, session, style, filters, flowspecs, confirm }
            }
            AppRequest::Priority(priority) => AppCall::Priority { app, priority },
            AppRequest::Release(session) => AppCall::Release { app, session },
        };
        self.tell(Input::App(call));
    }

    pub(crate) fn hello(&self) -> HelloDoc {
        HelloDoc {
            node: self.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: self.clock.now().since(self.started).as_millis(),
        }
    }
}
