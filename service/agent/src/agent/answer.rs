//! Calls on the local socket, and the agent's answers.

use super::Agent;
use crate::boomerang::turn::BoomerangTurn;
use crate::calls::{self, problem};
use crate::log::Level;
use crate::statics::turn::StaticsTurn;
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
        let alive = self.drive.console.connections().open_turn(client, readable);
        for _ in 0..CALLS_PER_TURN {
            if !alive || !self.turns.calls_go_on(self.drive.clock.now()) {
                break;
            }
            let Some(line) = self.drive.console.connections().next_line(client) else { break };
            if !self.one_call(client, &line) {
                break;
            }
        }
        self.drive.catch_up(client);
        if self.drive.console.end_turn(client, alive) {
            self.drive.messages.went(client);
            self.drive.speakers.went(client);
            self.drive.forget_follower(client);
            BoomerangTurn(&mut self.drive).client_gone(client);
            self.drive.console.line(Level::Info, "disconnected", &[("client", &client)]);
            self.drive.tell(Input::App(AppCall::Release { app: AppId(client), session: None }));
        }
    }

    /// Carries out one call. `false`: the call has to wait, and the client's later calls too.
    fn one_call(&mut self, client: u64, line: &[u8]) -> bool {
        let cpu = linux::clock::thread_cpu();
        let call = calls::read(line);
        let looks = call.as_ref().is_ok_and(|call| is_look(&call.request));
        if looks && !self.turns.may_look(self.drive.clock.now()) {
            self.drive.console.connections().hold(client, line);
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
        self.drive.console.say(client, &answer);
        if looks {
            let took = Span::from_nanos(linux::clock::thread_cpu().saturating_sub(cpu));
            self.turns.looked(took, self.drive.clock.now());
        }
        true
    }

    /// The answer to a call of this connection; `None`: it comes later.
    fn asked(&mut self, client: u64, id: u64, request: &Request) -> Result<Option<Answer>, documents::agent::Problem> {
        self.may(client, request)?;
        match StaticsTurn(&mut self.drive).call(client, id, request)?
            || self.drive.call_bookings(client, id, request)?
        {
            true => Ok(None),
            false => self.answer(client, request).map(Some),
        }
    }

    fn answer(&mut self, client: u64, request: &Request) -> Result<Answer, documents::agent::Problem> {
        if let Some(request) = calls::app_request(request)? {
            self.drive.signals().may(client, &request)?;
            self.drive.tell(Input::App(request.of(AppId(client))));
            return Ok(Answer::Done);
        }
        let fault = |fault: Fault| problem("fault", fault.to_string());
        match request {
            Request::Hello => Ok(Answer::Hello(self.hello())),
            Request::Status => status::status(self).map(Answer::Status).map_err(fault),
            Request::Doctor => Ok(Answer::Doctor(self.examination())),
            Request::Sessions(at) => Ok(Answer::Sessions(page(status::sessions(self), at))),
            Request::Senders(at) => Ok(Answer::Senders(page(status::senders(self), at))),
            Request::Reservations(at) => {
                status::reservations(self).map(|rows| Answer::Reservations(page(rows.into_iter(), at))).map_err(fault)
            }
            Request::Counters => Ok(Answer::Counters(status::counters(self))),
            Request::Show { view, filter } => crate::show::show(self, *view, filter).map(Answer::Shown).map_err(fault),
            Request::Statics(at) => Ok(Answer::Statics(page(self.drive.statics.rows(), at))),
            Request::ReloadKeys => self.drive.reload_keys().map(|()| Answer::Done),
            Request::Watch => {
                self.drive.console.connections().watch(client);
                Ok(Answer::Done)
            }
            Request::Trace { filter } => {
                self.drive.messages.trace(client, filter.clone());
                Ok(Answer::Done)
            }
            Request::SpeakFor { who } => self.speak_for(client, who.as_ref()).map(|()| Answer::Done),
            Request::ShowToken { token } => self.show_token(client, token.as_deref()).map(|()| Answer::Done),
            Request::BoomerangReserve { ask, number } => BoomerangTurn(&mut self.drive).reserve(client, ask, *number),
            Request::BoomerangRelease { number } => BoomerangTurn(&mut self.drive).release(client, *number),
            Request::BoomerangSessions { skip } => BoomerangTurn(&mut self.drive).sessions(*skip),
            Request::BoomerangTrace => BoomerangTurn(&mut self.drive).trace(client),
            Request::May { who, ask, signal } => {
                self.drive.would_allow(client, who.as_ref(), ask, signal.as_ref()).map(Answer::May)
            }
            Request::Links => self.links().map(Answer::Links),
            Request::Routes { to } => self.routes(to).map(Answer::Routes),
            Request::Stop => {
                self.stopping = true;
                Ok(Answer::Done)
            }
            _ => Err(problem("misuse", "this call belongs to an application")),
        }
    }

    pub(crate) fn hello(&self) -> HelloDoc {
        HelloDoc {
            node: self.drive.config.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: self.drive.clock.now().since(self.started).as_millis(),
        }
    }
}
