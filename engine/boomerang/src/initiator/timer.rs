//! The initiating side's timers: no reply came, or a refresh is due.

use super::{SessionPhase, TRIES};
use crate::Boomerang;
use crate::io::{AppId, BoomerangUpcall};
use terms::ports::{Route, TrafficControl};
use terms::probe::ProbeObserver;

impl<P: ProbeObserver> Boomerang<P> {
    pub(crate) fn wake_initiator<E: Route + TrafficControl>(&mut self, env: &mut E) {
        while let Some((at, app)) = self.initiator.timers.first().copied() {
            if at > self.now {
                return;
            }
            self.initiator.timers.pop_first();
            self.due(env, app);
        }
    }

    fn due<E: Route + TrafficControl>(&mut self, env: &mut E, app: AppId) {
        let Some(session) = self.initiator.sessions.get_mut(&app) else { return };
        if session.asked.no_echo {
            return self.ask(env, app);
        }
        if !session.answered {
            session.silent += 1;
        }
        let silent = session.silent;
        match session.phase {
            SessionPhase::Held => {
                if silent == TRIES {
                    self.upcall(app, BoomerangUpcall::Silent { messages: silent, over: false });
                }
                self.ask(env, app);
            }
            SessionPhase::Asking if silent < TRIES => self.tell(env, app),
            // A change that nobody answered: what was there before is said again.
            SessionPhase::Asking => {
                let Some(kept) = session.granted else {
                    self.upcall(app, BoomerangUpcall::Silent { messages: silent, over: true });
                    return self.give_up(env, app);
                };
                session.wanted = [kept].into();
                session.phase = SessionPhase::Held;
                self.upcall(app, BoomerangUpcall::Silent { messages: silent, over: false });
                self.ask(env, app);
            }
            SessionPhase::Releasing if silent < TRIES => self.tell(env, app),
            SessionPhase::Releasing => {
                self.initiator.forget(app);
                self.upcall(app, BoomerangUpcall::Released);
            }
        }
    }
}
