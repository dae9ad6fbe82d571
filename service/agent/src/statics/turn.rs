//! Changes of the statics, and what the node is told of them.

use super::{Asked, Change, FIRST_APP, Static, TRY_AGAIN};
use crate::calls::{self, problem};
use crate::drive::Drive;
use crate::log::Level;
use documents::agent::{Answer, Problem, ReplyLine, Request, StaticRow};
use documents::statics::StaticState;
use node::io::{AppCall, Input};
use rsvp::io::AppId;
use terms::Time;

/// The statics with the node that serves them.
pub(crate) struct StaticsTurn<'a>(pub(crate) &'a mut Drive);

impl StaticsTurn<'_> {
    /// Takes a call that changes them, if it is one; its answer comes when the change is on the disk.
    ///
    /// # Errors
    /// The call is invalid, or too many wait.
    pub(crate) fn call(&mut self, client: u64, id: u64, asked: &Request) -> Result<bool, Problem> {
        if !self.0.statics.ask(client, id, asked)? {
            return Ok(false);
        }
        self.0.console.owe(client);
        self.keep();
        Ok(true)
    }

    /// Writes all waiting changes at once, unless a write is under way.
    fn keep(&mut self) {
        if self.0.statics.under_way.is_empty() {
            for (asked, refused) in self.0.statics.keep() {
                self.answer(&asked, Err(refused));
            }
        }
    }

    /// Takes the disk's answer: carries out the written changes, and answers their calls.
    pub(crate) fn written(&mut self) {
        for written in self.0.statics.clerk.answers() {
            for asked in std::mem::take(&mut self.0.statics.under_way) {
                let answer = match &written {
                    Ok(()) => self.change(&asked.change),
                    Err(error) => Err(self.not_kept(error)),
                };
                self.answer(&asked, answer);
            }
        }
        self.keep();
    }

    fn answer(&mut self, asked: &Asked, answer: Result<StaticRow, Problem>) {
        let line = match answer {
            Ok(row) => ReplyLine::Ok { id: asked.id, ok: Box::new(Answer::Statics(vec![row])) },
            Err(error) => ReplyLine::Error { id: asked.id, error },
        };
        self.0.console.pay(asked.client, &line);
    }

    /// Carries out a change that is on the disk.
    fn change(&mut self, change: &Change) -> Result<StaticRow, Problem> {
        let gone = || problem("fault", "it went while it came");
        match change {
            Change::Put(number, what) => {
                let number = number.ok_or_else(gone)?;
                self.0.statics.all.insert(number, Static::new(what.clone(), false));
                self.tell(number);
                self.0.statics.all.get(&number).map(|one| one.row(number)).ok_or_else(gone)
            }
            Change::Remove(number) => {
                let row = self.0.statics.all.remove(number).map(|one| one.row(*number)).ok_or_else(gone)?;
                self.0.tell(Input::App(AppCall::Release { app: AppId(FIRST_APP + number), session: None }));
                Ok(row)
            }
        }
    }

    fn not_kept(&mut self, error: &str) -> Problem {
        let message = format!("cannot be kept in {}: {error}", self.0.statics.file.display());
        self.0.console.line(Level::Error, "static_not_kept", &[("text", &message)]);
        problem("fault", message)
    }

    /// Tells the node all statics, at the start.
    pub(crate) fn tell_all(&mut self) {
        let all: Vec<u64> = self.0.statics.all.keys().copied().collect();
        all.into_iter().for_each(|number| self.tell(number));
    }

    /// Tells the node the refused ones again: an address or a route may have come.
    pub(crate) fn tell_refused(&mut self) {
        self.tell_again(Time::FOREVER);
    }

    /// The same for those refused some time ago: there may be room now.
    pub(crate) fn retry(&mut self) {
        let now = self.0.clock.now();
        self.tell_again(now.saturating_sub(TRY_AGAIN));
    }

    fn tell_again(&mut self, before: Time) {
        self.0.statics.refused(before).into_iter().for_each(|number| self.tell(number));
    }

    fn tell(&mut self, number: u64) {
        let now = self.0.clock.now();
        let Some(one) = self.0.statics.all.get_mut(&number) else { return };
        one.told = now;
        let (app, request) = (AppId(FIRST_APP + number), calls::static_request(&one.what));
        // The hosts that it speaks for are elsewhere.
        self.0.tell(Input::App(AppCall::Proxy { app }));
        match request {
            Ok(request) => self.0.tell(Input::App(request.of(app))),
            Err(refused) => {
                let Some(one) = self.0.statics.all.get_mut(&number) else { return };
                (one.state, one.said) = (StaticState::Refused, Some(refused.message));
            }
        }
    }
}
